//! Objective: a run can be looked at, changed and traced while it forwards; only its owner can do that, and a client
//! that asks nonsense or reads nothing costs no packet.

use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Uid;
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde_json::Value;
use support::{Finished, Flow, Namespace, Running, Stage};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SOCKET: &str = "/run/ringroad/runs/t14/control";
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Datagrams a second. Few: a host that is busy with other things for a second must not overflow a queue.
const RATE: u32 = 1000;
const NOBODY: u32 = 65534;
const PS: &[u8] = b"{\"version\":1,\"request\":{\"ps\":{}}}\n";

/// Two routers on a switch, and one that nobody needs.
const FILE: &str = r#"
[switch.backbone]

[[router]]
name = "t14-west"
[[router.nic]]
name = "lan"
attach = "tap:t14-west"
address = "192.0.2.1/24"
queue_len = 8000
[[router.nic]]
name = "core"
attach = "switch:backbone"
address = "203.0.113.1/30"
queue_len = 8000
[[router.route]]
to = "0.0.0.0/0"
via = "203.0.113.2"

[[router]]
name = "t14-east"
[[router.nic]]
name = "core"
attach = "switch:backbone"
address = "203.0.113.2/30"
queue_len = 8000
[[router.nic]]
name = "lan"
attach = "tap:t14-east"
address = "198.51.100.1/24"
[[router.route]]
to = "192.0.2.0/24"
via = "203.0.113.1"

[[router]]
name = "t14-spare"
[[router.nic]]
name = "lan"
attach = "null"
address = "198.51.101.1/24"
"#;

/// A run of [`FILE`] with a host on each side.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start() -> Self {
        Self::start_with(FILE)
    }

    fn start_with(file: &str) -> Self {
        let options = ["--json", "--name", "t14"];
        let mut stage = Stage::start_with(RINGROAD, file, &options).expect("it starts");
        let west = stage.host("t14-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t14-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        let world = Self { stage, west, east };
        // Neighbours are known from here on, so that no datagram waits for them.
        let said = world.ping("198.51.100.2", &["-c", "3"]);
        assert!(said.contains(" 0% packet loss"), "{said}");
        world
    }

    fn ping(&self, address: &str, words: &[&str]) -> String {
        let mut ping = self.west.command("busybox");
        ping.args(["ping", "-i", "0.1", "-W", "5"]).args(words).arg(address);
        support::run(&mut ping, PATIENCE).expect("it ends").stdout
    }

    /// Pings that go on until this is dropped.
    fn pinging(&self, address: &str, words: &[&str]) -> Running {
        let mut ping = self.west.command("busybox");
        ping.args(["ping", "-i", "0.1"]).args(words).arg(address);
        Running::start(&mut ping).expect("it starts")
    }

    fn flow(&self) -> Flow {
        Flow::start(&self.west, &self.east, (EAST, 7014).into(), RATE).expect("a flow")
    }

    fn finish(self) {
        let Self { stage, west, east } = self;
        let counters = stage.finish(vec![west, east]).expect("nothing is left");
        for router in ["t14-west", "t14-east"] {
            assert_eq!(counters.faults(router), [""; 0]);
        }
    }
}

/// What a flow lost that must not lose anything. It goes on until it says something.
fn assert_whole(flow: Flow) {
    flow.reaches(100, PATIENCE).expect("it flows");
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.lost(), tally.repeated, tally.late), (0, 0, 0), "{tally:?}");
}

fn ringroad(words: &[&str]) -> Finished {
    support::run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends")
}

