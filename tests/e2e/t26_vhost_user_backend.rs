//! Objective: a NIC of a router is the network card of other programs' virtual machines: DPDK's virtio driver with all its
//! ring layouts connects to our socket, or we connect to its socket. Peers are killed and restarted while frames pass, and
//! peers that violate the protocol harm only themselves.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal, kill_process};
use support::{Capture, Namespace, Running, Stage, Testpmd, children_of};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Address at which testpmd answers.
const PEER: &str = "192.0.2.9";

fn nic(name: &str, attach: &str, address: &str, more: &str) -> String {
    format!("[[router.nic]]\nname = \"{name}\"\nattach = \"{attach}\"\naddress = \"{address}\"\n{more}\n")
}

/// A router between a vhost-user socket and a host with the kernel's stack.
fn file(socket: &Path, guest_nic: &str, more: &str) -> String {
    let guest = format!("vhost-user-backend:{}", socket.display());
    format!("[[router]]\nname = \"t26\"\n{more}\n")
        + &nic("guest", &guest, "192.0.2.1/24", guest_nic)
        + &nic("host", "tap:t26-host", "198.51.100.1/24", "")
}

struct Scene {
    stage: Stage,
    host: Namespace,
    socket: PathBuf,
    folder: tempfile::TempDir,
}

impl Scene {
    fn set(more: &str) -> Self {
        Self::set_with("", more)
    }

    /// Sets the scene with these keys in the NIC's part of the file.
    fn set_with(nic: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("guest.sock");
        Self::set_at(socket, folder, nic, more)
    }

    fn set_at(socket: PathBuf, folder: tempfile::TempDir, nic: &str, more: &str) -> Self {
        let text = file(&socket, nic, more);
        Self::start(socket, folder, &text)
    }

    fn start(socket: PathBuf, folder: tempfile::TempDir, text: &str) -> Self {
        let mut stage = Stage::start_with(BINARY, text, &["--json", "--log", "text"]).expect("it starts");
        let host = stage.host("t26-host", "198.51.100.2/24", "198.51.100.1").expect("a host");
        Self { stage, host, socket, folder }
    }

    /// Ends the run, and restarts it next to the same peer.
    fn anew(self, nic: &str, more: &str) -> Self {
        self.stage.finish_troubled(vec![self.host]).expect("it ends well, and leaves nothing");
        Self::set_at(self.socket, self.folder, nic, more)
    }

    fn plane(&mut self) -> u32 {
        let mut plane = None;
        let run = self.stage.run().id();
        wait_for("a data plane", || {
            let mut children = children_of(run).into_iter();
            plane = children.find(|child| child.words.iter().any(|word| word == "data-plane"));
            plane.is_some()
        });
        plane.expect("there is one").id
    }

    fn answers(&self) -> bool {
        answers(&self.host, PEER)
    }

    /// Sends echo requests of this many octets; returns how many were answered: a busy host may drop one.
    fn echoes(&self, count: u32, octets: u32) -> u32 {
        (0..count).filter(|_| self.echo(octets)).count() as u32
    }

    fn echo(&self, octets: u32) -> bool {
        let mut command = self.host.command("busybox");
        command.args(["ping", "-c", "1", "-W", "10", "-s", &octets.to_string(), PEER]);
        support::run(&mut command, PATIENCE).expect("ping ends").status.success()
    }

    /// Counts descriptors, and mappings of peers' memory, of the process that has the rings.
    fn held(&mut self) -> (usize, usize) {
        let plane = children_of(self.stage.run().id());
        let all = plane.iter().map(|plane| {
            let fds = fs::read_dir(format!("/proc/{}/fd", plane.id)).map_or(0, Iterator::count);
            let maps = fs::read_to_string(format!("/proc/{}/maps", plane.id)).unwrap_or_default();
            (fds, maps.lines().filter(|line| line.contains("rtemap") || line.contains("memseg")).count())
        });
        all.max().expect("a data plane")
    }

    /// Returns what is held as soon as it does not change for 20 readings.
    fn held_steadily(&mut self) -> (usize, usize) {
        let (mut last, mut same) = (self.held(), 0);
        wait_for("descriptors that do not come and go", || {
            let now = self.held();
            (last, same) = (now, if now == last { same + 1 } else { 0 });
            same == 20
        });
        last
    }

