//! Objective: two kernel stacks reach each other through a router with e1000s, in every transmit mode and with both
//! engines: ping up to fragments, a flow of datagrams without loss, TCP with every octet checked; tshark finds no wrong
//! checksum; the ledgers add up, and the register accesses are those characteristic of the mode.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use support::{CHECKSUMS, Capture, Counters, Flow, Namespace, Stage, dissect, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const WEST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const WEST_NIC: &str = "02:00:00:00:19:01";
const EAST_NIC: &str = "02:00:00:00:19:02";
/// Datagrams a second, and how many must arrive.
const RATE: u32 = 500;
const DATAGRAMS: u64 = 500;
/// Octets of each TCP transfer.
const OCTETS: usize = 1_000_000;

/// Least number of segments, of at most 1448 octets each, that these octets make.
const SEGMENTS: usize = OCTETS / 1448;

/// Returns true if a NIC has sent this frame, and it is an IPv4 frame.
fn is_from(nic: &str, frame: &[u8]) -> bool {
    let octets = nic.split(':').map(|octet| u8::from_str_radix(octet, 16).expect("an address"));
    frame.get(6..12).is_some_and(|source| source.iter().copied().eq(octets)) && frame[12..14] == [8, 0]
}

/// Configuration of the router.
struct Way {
    engine: &'static str,
    /// Keys of both NICs.
    keys: &'static str,
    vcpus: u32,
}

impl Way {
    fn file(&self) -> String {
        let Self { engine, keys, vcpus } = self;
        let nic = |name: &str, address: &str, mac: &str| {
            format!(
                "[[router.nic]]\nname = \"{name}\"\nmodel = \"e1000\"\n{keys}\nattach = \"tap:t19-{name}\"\n\
                 address = \"{address}/24\"\nmac = \"{mac}\"\n"
            )
        };
        let router = format!("[[router]]\nname = \"t19\"\nengine = \"{engine}\"\nvcpus = {vcpus}\n");
        router + &nic("west", "192.0.2.1", WEST_NIC) + &nic("east", "198.51.100.1", EAST_NIC)
    }
}

fn ping(from: &Namespace, to: Ipv4Addr, octets: u32, count: usize) {
    let options = ["-s", &octets.to_string(), &to.to_string()];
    support::ping(from.command("busybox"), count, &options).expect("answers");
}

/// Sends datagrams, none of which may be lost.
fn flow(from: &Namespace, to: &Namespace, address: Ipv4Addr) {
    let flow = Flow::start(from, to, SocketAddr::new(IpAddr::V4(address), 7020), RATE).expect("a flow");
    flow.reaches(DATAGRAMS, PATIENCE).expect("it flows");
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.lost(), tally.repeated, tally.late), (0, 0, 0), "{tally:?}");
}

/// Checks every checksum of frames sent by a NIC. Frames sent by the other end may have been captured before its kernel
/// segmented them.
fn checksums(file: &Path, nic: &str) {
    let all = dissect(file, &format!("ip and eth.src == {nic}"), &CHECKSUMS).expect("it reads");
    assert!(all.len() >= SEGMENTS, "{} packets in {}", all.len(), file.display());
    let wrong: Vec<_> = all.iter().filter(|packet| !packet.is_right()).collect();
    assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
    // The content of datagrams and stream has no protocol format, but their senders' ports may belong to a known
    // protocol.
    let ours = "(_ws.malformed or _ws.short) and not udp.port == 7020 and not tcp.port == 7019";
    let malformed = dissect(file, ours, &["frame.number"]).expect("it reads");
    assert_eq!(malformed, [], "{}", file.display());
}

/// Checks that the frames into a NIC and out of it add up, on both of its sides.
fn books(counters: &Counters, nic: &str) {
    let get = |name: &str| counters.get(&format!("t19.{nic}.{name}"));
    let dropped = |part: &str| counters.sum(|name| name.starts_with(&format!("t19.{nic}.{part}.drop_")));
    assert_eq!(get("tap.read.frames"), get("rx.frames") + dropped("rx"), "{nic}");
    assert_eq!(get("tx.frames"), get("tap.write.frames") + dropped("tap.write"), "{nic}");
}

/// Sends traffic of all kinds; returns the counters.
fn try_out(way: &Way) -> Counters {
    let mut stage = Stage::start(RINGROAD, &way.file()).expect("it starts");
    let west = stage.host("t19-west", "192.0.2.2/24", "192.0.2.1").expect("west");
    let east = stage.host("t19-east", "198.51.100.2/24", "198.51.100.1").expect("east");
    let files = [stage.path("west.pcap"), stage.path("east.pcap")];
    let captures = [
        Capture::start(&west, "t19-west", &files[0]).expect("a capture"),
        Capture::start(&east, "t19-east", &files[1]).expect("a capture"),
    ];
    for octets in [0, 56, 1472, 4000] {
        ping(&west, EAST, octets, 2);
        ping(&east, WEST, octets, 2);
    }
    ping(&west, Ipv4Addr::new(198, 51, 100, 1), 56, 1);
    flow(&west, &east, EAST);
    transfer(&west, &east, (EAST, 7019).into(), OCTETS, PATIENCE);
    transfer(&east, &west, (WEST, 7019).into(), OCTETS, PATIENCE);
    for (capture, nic) in captures.into_iter().zip([WEST_NIC, EAST_NIC]) {
        // At its end tcpdump discards frames that it has not read yet.
        capture.wait_for(SEGMENTS, |frame| is_from(nic, frame)).expect("all segments are written");
        capture.stop().expect("it ends");
    }
    stage.stop().expect("it ends");
    files.iter().zip([WEST_NIC, EAST_NIC]).for_each(|(file, nic)| checksums(file, nic));
    let counters = stage.finish(vec![west, east]).expect("nothing is left");
    assert_eq!(counters.faults("t19"), [""; 0]);
    ["west", "east"].iter().for_each(|nic| books(&counters, nic));
    counters
}