/// What a verb says that ends well.
fn said(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(done.status.success() && done.stderr.is_empty(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// What a verb complains of.
fn refused(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(!done.status.success() && done.stdout.is_empty(), "{words:?}: {}", done.stdout);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.stderr
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// This test's own run, as `ps --json` tells it.
fn own_run() -> Value {
    let runs = json_lines(&said(&["ps", "--json"]));
    runs.into_iter().find(|run| run["run"] == "t14").expect("the run is listed")
}

fn state_of(router: &str) -> Value {
    let run = own_run();
    let routers = run["routers"].as_array().expect("routers");
    routers.iter().find(|known| known["name"] == router).expect("the router")["state"].clone()
}

#[test]
fn a_run_is_looked_at_while_it_forwards() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let mut world = World::start();
    let flow = world.flow();

    let run = own_run();
    assert_eq!(run["pid"], world.stage.run().id());
    assert_eq!(run["routers"].as_array().expect("routers").len(), 3);
    let table = said(&["ps"]);
    let line = table.lines().find(|line| line.contains("t14-west")).expect("a line for it");
    assert!(line.starts_with("t14 ") && line.contains(" running "), "{line}");

    let shown = said(&["show", "t14-west"]);
    for part in [
        "router     t14-west of run t14",
        "192.0.2.1/24",
        "0.0.0.0/0 via 203.0.113.2 by core",
        "tap:t14-west",
    ] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    let shown: Value = serde_json::from_str(&said(&["show", "t14-west", "--json"])).expect("JSON");
    assert_eq!(shown["nics"][0]["name"], "lan");
    assert_eq!(shown["status"]["state"], "running");
    // A thread by that number is there, under that name.
    let thread = &shown["status"]["threads"][0];
    let (pid, tid) = (&run["data_plane"], &thread["tid"]);
    let comm = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).expect("the thread is there");
    assert_eq!(comm.trim_end(), thread["name"].as_str().expect("a name"));

    let top = said(&["top", "t14", "--once"]);
    assert!(
        top.starts_with("run t14\n") && top.contains("t14-west.lan") && top.contains("t14-spare.lan"),
        "{top}"
    );
    let top = json_lines(&said(&["top", "t14-west", "--once", "--json"]));
    assert_eq!(top[0]["run"], "t14");
    let forwarded = top[0]["counters"]["t14-west.vcpu0.forwarded"].as_u64().expect("a counter");
    let seconds = top[0]["seconds"].as_f64().expect("seconds");
    let rate = forwarded as f64 / seconds;
    let expected = f64::from(RATE) * 0.5..f64::from(RATE) * 1.5;
    assert!(expected.contains(&rate), "{RATE} datagrams are sent a second, not {rate}");
    let counters = top[0]["counters"].as_object().expect("counters");
    assert!(!counters.keys().any(|name| name.starts_with("t14-east.")), "only what was asked for");

    let told = said(&["events", "t14"]);
    assert!(told.lines().any(|line| line.contains("Z started ")), "{told}");
    assert!(json_lines(&said(&["events", "t14-west", "--json"])).iter().all(|e| e["router"] == "t14-west"));

    assert_whole(flow);
    world.finish();
}

#[test]
fn a_run_is_changed_while_it_forwards() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start();
    let flow = world.flow();

    for (words, state) in [
        (["stop", "t14-spare"], "stopped"),
        (["start", "t14-spare"], "running"),
        (["restart", "t14-spare"], "running"),
    ] {
        assert!(said(&words).contains("t14-spare"));
        assert_eq!(state_of("t14-spare"), state, "after {words:?}");
    }
    said(&["set", "t14-west", "spin=70us"]);
    assert!(said(&["show", "t14-west"]).contains("spin = 70us"));
    // As its file says, so that it need not be replaced for that below.
    said(&["set", "t14-west", "spin=50us"]);

    let changed = world.stage.path("changed.toml");
    let further = "[[router.route]]\nto = \"203.0.114.0/24\"\nvia = \"198.51.101.2\"\n";
    fs::write(&changed, FILE.to_owned() + further).expect("a file");
    let changed = changed.to_str().expect("a path");
    let dry = said(&["apply", changed, "--run", "t14", "--dry-run"]);
    assert!(dry.starts_with("run t14 would change:\n") && dry.contains("203.0.114.0/24"), "{dry}");
    assert!(!said(&["show", "t14-spare"]).contains("203.0.114.0/24"), "nothing was done yet");
    let real = json_lines(&said(&["apply", changed, "--run", "t14", "--json"]));
    assert!(real.iter().any(|change| change["hitless"] == true), "{real:?}");
    assert!(said(&["show", "t14-spare"]).contains("203.0.114.0/24 via 198.51.101.2 by lan"));
    let again = said(&["apply", changed, "--run", "t14"]);
    assert_eq!(again, "run t14 is what the file says already");

    assert_whole(flow);
    // It cannot look at links that were moved into the hosts' namespaces, and says so.
    let Finished { stderr, .. } =
        world.stage.finish_troubled(vec![world.west, world.east]).expect("nothing is left");
    assert!(stderr.lines().all(|line| line.contains(" notice: ") && line.contains("MTU")), "{stderr}");
}

#[test]
fn what_is_not_there_is_told_in_one_line() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start();
    let text = refused(&["show", "t14-wset"]);
    assert!(
        text.starts_with("ringroad: there is no router \"t14-wset\"; did you mean \"t14-west\"?"),
        "{text}"
    );
    for (words, wanted) in [
        (&["set", "t14-west", "colour=red"][..], "\"colour\" cannot be set"),
        (&["set", "t14-west", "spin=red"], "spin"),
        (&["set", "t14-west", "spin"], "is no setting; write e.g. spin=100us"),
        (&["trace", "t14-west.wan"], "router t14-west has no NIC \"wan\"; NICs: lan, core"),
        (&["trace", "t14-spare.lan"], "nothing arrives at t14-spare.lan"),
        (&["trace", "t14-west"], "names no NIC; write e.g. edge.wan"),
        (&["trace", "t14-west.lan", "--count", "0"], "a trace follows 1 to 10000 packets"),
        (&["apply", "nowhere.toml", "--run", "t14"], "nowhere.toml"),
        (&["apply", "nowhere.toml", "--run", "t15"], "nowhere.toml"),
        (&["stop", "t14-nobody"], "there is no router or run"),
    ] {
        let text = refused(words);
        assert!(text.contains(wanted), "{words:?}: {text}");
    }
    let bad = world.stage.path("bad.toml");
    fs::write(&bad, FILE.replace("attach = \"null\"", "attach = \"nil\"")).expect("a file");
    assert!(
        refused(&["apply", bad.to_str().expect("a path"), "--run", "t14"])
            .contains("\"nil\" is no attachment")
    );
    assert_eq!(state_of("t14-east"), "running");
    world.finish();
}

