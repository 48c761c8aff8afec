//! Objective: a NIC whose rings are handed to a vhost-user backend: DPDK's testpmd, Open vSwitch with DPDK, and ringroad
//! itself. Frames pass in both directions, the ledger states what it cannot see, a peer that is killed in traffic is found
//! again and continues where it stopped, and a peer that supports less than was negotiated is reported.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::attack::{Attack, Misuse, Program, be_handed};
use support::{Counters, Namespace, Running, Signal, Stage, Testpmd, run, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most frames that a driver takes at once.
const BURST: u64 = 64;
/// Frames that must have passed before a test continues.
const FRAMES: u64 = 2_000;
const EAST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), 7027);
const OVS: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Starts testpmd with one vhost port (`v.sock,queues=1`), which sends received frames back and begins with some frames of its
/// own.
fn testpmd(stage: &Stage, port: &str) -> Testpmd {
    let mut command = stage.home().command("dpdk-testpmd");
    let device = format!("net_vhost0,iface={port}");
    let queues = port.split("queues=").nth(1).unwrap_or("1");
    let (rxq, txq) = (format!("--rxq={queues}"), format!("--txq={queues}"));
    let arguments = ["--total-num-mbufs=4096", "--tx-first", "--stats-period=1", &rxq, &txq];
    Testpmd::start(command.current_dir(stage.path("")), &device, &arguments).expect("testpmd")
}

