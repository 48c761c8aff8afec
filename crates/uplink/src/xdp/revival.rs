//! Replacement of a deleted interface by a new one: the new queues are handed to the threads that serve the
//! old ones.
//!
//! Sinks are switched at once. The queues of a source belong to its thread alone, so new ones are put into a
//! hand-over slot, and the thread takes them when the old ones are empty.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::device::{Device, XdpHealth};
use super::source::{ReceiveQueues, Receiver};
use super::{Xdp, XdpSink};
use crate::Error;

/// Hand-over slot for the next queues of a source.
pub(super) struct QueueHandover {
    laid: AtomicBool,
    next: Mutex<Option<ReceiveQueues>>,
    /// Signalled when the slot is filled.
    bell: OwnedFd,
}

impl QueueHandover {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { laid: AtomicBool::new(false), next: Mutex::new(None), bell }))
    }

    fn lay(&self, hand: ReceiveQueues) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let before = next.replace(hand);
        self.laid.store(true, Ordering::Release);
        // A full counter means that it is signalled already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        drop(next);
        drop(before);
    }

    /// Returns true if the slot is filled.
    #[inline]
    pub(super) fn is_laid(&self) -> bool {
        self.laid.load(Ordering::Acquire)
    }

    /// Takes the queues from the slot, if there are any.
    #[inline]
    pub(super) fn take(&self) -> Option<ReceiveQueues> {
        if !self.is_laid() {
            return None;
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.laid.store(false, Ordering::Release);
        next.take()
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// The parts to be replaced when an interface was deleted and created again.
pub struct XdpReplacer {
    pub(super) desks: Vec<Arc<QueueHandover>>,
    pub(super) sinks: Vec<Arc<XdpSink>>,
    pub(super) health: Arc<XdpHealth>,
}

impl XdpReplacer {
    /// Replaces the old queues by those of a newly opened interface, whose number may differ: each is served
    /// by one of the threads that served the old ones.
    ///
    /// # Errors
    /// The rings cannot be mapped; then nothing has changed.
    pub fn replace(&self, by: &Xdp) -> Result<(), Error> {
        let failed = |e| Error::system(format!("mapping the rings of `{}`", by.name()), e);
        let device = Device::named(by.name());
        let (queues, receivers) = by.map_queues(&device).map_err(failed)?;
        let hands = deal(receivers, &self.desks).map_err(failed)?;
        let senders = queues.iter().take(by.parts.transmit).cycle();
        for (sink, queue) in self.sinks.iter().zip(senders) {
            sink.serve(queue.clone());
        }
        self.health.watch(device, queues);
        for (handover, hand) in self.desks.iter().zip(hands) {
            handover.lay(hand);
        }
        Ok(())
    }
}

/// Distributes queues over the sources of these slots.
pub(super) fn deal(receivers: Vec<Receiver>, desks: &[Arc<QueueHandover>]) -> io::Result<Vec<ReceiveQueues>> {
    let mut hands: Vec<Vec<Receiver>> = Vec::new();
    hands.resize_with(desks.len(), Vec::new);
    for (number, receiver) in receivers.into_iter().enumerate() {
        if let Some(hand) = hands.get_mut(number % desks.len().max(1)) {
            hand.push(receiver);
        }
    }
    hands
        .into_iter()
        .zip(desks)
        .map(|(receivers, handover)| ReceiveQueues::new(receivers, handover))
        .collect()
}
