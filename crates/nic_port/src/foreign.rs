//! Queues whose driver is in a virtual machine of another program, which has told where its rings lie (vhost-user).
//!
//! Its doorbells are descriptors of its own, which come and go with it. So the thread that serves a queue sleeps on a
//! descriptor of ours that watches the one of the moment. It is watched for edges: then nothing has to be read from it,
//! and whatever it may really be, no read of it can block.
//!
//! What we ring for its driver is the driver's as well, and may make a write wait (the module `ringing`). Frames are moved and
//! rung for by one thread, and whoever else rings does so without the queue's lock.
//!
//! Its memory must outlive its queues: who called [`NicQueues::serve_receive`] keeps it until
//! [`NicQueues::leave_receive`] has come back. Frames are copied under the queue's lock here, so nobody is left in the middle
//! of one.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use nic::queue::{RxQueue, TxQueue};
use ring::hand_over::HandOver;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::breakage::Breakable;
use super::ringing::Ringing;
use super::{Design, NicQueues, Notifier, Ringer, Running, Served};

/// Watches the doorbell of the moment.
pub(super) struct Watch {
    any: Epoll,
    doorbell: Mutex<Option<OwnedFd>>,
}

/// What [`EpollEvent`]s of the driver's doorbell carry; those of our own carry 0.
const DOORBELL: u64 = 1;

impl Watch {
    /// Watches no doorbell yet, but what is rung by ourselves.
    pub(super) fn new(own: &impl std::os::fd::AsRawFd) -> Result<Self> {
        let any = Epoll::new().context("cannot make an epoll descriptor")?;
        any.ctl(ControlOperation::Add, own.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))
            .context("cannot watch an event descriptor (epoll_ctl)")?;
        Ok(Self { any, doorbell: Mutex::default() })
    }

    /// What rings.
    pub(super) const fn any(&self) -> &Epoll {
        &self.any
    }

    /// Watches this doorbell from now on, and no other.
    fn replace(&self, doorbell: Option<OwnedFd>) -> Result<()> {
        let mut place = self.doorbell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = place.take() {
            // Closing it would not do: its owner has it too.
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

    /// Takes note of what rang; how often the driver's doorbell did.
    pub(super) fn hush(&self) -> u64 {
        let mut events = [EpollEvent::default(); 2];
        let count = self.any.wait(0, &mut events).unwrap_or(0);
        events.iter().take(count).filter(|event| event.data() == DOORBELL).count() as u64
    }
}

fn raw(fd: &OwnedFd) -> std::os::fd::RawFd {
    std::os::fd::AsRawFd::as_raw_fd(fd)
}

/// The descriptors of a ring of another program's.
#[derive(Debug)]
pub struct Bells {
    /// What the driver rings when there is something for us.
    pub doorbell: OwnedFd,
    /// What we ring when there is something for the driver; none where it polls.
    pub call: Option<OwnedFd>,
}

/// What rings for a driver elsewhere, for the thread that serves its queue.
pub struct Call {
    pub(super) bell: Arc<File>,
    pub(super) ringing: Arc<Ringing>,
}

impl Call {
    pub(super) fn ring(&self) {
        self.ringing.ring(&self.bell);
    }
}

/// Threads that ring for the other side of one queue: the driver elsewhere, or the peer that was handed the queue ([`super::handed`]).
#[derive(Default)]
pub(super) struct Ringers {
    /// The thread that moves frames; vCPUs, whose kicks came by register accesses.
    server: Arc<Ringing>,
    /// The thread that speaks with the other side's program.
    pub(super) speaker: Ringing,
    /// What vCPUs want to be rung.
    pub(super) kicks: HandOver<AtomicU32>,
}

impl Ringers {
    /// What is known of the thread that moves frames, and of vCPUs.
    pub(super) fn server(&self) -> Arc<Ringing> {
        self.server.clone()
    }

    fn both(&self) -> [&Ringing; 2] {
        [&self.server, &self.speaker]
    }
}

impl NicQueues {
    /// Queues for a driver elsewhere; none runs yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn foreign(pairs: usize) -> Result<Arc<Self>> {
        Self::new(Design { pairs, foreign: true, ..Design::default() })
    }

    /// Serves this receive queue from now on.
    ///
    /// # Errors
    /// There is no such pair, or the doorbell cannot be waited for.
    pub fn serve_receive(&self, pair: usize, queue: RxQueue, bells: Bells) -> Result<()> {
        let served = self.rx.queues.get(pair).context("no such pair of queues")?;
        let takes = queue.offloads();
        served.serve(queue, bells, RxQueue::disarm)?;
        self.pairs.takes.store(takes.bits(), Ordering::Release);
        Ok(())
    }

    /// Serves this transmit queue from now on.
    ///
    /// # Errors
    /// There is no such pair, or the doorbell cannot be waited for.
    pub fn serve_transmit(&self, pair: usize, queue: TxQueue, bells: Bells) -> Result<()> {
        let served = self.tx.queues.get(pair).context("no such pair of queues")?;
        served.serve(queue, bells, TxQueue::disarm)
    }

    /// Serves this receive queue no longer, and returns it; nobody touches its ring after this.
    pub fn leave_receive(&self, pair: usize) -> Option<RxQueue> {
        self.rx.queues.get(pair)?.leave()
    }

    /// Serves this transmit queue no longer, and returns it; nobody touches its ring after this.
    pub fn leave_transmit(&self, pair: usize) -> Option<TxQueue> {
        self.tx.queues.get(pair)?.leave()
    }

    /// A receive queue that runs is to ring this from now on, and does so once: what was rung before may have been nothing.
    pub fn call_receive(&self, pair: usize, call: Option<OwnedFd>) {
        if let Some(served) = self.rx.queues.get(pair) {
            served.call_by(call);
        }
    }

    /// A transmit queue that runs is to ring this from now on, and does so once: what was rung before may have been nothing.
    pub fn call_transmit(&self, pair: usize, call: Option<OwnedFd>) {
        if let Some(served) = self.tx.queues.get(pair) {
            served.call_by(call);
        }
    }

    /// The driver is gone: nothing that it has changed lasts.
    pub fn forget_driver(&self) {
        for pair in 0..self.pairs() {
            self.leave_transmit(pair);
            self.leave_receive(pair);
        }
        self.stop();
        // Nobody is in a call of its any more: the servers had the queues, and the speaker is here.
        self.forget_waits();
    }

    /// What is rung belongs to somebody else from now on.
    pub(super) fn forget_waits(&self) {
        self.ringing().for_each(Ringing::forget);
        self.waits.forget();
    }
}