    /// Waits until as much is held as with the first peer, for which `first` is empty: what the last peer had may be given back only
    /// after the next one answers.
    fn holds_as_much(&mut self, first: &mut Option<(usize, usize)>) {
        let first = *first.get_or_insert_with(|| self.held_steadily());
        let what = format!("{first:?} descriptors and mappings, not {:?}", self.held());
        wait_for(&what, || self.held() == first);
    }

    fn complains(&mut self, of: &str) {
        let run = self.stage.run();
        wait_for(of, || run.stderr_lines(0).iter().any(|line| line.contains(of)));
    }

    /// Ends the scene where the socket belonged to the peer, which has left it behind.
    fn end_at_a_foreign_socket(self) {
        fs::remove_file(&self.socket).expect("it was left");
        self.end();
    }

    fn end(self) {
        let done = self.stage.finish_troubled(vec![self.host]).expect("it ends well, and leaves nothing");
        assert!(done.status.success(), "{}", done.stderr);
        assert!(!self.socket.exists(), "the socket is gone");
    }
}

fn answers(from: &Namespace, to: &str) -> bool {
    let mut command = from.command("busybox");
    command.args(["ping", "-c", "1", "-w", "1", to]);
    support::run(&mut command, PATIENCE).expect("ping ends").status.success()
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Starts testpmd, which answers ARP and echo requests with DPDK's virtio driver, in a process that plays a guest.
fn testpmd(socket: &Path, driver: &str, queues: u32) -> Testpmd {
    testpmd_with(socket, (driver, queues), &[])
}

/// Starts it with more arguments.
fn testpmd_with(socket: &Path, (driver, queues): (&str, u32), more: &[&str]) -> Testpmd {
    let device = format!("net_virtio_user0,path={},queues={queues}{driver}", socket.display());
    let (rxq, txq) = (format!("--rxq={queues}"), format!("--txq={queues}"));
    let echo = ["--forward-mode=icmpecho", "--auto-start", "--total-num-mbufs=2048", "--stats-period=5"];
    let arguments = [&echo[..], &[&rxq, &txq], more].concat();
    Testpmd::start(&mut Command::new("dpdk-testpmd"), &device, &arguments).expect("testpmd starts")
}

/// Returns the fields that identify each echo reply in a capture: identifier and sequence number.
fn echo_replies(file: &Path) -> Vec<[u8; 4]> {
    let octets = fs::read(file).expect("a capture");
    let (frames, rest) = support::pcap_frames(&octets);
    assert!(rest.is_empty(), "half a record");
    // Ethernet, IPv4 without options, ICMP, type 0.
    let is_reply =
        |frame: &&&[u8]| frame.len() >= 42 && frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 0;
    let replies = frames.iter().filter(is_reply);
    replies.map(|frame| [frame[38], frame[39], frame[40], frame[41]]).collect()
}

/// Kills the data plane under a peer that stays, then ends and restarts the run, this many times. The peer plays a guest
/// whose ring indices are far advanced when we reconnect, although it reports that each ring starts at 0.
fn stays(driver: &str, rounds: usize) {
    let connect = "socket = \"connect\"";
    let mut scene = Scene::set_with(connect, "");
    let peer = testpmd(&scene.socket, &format!(",server=1{driver}"), 1);
    for round in 0..rounds {
        let seen = scene.folder.path().join("seen.pcap");
        let capture = Capture::start(&scene.host, "t26-host", &seen).expect("tcpdump starts");
        wait_for("an answer", || scene.answers());
        assert!(scene.echoes(20, 56) >= 19, "{driver:?}, round {round}");
        let plane = scene.plane();
        kill_process(Pid::from_raw(plane.cast_signed()).expect("an id"), Signal::KILL).expect("killed");
        wait_for("another data plane", || scene.plane() != plane);
        wait_for("an answer again", || scene.answers());
        assert!(scene.echoes(20, 56) >= 19, "{driver:?}, round {round}, another data plane");
        capture.stop().expect("tcpdump ends");
        let replies = echo_replies(&seen);
        let once: BTreeSet<_> = replies.iter().collect();
        assert!(once.len() >= 38, "{replies:?}");
        assert_eq!(once.len(), replies.len(), "no frame comes twice: {replies:?}");
        let broken = |line: &String| line.contains("broke a ring");
        assert_eq!(scene.stage.run().stderr_lines(0).into_iter().find(broken), None);
        scene = scene.anew(connect, "");
    }
    wait_for("an answer of the last run", || scene.answers());
    peer.kill().expect("it is dead");
    scene.end_at_a_foreign_socket();
}

#[test]
fn a_peer_that_stays_goes_on_with_another_data_plane_and_another_run() {
    support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"), Program("tcpdump"));
    stays("", 1);
}

/// Builds a vhost-user message header.
fn header(request: u32, flags: u32, size: u32) -> Vec<u8> {
    [request, flags, size].iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn peers_that_break_the_protocol_are_sent_away_and_the_next_one_is_served() {
    support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
    let mut scene = Scene::set("");
    let long = header(5, 1, 5000);
    let no_table = [header(5, 1, 40), vec![1; 40]].concat();
    let unknown = header(77, 1, 0);
    for (octets, told) in [(long, "5000 octets"), (no_table, "SET_MEM_TABLE"), (unknown, "request number 77")]
    {
        let mut peer = UnixStream::connect(&scene.socket).expect("it listens");
        peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        peer.write_all(&octets).expect("it is read");
        let mut rest = Vec::new();
        // A reset counts as the end as well: not everything that the peer had sent was read.
        let _ = peer.read_to_end(&mut rest);
        scene.complains(told);
    }
    // A peer that sends half a message and leaves, and one that sends nothing.
    let mut torn = UnixStream::connect(&scene.socket).expect("it listens");
    torn.write_all(&header(1, 1, 0)[..7]).expect("it is read");
    drop(torn);
    scene.complains("in the middle of a message");
    drop(UnixStream::connect(&scene.socket).expect("it listens"));
    wait_for("an answer: the other port goes on", || answers(&scene.host, "198.51.100.1"));
    let peer = testpmd(&scene.socket, "", 1);
    wait_for("an answer", || scene.answers());
    peer.kill().expect("it is dead");
    scene.end();
}

/// Shares a memory table of one range for each file, all of this length, and waits until the connection is closed.
fn share(socket: &Path, octets: u64, files: &[fs::File]) {
    let peer = UnixStream::connect(socket).expect("it listens");
    peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let count = files.len() as u64;
    let ranges = (0..count).flat_map(|n| [n * octets, octets, n * octets, 0]);
    let body: Vec<u8> = [count].into_iter().chain(ranges).flat_map(u64::to_le_bytes).collect();
    let message = [header(5, 1, body.len() as u32), body].concat();
    fd_passing::send(&peer, &message, files, SendFlags::empty()).expect("it is read");
    let _ = (&peer).read_to_end(&mut Vec::new());
}

#[test]
fn peers_that_share_too_much_or_what_is_no_memory_are_sent_away_before_it_is_mapped() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    let mut scene = Scene::set_with("memory_max = \"2G\"", "");
    let plane = scene.plane();
    let memory = |octets| {
        let file = fs::File::from(memfd_create("sparse", MemfdFlags::CLOEXEC).expect("a file"));
        file.set_len(octets).expect("a sparse file");
        file
    };
    share(&scene.socket, 1 << 40, &(0..32).map(|_| memory(1 << 40)).collect::<Vec<_>>());
    scene.complains("a memory table of 32768 GiB, and at most 2 GiB may be shared (memory_max)");
    let disk = fs::File::open(BINARY).expect("a file on disk");
    share(&scene.socket, 0x1000, &[disk]);
    scene.complains("lies in a file that is not of tmpfs, hugetlbfs or memfd_create(2)");
    wait_for("an answer: the other port goes on", || answers(&scene.host, "198.51.100.1"));
    assert_eq!(scene.plane(), plane);
    scene.end();
}

/// The peers of these tests poll continually, on both CPUs.
mod alone {
    use super::*;

    mod all {
        use super::*;

        #[test]
        fn a_peer_that_stays_goes_on_again_and_again_with_any_layout_of_its_rings() {
            support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"), Program("tcpdump"));
            for driver in ["", ",in_order=0,mrg_rxbuf=0", ",mrg_rxbuf=0,in_order=1,vectorized=1"] {
                stays(driver, 2);
            }
        }

        #[test]
        fn dpdk_s_driver_with_every_layout_of_its_rings() {
            support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
            let scene = Scene::set("");
            // Packed rings are not offered: the driver falls back to split rings.
            let drivers = [
                "",
                ",packed_vq=1",
                ",in_order=1",
                ",in_order=0,mrg_rxbuf=0",
                ",mrg_rxbuf=0,in_order=1,vectorized=1",
            ];
            for driver in drivers {
                let peer = testpmd(&scene.socket, driver, 1);
                wait_for("an answer", || scene.answers());
                for octets in [0, 56, 1472] {
                    assert!(scene.echoes(5, octets) >= 4, "{driver:?}, {octets} octets");
                }
                peer.kill().expect("it is dead");
            }
            scene.end();
        }

        #[test]
        fn a_peer_that_is_killed_comes_again_and_nothing_is_left_of_it() {
            support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
            let mut scene = Scene::set("");
            let mut first = None;
            for _ in 0..3 {
                let peer = testpmd(&scene.socket, "", 1);
                wait_for("an answer", || scene.answers());
                scene.holds_as_much(&mut first);
                // Kill it in the middle of echo requests.
                let mut flood = scene.host.command("busybox");
                let flood = flood.args(["ping", "-c", "200", "-i", "0.01", "-w", "60", PEER]);
                let mut flood = Running::start(flood).expect("ping starts");
                flood.wait_for_line(PATIENCE, |line| line.contains("seq=1")).expect("it is answered");
                peer.kill().expect("it is dead");
                drop(flood);
            }
            scene.complains("the peer is gone");
            scene.end();
        }

        #[test]
        fn we_come_to_the_socket_of_a_peer_and_come_again() {
            support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
            let mut scene = Scene::set_with("socket = \"connect\"", "");
            scene.complains("no peer at");
            let mut first = None;
            for _ in 0..2 {
                let peer = testpmd(&scene.socket, ",server=1", 1);
                wait_for("an answer", || scene.answers());
                for octets in [0, 1472] {
                    assert!(scene.echoes(5, octets) >= 4, "{octets} octets");
                }
                scene.holds_as_much(&mut first);
                peer.kill().expect("it is dead");
                // A killed process leaves its socket behind, at which no process listens.
                fs::remove_file(&scene.socket).expect("it was left");
            }
            scene.complains("the peer is gone");
            scene.end();
        }
    }
}

mod all {
    use super::*;

    #[test]
    fn several_pairs_of_queues() {
        support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
        let scene = Scene::set("vcpus = 2");
        let peer = testpmd(&scene.socket, "", 2);
        wait_for("an answer", || scene.answers());
        assert!(scene.echoes(10, 56) >= 9);
        peer.kill().expect("it is dead");
        scene.end();
    }

    /// The peer answers in the VLAN in which it is asked; nothing but the VLAN has an address.
    #[test]
    fn a_vlan_with_large_frames() {
        support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("guest.sock");
        let text = format!(
            "[[router]]\nname = \"t26\"\n\
             [[router.nic]]\nname = \"guest\"\nattach = \"vhost-user-backend:{}\"\nmtu = 9000\n{}\
             [[router.interface]]\nname = \"lan\"\nnic = \"guest\"\nvlan = 100\naddress = \"192.0.2.1/24\"\n",
            socket.display(),
            nic("host", "tap:t26-host", "198.51.100.1/24", "mtu = 9000")
        );
        let scene = Scene::start(socket, folder, &text);
        let peer = testpmd_with(&scene.socket, ("", 1), &["--max-pkt-len=9100", "--mbuf-size=9728"]);
        wait_for("an answer", || scene.answers());
        for octets in [56, 1472, 8900] {
            assert!(scene.echoes(10, octets) >= 9, "{octets} octets");
        }
        peer.kill().expect("it is dead");
        scene.end();
    }
}
