//! Objective: a large TCP frame crosses the router as one frame where both sides support that, and is segmented where the
//! next hop does not; in either case every octet arrives, and a plain wire sees only valid frames.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use support::{CHECKSUMS, Capture, Counters, Namespace, Stage, dissect, transfer};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const OCTETS: usize = 8_000_000;

fn one_router(left: &str, right: &str) -> String {
    format!(
        "[[router]]\nname = 't23'\n\
         [[router.nic]]\nname = 'left'\nattach = 'tap:t23-left'\naddress = '192.0.2.1/24'\n{left}\n\
         [[router.nic]]\nname = 'right'\nattach = 'tap:t23-right'\naddress = '198.51.100.1/24'\n{right}\n"
    )
}

/// A router that accepts large frames and one that does not, joined by a switch.
fn two_routers(deliver: &str) -> String {
    format!(
        "[switch.middle]\n\
         [[router]]\nname = 't23w'\n\
         [[router.nic]]\nname = 'left'\nattach = 'tap:t23-left'\naddress = '192.0.2.1/24'\n\
         [[router.nic]]\nname = 'out'\nattach = 'switch:middle'\naddress = '10.0.0.1/30'\n\
         [[router.route]]\nto = '198.51.100.0/24'\nvia = '10.0.0.2'\n\
         [[router]]\nname = 't23e'\n\
         [[router.nic]]\nname = 'in'\nattach = 'switch:middle'\naddress = '10.0.0.2/30'\noffload = false\n{deliver}\n\
         [[router.nic]]\nname = 'right'\nattach = 'tap:t23-right'\naddress = '198.51.100.1/24'\noffload = false\n\
         [[router.route]]\nto = '192.0.2.0/24'\nvia = '10.0.0.1'\n"
    )
}

fn start(text: &str) -> (Stage, Namespace, Namespace) {
    let mut stage = Stage::start(BINARY, text).expect("it starts");
    let left = stage.host("t23-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t23-right", "198.51.100.2/24", "198.51.100.1").expect("right");
    (stage, left, right)
}

/// Transfers data both ways, with a capture of the frames sent to the right host.
fn transfer_both_ways(stage: &Stage, left: &Namespace, right: &Namespace) -> std::path::PathBuf {
    let file = stage.path("right.pcap");
    let capture = Capture::start(right, "t23-right", &file).expect("a capture");
    transfer(left, right, (RIGHT, 7001).into(), OCTETS, PATIENCE);
    capture.stop().expect("captured");
    transfer(right, left, (LEFT, 7001).into(), OCTETS, PATIENCE);
    file
}

/// Checks that every frame is valid on a wire: not longer than the MTU, with all checksums filled in and right.
fn is_right(file: &Path) -> usize {
    let fields = [&CHECKSUMS[..], &["frame.len", "ip.len", "tcp.len"]].concat();
    let frames = dissect(file, "tcp", &fields).expect("tshark reads it");
    for frame in &frames {
        assert!(frame.is_right(), "{frame:?}");
        assert!(frame.number("frame.len").is_some_and(|len| len <= 1514), "{frame:?}");
        assert_eq!(frame.number("ip.checksum.status"), Some(1), "{frame:?}");
        assert!(frame.number("tcp.checksum.status").is_some_and(|status| status <= 1), "{frame:?}");
    }
    let full = frames.iter().filter(|frame| frame.number("ip.len") == Some(1500)).count();
    assert!(full > 1000, "{full} full segments of {} frames", frames.len());
    frames.len()
}

fn add_up(counters: &Counters, routers: &[&str]) {
    for router in routers {
        assert_eq!(counters.faults(router), [""; 0], "{counters:?}");
    }
}

#[test]
fn large_frames_cross_as_they_are() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
    let (stage, left, right) = start(&one_router("", ""));
    let file = transfer_both_ways(&stage, &left, &right);
    let frames = dissect(&file, "tcp.len > 1460", &["frame.len"]).expect("tshark reads it");
    assert!(!frames.is_empty(), "no large frame arrived");
    let frames = dissect(&file, "tcp.len > 0", &["frame.len"]).expect("tshark reads it").len();
    assert!(frames < OCTETS / 1460, "{frames} frames for {OCTETS} octets");
    let counters = stage.finish(vec![left, right]).expect("it ends well");
    for count in
        ["left.rx.left_segments", "right.tx.left_segments", "right.rx.left_segments", "left.tx.left_segments"]
    {
        assert!(counters.get(&format!("t23.{count}")) > 10, "{count}: {counters:?}");
    }
    // No frame was segmented.
    assert_eq!(
        counters.sum(|name| name.ends_with("done_segmented") || name.ends_with("drop_bad_offload")),
        0
    );
    assert!(counters.get("t23.right.tx.bytes") > OCTETS as u64, "{counters:?}");
    add_up(&counters, &["t23"]);
}

fn through_a_switch(deliver: &str) {
    let (stage, left, right) = start(&two_routers(deliver));
    let file = transfer_both_ways(&stage, &left, &right);
    is_right(&file);
    let counters = stage.finish(vec![left, right]).expect("it ends well");
    // The frames are large through the first router and the switch, and segmented on the way into the second.
    assert!(counters.get("t23w.out.tx.left_segments") > 10, "{counters:?}");
    let cut = ["done_segmented", "done_segments"].map(|name| counters.get(&format!("t23e.in.rx.{name}")));
    assert!(cut[0] > 10 && cut[1] > 2 * cut[0], "{counters:?}");
    assert_eq!(counters.sum(|name| name.ends_with("drop_bad_offload")), 0, "{counters:?}");
    add_up(&counters, &["t23w", "t23e"]);
}

mod all {
    use super::*;

    #[test]
    fn a_side_that_takes_none_is_sent_plain_frames() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
        let (stage, left, right) = start(&one_router("", "offload = false"));
        let file = transfer_both_ways(&stage, &left, &right);
        is_right(&file);
        let counters = stage.finish(vec![left, right]).expect("it ends well");
        assert_eq!(counters.sum(|name| name.ends_with("drop_bad_offload")), 0, "{counters:?}");
        add_up(&counters, &["t23"]);
    }

    #[test]
    fn large_frames_are_cut_behind_a_queue() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
        through_a_switch("");
    }

    #[test]
    fn large_frames_are_cut_by_who_delivers_directly() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
        through_a_switch("deliver = 'direct'");
    }
}
