//! Queues whose driver is in a virtual machine of another program, which has shared its rings (vhost-user).
//!
//! The doorbells are the driver's own descriptors, which come and go with it. So the thread that serves a queue sleeps
//! on a descriptor of ours that watches the current doorbell. It is watched edge-triggered: then the doorbell need not
//! be read, and whatever kind of file it is, no read of it can block.
//!
//! The descriptor that we ring for the driver is shared with the driver, which may make a write block (module
//! `ringing`). One thread moves frames and rings for them; all other threads ring without holding the queue's lock.
//!
//! The driver's memory must outlive its queues: the caller of [`NicQueues::serve_receive`] keeps it until
//! [`NicQueues::leave_receive`] has returned. Frames are copied under the queue's lock here, so no thread is still
//! copying a frame then.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use nic::queue::{RxQueue, TxQueue};
use ring::hand_over::HandOver;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::guarded_doorbell::GuardedDoorbell;
use super::published_error::Breakable;
use super::{NicQueues, NicQueuesConfig, Notifier, QueueSlot, Ringer, Running};

/// Watches the current doorbell.
pub(super) struct Watch {
    any: Epoll,
    doorbell: Mutex<Option<OwnedFd>>,
}

/// Bit of [`NicQueues::diversion`]: the frames of at least one transmit queue are lost.
pub(super) const DISCARDING: u8 = 4;

/// Data of [`EpollEvent`]s of the driver's doorbell; those of our own descriptor carry 0.
const DOORBELL: u64 = 1;

impl Watch {
    /// Creates a watch of our own event descriptor, without a doorbell.
    pub(super) fn new(own: &impl std::os::fd::AsRawFd) -> Result<Self> {
        let any = Epoll::new().context("cannot make an epoll descriptor")?;
        any.ctl(ControlOperation::Add, own.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))
            .context("cannot watch an event descriptor (epoll_ctl)")?;
        Ok(Self { any, doorbell: Mutex::default() })
    }

    /// Returns the descriptor that becomes readable when one of the watched descriptors rings.
    pub(super) const fn any(&self) -> &Epoll {
        &self.any
    }

    /// Watches this doorbell from now on, and no other.
    fn replace(&self, doorbell: Option<OwnedFd>) -> Result<()> {
        let mut place = self.doorbell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = place.take() {
            // Closing it would not suffice: its owner has it open too.
            let _ = self.any.ctl(ControlOperation::Delete, raw(&old), EpollEvent::default());
        }
        if let Some(new) = &doorbell {
            let event = EpollEvent::new(EventSet::IN | EventSet::EDGE_TRIGGERED, DOORBELL);
            self.any
                .ctl(ControlOperation::Add, raw(new), event)
                .context("the doorbell is no descriptor that can be waited for")?;
        }
        *place = doorbell;
        Ok(())
    }

    /// Collects pending events; returns how often the driver's doorbell rang.
    pub(super) fn take_events(&self) -> u64 {
        let mut events = [EpollEvent::default(); 2];
        let count = self.any.wait(0, &mut events).unwrap_or(0);
        events.iter().take(count).filter(|event| event.data() == DOORBELL).count() as u64
    }
}

fn raw(fd: &OwnedFd) -> std::os::fd::RawFd {
    std::os::fd::AsRawFd::as_raw_fd(fd)
}

/// Descriptors of a ring that belongs to another program.
#[derive(Debug)]
pub struct RingEventfds {
    /// Doorbell, which the driver rings for us.
    pub doorbell: OwnedFd,
    /// Call descriptor, which we ring for the driver; none if the driver polls.
    pub call: Option<OwnedFd>,
}

/// Interrupts a driver in another program, on behalf of the thread that serves its queue.
pub struct Call {
    pub(super) bell: Arc<File>,
    pub(super) ringing: Arc<GuardedDoorbell>,
}

impl Call {
    pub(super) fn ring(&self) {
        self.ringing.ring(&self.bell);
    }
}

/// Threads that ring for the other side of one queue: the driver in another program, or the peer that was handed the
/// queue ([`super::exported`]).
#[derive(Default)]
pub(super) struct WriterStates {
    /// The thread that moves frames, or a vCPU whose kick was a register access.
    server: Arc<GuardedDoorbell>,
    /// The thread that communicates with the other side's program.
    pub(super) peer_thread: GuardedDoorbell,
    /// Kicks requested by vCPUs.
    pub(super) kicks: HandOver<AtomicU32>,
}

impl WriterStates {
    /// Returns the state shared by the thread that moves frames and vCPUs.
    pub(super) fn server(&self) -> Arc<GuardedDoorbell> {
        self.server.clone()
    }

    fn both(&self) -> [&GuardedDoorbell; 2] {
        [&self.server, &self.peer_thread]
    }
}

