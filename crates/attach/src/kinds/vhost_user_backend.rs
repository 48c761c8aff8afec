//! `vhost-user-backend:SOCKET`: we are the virtio-net device of another program's virtual machine, whose
//! rings our I/O threads serve.

use std::sync::Arc;

use anyhow::{Result, bail};
use port::steer::Hash;
use port::{Sink, Source};
use sandbox::Confinement;
use vhost_user::backend::{self, Backend, Offer};

use crate::socket::{self, look, open};
use crate::{
    About, Attachment, AttachmentProperties, HandedOver, Key, Kind, News, NicRequirements, Outside, Place,
    Ports, ServiceContext, Takes,
};

/// Octets of an Ethernet header and two VLAN tags, by which a frame may exceed the MTU.
const FRAME_OVERHEAD: u32 = 22;

pub(crate) const KIND: Kind = Kind {
    keys: &[
        socket::key("listen"),
        Key::new(
            "memory_max",
            Takes::Elsewhere,
            ("2M to 4T", "64G"),
            "memory that a vhost-user peer may share",
        ),
    ],
    read: |text, name| socket::read(text, name, "/run/vm.sock"),
    traits: |_| AttachmentProperties { shares_memory: true, ..AttachmentProperties::default() },
    undo: socket::undo,
    ..Kind::plain("vhost-user-backend", Some("SOCKET"), Place::Outside { look, open, serve })
};

fn serve(
    handed: HandedOver,
    wanted: &NicRequirements,
    confinement: Confinement,
) -> Result<Arc<dyn Attachment>> {
    Ok(Arc::new(meet(wanted, handed, confinement)?))
}

/// Begins to accept virtual machines of other programs, or the process of an isolated router, at a door: they
/// are offered the features of the NIC, and may share as much memory as its configuration permits.
///
/// # Errors
/// No descriptors are left, or no thread can be started.
pub fn meet(wanted: &NicRequirements, door: HandedOver, confinement: Confinement) -> Result<Backend> {
    let name = format!("{}/{}-peer", wanted.router, wanted.nic);
    let longest = (wanted.mtu + FRAME_OVERHEAD) as usize;
    let &NicRequirements { pairs, offload, memory_max, .. } = wanted;
    Backend::start(&name, socket::door(door)?, Offer { pairs, longest, offload, memory_max }, confinement)
}

impl Attachment for Backend {
    /// Frames sent by the machine are received, and frames from the router go to the machine. If each queue
    /// pair has a thread, that thread serves the same pair of the machine.
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports> {
        let (queues, threads) = (self.queues().clone(), service.threads);
        queues.spread_by(service.wanted.hash);
        let sources: Vec<Box<dyn Source>> = if threads == 1 {
            vec![queues.source()]
        } else {
            (0..threads.min(queues.pairs())).map(|pair| queues.source_of(pair)).collect()
        };
        // A machine sends a flow by one queue, but may choose any queue for the flow's answers.
        let is_spread = service.wanted.hash == Hash::Flow;
        let sink = |pair| if threads == 1 { queues.sink() } else { queues.sink_of(pair, threads) };
        let sinks: Vec<Arc<dyn Sink>> = (0..threads).map(sink).collect();
        let outside = Outside::counting(move |visit| {
            visit("guest.tx", &queues.tx_ledger());
            visit("guest.rx", &queues.rx_ledger());
        });
        Ok(Ports { sources, is_spread, sinks, outside, ..Ports::default() })
    }

    fn link(&self) -> Option<bool> {
        Some(self.is_up())
    }

    fn news(&self) -> Option<News> {
        let news = self.look_after()?;
        let process = if let backend::News::Served(process) = news { process } else { None };
        Some(News { about: About::Peer(process), line: news.to_string() })
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it has no link")
    }

    fn state(&self) -> Option<(&'static str, String)> {
        Some(("peer", Self::state(self)))
    }
}