/// The packets of a trace, and its last line.
fn trace(words: &[&str]) -> (Vec<Value>, Value) {
    let mut lines = json_lines(&said(&[&["trace"], words, &["--json", "--seconds", "20"]].concat()));
    let end = lines.pop().expect("a last line")["traced"].clone();
    (lines, end)
}

fn places(packet: &Value) -> Vec<&str> {
    let hops = packet["hops"].as_array().expect("hops");
    hops.iter().map(|hop| hop["place"].as_str().expect("a place")).collect()
}

const THROUGH: [&str; 5] =
    ["t14-west.lan.rx", "t14-west.core.tx", "t14-east.core.queue", "t14-east.core.rx", "t14-east.lan.tx"];

#[test]
fn a_packet_is_followed_to_its_end() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    followed_to_its_end(FILE, &THROUGH);
}

#[test]
fn a_packet_is_followed_through_processes() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    let file = FILE.replace("\n[[router]]\n", "\n[[router]]\nengine = \"process\"\n");
    followed_to_its_end(&file, &THROUGH);
}

#[test]
fn a_packet_is_followed_through_several_queues_and_into_a_ring_by_its_sender() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let file = FILE
        .replace("\n[[router]]\n", "\n[[router]]\nvcpus = 2\nvhost = \"per-queue\"\n")
        .replace("\n[[router.nic]]\n", "\n[[router.nic]]\nqueues = 2\n")
        .replace("attach = \"switch:backbone\"\n", "attach = \"switch:backbone\"\ndeliver = \"direct\"\n");
    let without_queue: Vec<_> = THROUGH.into_iter().filter(|place| !place.ends_with(".queue")).collect();
    followed_to_its_end(&file, &without_queue);
}

