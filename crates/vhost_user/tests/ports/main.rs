//! Rings shared between a driver and a device in two programs, in the conformance suite that every port
//! passes: those of a peer that we serve, and our own that we hand to a peer.

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

/// Time limit of every wait, even on a busy host. Each wait ends as soon as its condition holds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of the longest frame, without FCS.
const LONGEST: usize = 1518;

/// Features that drivers negotiate in addition to virtio 1.0: the minimum, those of our driver, and those
/// that leave checksum and segmentation to the other side.
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

/// Source and sink of a driver's frames, in the program that serves its rings.
struct Port {
    queues: Arc<NicQueues>,
    sink: Arc<dyn Sink>,
    source: Box<dyn Source>,
}

impl Port {
    /// Creates a port of served queues, and discards the notifications sent at the start.
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