/// What control does for queues whose driver is elsewhere, or that somebody else serves: without a lock, and waiting for nobody.
impl NicQueues {
    /// Looks whether threads of ours are kept from going on by what they ring for the other side, and takes them out if looks have found
    /// them there for too long lately (the module `ringing`). To be called about ten times a second by whoever looks after the port, and
    /// by others whenever they like.
    pub fn look_after_bells(&self) {
        let now = Duration::from_nanos(self.pairs.clock.now());
        self.waits.look(now, self.ringing());
    }

    /// Whether the other side's program kept one of our threads waiting. It is rung no more.
    pub fn is_deaf(&self) -> bool {
        self.ringing().any(Ringing::is_deaf)
    }

    /// All that is known of threads that ring for the other side.
    pub(super) fn ringing(&self) -> impl Iterator<Item = &Ringing> + Clone {
        let receive = self.rx.queues.iter().map(|served| &served.ringers);
        receive.chain(self.tx.queues.iter().map(|served| &served.ringers)).flat_map(Ringers::both)
    }
}

impl<Q: Breakable> Served<Q> {
    /// The driver is told at once: who served its ring before may have died between returning buffers and saying so, and a
    /// driver that waits for that asks for nothing else.
    fn serve(&self, mut queue: Q, bells: Bells, disarm: impl FnOnce(&mut Q)) -> Result<()> {
        let watch = self.watch.as_ref().context("these queues have their driver here")?;
        watch.replace(Some(bells.doorbell))?;
        disarm(&mut queue);
        let bell = bells.call.map(|call| Arc::new(File::from(call)));
        self.replace(Some(Running { queue, notifier: self.calling(bell.clone()) }));
        // Whoever sleeps has not seen what is there already.
        self.ring(Ringer::Device);
        self.tell(bell);
        Ok(())
    }

    fn leave(&self) -> Option<Q> {
        let running = self.replace(None);
        if let Some(watch) = &self.watch {
            // It cannot fail: nothing is added.
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
        Notifier::Call(bell.map(|bell| Call { bell, ringing: self.ringers.server() }))
    }

    fn tell(&self, bell: Option<Arc<File>>) {
        if let Some(bell) = bell {
            self.ringers.speaker.ring(&bell);
        }
    }
}
