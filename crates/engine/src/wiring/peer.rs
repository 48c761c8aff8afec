//! A NIC whose rings are in another program's hands: nobody here moves its frames.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use ledger::Group;
use nic_port::Receiver;
use sandbox::Confinement;
use uplink::Door;
use vhost_user::frontend::{Offer, Peer, Status};

/// The peer of a NIC.
pub struct Handed {
    peer: Peer,
    /// What was said of it last.
    told: Mutex<Option<(Status, Option<String>)>>,
}

impl Handed {
    pub(super) fn new(nic: &str, door: Door, confinement: Confinement) -> Result<Arc<Self>> {
        let peer = Peer::new(nic, Arc::new(door), confinement)?;
        Ok(Arc::new(Self { peer, told: Mutex::default() }))
    }

    /// What the device model may offer, and who takes over what its driver sets up.
    pub(crate) fn terms(&self) -> (Offer, Arc<dyn Receiver>) {
        (self.peer.offer(), self.peer.receiver())
    }

    /// The process that the rings are handed to, where that is known.
    pub(super) fn process(&self) -> Option<i32> {
        self.peer.process().filter(|_| self.peer.status().0 == Status::Serving)
    }

    /// Whether a cable is plugged in.
    pub(crate) fn is_there(&self) -> bool {
        self.peer.status().0 != Status::Away
    }

    /// In one line.
    pub fn state(&self) -> String {
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

    /// What has changed since this was asked last, if something has. To be asked about ten times a second: it also takes threads of ours
    /// out of doorbells that the peer makes wait.
    pub(super) fn news(&self) -> Option<String> {
        self.peer.look_after_bells();
        let now = self.peer.status();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = told.as_ref() != Some(&now);
        // That none has come yet is no news.
        let silent = told.is_none() && now.0 == Status::Away || now.0 == Status::Idle;
        if changed {
            *told = Some(now);
        }
        (changed && !silent).then(|| self.state())
    }

    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&dyn Group)) {
        visit(self.peer.counters());
    }
}
