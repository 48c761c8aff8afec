//! A NIC at which the virtual machine of another program is plugged in: its rings are served by our I/O threads.

use std::sync::Arc;

use anyhow::Result;
use config::{FlowHash, Nic, Router};
use ledger::NicDirection;
use sandbox::Confinement;
use switch::Source;
use uplink::Door;
use vhost_user::backend::{Backend, Offer};
use vmm::NicQueues;

use super::{Outside, Plugged, Plugging};

/// Octets of an Ethernet header and a VLAN tag: what a frame may have more than the MTU.
const FRAME_OVERHEAD: u32 = 18;

/// The port of a machine of another program.
pub struct GuestPort(Backend);

impl GuestPort {
    /// Begins to meet machines at a door.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub(crate) fn new(router: &Router, nic: &Nic, door: Door, confinement: Confinement) -> Result<Arc<Self>> {
        let offer = Offer {
            pairs: nic.queues as usize,
            longest: (nic.mtu + FRAME_OVERHEAD) as usize,
            offload: nic.offload,
        };
        let name = format!("{}/{}-peer", router.name, nic.name);
        Ok(Arc::new(Self(Backend::start(&name, door, offer, confinement)?)))
    }

    /// Whether a machine is plugged in.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_up()
    }

    /// In one line.
    pub fn state(&self) -> String {
        self.0.state()
    }

    /// What has happened since this was asked last, if something has.
    pub(crate) fn news(&self) -> Option<String> {
        self.0.news()
    }

    /// The machine's rings, for who serves them.
    pub(crate) fn queues(&self) -> &Arc<NicQueues> {
        self.0.queues()
    }

    /// Frames that came from the machine, and frames that it was given.
    pub fn ledgers(&self) -> [NicDirection; 2] {
        [self.0.queues().tx_ledger(), self.0.queues().rx_ledger()]
    }
}

impl Plugging<'_> {
    /// What the machine sends comes in, and what the router sends goes to the machine. Where each pair of queues has a
    /// thread, that serves the same pair of the machine's.
    pub(super) fn guest_port(&self, port: &Arc<GuestPort>) -> Plugged {
        let (queues, threads) = (port.0.queues(), self.threads());
        queues.spread_by(self.hash());
        let sources: Vec<Box<dyn Source>> = if threads == 1 {
            vec![queues.source()]
        } else {
            (0..threads.min(queues.pairs())).map(|pair| queues.source_of(pair)).collect()
        };
        // A machine sends a flow by one queue, but where its answers come from is its own affair.
        let spread = self.nic.hash == FlowHash::Flow;
        let sink = |pair| if threads == 1 { queues.sink() } else { queues.sink_of(pair, threads) };
        (self.rx(sources, spread), self.tx(false, sink), Outside::Guest(port.clone()))
    }
}
