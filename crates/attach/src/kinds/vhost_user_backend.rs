//! `vhost-user-backend:SOCKET`: another program's virtual machine, whose virtio-net device we are: its rings are served by our I/O
//! threads.

use std::sync::Arc;

use anyhow::{Result, bail};
use port::steer::Hash;
use port::{Sink, Source};
use sandbox::Confinement;
use vhost_user::backend::{self, Backend, Offer};

use crate::socket::{self, look, open};
use crate::{About, Attachment, Handed, Key, Kind, News, Outside, Place, Ports, Site, Takes, Traits, Wanted};

/// Octets of an Ethernet header and a VLAN tag: what a frame may have more than the MTU.
const FRAME_OVERHEAD: u32 = 18;

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
    traits: |_| Traits { shares_memory: true, ..Traits::default() },
    undo: socket::undo,
    ..Kind::plain("vhost-user-backend", Some("SOCKET"), Place::Outside { look, open, serve })
};

fn serve(handed: Handed, wanted: &Wanted, confinement: Confinement) -> Result<Arc<dyn Attachment>> {
    Ok(Arc::new(meet(wanted, handed, confinement)?))
}

/// Begins to meet machines of another program, or the process of a router that is apart, at a door: they are offered what the NIC is
/// to offer, and share as much memory as it wants.
///
/// # Errors
/// No descriptors or threads are left.
pub fn meet(wanted: &Wanted, door: Handed, confinement: Confinement) -> Result<Backend> {
    let name = format!("{}/{}-peer", wanted.router, wanted.nic);
    let longest = (wanted.mtu + FRAME_OVERHEAD) as usize;
    let &Wanted { pairs, offload, memory_max, .. } = wanted;
    Backend::start(&name, socket::door(door)?, Offer { pairs, longest, offload, memory_max }, confinement)
}

impl Attachment for Backend {
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

    fn replace(&self, _: Handed) -> Result<()> {
        bail!("it has no link")
    }

    fn state(&self) -> Option<(&'static str, String)> {
        Some(("peer", Self::state(self)))
    }
}
