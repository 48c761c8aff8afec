//! A TAP in a bridge of Open vSwitch, and an internal port of one: in an Open vSwitch of the test's own, with its datapath in user space.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uplink::ovs;

use super::*;

/// Environment variable of the process that has an Open vSwitch of its own.
const WITHIN: &str = "RINGROAD_TEST_OVS";

fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn vsctl(words: &[&str]) -> String {
    let done = Command::new("ovs-vsctl").arg("--timeout=60").args(words).output().expect("ovs-vsctl");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

impl Bench {
    fn ovs() -> Self {
        let here = Netns::here().expect("namespace");
        let (near, far) = (unique("n"), unique("f"));
        ip(&here, &format!("link add {near} type veth peer name {far}"));
        ip(&here, &format!("link set {far} up"));
        ip(&here, &format!("link set {near} up"));
        [&near, &far].iter().for_each(|name| wait_until_running(&here, name));
        vsctl(&["add-port", "br0", &near]);
        let tap = ovs::open(&unique("t"), "br0", &TapConfig { queue_len: QUEUE_LEN, ..TapConfig::default() });
        let (source, sink) = tap.expect("TAP in Open vSwitch").split();
        let far = PacketSocket::open(&far).expect("packet socket");
        let taken_at = Some(here.links().expect("links").index(&near).expect("its number"));
        Self { far, source, sink, taken_at, _netns: here }
    }
}

/// An Open vSwitch of our own, with its datapath in user space.
struct Daemons {
    folder: tempfile::TempDir,
    running: Vec<Child>,
}

impl Daemons {
    fn start(netns: &Netns) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let mut tool = Command::new("ovsdb-tool");
        tool.arg("create").arg(path("conf.db")).arg("/usr/share/openvswitch/vswitch.ovsschema");
        assert!(tool.status().expect("ovsdb-tool").success());
        let mut daemons = Self { running: Vec::new(), folder };
        let remote = |kind: &str| format!("{kind}:{}", daemons.folder.path().join("db.sock").display());
        let (server, client) = (format!("--remote={}", remote("punix")), remote("unix"));
        let database = daemons.folder.path().join("conf.db").display().to_string();
        daemons.spawn(netns, "ovsdb-server", &[&database, &server, "--unixctl=db.ctl", "--no-chdir"]);
        daemons.await_file("db.sock");
        daemons.spawn(netns, "ovs-vswitchd", &[&client, "--unixctl=vs.ctl", "--no-chdir"]);
        daemons
    }

    fn spawn(&mut self, netns: &Netns, program: &str, words: &[&str]) {
        let folder = self.folder.path();
        let mut command = netns.command(program);
        environment(&mut command, folder).args(words).current_dir(folder);
        self.running.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a daemon"));
    }

    fn await_file(&self, name: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.folder.path().join(name).exists() {
            assert!(Instant::now() < end, "no {name}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]
        .iter()
        .fold(command, |command, key| command.env(key, folder))
}

#[test]
fn a_tap_in_open_vswitch_is_a_port() {
    if std::env::var_os(WITHIN).is_some() {
        return within_open_vswitch();
    }
    if !devices() {
        return;
    }
    if Command::new("ovs-vswitchd").arg("--version").output().is_err() {
        println!("SKIPPED: needs Open vSwitch");
        return;
    }
    let netns = Netns::new().expect("namespace");
    let _links = netns.settle(false).expect("settle");
    let daemons = Daemons::start(&netns);
    let mut inside = netns.command(&std::env::current_exe().expect("this test").display().to_string());
    let inside = environment(&mut inside, daemons.folder.path()).env(WITHIN, "1");
    let done = inside
        .args(["--exact", "joined::open_vswitch::a_tap_in_open_vswitch_is_a_port", "--nocapture"])
        .status()
        .expect("this test starts again");
    assert!(done.success());
}

/// So few frames that Open vSwitch does not lose any.
fn both_ways_through_open_vswitch(mut bench: Bench) {
    let frame = |to: Mac, from: Mac, n: u8| [&to[..], &from, &[0x88, 0xb5], &[n; 50]].concat();
    let mut sent: Vec<_> = (0..16).map(|n| frame(THEIRS, OURS, n)).collect();
    assert_eq!(crate::support::deliver(&*bench.sink, &mut sent), 16);
    let (mut came, end) = (Vec::new(), Instant::now() + Duration::from_secs(60));
    let mut octets = [0; 2048];
    while came.len() < 16 && Instant::now() < end {
        match rustix::io::read(&bench.far, &mut octets) {
            Ok(len) if octets[6..12] == OURS => came.push(octets[..len].to_vec()),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(came, sent);
    let sent: Vec<_> = (0..16).map(|n| frame(OURS, THEIRS, n)).collect();
    assert_eq!(SourceBench::feed(&mut bench, &sent), 16);
    assert_eq!(crate::support::collect(&mut bench.source, 16), sent);
}

/// In the namespace of an Open vSwitch, with its environment.
fn within_open_vswitch() {
    vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]);
    both_ways_through_open_vswitch(Bench::ovs());
    stay_on_one_cpu();
    check_sink(Bench::ovs);
    check_source(Bench::ovs);
    assert!(!vsctl(&["list-ports", "br0"]).contains('t'), "ports are taken out");
    // Its packet sockets carry frames without offload metadata.
    let tap = ovs::open("p0", "br0", &TapConfig::default()).expect("TAP");
    assert_eq!(tap.traits().takes(), port::Offloads::NONE);
    // As after a kill: it stays in the database, and the next one replaces it.
    std::mem::forget(tap.try_clone().expect("copy"));
    std::mem::forget(tap);
    let fails = |name: &str, bridge: &str| {
        ovs::open(name, bridge, &TapConfig::default()).expect_err("refused").to_string()
    };
    assert!(fails("p1", "br9").contains("there is no such bridge; make it with `ovs-vsctl add-br br9`"));
    vsctl(&["add-port", "br0", "p2", "--", "set", "Interface", "p2", "type=internal"]);
    let taken = fails("p2", "br0");
    assert!(taken.contains("exists already") || taken.contains("exists and is not a TAP"), "{taken}");
    assert!(vsctl(&["list-ports", "br0"]).contains("p2"), "it is somebody else's");
    uplink::Undo::of_ovs_port("p0").now();
    assert!(!vsctl(&["list-ports", "br0"]).contains("p0"));
    an_internal_port_is_an_interface_of_its_own();
    let tap = ovs::open("p5", "br0", &TapConfig::default()).expect("TAP");
    without_descriptors(|| drop(tap));
    assert!(!vsctl(&["list-ports", "br0"]).contains("p5"), "it is taken out when no descriptor is left");
}

fn an_internal_port_is_an_interface_of_its_own() {
    let links = uplink::Links::here().expect("links");
    let is_there = |name: &str| links.exists(name).expect("ask");
    let port = ovs::open_internal("p3", "br0", ([2, 0, 0, 0, 0, 0xab], 1400)).expect("a port");
    assert!(is_there("p3") && vsctl(&["list-ports", "br0"]).contains("p3"));
    let known = |column: &str| vsctl(&["get", "Interface", "p3", column]);
    assert_eq!((known("mac").as_str(), known("mtu_request").as_str()), ("\"02:00:00:00:00:ab\"", "1400"));
    let again = ovs::open_internal("p3", "br0", ([2, 0, 0, 0, 0, 0xab], 1400)).expect_err("it is held");
    assert!(matches!(again, Error::InUse { .. }), "{again}");
    let tap = ovs::open("p3", "br0", &TapConfig::default()).expect_err("it is held");
    assert!(matches!(tap, Error::InUse { .. }), "{tap}");
    assert!(is_there("p3") && vsctl(&["list-ports", "br0"]).contains("p3"), "it stays");
    drop(port);
    assert!(!vsctl(&["list-ports", "br0"]).contains("p3"));
    wait_for("the end of its interface", || !is_there("p3"));
    let taken = ovs::open_internal("p2", "br0", ([2, 0, 0, 0, 0, 0xab], 1400)).expect_err("it is taken");
    assert!(taken.to_string().contains("`p2`") && is_there("p2"), "{taken}");
    // As after a kill.
    std::mem::forget(ovs::open_internal("p4", "br0", ([2, 0, 0, 0, 0, 0xac], 1500)).expect("a port"));
    uplink::Undo::of_ovs_port("p4").now();
    wait_for("the end of what was left", || !is_there("p4"));
    assert!(is_there("p2"), "what is not ours stays");
}

/// Does something while this process can open no more descriptors than that closes.
fn without_descriptors(act: impl FnOnce()) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..limit }).expect("lowered");
    let all: Vec<_> = std::iter::from_fn(|| eventfd(0, EventfdFlags::CLOEXEC).ok()).collect();
    act();
    drop(all);
    setrlimit(Resource::Nofile, limit).expect("raised");
}