/// Returns the number that follows `name` in a line of testpmd's output.
fn number(line: &str, name: &str) -> u64 {
    let rest = line.split(name).nth(1).unwrap_or_default();
    rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Waits until testpmd has sent and received enough, and kills it.
fn kill_in_traffic(mut peer: Testpmd) {
    peer.wait_for_line(PATIENCE, |line| number(line, "RX-packets:") >= FRAMES).expect("it receives");
    peer.wait_for_line(PATIENCE, |line| number(line, "TX-packets:") >= FRAMES).expect("it sends");
    peer.kill().expect("gone");
}

fn show(stage: &Stage, router: &str) -> String {
    let mut command = stage.home().command(RINGROAD);
    run(command.args(["show", router]), PATIENCE).expect("shown").stdout
}

fn wait_until_shown(stage: &Stage, router: &str, wanted: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = show(stage, router);
        if shown.contains(wanted) {
            return;
        }
        assert!(Instant::now() < end, "never {wanted:?}: {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn echo(engine: &str, side: &str) -> String {
    format!(
        "[[router]]\nname = 't27'\nengine = '{engine}'\nrole = 'echo'\n\
         [[router.nic]]\nname = 'wan'\nattach = 'vhost-user-frontend:v.sock'\nsocket = '{side}'\naddress = '192.0.2.1/24'\n"
    )
}

/// Kills a peer in traffic, and replaces it by another one. Either side may be the one that connects.
fn survives(engine: &str, side: &str) {
    let stage = Stage::start(RINGROAD, &echo(engine, side)).expect("it starts");
    wait_until_shown(&stage, "t27", "no peer at v.sock");
    let port = if side == "connect" { "v.sock" } else { "v.sock,client=1" };
    kill_in_traffic(testpmd(&stage, port));
    wait_until_shown(&stage, "t27", "no peer at v.sock");
    if side == "connect" {
        fs::remove_file(stage.path("v.sock")).expect("it was left");
    }
    let mut second = testpmd(&stage, port);
    second.wait_for_line(PATIENCE, |line| number(line, "RX-packets:") >= FRAMES).expect("traffic resumes");
    // The peer may serve before that is reported.
    wait_until_shown(&stage, "t27", "handed to v.sock; the peer moves and counts the frames");
    let done = stage.finish_in_traffic(Vec::new());
    second.signal(Signal::TERM).expect("ended");
    second.wait(PATIENCE).expect("gone");
    let done = done.expect("it ends well");
    assert!(done.stderr.contains("NIC wan: no peer at v.sock: it went away"), "{}", done.stderr);
    let counters = Counters::of(done.stdout.lines()).expect("counters");
    let count = |name: &str| counters.get(&format!("t27.{name}"));
    // All frames that the driver received it sent back; no other component has seen them.
    assert!(count("vcpu0.wan.rx_frames") >= 2 * FRAMES);
    // The counters were read while frames flowed: one burst may have been in between.
    let back = count("vcpu0.wan.tx_frames") + count("vcpu0.wan.drop_tx_full");
    assert!((back..=back + BURST).contains(&count("vcpu0.wan.rx_frames")), "{back}");
    assert_eq!((count("wan.rx.frames"), count("wan.tx.frames")), (0, 0));
    assert_eq!((count("wan.peer.handed"), count("wan.peer.lost")), (2, 1));
}

#[test]
fn testpmd_is_killed_and_traffic_resumes() {
    support::needs!(Root, Kvm, Program("dpdk-testpmd"));
    survives("kvm", "connect");
}

/// Answers like a peer that supports only virtio 1.0, until the connection is closed.
fn serve_little(listener: &UnixListener) {
    let (mut stream, _) = listener.accept().expect("somebody comes");
    let mut header = [0; 12];
    while stream.read_exact(&mut header).is_ok() {
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        let mut body = vec![0; word(8) as usize];
        stream.read_exact(&mut body).expect("a body");
        if word(0) == 1 {
            let answer = [[1_u32, 5, 8].map(u32::to_le_bytes).concat(), (1_u64 << 32).to_le_bytes().to_vec()];
            let _ = stream.write_all(&answer.concat());
        }
    }
}

/// Two routers, each with a host, whose other NICs are connected by `left` and `right`.
fn two_routers(left: &str, right: &str) -> String {
    format!(
        "[[router]]\nname = 't27'\n\
         [[router.nic]]\nname = 'lan'\nattach = 'tap:t27-west'\naddress = '192.0.2.1/24'\n\
         [[router.nic]]\nname = 'wan'\n{left}\naddress = '10.27.0.1/24'\n\
         [[router.route]]\nto = '198.51.100.0/24'\nvia = '10.27.0.2'\n\
         [[router]]\nname = 't27b'\n\
         [[router.nic]]\nname = 'wan'\n{right}\naddress = '10.27.0.2/24'\n\
         [[router.nic]]\nname = 'lan'\nattach = 'tap:t27-east'\naddress = '198.51.100.1/24'\n\
         [[router.route]]\nto = '192.0.2.0/24'\nvia = '10.27.0.1'\n"
    )
}

/// Waits until the other host answers: a switch in between may take time to move frames after it was handed the rings.
fn wait_for_answer(west: &Namespace) {
    let (address, end) = (EAST.ip().to_string(), Instant::now() + PATIENCE);
    loop {
        let mut ping = west.command("busybox");
        let ping = run(ping.args(["ping", "-c", "1", "-W", "2", &address]), PATIENCE).expect("ping");
        if ping.status.success() {
            return;
        }
        assert!(Instant::now() < end, "no answer: {}", ping.stdout);
    }
}

/// Transfers octets from one host to the other and back.
fn stacks_meet(stage: &mut Stage) -> Vec<Namespace> {
    let west = stage.host("t27-west", "192.0.2.2/24", "192.0.2.1").expect("west");
    let east = stage.host("t27-east", "198.51.100.2/24", "198.51.100.1").expect("east");
    wait_for_answer(&west);
    transfer(&west, &east, EAST, 2_000_000, PATIENCE);
    let west_address = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 2), 7027));
    transfer(&east, &west, west_address, 2_000_000, PATIENCE);
    vec![west, east]
}

#[test]
fn our_own_backend_is_a_peer() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    let text = two_routers("attach = 'vhost-user-frontend:m.sock'", "attach = 'vhost-user-backend:m.sock'");
    let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
    let hosts = stacks_meet(&mut stage);
    stage.finish_troubled(hosts).expect("it ends well");
}

/// Open vSwitch with its own database in a folder of its own.
struct Vswitch {
    database: Running,
    switch: Running,
}

