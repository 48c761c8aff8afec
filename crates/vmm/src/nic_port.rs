//! A NIC of a guest as a port of the host: its receive queues are a sink, its transmit queues a source.
//!
//! The queues come and go with the driver (DRIVER_OK, reset), in the thread of the vCPU that wrote the register. So
//! each sits in a mutex that the serving thread takes once a burst: after a reset has taken the queue out, nobody
//! touches the guest's rings any more.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use ledger::NicDirection;
use nic::virtio_net::rx::{Lease, RxQueue};
use nic::virtio_net::tx::TxQueue;
use ring::BURST;
use switch::{Bell, Frame, Sink, Source};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::irq::IrqLine;
use crate::steer;

/// Pairs that a driver uses until it asks for more (virtio 1.2, section 5.1.6.5.5).
const ONE: usize = 1;

/// A queue that runs, and the line by which it interrupts.
pub(crate) struct Running<Q> {
    pub(crate) queue: Q,
    pub(crate) line: Option<Arc<IrqLine>>,
}

type Place<Q> = Mutex<Option<Running<Q>>>;

/// One direction of a NIC: the queues of all pairs.
pub(crate) struct Direction<Q> {
    pub(crate) queues: Vec<Place<Q>>,
    /// Rung by the doorbells of all its queues.
    pub(crate) kick: EventFd,
    pub(crate) ledger: NicDirection,
}

impl<Q> Direction<Q> {
    fn new(pairs: usize) -> Result<Self> {
        let kick = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")?;
        let queues = (0..pairs).map(|_| Mutex::new(None)).collect();
        Ok(Self { queues, kick, ledger: NicDirection::default() })
    }

    /// The queue of a pair, if there is such a pair.
    pub(crate) fn lock(&self, pair: usize) -> Option<MutexGuard<'_, Option<Running<Q>>>> {
        Some(self.queues.get(pair)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn silence(&self) {
        if let Ok(kicks) = self.kick.read() {
            self.ledger.kicks.add(kicks);
        }
    }

    fn each(&self, mut act: impl FnMut(&mut Running<Q>) -> bool) -> bool {
        (0..self.queues.len())
            .filter_map(|pair| self.lock(pair))
            .fold(false, |any, mut place| place.as_mut().is_some_and(&mut act) | any)
    }
}

/// The queues of a NIC, between the device model and the threads that serve it.
pub struct NicQueues {
    pub(crate) rx: Direction<RxQueue>,
    pub(crate) tx: Direction<TxQueue>,
    /// Pairs that the driver uses.
    pub(crate) active: AtomicUsize,
    /// Whether several threads deliver: then frames are copied outside of the lock.
    several_senders: bool,
    /// Held by one of several senders while it counts.
    books: Mutex<()>,
    leases: Mutex<Vec<Lease>>,
}

impl NicQueues {
    /// Queues that do not run yet.
    pub(crate) fn new(pairs: usize, several_senders: bool) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            rx: Direction::new(pairs)?,
            tx: Direction::new(pairs)?,
            active: AtomicUsize::new(ONE),
            several_senders,
            books: Mutex::new(()),
            leases: Mutex::default(),
        }))
    }

    /// Takes all queues out: nobody uses the guest's rings after this.
    pub(crate) fn stop(&self) {
        for pair in 0..self.rx.queues.len() {
            self.tx.lock(pair).and_then(|mut place| place.take());
            self.rx.lock(pair).and_then(|mut place| place.take());
        }
        self.active.store(ONE, Ordering::Release);
    }

    /// What moved towards the router.
    pub fn rx_ledger(&self) -> &NicDirection {
        &self.rx.ledger
    }

    /// What the router sent.
    pub fn tx_ledger(&self) -> &NicDirection {
        &self.tx.ledger
    }

    /// Where frames for the router go.
    pub fn sink(self: &Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(NicSink(self.clone()))
    }

    /// Where frames of the router come from. For one thread.
    pub fn source(self: &Arc<Self>) -> Box<dyn Source> {
        Box::new(NicSource { queues: self.clone(), next: 0 })
    }

    fn lease(&self) -> Lease {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn return_lease(&self, lease: Lease) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }
}

/// The receive side of a NIC.
struct NicSink(Arc<NicQueues>);