fn followed_to_its_end(file: &str, through: &[&str]) {
    let world = World::start_with(file);
    let east = world.east.ip(&["-o", "link", "show", "t14-east"]).expect("the link");
    let echo = ["--protocol", "icmp", "--to"];

    let pings = world.pinging("198.51.100.2", &[]);
    let (packets, end) = trace(&[&["t14-west.lan", "--count", "3"], &echo[..], &["198.51.100.2"]].concat());
    drop(pings);
    assert_eq!((packets.len(), &end["traced"]), (3, &Value::from(3)));
    for packet in &packets {
        assert_eq!(places(packet), through, "{packet}");
        let left = &packet["fate"]["left"];
        assert_eq!(left["nic"], "t14-east.lan");
        assert!(east.contains(left["next_hop"].as_str().expect("an address")), "{left} is not in {east}");
        let after: Vec<u64> = packet["hops"]
            .as_array()
            .expect("hops")
            .iter()
            .map(|hop| hop["after_ns"].as_u64().expect("ns"))
            .collect();
        assert!(after.is_sorted() && after.last() > Some(&0), "{after:?}");
        assert!(packet["headers"].as_str().expect("text").contains("ICMP echo request"), "{packet}");
    }

    let far = through.len() - 1;
    for (hops, address, way, router, answer, counter) in [
        ("1", "198.51.100.2", 1, "t14-west.lan", "ICMP time exceeded", "drop_ttl"),
        ("2", "198.51.100.2", far, "t14-east.core", "ICMP time exceeded", "drop_ttl"),
        ("64", "203.0.114.9", far, "t14-east.core", "ICMP network unreachable", "drop_no_route"),
        ("64", "192.0.2.1", 1, "t14-west.lan", "ICMP echo reply", "consumed"),
    ] {
        let _pings = world.pinging(address, &["-t", hops]);
        let (packets, _) = trace(&[&["t14-west.lan", "--count", "1"], &echo[..], &[address]].concat());
        let packet = &packets[0];
        assert_eq!(places(packet), through[..way], "{packet}");
        let answered = &packet["fate"]["answered"];
        assert_eq!(answered["nic"], router, "{packet}");
        assert!(answered["answer"].as_str().expect("text").contains(answer), "{packet}");
        assert!(answered["counters"].to_string().contains(counter), "{packet}");
    }

    // No answer comes to an answer: an echo reply that nobody asked for is dropped in silence.
    let _pings = world.pinging("224.0.0.9", &["-I", "192.0.2.2"]);
    let text = said(&["trace", "t14-west.lan", "--count", "1", "--to", "224.0.0.9"]);
    assert!(text.contains("not seen again after t14-west.lan.rx; moved meanwhile: t14-west.vcpu"), "{text}");

    world.finish();
}

#[test]
fn a_trace_costs_no_packet_and_ends_with_its_client() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start();
    let flow = world.flow();
    let (packets, end) = trace(&["t14-west.lan", "--count", "200", "--protocol", "udp", "--port", "7014"]);
    assert_eq!(packets.len(), 200);
    let through = packets.iter().filter(|packet| places(packet) == THROUGH).count();
    assert!(through >= 198, "{through} of 200 were seen everywhere");
    assert!(
        end["not_looked_at"].as_u64().expect("a number") > 0,
        "{RATE} a second are too many for all: {end}"
    );

    // Nothing that fits ever comes: it would go on for a long time.
    let mut endless = UnixStream::connect(SOCKET).expect("it connects");
    let order = r#"{"router":"t14-west","nic":"lan","count":1,"timeout_ms":500000,"filter":{"port":9}}"#;
    writeln!(endless, "{{\"version\":1,\"request\":{{\"trace\":{order}}}}}").expect("it is sent");
    let another = || ringroad(&["trace", "t14-west.lan", "--count", "1"]);
    until("it has begun", || another().stderr.contains("a trace is under way in this run already"));
    drop(endless);
    until("it is forgotten with its client", || another().status.success());

    assert_whole(flow);
    world.finish();
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
    }
}

