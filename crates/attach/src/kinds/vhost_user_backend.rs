//! `vhost-user-backend:SOCKET`: another program's virtual machine, whose virtio-net device we are: its rings are served by our I/O
//! threads.

use std::sync::Arc;

use anyhow::{Result, bail};
use ledger::NicDirection;
use nic_port::NicQueues;
use port::steer::Hash;
use port::{Sink, Source};
use sandbox::Confinement;
use uplink::Door;
use vhost_user::backend::{self, Backend, Offer};

use crate::socket::{self, look, open};
use crate::{About, Attachment, Handed, Key, Kind, News, Outside, Place, Ports, Site, Takes, Traits, Wanted};

/// Octets of an Ethernet header and a VLAN tag: what a frame may have more than the MTU.
const FRAME_OVERHEAD: u32 = 18;

pub(crate) const KIND: Kind = Kind {
    keys: &[
        Key::word(socket::KEY, socket::SIDES, "listen"),
        Key { takes: Takes::Elsewhere, ..Key::text("memory_max", "\"64G\"") },
    ],
    read: |text, name| socket::read(text, name, "/run/vm.sock"),
    traits: |_| Traits { shares_memory: true, ..Traits::default() },
    undo: socket::undo,
    ..Kind::plain("vhost-user-backend", Some("SOCKET"), Place::Outside { look, open, serve })
};

fn serve(handed: Handed, wanted: &Wanted, confinement: Confinement) -> Result<Arc<dyn Attachment>> {
    Ok(Arc::new(GuestPort::new(wanted, socket::door(handed)?, confinement)?))
}

/// The port of a machine of another program, or of the process of a router that is apart.
pub struct GuestPort {
    machine: Backend,
}

impl GuestPort {
    /// Begins to meet machines at a door, which are offered what the NIC is to offer, and share as much memory as it wants.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn new(wanted: &Wanted, door: Door, confinement: Confinement) -> Result<Self> {
        let name = format!("{}/{}-peer", wanted.router, wanted.nic);
        Ok(Self { machine: Backend::start(&name, door, offer(wanted), confinement)? })
    }

    /// The machine's rings, for who serves them.
    pub fn queues(&self) -> &Arc<NicQueues> {
        self.machine.queues()
    }

    /// What has happened since this was asked last, if something has; to be asked about ten times a second.
    pub fn look_after(&self) -> Option<backend::News> {
        self.machine.look_after()
    }

    /// Frames that came from the machine, and frames that it was given.
    pub fn ledgers(&self) -> [NicDirection; 2] {
        [self.queues().tx_ledger(), self.queues().rx_ledger()]
    }
}

/// What the machine at a NIC is offered.
fn offer(wanted: &Wanted) -> Offer {
    let longest = (wanted.mtu + FRAME_OVERHEAD) as usize;
    Offer { pairs: wanted.pairs, longest, offload: wanted.offload, memory_max: wanted.memory_max }
}

impl Attachment for GuestPort {
    /// What the machine sends comes in, and what the router sends goes to the machine. Where each pair of queues has a
    /// thread, that serves the same pair of the machine's.
    fn ports(&self, site: &Site<'_>) -> Result<Ports> {
        let (queues, threads) = (self.queues().clone(), site.threads);
        queues.spread_by(site.wanted.hash);
        let sources: Vec<Box<dyn Source>> = if threads == 1 {
            vec![queues.source()]
        } else {
            (0..threads.min(queues.pairs())).map(|pair| queues.source_of(pair)).collect()
        };
        // A machine sends a flow by one queue, but where its answers come from is its own affair.
        let is_spread = site.wanted.hash == Hash::Flow;
        let sink = |pair| if threads == 1 { queues.sink() } else { queues.sink_of(pair, threads) };
        let sinks: Vec<Arc<dyn Sink>> = (0..threads).map(sink).collect();
        let outside = Outside::counting(move |visit| {
            visit("guest.tx", &queues.tx_ledger());
            visit("guest.rx", &queues.rx_ledger());
        });
        Ok(Ports { sources, is_spread, sinks, outside, ..Ports::none() })
    }

    fn link(&self) -> Option<bool> {
        Some(self.machine.is_up())
    }

    fn news(&self) -> Option<News> {
        let news = self.look_after()?;
        let process = if let backend::News::Served(process) = news { process } else { None };
        Some(News { about: About::Peer(process), line: news.to_string() })
    }

    fn replace(&self, _: Handed) -> Result<()> {
        bail!("it has no link")
    }

    fn state(&self) -> Option<(&'static str, String)> {
        Some(("peer", self.machine.state()))
    }
}
