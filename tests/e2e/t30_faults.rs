//! Objective: while the backend of one NIC vanishes, is taken by another program or misbehaves, each fault is reported in one
//! line, is repaired where possible, and the other ports continue: a flow of numbered datagrams through another router of the
//! same run loses none.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use support::{Flow, Namespace, Running, Stage, run};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second beside the faults: a rate that a busy host can sustain.
const RATE: u32 = 1000;

fn nic(name: &str, attach: &str, address: &str) -> String {
    format!("[[router.nic]]\nname = '{name}'\nattach = '{attach}'\naddress = '{address}'\nqueue_len = 4096\n")
}

/// Router that suffers no faults.
fn near() -> String {
    "[[router]]\nname = 't30'\n".to_owned()
        + &nic("west", "tap:t30-w", "192.0.2.1/24")
        + &nic("east", "tap:t30-e", "198.51.100.1/24")
}

/// Router with one NIC of each kind that suffers faults.
fn victim(folder: &Path) -> String {
    let guest = format!("vhost-user-backend:{}", folder.join("guest.sock").display());
    let handed = format!("vhost-user-frontend:{}", folder.join("handed.sock").display());
    "[[router]]\nname = 'hit'\nmemory = '64M'\n".to_owned()
        + &nic("tap", "tap:t30-tap", "10.30.1.1/24")
        + &nic("mac", "macvtap:t30-low", "10.30.2.1/24")
        + &nic("xdp", "xdp:t30-xdp", "10.30.3.1/24")
        + &nic("lan", "bridge:t30-br", "10.30.4.1/24")
        + &nic("guest", &guest, "10.30.5.1/24")
        + &nic("handed", &handed, "10.30.6.1/24")
}

fn make(home: &Namespace, words: &str) -> Result<()> {
    home.ip(&words.split(' ').collect::<Vec<_>>()).map(drop)
}

fn cable(home: &Namespace, name: &str) -> Result<()> {
    make(home, &format!("link add {name} type veth peer name {name}-far"))?;
    make(home, &format!("link set {name}-far up"))?;
    make(home, &format!("link set {name} up"))
}

fn bridge(home: &Namespace) -> Result<()> {
    make(home, "link add t30-br type bridge")?;
    make(home, "link set t30-br up")
}

