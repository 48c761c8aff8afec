//! Appearance of our links to other programs: under their own names they are fully configured from the first
//! moment, so a program that waits for a name may move the link at once; and the process that holds it finds
//! it again where it was moved to.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use uplink::macvtap::Mode;
use uplink::{Error, Netns, Tap, TapConfig, bridge, macvtap};

use crate::support::devices;

/// Time limit of every wait: the kernel reports a link within microseconds, but a busy host may take longer.
const PATIENCE: Duration = Duration::from_secs(60);
const MTU: u32 = 1400;
const QUEUE_LEN: u32 = 77;

fn ip(netns: &Netns, words: &str) {
    let done = netns.command("ip").args(words.split(' ')).output().expect("ip");
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

fn seen_by_others(netns: &Netns, name: &str) -> String {
    let done = netns.command("ip").args(["-o", "link", "show", name]).output().expect("ip");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Listens to the kernel's link notifications.
struct Monitor {
    program: Child,
    lines: Receiver<String>,
}

impl Monitor {
    fn start(netns: &Netns) -> Self {
        let mut command = netns.command("ip");
        let mut program = command.args(["-o", "monitor", "link"]).stdout(Stdio::piped()).spawn().expect("ip");
        let (tell, lines) = channel();
        let output = BufReader::new(program.stdout.take().expect("piped"));
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let monitor = Self { program, lines };
        // It does not report when it is ready: try until an event is received.
        while monitor.lines.recv_timeout(Duration::from_millis(20)).is_err() {
            ip(netns, "link add probe type bridge");
            ip(netns, "link delete probe");
        }
        monitor
    }

    /// Returns the first event about a link with this name.
    fn first_of(&self, name: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the kernel tells of it");
            if line.split([' ', ':', '@']).any(|word| word == name) && !line.starts_with("Deleted") {
                return line;
            }
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn who_waits_for_a_name_finds_a_link_that_is_as_it_is_to_be() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let _links = netns.settle(false).unwrap();
    for words in ["link add near type veth peer name far", "link set near up", "link add br0 type bridge"] {
        ip(&netns, words);
    }
    let monitor = Monitor::start(&netns);
    let config = TapConfig { mtu: MTU, queue_len: QUEUE_LEN, netns: Some(&netns), ..TapConfig::default() };
    let lone = Tap::open("lone", &config).unwrap();
    let several = Tap::open("several", &TapConfig { queues: 3, ..config.clone() }).unwrap();
    let member = bridge::open("member", "br0", &config).unwrap();
    let station = TapConfig { mac: Some([2, 0, 0, 0, 1, 9]), queues: 2, offload: false, ..config.clone() };
    let station = macvtap::open("station", ("near", Mode::Bridge), &station).unwrap();
    for name in ["lone", "several", "member", "station"] {
        let line = monitor.first_of(name);
        assert!(line.contains(&format!(" mtu {MTU} ")), "{line}");
        assert_eq!(line.contains(" master br0 "), name == "member", "{line}");
        let now = seen_by_others(&netns, name);
        assert!(now.contains(",UP") && now.contains(&format!(" qlen {QUEUE_LEN}")), "{now}");
    }
    drop((lone, several, member, station));
    assert_eq!(seen_by_others(&netns, "station"), "", "it goes with whoever holds it");
}

#[test]
fn a_device_has_its_size_changed_wherever_it_was_moved_and_no_other_one_has() {
    if !devices() {
        return;
    }
    let (home, away) = (Netns::new().unwrap(), Netns::new().unwrap());
    let config = TapConfig { netns: Some(&home), ..TapConfig::default() };
    let tap = Tap::open("t0", &config).unwrap();
    let there = format!("/proc/{}/fd/{}", std::process::id(), away.as_fd().as_raw_fd());
    ip(&home, &format!("link set t0 netns {there} name t9"));
    // Another device has the name now.
    let other = Tap::open("t0", &config).unwrap();
    let sized = |mtu| TapConfig { mtu, queue_len: QUEUE_LEN, ..TapConfig::default() };
    tap.resize(&sized(MTU)).unwrap();
    let sizes = format!(" mtu {MTU} ");
    let moved = seen_by_others(&away, "t9");
    assert!(moved.contains(&sizes) && moved.contains(&format!(" qlen {QUEUE_LEN}")), "{moved}");
    assert!(seen_by_others(&home, "t0").contains(" mtu 1500 "));
    drop(other);
    tap.resize(&sized(1300)).unwrap();
    assert!(seen_by_others(&away, "t9").contains(" mtu 1300 "));
}

#[test]
fn a_name_that_somebody_takes_meanwhile_is_told_and_nothing_is_left() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    ip(&netns, "link add taken type bridge");
    let before = seen_by_others(&netns, "taken");
    let config = TapConfig { netns: Some(&netns), ..TapConfig::default() };
    assert!(matches!(Tap::open("taken", &config), Err(Error::InUse { name }) if name == "taken"));
    assert_eq!(seen_by_others(&netns, "taken"), before);
    let listed = netns.command("ip").args(["-o", "link"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 2, "lo, and theirs");
}