impl Vswitch {
    fn start(stage: &Stage) -> Self {
        let folder = stage.path("");
        let at = |command: &mut Command| {
            command.current_dir(&folder);
            for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
                command.env(variable, &folder);
            }
        };
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        let mut create = stage.home().command("ovsdb-tool");
        at(create.args(["create", "conf.db", schema]));
        assert!(run(&mut create, PATIENCE).expect("ovsdb-tool").status.success());
        let socket = folder.join("db.sock");
        let mut server = stage.home().command("ovsdb-server");
        at(server.arg("conf.db").arg(format!("--remote=punix:{}", socket.display())).arg("--unixctl=db.ctl"));
        let database = Running::start(&mut server).expect("ovsdb-server");
        let end = Instant::now() + PATIENCE;
        while !socket.exists() {
            assert!(Instant::now() < end, "no database");
            std::thread::sleep(Duration::from_millis(20));
        }
        let eal = format!("--no-huge --legacy-mem -m 512 --no-pci --no-telemetry --file-prefix {}", prefix());
        let eal = format!("other_config:dpdk-extra=\"{eal}\"");
        ask(stage, &["--no-wait", "init"]);
        let masks = ["other_config:pmd-cpu-mask=0x1", "other_config:dpdk-lcore-mask=0x2"];
        let set = [
            "--no-wait",
            "set",
            "Open_vSwitch",
            ".",
            "other_config:dpdk-init=true",
            masks[0],
            masks[1],
            &eal,
        ];
        ask(stage, &set);
        let mut command = stage.home().command(OVS);
        at(command.arg(format!("unix:{}", socket.display())).args(["--unixctl=vs.ctl", "--pidfile=vs.pid"]));
        let switch = Running::start(&mut command).expect("ovs-vswitchd");
        ask(stage, &["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]);
        Self { database, switch }
    }

    fn stop(mut self) {
        for running in [&mut self.switch, &mut self.database] {
            running.signal(Signal::TERM).expect("ended");
            running.wait(PATIENCE).expect("gone");
        }
    }
}

impl Drop for Vswitch {
    fn drop(&mut self) {
        // DPDK leaves this folder behind.
        let _ = fs::remove_dir_all(format!("/var/run/dpdk/{}", prefix()));
    }
}

/// File prefix of DPDK within Open vSwitch.
fn prefix() -> String {
    format!("t27-{}", std::process::id())
}

/// Runs `ovs-vsctl`.
fn ask(stage: &Stage, words: &[&str]) {
    let database = format!("--db=unix:{}", stage.path("db.sock").display());
    let mut command = stage.home().command("ovs-vsctl");
    let done =
        run(command.args([database.as_str(), "--timeout=60"]).args(words), PATIENCE).expect("ovs-vsctl");
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
}

#[test]
fn a_program_that_makes_us_wait_in_a_doorbell_is_left_and_the_next_one_is_served() {
    support::needs!(Root);
    let mut stage = Stage::start(RINGROAD, &echo("process", "connect")).expect("it starts");
    let socket = stage.path("v.sock");
    let mut villain = Program::new(&socket, Misuse::FillKick);
    for _ in 0..2 {
        assert!(villain.act(Instant::now() + PATIENCE).expect("it attacks"), "nobody calls");
    }
    villain.rest().expect("it goes");
    let told = |stage: &mut Stage| {
        let told = stage.run().stderr_lines(0);
        told.iter().filter(|line| line.contains("made a thread of ours wait")).count()
    };
    let end = Instant::now() + PATIENCE;
    while told(&mut stage) == 0 {
        assert!(Instant::now() < end, "it is not named: {:?}", stage.run().stderr_lines(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (honest, _) = listener.accept().expect("somebody comes");
    let _memory = be_handed(&honest).expect("the memory");
    wait_until_shown(&stage, "t27", "handed to v.sock");
    drop((honest, listener));
    stage.finish_troubled(Vec::new()).expect("it ends well, and leaves nothing");
}

#[test]
fn what_cannot_be_is_told_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file.toml");
    let e1000 = echo("kvm", "connect").replace("name = 'wan'", "name = 'wan'\nmodel = 'e1000'");
    fs::write(&file, e1000).expect("a file");
    let told = run(Command::new(RINGROAD).arg("check").arg(&file), PATIENCE).expect("checked");
    assert!(!told.status.success());
    assert!(
        told.stderr.contains("an e1000's rings cannot be handed to a vhost-user peer"),
        "{}",
        told.stderr
    );
}

mod all {
    use super::*;

    #[test]
    fn interrupts_of_a_process_are_passed_on() {
        support::needs!(Root, Program("dpdk-testpmd"));
        survives("process", "connect");
    }

    #[test]
    fn testpmd_comes_to_our_socket_and_comes_again() {
        support::needs!(Root, Kvm, Program("dpdk-testpmd"));
        survives("kvm", "listen");
    }

    #[test]
    fn a_peer_that_can_do_less_is_told_of_and_the_next_one_serves() {
        support::needs!(Root, Kvm, Program("dpdk-testpmd"));
        let prepared = Stage::start(RINGROAD, &echo("kvm", "connect")).expect("it starts");
        wait_until_shown(&prepared, "t27", "no peer at v.sock");
        // A driver that starts with a connected peer negotiates the peer's features.
        let first = testpmd(&prepared, "v.sock");
        wait_until_shown(&prepared, "t27", "handed to v.sock");
        let mut restart = prepared.home().command(RINGROAD);
        let restarted = run(restart.args(["restart", "t27"]), PATIENCE).expect("restarted");
        assert!(restarted.status.success(), "{}", restarted.stderr);
        wait_until_shown(&prepared, "t27", "handed to v.sock");
        first.kill().expect("gone");
        fs::remove_file(prepared.path("v.sock")).expect("it was left");
        let listener = UnixListener::bind(prepared.path("v.sock")).expect("a socket");
        serve_little(&listener);
        wait_until_shown(&prepared, "t27", "which the driver has settled on");
        drop(listener);
        fs::remove_file(prepared.path("v.sock")).expect("removed");
        let mut last = testpmd(&prepared, "v.sock");
        last.wait_for_line(PATIENCE, |line| number(line, "RX-packets:") >= FRAMES).expect("traffic resumes");
        let done = prepared.finish_in_traffic(Vec::new());
        last.signal(Signal::TERM).expect("ended");
        last.wait(PATIENCE).expect("gone");
        done.expect("it ends well");
    }

    #[test]
    fn two_routers_meet_in_open_vswitch() {
        support::needs!(Root, Kvm, Tun, Program("busybox"), Program("ovs-vsctl"));
        if !Path::new(OVS).exists() {
            println!("SKIPPED: Open vSwitch with DPDK (openvswitch-switch-dpdk) is not installed");
            return;
        }
        // We are the server of one connection and the client of the other.
        let text = two_routers(
            "attach = 'vhost-user-frontend:a.sock'\nsocket = 'listen'",
            "attach = 'vhost-user-frontend:b'\nsocket = 'connect'",
        );
        let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
        wait_until_shown(&stage, "t27", "no peer at a.sock yet");
        let vswitch = Vswitch::start(&stage);
        let socket = stage.path("a.sock");
        let server = format!("options:vhost-server-path={}", socket.display());
        ask(
            &stage,
            &["add-port", "br0", "a", "--", "set", "interface", "a", "type=dpdkvhostuserclient", &server],
        );
        ask(&stage, &["add-port", "br0", "b", "--", "set", "interface", "b", "type=dpdkvhostuser"]);
        wait_until_shown(&stage, "t27", "handed to a.sock");
        wait_until_shown(&stage, "t27b", "handed to b");
        let hosts = stacks_meet(&mut stage);
        // Its bridge has a network device in the namespace.
        ask(&stage, &["del-br", "br0"]);
        vswitch.stop();
        stage.finish_troubled(hosts).expect("it ends well");
        assert!(!socket.exists(), "our socket is gone with the run");
    }

    #[test]
    fn pairs_of_queues_are_a_peer_s_or_it_is_told_that_it_has_too_few() {
        support::needs!(Root, Kvm, Program("dpdk-testpmd"));
        let text = echo("kvm", "connect").replace("role =", "vcpus = 2\nrole =");
        let stage = Stage::start(RINGROAD, &text).expect("it starts");
        wait_until_shown(&stage, "t27", "no peer at v.sock");
        let listener = UnixListener::bind(stage.path("v.sock")).expect("a socket");
        serve_little(&listener);
        wait_until_shown(&stage, "t27", "it serves 1 pairs of queues and the NIC has 2");
        drop(listener);
        fs::remove_file(stage.path("v.sock")).expect("removed");
        let mut rich = testpmd(&stage, "v.sock,queues=2");
        rich.wait_for_line(PATIENCE, |line| number(line, "RX-packets:") >= FRAMES).expect("it receives");
        let done = stage.finish_in_traffic(Vec::new());
        rich.kill().expect("gone");
        done.expect("it ends well");
    }

    #[test]
    fn a_socket_that_is_taken_is_left_alone() {
        support::needs!(Root);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file.toml");
        let text = echo("process", "listen").replace("'t27'", "'t27-taken'");
        fs::write(&file, text).expect("a file");
        let _taken = UnixListener::bind(folder.path().join("v.sock")).expect("a socket");
        let mut command = Command::new(RINGROAD);
        let told = run(command.current_dir(folder.path()).args(["run", "file.toml"]), PATIENCE).expect("run");
        assert!(!told.status.success());
        assert!(
            told.stderr.contains("v.sock is a socket of another program; stop that one"),
            "{}",
            told.stderr
        );
    }
}
