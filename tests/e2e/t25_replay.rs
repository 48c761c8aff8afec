//! Objective: the frames of a capture file enter a router by `replay`, each once and in order, at either pace, and the
//! router's output is in the capture that it writes; a file that is not a capture is refused in one line.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Counters, Namespace, Packet, Running, Signal, alone, udp};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const TO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

fn file(pace: &str) -> String {
    format!(
        "[[router]]\nname = \"t25r\"\nengine = \"process\"\n\
         [[router.nic]]\nname = \"in\"\nattach = \"pcap:back.pcap\"\nreplay = \"in.pcap\"\nreplay_pace = \"{pace}\"\n\
         mac = \"02:00:00:00:25:01\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"out\"\nattach = \"pcap:out.pcap\"\naddress = \"198.51.100.1/24\"\n\
         [[router.neighbour]]\naddress = \"{TO}\"\nmac = \"02:00:00:00:25:99\"\n"
    )
}

/// Builds a capture file, big-endian with microseconds, of numbered datagrams through the router, `gap` apart.
fn capture(count: u32, gap: Duration) -> Vec<u8> {
    let mut octets = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 1].map(u32::to_be_bytes).concat();
    for number in 0..count {
        let packet = Packet {
            to: [2, 0, 0, 0, 0x25, 1],
            from: [2, 0, 0, 0, 0x25, 2],
            source: FROM,
            destination: TO,
            ttl: 64,
            tos: 0,
            id: number as u16,
            fragment: 0,
            options: Vec::new(),
            protocol: 17,
            payload: udp(FROM, TO, (1000, 2000), &[7; 30]),
        };
        let (frame, at) = (packet.frame(), gap * number);
        let len = frame.len() as u32;
        for word in [1_700_000_000 + at.as_secs() as u32, at.subsec_micros(), len, len] {
            octets.extend(word.to_be_bytes());
        }
        octets.extend(frame);
    }
    octets
}

/// Returns the IP identifications of the datagrams that left, in order, as tshark reads them.
fn left(out: &Path) -> Vec<u16> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(out).args(["-Y", "udp && ip.ttl == 63", "-T", "fields", "-e", "ip.id"]);
    let done = support::run(&mut command, PATIENCE).expect("tshark ends");
    let number = |line: &str| u16::from_str_radix(line.trim().trim_start_matches("0x"), 16).ok();
    done.stdout.lines().filter_map(number).collect()
}

fn start(home: &Namespace, folder: &Path) -> Running {
    let mut command = home.command(BINARY);
    Running::start(command.current_dir(folder).args(["run", "--json", "--log", "text", "file.toml"]))
        .expect("it starts")
}

fn played(count: u32, gap: Duration, pace: &str) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Namespace::add("t25r").expect("a namespace");
    fs::write(folder.path().join("in.pcap"), capture(count, gap)).expect("written");
    fs::write(folder.path().join("file.toml"), file(pace)).expect("written");
    let since = Instant::now();
    let mut run = start(&home, folder.path());
    let over = format!("NIC in: its replay is over: {count} of {count} frames in ");
    run.wait_for_line(PATIENCE, |line| line.contains(&over)).expect("it is told");
    let took = since.elapsed();
    let out = folder.path().join("out.pcap");
    assert!(run.settle(), "frames do not rest");
    run.signal(Signal::TERM).expect("signalled");
    let done = run.wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    let counters =
        Counters::of(done.stdout.lines().filter(|line| line.contains("\"counters\""))).expect("JSON");
    assert_eq!(counters.get("t25r.in.replay.frames"), u64::from(count));
    assert_eq!(counters.get("t25r.in.rx.frames"), u64::from(count), "a file waits until there is room");
    let left = left(&out);
    assert!(left.is_sorted_by(|a, b| a < b), "twice, or out of order");
    // Dropped by the router itself, or at its full transmit ring: if the I/O thread gets no CPU time, the ring is not
    // emptied.
    let lost = counters.sum(|name| name.starts_with("t25r.vcpu0.") && name.contains("drop_"));
    let missing: Vec<u32> =
        (0..count).filter(|number| left.binary_search(&(*number as u16)).is_err()).collect();
    assert_eq!(missing.len() as u64, lost, "not in the capture: {missing:?}; {counters:?}");
    assert!(!left.is_empty(), "{counters:?}");
    took
}

#[test]
fn every_frame_once_and_in_order_as_fast_as_the_router_takes_them() {
    support::needs!(Root, Program("ip"), Program("tshark"));
    let _turn = alone();
    played(20_000, Duration::from_secs(3600), "fast");
}

#[test]
fn what_cannot_be_replayed_is_said_in_one_line() {
    support::needs!(Root, Program("ip"));
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let home = Namespace::add("t25r").expect("a namespace");
    let refusal = |text: &str, replayed: &[u8]| {
        fs::write(folder.path().join("file.toml"), text).expect("written");
        fs::write(folder.path().join("in.pcap"), replayed).expect("written");
        let done = start(&home, folder.path()).wait(PATIENCE).expect("it ends");
        assert!(!done.status.success());
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        done.stderr
    };
    let good = capture(1, Duration::ZERO);
    let ng = [&[0x0a, 0x0d, 0x0d, 0x0a][..], &good[4..]].concat();
    let said = refusal(&file("fast"), &ng);
    assert!(said.contains(": router.nic.replay: cannot replay in.pcap: it is a pcapng file"), "{said}");
    let mut long = good.clone();
    long[32..36].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    let said = refusal(&file("fast"), &long);
    assert!(said.contains("frame 1 is said to have 2147483647 octets: the file is damaged"), "{said}");
    let said = refusal(&file("slow"), &good);
    assert!(said.contains("replay_pace"), "{said}");
    let text = file("fast").replace("replay = \"in.pcap\"\n", "");
    assert!(refusal(&text, &good).contains("replay_pace: it says how fast a file is replayed"), "{text}");
}

mod all {
    use super::*;

    #[test]
    fn the_pace_of_the_capture() {
        support::needs!(Root, Program("ip"), Program("tshark"));
        let _turn = alone();
        let took = played(11, Duration::from_millis(150), "recorded");
        assert!(took >= Duration::from_millis(1500), "{took:?}");
    }
}