/// The run, hosts at its first router, and the flow between them.
struct Scene {
    stage: Stage,
    hosts: Vec<Namespace>,
    flow: Flow,
    folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = near() + &victim(folder.path());
        let prepared = Stage::start_after(BINARY, &text, &["--json", "--log", "text"], |home| {
            home.set("net.ipv6.conf.default.disable_ipv6", "1")?;
            cable(home, "t30-low")?;
            cable(home, "t30-xdp")?;
            bridge(home)
        });
        let (mut stage, ()) = prepared.expect("it starts");
        let west = stage.host("t30-w", "192.0.2.2/24", "192.0.2.1").expect("a host");
        let east = stage.host("t30-e", "198.51.100.2/24", "198.51.100.1").expect("a host");
        let address: SocketAddr = "198.51.100.2:7030".parse().expect("an address");
        let flow = Flow::start(&west, &east, address, RATE).expect("it flows");
        flow.reaches(u64::from(RATE), PATIENCE).expect("it flows");
        Self { stage, hosts: vec![west, east], flow, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Checks that datagrams through the other router keep arriving.
    fn goes_on(&self, beside: &str) {
        let before = self.flow.so_far().received;
        let more = self.flow.reaches(before + u64::from(RATE) / 10, PATIENCE);
        more.unwrap_or_else(|error| panic!("beside {beside}: {error:#}"));
    }

    /// Waits until the run reports something about a NIC.
    fn told(&mut self, nic: &str, words: &str) -> String {
        let about = |line: &str| line.contains(nic) && line.contains(words);
        let run = self.stage.run();
        let line = run.wait_for_line(PATIENCE, about);
        line.unwrap_or_else(|error| panic!("nothing of {nic} and {words:?}: {error:#}"))
    }

    fn home(&self, words: &str) {
        make(self.stage.home(), words).expect("done");
    }

    /// Ends everything; the flow must not have lost anything.
    fn end(self) {
        let Self { stage, hosts, flow, .. } = self;
        let tally = flow.stop().expect("it stops");
        assert_eq!(tally.lost(), 0, "the other router lost frames: {tally:?}");
        for link in ["t30-low", "t30-xdp", "t30-br"] {
            // One may already be gone.
            let _ = make(stage.home(), &format!("link delete {link}"));
        }
        let done = stage.finish_troubled(hosts).expect("it ends well, and leaves nothing");
        assert!(done.status.success(), "{}", done.stderr);
    }
}

/// Returns the error of `apply` for a file that adds a router whose NIC creates a socket at this path.
fn refusal(scene: &Scene, path: &Path) -> String {
    let more = "[[router]]\nname = 'more'\n".to_owned()
        + &nic("n", &format!("vhost-user-backend:{}", path.display()), "10.30.9.1/24");
    let text = near() + &victim(scene.folder.path()) + &more;
    fs::write(scene.stage.path("next.toml"), text).expect("written");
    let mut command = scene.stage.home().command(BINARY);
    let done = run(command.current_dir(scene.stage.path("")).args(["apply", "next.toml"]), PATIENCE);
    let done = done.expect("it ends");
    assert!(!done.status.success() && done.stderr.trim_end().lines().count() == 1, "{done:?}");
    done.stderr
}

/// Accepts the first connection, within the timeout.
fn caller(at: &UnixListener) -> Option<UnixStream> {
    at.set_nonblocking(true).expect("set");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match at.accept() {
            Ok((peer, _)) => return Some(peer),
            Err(_) => sleep(Duration::from_millis(10)),
        }
    }
    None
}

/// Starts testpmd with two pairs of queues, which answers echo requests.
fn testpmd(socket: &Path) -> Running {
    let device = format!("net_virtio_user0,path={},queues=2", socket.display());
    let mut command = std::process::Command::new("dpdk-testpmd");
    command.args(["--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--file-prefix", "t30"]);
    command.args(["--lcores", "(0,1)@0", "--vdev", &device, "--", "--forward-mode=icmpecho", "--auto-start"]);
    command.args(["--total-num-mbufs=2048", "--stats-period=5", "--rxq=2", "--txq=2"]);
    Running::start(&mut command).expect("testpmd starts")
}

mod all {
    use super::*;