impl NicQueues {
    /// Creates queues for a driver in another program; none of them runs yet.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn foreign(pairs: usize) -> Result<Arc<Self>> {
        Self::new(NicQueuesConfig { pairs, foreign: true, ..NicQueuesConfig::default() })
    }

    /// Starts serving this receive queue.
    ///
    /// # Errors
    /// There is no such pair, or the doorbell cannot be polled.
    pub fn serve_receive(&self, pair: usize, queue: RxQueue, eventfds: RingEventfds) -> Result<()> {
        let served = self.rx.queues.get(pair).context("no such pair of queues")?;
        let takes = queue.offloads();
        served.serve(queue, eventfds, RxQueue::disarm)?;
        self.pairs.takes.store(takes.bits(), Ordering::Release);
        Ok(())
    }

    /// Starts serving this transmit queue.
    ///
    /// # Errors
    /// There is no such pair, or the doorbell cannot be polled.
    pub fn serve_transmit(&self, pair: usize, queue: TxQueue, eventfds: RingEventfds) -> Result<()> {
        let served = self.tx.queues.get(pair).context("no such pair of queues")?;
        // A source of all pairs takes its frames whether or not the driver receives by this pair.
        self.pairs.served.fetch_max(pair + 1, Ordering::AcqRel);
        served.serve(queue, eventfds, TxQueue::disarm)
    }

    /// Sets whether the frames of a transmit queue are lost (counted as `drop_not_running`) until it is left: a disabled
    /// ring, whose driver still waits for its buffers. A burst that is being taken at this moment may still go out.
    pub fn discard_transmit(&self, pair: usize, on: bool) {
        if let Some(served) = self.tx.queues.get(pair) {
            served.discards.store(on, Ordering::Relaxed);
        }
        let some = self.tx.queues.iter().any(|served| served.discards.load(Ordering::Relaxed));
        self.set_aside(DISCARDING, some);
    }

    /// Stops serving this receive queue, and returns it; no thread accesses its ring afterwards.
    pub fn leave_receive(&self, pair: usize) -> Option<RxQueue> {
        self.rx.queues.get(pair)?.leave()
    }

    /// Stops serving this transmit queue, and returns it; no thread accesses its ring afterwards.
    pub fn leave_transmit(&self, pair: usize) -> Option<TxQueue> {
        let queue = self.tx.queues.get(pair)?.leave();
        self.discard_transmit(pair, false);
        queue
    }

    /// Sets the call descriptor of a running receive queue, and rings it once, because earlier interrupts may have been
    /// lost.
    pub fn call_receive(&self, pair: usize, call: Option<OwnedFd>) {
        if let Some(served) = self.rx.queues.get(pair) {
            served.call_by(call);
        }
    }

    /// Sets the call descriptor of a running transmit queue, and rings it once, because earlier interrupts may have
    /// been lost.
    pub fn call_transmit(&self, pair: usize, call: Option<OwnedFd>) {
        if let Some(served) = self.tx.queues.get(pair) {
            served.call_by(call);
        }
    }

    /// Handles the end of the driver: undoes everything that it has changed.
    pub fn forget_driver(&self) {
        for pair in 0..self.pairs() {
            self.leave_transmit(pair);
            self.leave_receive(pair);
        }
        self.stop();
        // No thread can be in a call of this driver any more: the servers had the queues, and the speaker is the
        // caller.
        self.forget_waits();
    }

    /// Forgets blocked writes, because the descriptors that are rung have another owner from now on.
    pub(super) fn forget_waits(&self) {
        self.ringing().for_each(GuardedDoorbell::forget);
        self.waits.forget();
    }
}

/// Supervision of queues whose driver, or whose server, is in another program: without a lock, and without waiting.
impl NicQueues {
    /// Checks whether threads of ours are blocked in writes that ring for the other side, and interrupts them if checks
    /// have found them blocked for too long lately (module `guarded_doorbell`). The thread that looks after the port calls this
    /// about ten times a second; others may call it at any time.
    pub fn interrupt_blocked_writers(&self) {
        let now = Duration::from_nanos(self.pairs.clock.now());
        self.waits.look(now, self.ringing());
    }

    /// Returns true if the other side's program has blocked one of our threads. Its descriptor is not rung any more.
    pub fn has_blocked_us(&self) -> bool {
        self.ringing().any(GuardedDoorbell::has_blocked_us)
    }

    /// Returns the states of all threads that ring for the other side.
    pub(super) fn ringing(&self) -> impl Iterator<Item = &GuardedDoorbell> + Clone {
        let receive = self.rx.queues.iter().map(|served| &served.writers);
        receive.chain(self.tx.queues.iter().map(|served| &served.writers)).flat_map(WriterStates::both)
    }
}

impl<Q: Breakable> QueueSlot<Q> {
    /// Starts serving a queue, and interrupts the driver at once: the previous server may have died between returning
    /// buffers and interrupting for them, and a driver that waits for that interrupt sends no other request.
    fn serve(&self, mut queue: Q, eventfds: RingEventfds, disarm: impl FnOnce(&mut Q)) -> Result<()> {
        let watch = self.watch.as_ref().context("these queues have their driver here")?;
        watch.replace(Some(eventfds.doorbell))?;
        disarm(&mut queue);
        let bell = eventfds.call.map(|call| Arc::new(File::from(call)));
        self.replace(Some(Running { queue, notifier: self.calling(bell.clone()) }));
        // A sleeping server has not seen what the ring already holds.
        self.ring(Ringer::Device);
        self.tell(bell);
        Ok(())
    }

    fn leave(&self) -> Option<Q> {
        let running = self.replace(None);
        if let Some(watch) = &self.watch {
            // Removal cannot fail: nothing is added.
            let _ = watch.replace(None);
        }
        running.map(|running| running.queue)
    }

    fn call_by(&self, call: Option<OwnedFd>) {
        let bell = call.map(|call| Arc::new(File::from(call)));
        let runs = self.with(|running| running.notifier = self.calling(bell.clone()));
        self.tell(bell.filter(|_| runs.is_some()));
    }

    fn calling(&self, bell: Option<Arc<File>>) -> Notifier {
        Notifier::Call(bell.map(|bell| Call { bell, ringing: self.writers.server() }))
    }

    fn tell(&self, bell: Option<Arc<File>>) {
        if let Some(bell) = bell {
            self.writers.peer_thread.ring(&bell);
        }
    }
}
