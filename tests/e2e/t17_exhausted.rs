//! Objective: if there is no memory for one more router, no descriptor or no room on a disk, one line says so, the
//! request is refused as a whole, and a router that forwards meanwhile loses no packet.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{
    Counters, Finished, Flow, Limits, Namespace, Need, Process, SmallDisk, Stage, Tally, Traces, alone,
    children_of,
};

/// Timeout of a start, an end or a change, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for leftovers to disappear: the kernel removes links and namespaces some time after the process has ended.
const GONE: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Datagrams a second through the router that must not be disturbed.
const RATE: u32 = 2000;

fn engine() -> &'static str {
    if support::missing(&[Need::Kvm]).is_none() { "kvm" } else { "process" }
}

/// The router that forwards.
fn forwarding() -> String {
    format!(
        "[[router]]\nname = \"t17\"\nengine = \"{}\"\n\
         [[router.nic]]\nname = \"in\"\nattach = \"tap:t17-in\"\naddress = \"10.1.1.1/24\"\nqueue_len = 4096\n\
         [[router.nic]]\nname = \"out\"\nattach = \"tap:t17-out\"\naddress = \"10.1.2.1/24\"\n",
        engine()
    )
}

/// One more router.
fn another(memory: &str, attach: &str) -> String {
    format!(
        "[[router]]\nname = \"t17-more\"\nmemory = \"{memory}\"\nengine = \"{}\"\n\
         [[router.nic]]\nname = \"out\"\nattach = \"{attach}\"\naddress = \"10.2.1.1/24\"\n",
        engine()
    )
}

/// The run with its hosts, and the flow from one to the other.
struct Busy {
    stage: Stage,
    hosts: Vec<Namespace>,
    flow: Flow,
}

impl Busy {
    fn start(binary: &str, text: &str) -> Self {
        let mut stage = Stage::start_with(binary, text, &["--json"]).expect("it starts");
        let from = stage.host("t17-in", "10.1.1.2/24", "10.1.1.1").expect("a host");
        let to = stage.host("t17-out", "10.1.2.2/24", "10.1.2.1").expect("a host");
        let address = SocketAddr::from(([10, 1, 2, 2], 7017));
        let flow = Flow::start(&from, &to, address, RATE).expect("a way through the router");
        Self { stage, hosts: vec![from, to], flow }
    }

    fn plane(&mut self) -> Process {
        let is_plane = |child: &Process| child.words.get(1).is_some_and(|verb| verb == "data-plane");
        children_of(self.stage.run().id()).into_iter().find(is_plane).expect("a data plane")
    }

    /// Applies a file to the run.
    fn apply(&self, text: &str) -> Finished {
        let path = self.stage.path("next.toml");
        fs::write(&path, text).expect("written");
        let mut command = Command::new(BINARY);
        support::run(command.args(["apply", "--run", "file"]).arg(path), PATIENCE).expect("it ends")
    }

    /// Applies a file that must be refused; returns the line with the reason.
    fn refused(&self, text: &str) -> String {
        let done = self.apply(text);
        assert_eq!(done.status.code(), Some(1), "{}{}", done.stdout, done.stderr);
        assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("", 1), "{}", done.stderr);
        done.stderr
    }

    /// Ends the run; returns the flow's tally, and the run's output.
    fn finish(self) -> (Tally, Finished) {
        let tally = self.flow.stop().expect("it stops");
        let done = self.stage.finish_troubled(self.hosts).expect("nothing is left");
        assert!(tally.sent > 0 && tally.lost() == 0 && tally.refused == 0, "{tally:?}\n{}", done.stderr);
        (tally, done)
    }
}

fn folder_with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file.toml"), text).expect("written");
    folder
}

fn run(folder: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["run", "--seconds", "0.1", "file.toml"]).current_dir(folder);
    command
}

/// Returns the single line of a failed start, which must leave nothing behind.
fn line(done: &Finished, before: &Traces) -> String {
    assert_eq!(done.status.code(), Some(1), "{}{}", done.stdout, done.stderr);
    assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("", 1), "{}", done.stderr);
    assert_eq!(Traces::left(before, GONE), [""; 0], "{}", done.stderr);
    done.stderr.clone()
}

#[test]
fn a_start_without_memory() {
    support::needs!(Root, Tun);
    let _turn = alone();
    let before = Traces::now();
    let folder = folder_with(&another("1G", "tap:t17-more"));
    let limits = Limits { address_space: Some(512 << 20), ..Limits::default() };
    let done = support::run(limits.hold(&mut run(folder.path())), PATIENCE).expect("it ends");
    let line = line(&done, &before);
    assert!(line.starts_with("ringroad: ") && line.contains("memory"), "{line}");
}