    #[test]
    fn what_nics_are_plugged_into_vanishes_and_comes_back() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let mut scene = Scene::set();
        let answers = |scene: &Scene| {
            let mut ping = scene.stage.home().command("busybox");
            run(ping.args(["ping", "-c", "1", "-w", "1", "10.30.1.1"]), PATIENCE)
                .expect("it ends")
                .status
                .success()
        };
        let address_it = |scene: &Scene| {
            scene.home("address add 10.30.1.2/24 dev t30-tap");
            scene.home("link set t30-tap up");
            let end = Instant::now() + PATIENCE;
            while !answers(scene) {
                assert!(Instant::now() < end, "the router does not answer at its TAP");
            }
        };
        address_it(&scene);
        scene.home("link delete t30-tap");
        scene.told("hit.tap", "its link was deleted");
        scene.goes_on("a TAP that is deleted");
        scene.told("hit.tap", "its link is there again");
        address_it(&scene);
        scene.home("link delete t30-low");
        scene.told("hit.mac", "its link was deleted");
        scene.goes_on("a macvtap whose interface is deleted");
        cable(scene.stage.home(), "t30-low").expect("made");
        scene.told("hit.mac", "its link is there again");
        scene.home("link delete t30-br");
        scene.goes_on("a bridge that is deleted");
        bridge(scene.stage.home()).expect("made");
        scene.told("hit.lan", "is in ");
        scene.home("link delete t30-xdp");
        let line = scene.told("xdp", "was deleted");
        assert!(line.contains("the interface `t30-xdp` was deleted"), "{line}");
        scene.goes_on("an interface of AF_XDP that is deleted");
        scene.end();
    }

    #[test]
    fn paths_that_are_taken_and_peers_that_break_the_protocol() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let mut scene = Scene::set();
        let [file, other] = ["file", "other.sock"].map(|name| scene.path(name));
        fs::write(&file, "mine").expect("written");
        let listener = UnixListener::bind(&other).expect("bound");
        for (path, place, why) in [
            (&file, ": router.nic.attach: ", "is there and no socket"),
            (&other, "router more, NIC n:", "is a socket of another program"),
        ] {
            let told = refusal(&scene, path);
            scene.goes_on("a path that is taken");
            assert!(told.contains(place) && told.contains(why), "{told}");
        }
        assert_eq!(fs::read(&file).expect("it is there"), b"mine");
        assert!(UnixStream::connect(&other).is_ok(), "the other program still listens");
        drop(listener);

        // The same misbehaving peer repeatedly: each time the next one is accepted later.
        let guest = scene.path("guest.sock");
        for pause in ["0.1 s", "0.2 s", "0.4 s"] {
            let mut peer = UnixStream::connect(&guest).expect("it listens");
            // A request that does not exist.
            peer.write_all(&[77_u32, 1, 0].map(u32::to_le_bytes).concat()).expect("it is read");
            peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            // A reset counts as the end as well.
            let _ = peer.read_to_end(&mut Vec::new());
            scene.told("guest", &format!("the next one is met in {pause}"));
        }
        scene.goes_on("a peer that breaks the protocol");

        // No process listens at the other path; then one does, goes, and comes back.
        let handed = scene.path("handed.sock");
        for times in 0..3 {
            let peer = UnixListener::bind(&handed).expect("bound");
            let caller = caller(&peer);
            scene.goes_on("a peer that comes and goes");
            assert!(caller.is_some(), "nobody called the {times}th time");
            drop((caller, peer));
            fs::remove_file(&handed).expect("removed");
        }
        scene.end();
    }

    #[test]
    fn a_machine_of_another_program_gets_the_queues_of_a_changed_file() {
        support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("guest.sock");
        let text = |vcpus: u32| {
            format!("[[router]]\nname = 't30'\nvcpus = {vcpus}\nmemory = '64M'\n")
                + &nic("guest", &format!("vhost-user-backend:{}", socket.display()), "192.0.2.1/24")
                + &nic("host", "tap:t30-host", "198.51.100.1/24")
        };
        let mut stage = Stage::start(BINARY, &text(1)).expect("it starts");
        let host = stage.host("t30-host", "198.51.100.2/24", "198.51.100.1").expect("a host");
        let one = UnixStream::connect(&socket).expect("it listens");
        fs::write(stage.path("next.toml"), text(2)).expect("written");
        let mut apply = stage.home().command(BINARY);
        let done =
            run(apply.current_dir(stage.path("")).args(["apply", "next.toml"]), PATIENCE).expect("it ends");
        assert!(done.status.success() && done.stdout.contains("NIC guest queues 1 -> 2"), "{done:?}");
        // The peer that was offered one pair is disconnected, and the socket stays.
        one.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!((&one).read(&mut [0]).expect("an end"), 0);
        let mut peer = testpmd(&socket);
        let end = Instant::now() + PATIENCE;
        loop {
            let mut ping = host.command("busybox");
            let pinged =
                run(ping.args(["ping", "-c", "1", "-w", "1", "192.0.2.9"]), PATIENCE).expect("it ends");
            if pinged.status.success() {
                break;
            }
            assert!(Instant::now() < end, "two pairs are not served: {:?}", peer.lines(0));
        }
        peer.signal(support::Signal::KILL).expect("it runs");
        peer.wait(PATIENCE).expect("it is dead");
        let _ = fs::remove_dir_all("/var/run/dpdk/t30");
        stage.finish_troubled(vec![host]).expect("it ends well, and leaves nothing");
        assert!(!socket.exists(), "the socket is left");
    }
}
