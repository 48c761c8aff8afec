//! `vhost-user-frontend:SOCKET`: another program is handed the NIC's rings and moves its frames; we do not.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use nic_port::Receiver;
use sandbox::Confinement;
use vhost_user::frontend::{Peer, PeerCounters, Status};

use crate::socket::{self, look, open};
use crate::{
    About, Attachment, AttachmentProperties, HandedOver, Kind, News, NicRequirements, Outside, Place, Ports,
    ServiceContext,
};

pub(crate) const KIND: Kind = Kind {
    keys: &[socket::key("connect")],
    read: |text, name| socket::read(text, name, "/run/ovs.sock"),
    traits: |_| AttachmentProperties { is_handed: true, ..AttachmentProperties::default() },
    undo: socket::undo,
    counts: &[("vhost_user_peer", PeerCounters::FIELDS)],
    ..Kind::plain("vhost-user-frontend", Some("SOCKET"), Place::Outside { look, open, serve })
};

fn serve(
    handed: HandedOver,
    wanted: &NicRequirements,
    confinement: Confinement,
) -> Result<Arc<dyn Attachment>> {
    let peer = Peer::new(&wanted.label(), Arc::new(socket::door(handed)?), confinement)?;
    Ok(Arc::new(Consumer { peer: Arc::new(peer), told: Mutex::default() }))
}

/// The peer of a NIC, which consumes its rings.
struct Consumer {
    peer: Arc<Peer>,
    /// The status that was last reported.
    told: Mutex<Option<(Status, Option<String>)>>,
}

impl Consumer {
    /// Describes the status in one line.
    fn line(&self) -> String {
        let path = self.peer.path().display();
        match self.peer.status() {
            (Status::Away, Some(why)) => format!("no peer at {path}: {why}; it is tried again"),
            (Status::Away, None) => format!("no peer at {path} yet"),
            (Status::Idle, _) => format!("a peer is at {path}, and waits for the driver"),
            (Status::Serving, _) => {
                format!("handed to {path}; the peer moves and counts the frames, nobody here sees them")
            }
        }
    }
}

impl Attachment for Consumer {
    fn ports(&self, _: &ServiceContext<'_>) -> Result<Ports> {
        let peer = self.peer.clone();
        let outside = Outside::counting(move |visit| visit("peer", peer.counters()));
        Ok(Ports { outside, ..Ports::default() })
    }

    fn link(&self) -> Option<bool> {
        Some(self.peer.is_there())
    }

    /// Also releases our threads that are blocked in doorbells of the peer.
    fn news(&self) -> Option<News> {
        self.peer.interrupt_blocked_writers();
        let now = self.peer.status();
        let is_serving = now.0 == Status::Serving;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // It is not reported that no peer has connected yet.
        let silent = told.is_none() && now.0 == Status::Away || now.0 == Status::Idle;
        if told.as_ref() == Some(&now) {
            return None;
        }
        *told = Some(now);
        let process = self.peer.process().filter(|_| is_serving);
        (!silent).then(|| News { about: About::Peer(process), line: self.line() })
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it has no link")
    }

    fn state(&self) -> Option<(&'static str, String)> {
        Some(("peer", self.line()))
    }

    fn consumer(&self) -> Option<(u64, Arc<dyn Receiver>)> {
        Some((self.peer.offer().features, self.peer.receiver()))
    }
}
