//! Objective: frames that pass a NIC of a running router can be captured by the owner of the run: complete, in both
//! directions, readable by an independent parser; a capture ends by count, by time and with its client, and a slow or full
//! file does not delay any traffic.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use support::{Namespace, Running, Signal, Stage};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const FILE: &str = "[[router]]\nname = \"t25c\"\nengine = \"process\"\n\
     [[router.nic]]\nname = \"left\"\nattach = \"tap:t25c-left\"\naddress = \"192.0.2.1/24\"\n\
     [[router.nic]]\nname = \"right\"\nattach = \"tap:t25c-right\"\naddress = \"198.51.100.1/24\"\n\
     [[router.nic]]\nname = \"void\"\nattach = \"null\"\naddress = \"203.0.113.1/24\"\n";

fn two_hosts() -> (Stage, Namespace, Namespace) {
    let mut stage = Stage::start(BINARY, FILE).expect("it starts");
    let left = stage.host("t25c-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t25c-right", "198.51.100.2/24", "198.51.100.1").expect("right");
    ping(&left, 1);
    (stage, left, right)
}

fn ping(from: &Namespace, count: usize) {
    support::ping(from.command("busybox"), count, &[&RIGHT.to_string()]).expect("answers");
}

fn capture(nic: &str, file: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["capture", nic]).arg(file).args(options);
    command
}

/// Counts the packets in a file with tshark and this filter.
fn packets(file: &Path, filter: &str) -> usize {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-Y", filter]);
    let done = support::run(&mut command, PATIENCE).expect("tshark ends");
    assert!(done.status.success(), "{}", done.stderr);
    done.stdout.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Waits until the file has its header: then the capture is active.
fn begun(file: &Path) {
    let end = Instant::now() + PATIENCE;
    while !file.metadata().is_ok_and(|file| file.len() >= 24) {
        assert!(Instant::now() < end, "nothing is written to {}", file.display());
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn both_ways_by_count_by_time_and_until_the_client_leaves() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("tshark"));
    let (stage, left, right) = two_hosts();
    let file = stage.path("by-count.pcap");
    let mut run = Running::start(&mut capture("t25c.left", &file, &["--count", "10"])).expect("it starts");
    begun(&file);
    ping(&left, 10);
    let done = run.wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stderr.starts_with("10 frames captured in "), "{}", done.stderr);
    assert_eq!(packets(&file, "icmp.type == 8 && ip.ttl == 64"), 5, "into the router");
    assert_eq!(packets(&file, "icmp.type == 0 && ip.ttl == 63"), 5, "and out of it");

    let file = stage.path("by-time.pcap");
    let mut seconds = 2;
    loop {
        let (since, time) = (Instant::now(), seconds.to_string());
        let options = ["--seconds", &time, "--snap", "34"];
        let mut run = Running::start(&mut capture("t25c.right", &file, &options)).expect("it starts");
        begun(&file);
        ping(&left, 3);
        // On a busy host the capture may end before the pings do.
        let is_in_time = since.elapsed() < Duration::from_secs(seconds);
        assert!(run.wait(PATIENCE).expect("it ends").status.success());
        if is_in_time {
            break;
        }
        fs::remove_file(&file).expect("removed");
        seconds *= 2;
        assert!(seconds <= PATIENCE.as_secs(), "three pings take so long");
    }
    assert_eq!(packets(&file, "ip.proto == 1 && frame.cap_len == 34 && frame.len == 98"), 6);

    let file = stage.path("by-client.pcap");
    let mut run = Running::start(&mut capture("t25c.left", &file, &[])).expect("it starts");
    begun(&file);
    let second =
        support::run(&mut capture("t25c.left", Path::new("/dev/null"), &[]), PATIENCE).expect("it ends");
    assert!(second.stderr.contains("t25c.left is being captured already"), "{}", second.stderr);
    ping(&left, 4);
    let (end, is_icmp) =
        (Instant::now() + PATIENCE, |frame: &&[u8]| frame.get(12..14) == Some(&[8, 0]) && frame[23] == 1);
    while support::pcap_frames(&fs::read(&file).expect("it reads")).0.into_iter().filter(is_icmp).count() < 8
    {
        assert!(Instant::now() < end, "not all is written");
        sleep(Duration::from_millis(10));
    }
    run.signal(Signal::KILL).expect("killed");
    run.wait(PATIENCE).expect("it ends");
    assert_eq!(packets(&file, "icmp"), 8);
    // The capture place is free again, and new frames do not go to the old file.
    let end = Instant::now() + PATIENCE;
    loop {
        let mut again = capture("t25c.left", Path::new("/dev/null"), &["--seconds", "0.1"]);
        if support::run(&mut again, PATIENCE).expect("it ends").status.success() {
            break;
        }
        assert!(Instant::now() < end, "a client that is gone still captures");
    }
    ping(&left, 2);
    assert_eq!(packets(&file, "icmp"), 8);
    stage.finish(vec![left, right]).expect("it ends well");
}

mod all {
    use super::*;

    #[test]
    fn a_reader_that_stands_still_and_a_full_disk_hold_nobody_up() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("tshark"));
        let (stage, left, right) = two_hosts();
        // The pipe that is its standard output has no active reader.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = capture("t25c.left", Path::new("-"), &["--seconds", "1"]);
        let mut stuck =
            command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().expect("it starts");
        drop(command);
        for _ in 0..5 {
            ping(&left, 10);
        }
        let full = File::options().write(true).open("/dev/full").expect("a full disk");
        let mut command = capture("t25c.right", Path::new("-"), &["--seconds", "20"]);
        let mut full =
            command.stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).spawn().expect("it starts");
        ping(&left, 10);
        assert!(!full.wait().expect("it ends").success(), "a file that takes nothing is said");
        stuck.wait().expect("it ends");
        drop(reader);
        ping(&left, 3);
        stage.finish(vec![left, right]).expect("it ends well");
    }

    #[test]
    fn what_cannot_be_captured_is_said_in_one_line() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let (stage, left, right) = two_hosts();
        let refusal = |nic: &str, options: &[&str]| {
            let done =
                support::run(&mut capture(nic, Path::new("/dev/null"), options), PATIENCE).expect("it ends");
            assert!(!done.status.success());
            assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
            done.stderr
        };
        assert!(refusal("t25c", &[]).contains("names no NIC; write e.g. edge.wan"));
        assert!(
            refusal("t25c.middle", &[])
                .contains("router t25c has no NIC \"middle\"; NICs: left, right, void")
        );
        assert!(refusal("t25c.left", &["--count", "0"]).contains("a capture of no frames"));
        assert!(refusal("t25c.left", &["--snap", "3"]).contains("keeps 14 to 65535 octets"));
        let mut nowhere = capture("t25c.left", Path::new("/there/is/none/x.pcap"), &[]);
        let said = support::run(&mut nowhere, PATIENCE).expect("it ends").stderr;
        assert!(said.contains("cannot write /there/is/none/x.pcap"), "{said}");
        // Another user is refused.
        let mut foreign = capture("t25c.left", Path::new("/dev/null"), &[]);
        let done = support::run(foreign.uid(65_534), PATIENCE).expect("it ends");
        assert!(!done.status.success());
        stage.finish(vec![left, right]).expect("it ends well");
    }
}