/// Register accesses of one NIC, and frames that it sent.
#[derive(Debug)]
struct Accesses {
    sent: u64,
    tails: u64,
    causes: u64,
    masks: u64,
    unmasks: u64,
    states: u64,
    coalesced: u64,
}

impl Accesses {
    fn of(counters: &Counters, nic: &str) -> Self {
        let get = |name: &str| counters.get(&format!("t19.{nic}.{name}"));
        let register = |name: &str| get(&format!("registers.{name}"));
        Self {
            sent: get("tx.frames"),
            tails: register("tdt_write"),
            causes: register("icr_read"),
            masks: register("imc_write"),
            unmasks: register("ims_write"),
            states: register("status_read"),
            coalesced: register("coalesced_tdt"),
        }
    }
}

/// Judges both NICs.
fn accesses(counters: &Counters, judge: impl Fn(&Accesses) -> bool) {
    for nic in ["west", "east"] {
        let accesses = Accesses::of(counters, nic);
        assert!(judge(&accesses), "{nic}: {accesses:?}");
    }
}

/// Register accesses of Linux's driver: one write of TDT per frame, and five accesses per interrupt (seed paper 004:
/// read ICR, mask, read STATUS, poll, unmask, read STATUS).
fn stock(counters: &Counters) {
    accesses(counters, |a| {
        // Initialisation of the device writes some of them, too; an interrupt without a cause is only a read, and one
        // whose next cause comes while its handler runs is delivered and masked once more.
        let near = |left: u64, right: u64| left.abs_diff(right) <= 4;
        a.tails.abs_diff(a.sent) <= 2
            && a.coalesced == 0
            && (a.unmasks.saturating_sub(4)..2 * a.unmasks).contains(&a.masks)
            && near(a.states, a.masks + a.unmasks)
            && a.causes >= a.unmasks.saturating_sub(4)
            && a.masks > 100
    });
}

/// Defines the tests of a transmit mode, with both engines.
macro_rules! modes {
    ($($name:ident = $keys:literal, $judge:expr);+ $(;)?) => {$(
        mod $name {
            #[test]
            fn under_kvm() {
                support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
                $judge(&super::try_out(&super::Way { engine: "kvm", keys: $keys, vcpus: 1 }));
            }

            #[test]
            fn under_kvm_with_a_vcpu_for_interrupts() {
                support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
                $judge(&super::try_out(&super::Way { engine: "kvm", keys: $keys, vcpus: 2 }));
            }

            #[test]
            fn as_a_process() {
                support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
                $judge(&super::try_out(&super::Way { engine: "process", keys: $keys, vcpus: 1 }));
            }
        }
    )+};
}

#[test]
fn by_the_status_block_under_kvm() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
    rung(&try_out(&Way { engine: "kvm", keys: "mode = \"csb\"", vcpus: 1 }));
}

mod all {
    use super::*;

    #[test]
    fn a_driver_that_knows_nothing_of_the_status_block_as_a_process() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
        stock(&try_out(&Way { engine: "process", keys: "mode = \"base\"", vcpus: 1 }));
    }

    #[test]
    fn collected_by_kvm() {
        support::needs!(
            Root,
            Kvm,
            Tun,
            Program("ip"),
            Program("busybox"),
            Program("tcpdump"),
            Program("tshark")
        );
        let counters = try_out(&Way { engine: "kvm", keys: "mode = \"coalesced\"", vcpus: 1 });
        // Same driver as for `base`; coalesced writes are no exits.
        accesses(&counters, |a| (a.tails + a.coalesced).abs_diff(a.sent) <= 2);
        let collected = counters.sum(|name| name.ends_with(".registers.coalesced_tdt"));
        assert!(collected > 0, "{counters:?}");
    }

    modes! {
        base = "mode = \"base\"", super::stock;
        asynchronous = "mode = \"async\"", super::stock;
        send_combining = "mode = \"send-combining\"", super::combined;
        combining_eight = "mode = \"send-combining\"\ncombine = 8", super::combined;
        status_block = "mode = \"csb\"", super::rung;
        moderated = "mode = \"csb\"\nitr = 100", super::rung;
        adaptive = "itr = \"adaptive\"", super::rung;
    }
}

/// Frames sent while an interrupt is pending wait for it: fewer writes of TDT than frames.
fn combined(counters: &Counters) {
    accesses(counters, |a| a.tails > 0 && a.tails <= a.sent && a.coalesced == 0);
}

/// Frames are announced in the status block, and TDT only wakes a sleeping device; as a doorbell it is not a register
/// access at all.
fn rung(counters: &Counters) {
    accesses(counters, |a| a.tails + a.coalesced < a.sent / 4 + 8);
}

#[test]
fn a_process_has_nobody_who_collects() {
    support::needs!(Root, Tun, Program("ip"));
    let text = Way { engine: "process", keys: "mode = \"coalesced\"", vcpus: 1 }.file();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t19.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = std::process::Command::new(RINGROAD);
    let done = support::run(command.arg("run").arg(&file), PATIENCE).expect("it ends");
    let line = "router.nic.mode: KVM collects the writes, and a process has none; write mode = \"async\", or engine = \"kvm\"";
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert!(lines.len() == 2 && lines.iter().all(|said| said.ends_with(line)), "{}", done.stderr);
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(1), ""));
}
