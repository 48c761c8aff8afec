//! A switch with two ports under the conformance suite for ports.

use std::sync::Arc;

use conformance::{Pattern, SinkBench, check_sink, drained};
use port::{Frame, IngressSink, IngressSource, Null, Sink, Source, ingress};
use switch::{Config, Switch, SwitchPort};

/// A port of a switch, and an ingress queue at the other port, which collects the frames.
struct Bench {
    lan: Switch,
    sink: SwitchPort,
    behind: IngressSource,
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(drained(&mut self.behind))
    }

    fn lost(&self) -> u64 {
        let mut lost = 0;
        self.lan.counters(&mut |_, port| lost += port.drop_full.get());
        lost
    }
}

/// Creates a bench for a path into one port of a switch and out of the other.
fn through_a_switch(known: bool) -> Bench {
    let lan = Switch::new("lan", Config::default());
    let (queue, mut behind): (Arc<IngressSink>, IngressSource) = ingress(100).unwrap();
    let sink = lan.add_port("in", Arc::new(Null::new())).unwrap();
    let out = lan.add_port("out", queue).unwrap();
    if known {
        introduce(&out, Pattern::default().destination);
        behind.drain(64, &mut |_| {});
    }
    Bench { lan, sink, behind }
}

fn introduce(port: &SwitchPort, station: [u8; 6]) {
    let mut octets = [0; 60];
    octets[..6].fill(0xff);
    octets[6..12].copy_from_slice(&station);
    port.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
}

#[test]
fn a_switch_with_two_ports() {
    check_sink(|| through_a_switch(true));
    check_sink(|| through_a_switch(false));
}