/// What a run says to octets, until it closes.
fn answered(octets: &[u8]) -> String {
    let mut stream = UnixStream::connect(SOCKET).expect("it connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may close before everything is sent.
    let _ = stream.write_all(octets);
    let mut text = String::new();
    // Nor does it read what comes after garbage, of which the kernel tells at the end.
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn nonsense_and_deaf_clients_cost_no_packet() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let mut world = World::start();
    let flow = world.flow();

    for garbage in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 300_000],
        b"{\"version\":1,\"request\":"
            .to_vec()
            .into_iter()
            .chain(b"[".repeat(60_000))
            .chain(*b"\n")
            .collect(),
        b"{\"version\":9,\"request\":{\"ps\":{}}}\n".to_vec(),
        b"{\"version\":1,\"request\":{\"ps\":{}},\"more\":1}\n".to_vec(),
    ] {
        let text = answered(&garbage);
        let error: Value = serde_json::from_str(text.trim_end()).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(error["error"]["message"].is_string(), "{text}");
    }
    // Twelve that ask and never read, as fast as they can; the others have four places left.
    let deaf: Vec<_> = (0..12).map(|_| thread::spawn(ask_and_never_read)).collect();
    for _ in 0..20 {
        assert_eq!(own_run()["run"], "t14");
    }
    // More than there are places for: they are told so, or closed.
    let many: Vec<_> = (0..200).filter_map(|_| UnixStream::connect(SOCKET).ok()).collect();
    thread::sleep(Duration::from_millis(300));
    drop(many);
    let cut_off = deaf.into_iter().map(|client| client.join().expect("it ends")).filter(|cut_off| *cut_off);
    assert_eq!(cut_off.count(), 12, "who does not read is left");
    let said = world.stage.run().complaints(0);
    assert_eq!(own_run()["restarts"], 0, "the data plane has died: {said:?}");
    assert_whole(flow);
    let Finished { stderr, .. } =
        world.stage.finish_troubled(vec![world.west, world.east]).expect("nothing is left");
    assert!(stderr.lines().all(|line| line.contains("clients of the control socket")), "{stderr}");
}

/// Asks for much without reading until it is cut off; whether it was.
fn ask_and_never_read() -> bool {
    let mut stream = UnixStream::connect(SOCKET).expect("it connects");
    stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match stream.write(&b"{\"version\":1,\"request\":{\"counters\":{}}}\n".repeat(100)) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return true,
            _ => {}
        }
    }
    false
}

#[test]
fn only_the_owner_gets_in() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start();
    let mode = |path: &Path| fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777;
    let socket = PathBuf::from(SOCKET);
    assert_eq!((mode(&socket), mode(socket.parent().expect("a folder"))), (0o600, 0o700));

    // Somebody else does not even see it.
    let mut stranger = Command::new("busybox");
    stranger.args(["ls", SOCKET]).uid(NOBODY).gid(NOBODY);
    let done = support::run(&mut stranger, PATIENCE).expect("it ends");
    assert!(done.stderr.contains("Permission denied"), "{}", done.stderr);
    let binary = world.stage.path("ringroad");
    fs::copy(RINGROAD, &binary).expect("a copy that anybody may run");
    let folder = binary.parent().expect("a folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("open to all");
    let mut stranger = Command::new(&binary);
    stranger.arg("ps").uid(NOBODY).gid(NOBODY).env("XDG_RUNTIME_DIR", "/run").current_dir("/");
    let done = support::run(&mut stranger, PATIENCE).expect("it ends");
    assert!(!done.status.success() && done.stderr.contains("Permission denied"), "{}", done.stderr);

    // Nor is somebody served whom no file mode keeps out.
    let text = thread::spawn(as_nobody_whom_no_mode_keeps_out).join().expect("it ends");
    let error: Value = serde_json::from_str(text.trim_end()).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(error["error"]["message"], "this run belongs to user 0: ask as its owner or as root");
    let Finished { stderr, .. } =
        world.stage.finish_troubled(vec![world.west, world.east]).expect("nothing is left");
    assert!(stderr.lines().all(|line| line.contains("clients of the control socket")), "{stderr}");
}

/// What the run says to another user that has the capability to pass all file modes. For a thread of its own.
fn as_nobody_whom_no_mode_keeps_out() -> String {
    rustix::thread::set_keep_capabilities(true).expect("they are kept");
    let nobody = Uid::from_raw(NOBODY);
    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("another user");
    let pass = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: pass, permitted: pass, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).expect("the capability");
    answered(PS)
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let World { mut stage, west, east } = World::start();
    assert_eq!(said(&["stop", "t14"]), "run t14 is stopping");
    assert!(!Path::new(SOCKET).exists(), "the verb has waited for it");
    let done = stage.run().wait(PATIENCE).expect("it ends");
    assert!(done.status.success() && done.stderr.is_empty(), "{}", done.stderr);
    stage.finish(vec![west, east]).expect("nothing is left");
}