/// Address space of a process in octets.
fn address_space(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn a_start_with_few_descriptors() {
    support::needs!(Root, Tun);
    let _turn = alone();
    let before = Traces::now();
    let folder = folder_with(&forwarding());
    let (mut refused, mut up) = (0, 0);
    // With fewer than 6, not even its libraries can be opened in addition to the descriptors it was given.
    for descriptors in (6..24).chain((24..96).step_by(6)) {
        let limits = Limits { descriptors: Some(descriptors), ..Limits::default() };
        let done = support::run(limits.hold(&mut run(folder.path())), PATIENCE).expect("it ends");
        if done.status.success() {
            up += 1;
            assert_eq!(Traces::left(&before, GONE), [""; 0], "{descriptors} descriptors");
            continue;
        }
        refused += 1;
        let line = line(&done, &before);
        assert!(line.starts_with("ringroad: "), "{descriptors} descriptors: {line}");
    }
    assert!(refused > 5 && up > 0, "{refused} refused, {up} up");
}

/// Router with a NIC of each kind that would leave something on the host if its creation were not undone.
fn of_every_kind() -> String {
    let nic = |number: usize, attach: &str| {
        format!(
            "[[router.nic]]\nname = \"n{number}\"\nattach = \"{attach}\"\naddress = \"10.3.{number}.1/24\"\n"
        )
    };
    let attachments = [
        "macvtap:t17-veth",
        "tap:t17-tap",
        "bridge:t17-br",
        "vhost-user-backend:peer.sock",
        "macvtap:t17-veth",
        "pcap:seen.pcap",
        "xdp:t17-xdp",
    ];
    let nics: String = attachments.iter().enumerate().map(|(number, attach)| nic(number, attach)).collect();
    format!("[[router]]\nname = \"t17\"\nengine = \"process\"\nvcpus = 2\nmemory = \"96M\"\n{nics}")
}

/// Number of frames in a pcap file, which must be complete.
fn frames_in(file: &Path) -> u64 {
    let octets = fs::read(file).expect("a capture");
    assert!(octets.len() >= 24, "no head");
    let (frames, rest) = support::pcap_frames(&octets);
    assert_eq!(rest.len(), 0, "half a record");
    frames.len() as u64
}

/// Returns a script that runs the command with a redirection of the shell.
fn redirected(folder: &Path, how: &str) -> PathBuf {
    let script = folder.join("ringroad-redirected");
    fs::write(&script, format!("#!/bin/sh\nexec {BINARY} \"$@\" {how}\n")).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permitted");
    script
}

mod all {
    use super::*;

    /// Everything that was created before the descriptors ran out is undone, at whatever point that happens.
    #[test]
    fn a_start_with_few_descriptors_leaves_nothing_of_any_kind() {
        support::needs!(Root, Tun, Program("ip"));
        let _turn = alone();
        let before = Traces::now();
        let home = Namespace::add("t17-home").expect("a namespace");
        for words in [
            &["link", "add", "t17-veth", "type", "veth", "peer", "name", "t17-far"][..],
            &["link", "add", "t17-xdp", "numrxqueues", "1", "type", "veth", "peer", "name", "t17-far2"],
            &["link", "add", "t17-br", "type", "bridge"],
            &["link", "set", "t17-veth", "up"],
            &["link", "set", "t17-xdp", "up"],
            &["link", "set", "t17-br", "up"],
        ] {
            home.ip(words).expect("set up");
        }
        let links = home.links().expect("links");
        let folder = folder_with(&of_every_kind());
        let (mut refused, mut descriptors) = (0, 6);
        loop {
            let mut command = home.command(BINARY);
            command.args(["run", "--seconds", "0.1", "file.toml"]).current_dir(folder.path());
            let limits = Limits { descriptors: Some(descriptors), ..Limits::default() };
            let done = support::run(limits.hold(&mut command), PATIENCE).expect("it ends");
            // The kernel removes some of it after the process has ended.
            let end = Instant::now() + GONE;
            while home.links().expect("links") != links && Instant::now() < end {
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(home.links().expect("links"), links, "{descriptors} descriptors: {}", done.stderr);
            assert!(!folder.path().join("peer.sock").exists(), "{descriptors} descriptors: {}", done.stderr);
            if done.status.success() {
                break;
            }
            let last = done.stderr.lines().last().unwrap_or_default();
            assert!(last.starts_with("ringroad: "), "{descriptors} descriptors: {}", done.stderr);
            (refused, descriptors) = (refused + 1, descriptors + 1);
            assert!(descriptors < 300, "it never starts: {}", done.stderr);
        }
        assert!(refused > 20, "{refused} refused");
        drop(home);
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
    }

    #[test]
    fn a_change_without_memory() {
        support::needs!(Root, Tun, Program("ip"), Program("prlimit"));
        let mut busy = Busy::start(BINARY, &forwarding());
        // More than the host has: detected before anything is begun.
        let line = busy.refused(&(forwarding() + &another("900G", "tap:t17-more")));
        assert!(line.contains("memory"), "{line}");
        // More than the data plane may have: detected at the allocation.
        let plane = busy.plane();
        let limit = address_space(plane.id) + (64 << 20);
        Limits { address_space: Some(limit), ..Limits::default() }.impose(plane.id).expect("imposed");
        let line = busy.refused(&(forwarding() + &another("256M", "tap:t17-more")));
        assert!(line.contains("memory"), "{line}");
        assert_eq!(busy.plane().id, plane.id, "it is another data plane");
        // In both cases nothing half-made is left.
        assert!(!busy.stage.home().has_link("t17-more"));
        busy.finish();
    }

    #[test]
    fn a_change_without_descriptors() {
        support::needs!(Root, Tun, Program("ip"), Program("prlimit"));
        let mut busy = Busy::start(BINARY, &forwarding());
        let command = Process::look(busy.stage.run().id()).expect("it runs");
        let plane = busy.plane();
        for process in [&plane, &command] {
            let open = process.descriptors().expect("open") as u64;
            // Enough for one more descriptor, but not for a router. (A client needs one of the command's.)
            Limits { descriptors: Some(open + 1), ..Limits::default() }.impose(process.id).expect("imposed");
            let line = busy.refused(&(forwarding() + &another("32M", "tap:t17-more")));
            assert!(line.starts_with("ringroad: "), "{line}");
            assert!(!busy.stage.home().has_link("t17-more"));
        }
        assert_eq!(busy.plane().id, plane.id, "it is another data plane");
        busy.finish();
    }

    #[test]
    fn a_capture_on_a_full_disk() {
        support::needs!(Root, Tun, Program("ip"));
        let disk = SmallDisk::mount(256).expect("mounted");
        let capture = disk.path().join("capture.pcap");
        let text = forwarding() + &another("32M", &format!("pcap:{}", capture.display()));
        // Its second NIC is the origin of the captured frames.
        let text =
            text + "[[router.nic]]\nname = \"in\"\nattach = \"tap:t17-in2\"\naddress = \"10.2.2.1/24\"\n";
        let mut busy = Busy::start(BINARY, &text);
        let more = busy.stage.host("t17-in2", "10.2.2.2/24", "10.2.2.1").expect("a host");
        let full = disk.fill().expect("filled");
        // No host answers in a file: the router sends an ARP request for each of these addresses, which is captured.
        let ask = |number: u32| {
            let socket =
                more.inside(|| std::net::UdpSocket::bind("0.0.0.0:0")).expect("inside").expect("bound");
            let to = format!("10.2.1.{}:7", 2 + number % 250);
            let _ = socket.send_to(&[0; 8], to);
            thread::sleep(Duration::from_millis(2));
        };
        (0..1000).for_each(ask);
        let fails = |line: &str| line.contains("its capture cannot be written");
        let goes_on = |line: &str| line.contains("its capture is written again");
        busy.stage.run().wait_for_line(PATIENCE, fails).expect("it is told");
        (0..100).for_each(ask);
        fs::remove_file(full).expect("room again");
        busy.stage.run().wait_for_line(PATIENCE, goes_on).expect("it is told");
        (0..100).for_each(ask);
        busy.hosts.push(more);
        let (_, done) = busy.finish();
        for told in [&fails as &dyn Fn(&str) -> bool, &goes_on] {
            assert_eq!(done.stderr.lines().filter(|line| told(line)).count(), 1, "{}", done.stderr);
        }
        let counters = Counters::of(done.stdout.lines()).expect("counters");
        let of = |name: &str| counters.get(&format!("t17-more.out.{name}"));
        let (sent, captured, lost) = (of("tx.frames"), of("pcap.captured"), of("pcap.drop_failed"));
        assert!(lost > 0 && of("pcap.write_errors") > 0, "{counters:?}");
        assert_eq!(sent, captured + lost + of("pcap.drop_full"), "each frame is somewhere: {counters:?}");
        assert!((captured..=captured + 1).contains(&frames_in(&capture)), "{counters:?}");
    }

    #[test]
    fn counters_for_a_full_disk() {
        support::needs!(Root, Tun, Program("ip"));
        let folder = tempfile::tempdir().expect("a folder");
        let disk = SmallDisk::mount(64).expect("mounted");
        let file = disk.path().join("counters.json");
        disk.fill().expect("filled");
        for (how, lines) in [
            (format!("> {}", file.display()), 1),
            ("> /dev/full".to_owned(), 1),
            // Errors cannot be reported either.
            ("> /dev/full 2> /dev/full".to_owned(), 0),
        ] {
            let script = redirected(folder.path(), &how);
            let busy = Busy::start(script.to_str().expect("a path"), &forwarding());
            // Longer than two seconds, so that there were lines of counters.
            busy.flow.arrive_while_sending(u64::from(RATE) * 5 / 2, PATIENCE).expect("it sends");
            let (tally, done) = busy.finish();
            assert!(tally.received > u64::from(RATE) / 2, "{tally:?}");
            assert_eq!(done.stderr.lines().count(), lines, "{how}: {}", done.stderr);
            assert!(lines == 0 || done.stderr.contains("No space left"), "{how}: {}", done.stderr);
        }
    }
}
