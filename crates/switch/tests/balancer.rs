//! A balancer before members, on its own and as a port of a switch, under the suite for ports.

use std::sync::Arc;

use conformance::{Pattern, SinkBench, check_sink, drained};
use port::steer::{BUCKETS, Hash};
use port::{Frame, IngressSource, Null, Sink, ingress};
use switch::{Balancer, Config, Switch, SwitchPort};

/// Two members, of which one has the flow of the suite's frames, which are not IP.
struct Bench {
    balancer: Arc<Balancer>,
    /// Keeps what the sink is a port of.
    _switch: Option<Switch>,
    sink: Arc<dyn Sink>,
    behind: Vec<IngressSource>,
}

fn balancer() -> (Arc<Balancer>, Vec<IngressSource>) {
    let balancer = Arc::new(Balancer::new(Hash::Symmetric));
    let mut behind = Vec::new();
    for number in 0..2 {
        let (queue, source) = ingress(100).unwrap();
        assert!(balancer.add(number, &format!("core_{number}"), queue));
        behind.push(source);
    }
    let owners: Vec<Option<u16>> = (0..BUCKETS).map(|bucket| Some(u16::from(bucket % 2 == 0))).collect();
    balancer.spread(&owners);
    (balancer, behind)
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(self.behind.iter_mut().flat_map(|source| drained(source)).collect())
    }

    fn lost(&self) -> u64 {
        let counters = self.balancer.counters();
        counters.drop_full.get() + counters.drop_no_member.get()
    }
}

#[test]
fn a_balancer_by_flow() {
    check_sink(|| {
        let (balancer, behind) = balancer();
        Bench { sink: balancer.clone(), balancer, _switch: None, behind }
    });
}

#[test]
fn a_balancer_in_turn_before_one_member() {
    check_sink(|| {
        let (balancer, behind) = balancer();
        balancer.spread_in_turn(&[1]);
        Bench { sink: balancer.clone(), balancer, _switch: None, behind }
    });
}

/// A station says once where it is.
fn introduce(port: &SwitchPort, station: [u8; 6]) {
    let mut octets = [0; 60];
    octets[..6].fill(0xff);
    octets[6..12].copy_from_slice(&station);
    port.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
}

#[test]
fn a_balancer_as_a_port_of_a_switch() {
    check_sink(|| {
        let (balancer, behind) = balancer();
        let lan = Switch::new("lan", Config::default());
        let sink = Arc::new(lan.add_port("in", Arc::new(Null::new())).unwrap());
        let group = lan.add_port("core", balancer.clone()).unwrap();
        introduce(&group, Pattern::default().destination);
        Bench { balancer, _switch: Some(lan), sink, behind }
    });
}
