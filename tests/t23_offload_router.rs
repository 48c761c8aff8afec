//! Objective: a router forwards large frames by whatever engine, with several vCPUs and by either NIC, without cutting or
//! losing one; and one whose segments do not fit the next link is refused, by an error from which the sender learns.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{CHECKSUMS, Capture, Counters, Namespace, Stage, dissect, transfer};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(20);
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const OCTETS: usize = 6_000_000;

fn router(words: &str, left: &str, right: &str) -> String {
    format!(
        "[[router]]\nname = 't23r'\n{words}\n\
         [[router.nic]]\nname = 'left'\nattach = 'tap:t23r-left'\naddress = '192.0.2.1/24'\n{left}\n\
         [[router.nic]]\nname = 'right'\nattach = 'tap:t23r-right'\naddress = '198.51.100.1/24'\n{right}\n"
    )
}

fn start(text: &str) -> (Stage, Namespace, Namespace) {
    let mut stage = Stage::start(BINARY, text).expect("it starts");
    let left = stage.host("t23r-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t23r-right", "198.51.100.2/24", "198.51.100.1").expect("right");
    (stage, left, right)
}

fn both_ways(stage: Stage, left: Namespace, right: Namespace) -> Counters {
    transfer(&left, &right, (RIGHT, 7001).into(), OCTETS, PATIENCE);
    transfer(&right, &left, (LEFT, 7001).into(), OCTETS, PATIENCE);
    stage.finish(vec![left, right]).expect("it ends well")
}

/// Octets of a frame, on the average of all that a vCPU sent out of a NIC.
fn octets_a_frame(counters: &Counters, nic: &str) -> u64 {
    let of = |what: &str| {
        let end = format!("{nic}.{what}");
        counters.sum(|name| name.starts_with("t23r.vcpu") && name.ends_with(&end))
    };
    of("tx_bytes") / of("tx_frames").max(1)
}

fn cross_as_they_are(words: &str) {
    let (stage, left, right) = start(&router(words, "", ""));
    let counters = both_ways(stage, left, right);
    for nic in ["left", "right"] {
        // Half of the frames that leave are acknowledgements.
        assert!(octets_a_frame(&counters, nic) > 1514, "{nic}: {counters:?}");
    }
    let cut = counters.sum(|name| name.ends_with("done_segmented") || name.ends_with("drop_bad_offload"));
    assert_eq!((cut, counters.sum(|name| name.ends_with("drop_rx_pieces"))), (0, 0), "{counters:?}");
}

#[test]
fn by_a_process() {
    support::needs!(Root, Tun, Program("ip"));
    cross_as_they_are("engine = 'process'");
}

#[test]
fn by_two_vcpus() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    cross_as_they_are("engine = 'kvm'\nvcpus = 2");
}

/// From the side that takes large frames to the other, the e1000 is told to cut what its driver gets in one piece.
#[test]
fn by_an_e1000() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
    for (engine, mode) in [("kvm", "csb"), ("kvm", "base"), ("kvm", "async"), ("process", "csb")] {
        let e1000 = format!("model = 'e1000'\nmode = '{mode}'");
        let (stage, left, right) = start(&router(&format!("engine = '{engine}'"), "", &e1000));
        let file = stage.path("right.pcap");
        let capture = Capture::start(&right, "t23r-right", &file).expect("a capture");
        transfer(&left, &right, (RIGHT, 7001).into(), OCTETS, PATIENCE);
        capture.stop().expect("captured");
        transfer(&right, &left, (LEFT, 7001).into(), OCTETS, PATIENCE);
        for frame in dissect(&file, "tcp.len > 0", &CHECKSUMS).expect("tshark reads it") {
            assert!(frame.is_right(), "{mode}: {frame:?}");
        }
        let counters = stage.finish(vec![left, right]).expect("it ends well");
        assert!(octets_a_frame(&counters, "right") > 1514, "{mode}: {counters:?}");
    }
}

#[test]
fn segments_that_do_not_fit_are_refused_and_the_sender_makes_smaller_ones() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    let (stage, left, right) = start(&router("", "", "mtu = 1400"));
    // The hosts agree on segments that fit both of their links, and know nothing of the router's.
    right.ip(&["link", "set", "t23r-right", "mtu", "1500"]).expect("a larger MTU");
    let counters = both_ways(stage, left, right);
    assert!(counters.get("t23r.vcpu0.drop_mtu") > 0, "{counters:?}");
    assert!(octets_a_frame(&counters, "right") > 1414, "{counters:?}");
}
