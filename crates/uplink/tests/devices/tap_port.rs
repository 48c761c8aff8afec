//! The TAP in the conformance suite that every port passes.

use conformance::{HEADER, check_sink, check_source};
use uplink::{Netns, Tap, TapConfig};

use crate::far_end::{Bench, KERNEL, PacketSocket};
use crate::support::devices;

/// A namespace connected to us by one TAP.
fn bench() -> Bench {
    let netns = Netns::new().expect("namespace");
    let links = netns.settle(false).expect("settle");
    let config =
        TapConfig { queue_len: 2000, mac: Some(KERNEL), netns: Some(&netns), ..TapConfig::default() };
    let (source, sink) = Tap::open("t0", &config).expect("TAP").split();
    let socket = netns.run(|| PacketSocket::open("t0")).expect("enter").expect("packet socket");
    let (source, counters) = (Box::new(source), sink.counters());
    Bench { socket, source, sink, counters, shortest: HEADER, _held: Box::new((links, netns)) }
}

#[test]
fn a_tap_is_a_sink() {
    if devices() {
        check_sink(bench);
    }
}

#[test]
fn a_tap_is_a_source() {
    if devices() {
        check_source(bench);
    }
}
