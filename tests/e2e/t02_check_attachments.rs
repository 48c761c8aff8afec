//! Objective: for each kind of `attach`, each `vhost`, `isolate` and each engine, `ringroad check` says what this host lacks if it
//! lacks something, and that nothing is missing if nothing is; and it changes nothing.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

use support::{Namespace, Need, Ovs, missing, run};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Host with some interfaces, and a folder.
struct World {
    home: Namespace,
    folder: TempDir,
}

/// Returns a file with one router and one NIC.
fn file(router: &str, attach: &str, nic: &str) -> String {
    format!("[[router]]\nname = 't02'\n{router}\n[[router.nic]]\nname = 'n0'\nattach = '{attach}'\n{nic}\n")
}

impl World {
    fn new() -> Self {
        let home = Namespace::add("t02").expect("a namespace");
        let folder = tempfile::tempdir().expect("a folder");
        Self { home, folder }
    }

    fn ip(&self, words: &str) {
        self.home.ip(&words.split(' ').collect::<Vec<_>>()).expect("done");
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs `check` through `command`; returns the line about `what` of the table that it prints.
    fn line(&self, mut command: Command, text: &str, what: &str) -> String {
        fs::write(self.folder.path().join("file.toml"), text).expect("written");
        let before = self.home.links().expect("links");
        let done = run(command.arg(BINARY).args(["check", &self.path("file.toml")]), PATIENCE);
        let told = done.expect("it ends");
        assert_eq!(self.home.links().expect("links"), before, "it changes nothing");
        let table = told.stdout.split_once("this host\n").unwrap_or_else(|| panic!("{told:?}")).1;
        let begin = |line: &str| line.get(6..).is_some_and(|rest| rest.starts_with(&format!("{what} ")));
        let mut lines = table.lines().filter(|line| begin(line));
        let line = lines.next().unwrap_or_else(|| panic!("nothing of {what}:\n{table}")).to_owned();
        assert_eq!(lines.next(), None);
        line
    }

    /// Checks the state and the words that `check` prints about a NIC with this attachment.
    fn says(&self, (attach, nic, router): (&str, &str, &str), state: &str, words: &str) {
        let line = self.line(self.home.command("env"), &file(router, attach, nic), "t02.n0");
        assert!(line.starts_with(state) && line.contains(words), "{attach} {nic} {router}: {line}");
    }
}

#[test]
fn taps_and_bridges() {
    support::needs!(Root, Tun, Program("ip"));
    let world = World::new();
    let per_queue = "vcpus = 2\nvhost = 'per-queue'";
    world.says(("tap:t0", "", ""), "ok", "makes the TAP");
    world.ip("tuntap add t0 mode tap");
    world.says(("tap:t0", "", ""), "ok", "joins the TAP that is there");
    world.says(("tap:t0", "queues = 2", per_queue), "no", "was made for one queue: ip link delete t0");
    world.ip("tuntap add t1 mode tap multi_queue");
    world.says(("tap:t1", "", ""), "no", "was made for several queues");
    world.says(("tap:t1", "queues = 2", per_queue), "ok", "joins");
    world.says(("tap:lo", "", ""), "no", "interface \"lo\" exists and is not a TAP; choose another name");
    world.says(
        ("bridge:br0", "", ""),
        "no",
        "there is no bridge \"br0\"; make it: ip link add br0 type bridge",
    );
    world.says(("bridge:lo", "", ""), "no", "interface \"lo\" exists and is not a bridge; name a bridge");
    world.ip("link add br0 type bridge");
    world.says(("bridge:br0", "", ""), "note", "br0 is down, and nothing comes: ip link set br0 up");
    world.ip("link set br0 up");
    world.says(("bridge:br0", "", ""), "ok", "makes a TAP in the bridge");
}

#[test]
fn macvtaps_and_af_xdp() {
    support::needs!(Root, Program("ip"), Program("setpriv"));
    let world = World::new();
    for attach in ["macvtap:v0", "xdp:v0"] {
        world.says((attach, "", ""), "no", "there is no interface \"v0\"; interfaces: ");
    }
    world.ip("link add v0 type veth peer name v1");
    world.says(("macvtap:v0", "", ""), "note", "v0 is down");
    world.says(("xdp:v0", "", ""), "no", "v0 is down: ip link set v0 up");
    world.ip("link set v0 up");
    world.says(("macvtap:v0", "", ""), "ok", "an interface beside the host's own");
    world.says(("macvtap:v0", "macvtap_mode = 'passthru'", ""), "ok", "takes v0 over");
    world.says(("macvtap:v0", "mtu = 1800", ""), "no", "mtu of 1800 is more than the 1500 of v0");
    world.says(("macvtap:lo", "", ""), "no", "lo is no Ethernet interface");
    world.says(("xdp:v0", "", ""), "note", "the kernel copies each frame once more");
    let per_queue = "vcpus = 2\nvhost = 'per-queue'";
    world.says(("xdp:v0", "queues = 2", per_queue), "no", "v0 has 1 receive queues, not 2: ethtool -L v0");
    world.ip("link set lo mtu 65536");
    world.says(("xdp:lo", "", ""), "no", "the MTU of lo is 65536, and AF_XDP has room for 9216");
    world.ip("link add br0 type bridge");
    world.ip("link set v0 master br0");
    world.says(("macvtap:v0", "", ""), "no", "v0 is in a bridge, bond or Open vSwitch");
    let mut weak = world.home.command("setpriv");
    weak.args(["--inh-caps=-all", "--bounding-set=-all,+sys_admin"]);
    assert!(world.line(weak, &file("", "xdp:v0", ""), "t02.n0").contains("not permitted: run as root"));
    let mut weak = world.home.command("setpriv");
    weak.args(["--inh-caps=-all", "--bounding-set=-all,+net_raw"]);
    let line = world.line(weak, &file("", "tap:t0", ""), "CAP_NET_ADMIN");
    assert!(line.starts_with("no") && line.contains("run as root"), "{line}");
}

#[test]
fn kernel_routers() {
    support::needs!(Root, Program("ip"));
    let world = World::new();
    let says = |attach: &str, nic: &str, state: &str, words: &str| {
        world.says((attach, nic, "engine = 'kernel'"), state, words);
    };
    for attach in ["veth:v0", "tap:v0"] {
        says(attach, "", "ok", "creates a veth pair whose other end is v0 on the host");
    }
    says(
        "veth:v0",
        "netns = 'nobody'",
        "no",
        "there is no namespace \"nobody\"; make it: ip netns add nobody",
    );
    says("veth:lo", "", "no", "interface \"lo\" exists: choose another name, or delete it");
    for attach in ["macvlan:v0", "link:v0"] {
        says(attach, "", "no", "there is no interface \"v0\"; interfaces: ");
    }
    world.ip("link add v0 type veth peer name v1");
    world.ip("link set v0 up");
    says("macvlan:v0", "", "ok", "an interface beside the host's own");
    says("macvlan:v0", "macvlan_mode = 'passthru'", "ok", "takes v0 over");
    says("macvlan:v0", "mtu = 1800", "no", "mtu of 1800 is more than the 1500 of v0");
    says("link:v0", "", "ok", "moves v0 into the router's namespace");
    says("link:lo", "", "no", "lo stays in its namespace");
    says("vf:v0", "", "no", "v0");
    says("bridge:v0", "", "no", "is not a bridge; name a bridge");
    let container = file("engine = 'lxc'\nrootfs = '/nowhere'", "veth:v2", "");
    let line = world.line(world.home.command("env"), &container, "t02");
    // Without LXC, that is what is missing first.
    let lacks = line.contains("there is no folder /nowhere") || line.contains("lxc");
    assert!(line.starts_with("no") && lacks, "{line}");
}

#[test]
fn open_vswitch() {
    support::needs!(Root, Tun, Program("ip"));
    let world = World::new();
    let (text, attach) = (file("", "ovs:br0", ""), ("ovs:br0", "", ""));
    let mut without = world.home.command("env");
    without.arg("PATH=/nowhere");
    let line = world.line(without, &text, "t02.n0");
    assert!(
        line.starts_with("no") && line.contains("there is no `ovs-vsctl`; install Open vSwitch"),
        "{line}"
    );
    support::needs!(Program("ovs-vswitchd"), Program("ovsdb-server"));
    let served = |ovs: &Ovs, state: &str, words: &str| {
        let mut command = world.home.command("env");
        let line = world.line(std::mem::replace(ovs.serve(&mut command), Command::new("")), &text, "t02.n0");
        assert!(line.starts_with(state) && line.contains(words), "{line}");
    };
    let ovs = Ovs::start(&world.home).expect("Open vSwitch");
    served(&ovs, "no", "there is no such bridge; make it with `ovs-vsctl add-br br0`");
    // A datapath type that the switch does not have.
    ovs.ask(&["--no-wait", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=none"])
        .expect("asked");
    served(&ovs, "no", "knows br0 and nobody serves it");
    ovs.ask(&["del-br", "br0"]).expect("asked");
    ovs.add_bridge("br0", &[]).expect("a bridge");
    served(&ovs, "ok", "makes a TAP in the bridge of Open vSwitch");
    drop(ovs);
    // No Open vSwitch runs where `ovs-vsctl` looks for it.
    let mut nobody = world.home.command("env");
    nobody.arg(format!("OVS_RUNDIR={}", world.folder.path().display()));
    let line = world.line(nobody, &text, "t02.n0");
    assert!(line.starts_with("no") && line.contains("of Open vSwitch: `ovs-vsctl` "), "{attach:?}: {line}");
}

#[test]
fn files_and_sockets() {
    support::needs!(Root, Program("ip"));
    let world = World::new();
    let at = |word: &str, name: &str| format!("{word}:{}", world.path(name));
    let pcap = |name: &str| at("pcap", name);
    world.says((&pcap("new.pcap"), "", ""), "ok", "makes the file");
    fs::write(world.path("old.pcap"), "").expect("written");
    world.says((&pcap("old.pcap"), "", ""), "ok", "overwrites the file");
    world.says((&pcap("none/new.pcap"), "", ""), "no", "lies in no folder that is there");
    world.says((&pcap(""), "", ""), "no", "is a folder: name a file");
    world.says(
        (&pcap("new.pcap"), "replay = '/none.pcap'", ""),
        "no",
        "cannot replay /none.pcap: No such file",
    );
    for (word, otherwise) in [("vhost-user-backend", "connect"), ("vhost-user-frontend", "listen")] {
        for side in ["connect", "listen"] {
            let nic = if side == otherwise { format!("socket = '{side}'") } else { String::new() };
            let says = |name: &str, state: &str, words: &str| {
                world.says((&at(word, name), &nic, ""), state, words);
            };
            let listens = side == "listen";
            let (state, words) =
                if listens { ("ok", "makes the socket") } else { ("note", "nobody has made") };
            says("new.sock", state, words);
            says("none/new.sock", "no", "there is no folder");
            says("old.pcap", "no", "is there and no socket");
            let listener = UnixListener::bind(world.path("a.sock")).expect("bound");
            if !listens {
                // The namespace of a socket can be determined only from within that namespace.
                says("a.sock", "note", "tries until somebody listens");
            }
            drop(listener);
            fs::remove_file(world.path("a.sock")).expect("removed");
            let bind = world.home.inside(|| UnixListener::bind(world.path("a.sock")));
            let listener = bind.expect("inside").expect("bound");
            let wanted = if listens { ("no", "another program listens there") } else { ("ok", "connects") };
            says("a.sock", wanted.0, wanted.1);
            drop(listener);
            let wanted = if listens { "a socket is left there" } else { "tries until" };
            says("a.sock", "note", wanted);
            fs::remove_file(world.path("a.sock")).expect("removed");
        }
    }
    let told = |name: &str, state: &str, words: &str| {
        let text = format!("[telemetry]\nprometheus = 'unix:{}'\n", world.path(name)) + &file("", "null", "");
        let line = world.line(world.home.command("env"), &text, "telemetry");
        assert!(line.starts_with(state) && line.contains(words), "{line}");
    };
    told("a.prom", "ok", "tells all counters to Prometheus");
    let listener = world.home.inside(|| UnixListener::bind(world.path("a.prom"))).expect("inside");
    told("a.prom", "note", "somebody listens there");
    drop(listener);
    told("none/a.prom", "no", "there is no folder");
    let long = format!("vhost-user-backend:/{}", "x".repeat(107));
    fs::write(world.path("file.toml"), file("", &long, "")).expect("written");
    let told =
        run(Command::new(BINARY).args(["check", &world.path("file.toml")]), PATIENCE).expect("it ends");
    assert!(told.stderr.contains("the path of a socket has at most 107 octets"), "{told:?}");
    // An attachment that needs nothing outside is not in the table.
    for (attach, switch) in [("null", ""), ("switch:lan", "[switch.lan]\n")] {
        fs::write(world.path("file.toml"), switch.to_owned() + &file("", attach, "")).expect("written");
        let told =
            run(Command::new(BINARY).args(["check", &world.path("file.toml")]), PATIENCE).expect("it ends");
        let table = told.stdout.split_once("this host\n").expect("a table").1;
        assert!(told.status.success() && !table.contains("t02.n0"), "{told:?}");
    }
}

/// Returns a command in a mount namespace with almost no devices.
fn without_devices(world: &World) -> Command {
    let mut command = world.home.command("unshare");
    let few = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && exec \"$@\"";
    command.args(["-m", "sh", "-c", few, "sh"]);
    command
}

#[test]
fn devices_that_are_not_there() {
    support::needs!(Root, Program("ip"), Program("unshare"), Program("mknod"));
    let world = World::new();
    let says = |text: &str, what: &str, words: &str| {
        let line = world.line(without_devices(&world), text, what);
        assert!(line.starts_with("no") && line.contains(words), "{line}");
    };
    says(&file("", "tap:t0", ""), "/dev/kvm", "/dev/kvm");
    for attach in ["tap:t0", "bridge:br0", "ovs:br0"] {
        says(&file("", attach, ""), "/dev/net/tun", "the tun driver is not loaded (modprobe tun)");
    }
    says(&file("vhost = 'kernel'", "tap:t0", ""), "/dev/vhost-net", "load the module vhost_net");
    says(&file("engine = 'linux'\nkernel = '/proc/version'", "null", ""), "t02", "/dev/kvm");
    let apart = world.line(without_devices(&world), &file("isolate = 'process'", "null", ""), "t02");
    assert!(apart.starts_with("note") && apart.contains("no machine to put apart"), "{apart}");
}

#[test]
fn machines() {
    support::needs!(Root, Program("ip"), Program("unshare"));
    let world = World::new();
    let process = file("engine = 'process'", "null", "");
    let line = world.line(world.home.command("env"), &process, "user namespaces");
    assert!(line.starts_with("ok"), "{line}");
    let mut none = world.home.command("unshare");
    none.args(["-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"", "sh"]);
    let line = world.line(none, &process, "user namespaces");
    assert!(line.starts_with("no") && line.contains("sysctl user.max_user_namespaces"), "{line}");
    let stock = file("engine = 'linux'\nkernel = '/none'", "null", "");
    let line = world.line(world.home.command("env"), &stock, "t02");
    assert!(line.starts_with("no") && line.contains("kernel: cannot read /none: No such file"), "{line}");
    if missing(&[Need::Kvm]).is_none() {
        let apart = file("engine = 'kvm'\nisolate = 'process'", "null", "");
        let line = world.line(world.home.command("env"), &apart, "t02");
        assert!(line.starts_with("ok") && line.contains("a process of its own"), "{line}");
    }
}