impl NicSink {
    fn deliver_to(&self, pair: usize, frames: &[Frame<'_>]) -> usize {
        let rx = &self.0.rx;
        let taken =
            if self.0.several_senders { self.fill_unlocked(pair, frames) } else { self.fill(pair, frames) };
        // No lock is held here.
        match taken {
            None => rx.ledger.drop_not_running.add_shared(frames.len() as u64),
            Some(taken) if taken < frames.len() => {
                rx.ledger.drop_no_buffer.add_shared((frames.len() - taken) as u64)
            }
            Some(_) => {}
        }
        taken.unwrap_or(0)
    }

    /// Fills under the lock; `None` if the queue does not run.
    #[inline]
    fn fill(&self, pair: usize, frames: &[Frame<'_>]) -> Option<usize> {
        let rx = &self.0.rx;
        let mut place = rx.lock(pair)?;
        let running = place.as_mut()?;
        let filled = running.queue.fill(frames, &rx.ledger);
        interrupt(filled.interrupt, running.line.as_deref());
        Some(filled.taken)
    }

    /// Reserves and commits under the lock, and copies without it.
    fn fill_unlocked(&self, pair: usize, frames: &[Frame<'_>]) -> Option<usize> {
        let rx = &self.0.rx;
        let mut lease = self.0.lease();
        let taken = {
            let _books = self.books();
            rx.lock(pair)?.as_mut().map(|running| running.queue.plan(frames, &mut lease, &rx.ledger))?
        };
        lease.copy(frames);
        let _books = self.books();
        match rx.lock(pair)?.as_mut() {
            Some(running) if running.queue.owns(&lease) => {
                interrupt(running.queue.commit(&mut lease, &rx.ledger), running.line.as_deref());
            }
            // The driver reset the device while we copied.
            _ => rx.ledger.drop_not_running.add_shared(taken as u64),
        }
        self.0.return_lease(lease);
        Some(taken)
    }
}

impl NicSink {
    /// All pairs of the NIC keep one set of books, and a counter has one writer at a time.
    fn books(&self) -> MutexGuard<'_, ()> {
        self.0.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[inline]
fn interrupt(wanted: bool, line: Option<&IrqLine>) {
    if wanted && let Some(line) = line {
        line.signal();
    }
}

impl Sink for NicSink {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let pairs = self.0.active.load(Ordering::Acquire);
        if pairs == ONE {
            return frames.chunks(BURST).map(|burst| self.deliver_to(0, burst)).sum();
        }
        let mut taken = 0;
        for burst in frames.chunks(BURST) {
            steer::by_flow(burst, pairs, |pair, group| taken += self.deliver_to(pair, group));
        }
        taken
    }

    fn room(&self) -> usize {
        let pairs = self.0.active.load(Ordering::Acquire);
        // With several queues any of them may be the next frame's: the fullest decides.
        (0..pairs).map(|pair| self.room_of(pair)).min().unwrap_or(0)
    }

    fn arm(&self) -> bool {
        let full = self.0.rx.each(|running| !running.queue.arm());
        if full {
            self.0.rx.ledger.sleeps.add(1);
        }
        self.room() > 0
    }

    fn disarm(&self) {
        self.0.rx.silence();
        self.0.rx.each(|running| {
            running.queue.disarm();
            false
        });
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Readable(borrow(&self.0.rx.kick))
    }
}

impl NicSink {
    fn room_of(&self, pair: usize) -> usize {
        self.0
            .rx
            .lock(pair)
            .and_then(|mut place| place.as_mut().map(|running| running.queue.room()))
            .unwrap_or(0)
    }
}

/// The transmit side of a NIC.
struct NicSource {
    queues: Arc<NicQueues>,
    /// The pair whose turn it is.
    next: usize,
}

impl Source for NicSource {
    #[inline]
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let pairs = self.queues.active.load(Ordering::Acquire);
        for _ in 0..pairs {
            let pair = if self.next < pairs { self.next } else { 0 };
            self.next = pair + 1;
            let shown = self.drain_from(pair, budget, take);
            if shown > 0 {
                return shown;
            }
        }
        self.queues.tx.ledger.polls_empty.add(1);
        0
    }

    fn arm(&mut self) -> bool {
        let ready = self.queues.tx.each(|running| running.queue.arm());
        if !ready {
            self.queues.tx.ledger.sleeps.add(1);
        }
        ready
    }

    fn disarm(&mut self) {
        self.queues.tx.silence();
        self.queues.tx.each(|running| {
            running.queue.disarm();
            false
        });
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Readable(borrow(&self.queues.tx.kick))
    }
}

impl NicSource {
    #[inline]
    fn drain_from(&self, pair: usize, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let tx = &self.queues.tx;
        let Some(mut place) = tx.lock(pair) else { return 0 };
        let Some(running) = place.as_mut() else { return 0 };
        let drained = running.queue.drain(budget, &tx.ledger, take);
        interrupt(drained.interrupt, running.line.as_deref());
        drained.frames
    }
}

fn borrow(event: &EventFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open for as long as the borrow of its owner.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

#[cfg(test)]
mod tests;
