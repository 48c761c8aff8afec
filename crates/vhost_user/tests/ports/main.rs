//! Rings that a driver and its device have in two programs, under the suite that every port passes: a peer's that we
//! serve, and our own that we hand to a peer.

mod backend;
mod driver;
mod frontend;
mod kicks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::Counter;
use nic::virtio_net::features;
use nic_port::NicQueues;
use port::{Sink, Source};

/// Nothing takes so long, even where the host is busy. Each wait ends with what it waits for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of the longest frame, without FCS.
const LONGEST: usize = 1518;

/// What drivers settle on beside virtio 1.0: as little as possible, what ours do, and what leaves checksums and the cutting
/// of large frames to the other side.
const CHOICES: [u64; 5] = [
    0,
    features::MRG_RXBUF,
    features::MRG_RXBUF | features::EVENT_IDX,
    features::MRG_RXBUF | features::EVENT_IDX | features::IN_ORDER,
    features::MRG_RXBUF | OFFLOADS,
];
const OFFLOADS: u64 = features::CSUM | features::HOST_TSO4 | features::GUEST_CSUM | features::GUEST_TSO4;

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Where frames for a driver go and come from, in the program that serves its rings.
struct Port {
    queues: Arc<NicQueues>,
    sink: Arc<dyn Sink>,
    source: Box<dyn Source>,
}

impl Port {
    /// Of queues that are served: what was rung when that began is not for the suite.
    fn of(queues: &Arc<NicQueues>) -> Self {
        let (sink, mut source) = (queues.sink(), queues.source());
        sink.disarm();
        source.disarm();
        Self { queues: queues.clone(), sink, source }
    }

    fn lost(&self) -> u64 {
        let ledger = self.queues.rx_ledger();
        let lost = [
            &ledger.drop_no_buffer,
            &ledger.drop_too_long,
            &ledger.drop_not_running,
            &ledger.drop_bad_ring,
            &ledger.drop_bad_offload,
        ];
        lost.map(Counter::get).iter().sum()
    }
}
