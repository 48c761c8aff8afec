//! Objective: a router forwards large frames with each engine, with several vCPUs and both NIC models, without segmenting
//! or losing one; and a frame whose segments do not fit the next link is refused with an error from which the sender
//! learns.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Counters, Namespace, Stage, transfer};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Enough that the I/O thread notices several times which offloads the driver supports, and informs the kernel,
/// meanwhile.
const OCTETS: usize = 30_000_000;

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

/// Returns true if large frames came in by one NIC and left unsegmented by the other. Their number depends on TCP, which
/// makes them larger at a higher rate.
fn are_large(counters: &Counters, from: &str, to: &str) -> bool {
    [format!("t23r.{from}.rx.left_segments"), format!("t23r.{to}.tx.left_segments")]
        .iter()
        .all(|name| counters.get(name) > 0)
}

fn cross_as_they_are(words: &str) {
    let (stage, left, right) = start(&router(words, "", ""));
    let counters = both_ways(stage, left, right);
    let both = are_large(&counters, "left", "right") && are_large(&counters, "right", "left");
    assert!(both, "{counters:?}");
    let cut = counters.sum(|name| name.ends_with("done_segmented") || name.ends_with("drop_bad_offload"));
    assert_eq!((cut, counters.sum(|name| name.ends_with("drop_rx_pieces"))), (0, 0), "{counters:?}");
}

#[test]
fn by_a_process() {
    support::needs!(Root, Tun, Program("ip"));
    cross_as_they_are("engine = 'process'");
}

mod all {
    use super::*;

    #[test]
    fn by_two_vcpus() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        cross_as_they_are("engine = 'kvm'\nvcpus = 2");
    }

    /// From the side with large frames to the other, the e1000 segments the frames that its driver receives in one piece.
    #[test]
    fn by_an_e1000() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        for (engine, mode) in [("kvm", "csb"), ("kvm", "base"), ("kvm", "async"), ("process", "csb")] {
            let e1000 = format!("model = 'e1000'\nmode = '{mode}'");
            let (stage, left, right) = start(&router(&format!("engine = '{engine}'"), "", &e1000));
            let counters = both_ways(stage, left, right);
            assert!(counters.get("t23r.left.rx.left_segments") > 0, "{mode}: {counters:?}");
            assert_eq!(counters.sum(|name| name.ends_with("drop_bad_offload")), 0, "{mode}: {counters:?}");
        }
    }

    #[test]
    fn segments_that_do_not_fit_are_refused_and_the_sender_makes_smaller_ones() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let (stage, left, right) = start(&router("", "", "mtu = 1400"));
        // The hosts agree on segments that fit both of their own links, and do not know the router's.
        right.ip(&["link", "set", "t23r-right", "mtu", "1500"]).expect("a larger MTU");
        let counters = both_ways(stage, left, right);
        assert!(counters.get("t23r.vcpu0.drop_mtu") > 0, "{counters:?}");
    }
}
