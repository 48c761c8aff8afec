//! A plain Linux router with FRR, in a namespace of the test.

use std::fs::File;

use lab::plain_frr::PlainFrr;
use support::Namespace;

/// FRR that runs until it is dropped. What it says is printed.
pub(super) struct Plain {
    _frr: PlainFrr,
}

impl Plain {
    /// Starts FRR with this configuration. The kernel of the namespace forwards.
    pub(super) fn start(host: &Namespace, text: &str) -> Self {
        host.set("net.ipv4.ip_forward", "1").expect("a parameter");
        let network = File::open(format!("/run/netns/{}", host.name())).expect("a namespace");
        let told = |line| println!("plain: {line}");
        let frr = PlainFrr::start(network.into(), text, frr::Options::default(), told);
        Self { _frr: frr.expect("FRR") }
    }
}
