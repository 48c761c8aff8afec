//! A guest's NIC as ports of the host: its receive queues are a sink, its transmit queues a source.
//!
//! ```text
//!            all pairs, one thread                      a thread for each pair
//!   frames --> sink --hash--> rx 0 .. rx n      frames of part k --> sink_of(k) --> rx k
//!   frames <-- source <------ tx 0 .. tx n      frames <----------- source_of(k) <-- tx k
//! ```
//!
//! The queues come and go with the driver (DRIVER_OK, reset), in the thread of the vCPU that wrote the register. So
//! each queue is guarded by a mutex that the serving thread takes once a burst: after a reset has removed the queue, no
//! thread accesses the guest's rings any more. Where several threads deliver, frames are copied without the mutex, and the
//! reset waits for the end of these copies (`copies`). Each queue has its own lock, counters, doorbell and leases, on cache
//! lines of its own: threads that serve different pairs write no common memory.
//!
//! A driver may change the number of pairs it uses while frames pass. Flows that move to another pair must not overtake
//! their own frames, which wait in the guest or on their way out of it: so the NIC then takes no frame for the time of
//! [`SETTLE`].

// Printing to standard error panics if it has no reader, and messages that a data plane prints there may be lost.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod access;
mod cable;
mod copies;
mod design;
mod exported;
mod guarded_doorbell;
pub mod irq;
mod life;
mod loopback;
mod notifier;
mod pairs;
mod published_error;
mod remote_driver;
mod sink;
mod source;
mod store_coalescing;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use ledger::{E1000Registers, NicDirection, NicInterrupts};
use nic::queue::{Lease, RxQueue, TxQueue};
use port::steer::Hash;
use port::{Bell, Clock, Offloads, Sink, Source};
use ring::split::Broken;
use ring::wake::sleep_flag::SleepFlag;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use access::InAccess;
use copies::CopiesInProgress;
pub use design::NicQueuesConfig;
pub use exported::{ExportedQueue, Kicks, Memory, Receiver, SetUp};
use guarded_doorbell::BlockedTime;
pub use irq::deferred;
use irq::{InterruptTimer, Line};
pub use notifier::{Notifier, Running};
use pairs::Pairs;
use published_error::PublishedError;
pub use remote_driver::RingEventfds;
use remote_driver::{Watch, WriterStates};
use sink::{CommonSink, NicSink, PartSink};
use source::{NicSource, PairSource};
pub use store_coalescing::StoreCoalescing;

/// Number of pairs that a driver uses until it requests more (virtio 1.2, section 5.1.6.5.5).
const ONE: usize = 1;

/// Time for which a NIC takes no frame after the number of pairs changed while frames were in flight: a guest that has
/// the CPU processes its backlog within a millisecond, and one that has to wait for its CPU gets it within a few slices
/// of the scheduler (3 ms).
pub const SETTLE: Duration = Duration::from_millis(50);

type Place<'a, Q> = MutexGuard<'a, Option<Running<Q>>>;

/// Side that rings for the thread that serves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ringer {
    /// The guest's driver, by a register access: a kick, which is counted.
    Driver,
    /// This process itself, so that the thread notices a change.
    Device,
}

/// The queue of one pair, with all the state that its servers write.
#[repr(align(128))]
struct QueueSlot<Q> {
    place: Mutex<Option<Running<Q>>>,
    ledger: NicDirection,
    leases: Mutex<Vec<Lease>>,
    /// Copies into its buffers that are made without holding the lock.
    copies: CopiesInProgress,
    /// Event descriptor rung by the doorbell, and by ourselves.
    kick: EventFd,
    /// Number of rings by ourselves that were not yet read from `kick`.
    own_rings: AtomicU64,
    /// Set if the doorbell is a descriptor of the driver's; then `kick` is rung by ourselves only.
    watch: Option<Watch>,
    /// Says whether a doorbell that is a register access must ring: true while the thread sleeps, or is about to.
    asleep: SleepFlag,
    /// Reason why the queue is not served, if the driver is to blame: it broke the ring, or set up one that cannot be
    /// served.
    published_error: PublishedError,
    /// True if the frames of this transmit queue are lost ([`NicQueues::discard_transmit`]).
    discards: AtomicBool,
    /// Threads that ring for the other side, if that is another program.
    writers: WriterStates,
}

impl<Q> QueueSlot<Q> {
    fn new(foreign: bool) -> Result<Self> {
        let kick = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")?;
        Ok(Self {
            watch: if foreign { Some(Watch::new(&kick)?) } else { None },
            place: Mutex::default(),
            ledger: NicDirection::default(),
            leases: Mutex::default(),
            copies: CopiesInProgress::within(copies::LONGEST),
            kick,
            own_rings: AtomicU64::new(0),
            asleep: SleepFlag::default(),
            published_error: PublishedError::default(),
            discards: AtomicBool::new(false),
            writers: WriterStates::default(),
        })
    }

    fn lock(&self) -> Place<'_, Q> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.lock().is_some()
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Readable(self.rings())
    }

    /// Returns the descriptor that becomes readable when the doorbell rings.
    fn rings(&self) -> BorrowedFd<'_> {
        self.watch.as_ref().map_or_else(|| borrow(&self.kick), |watch| borrow(watch.any()))
    }

    /// Announces that the thread is about to sleep; it must check the ring once more after this call.
    fn fall_asleep(&self) {
        self.asleep.fall_asleep();
    }

    /// Call after the driver moved the end of its ring by a register access: rings if the thread sleeps.
    fn tail_moved(&self) {
        if self.asleep.must_ring() {
            self.ring(Ringer::Driver);
        }
    }

    /// Rings for the thread that serves the queue.
    fn ring(&self, ringer: Ringer) {
        if ringer == Ringer::Device {
            // Counted before the descriptor is rung: a thread that reads it then knows how many rings are ours.
            self.own_rings.fetch_add(1, Ordering::Release);
        }
        // The only error is a counter at its maximum, and then the descriptor is readable already.
        let _ = self.kick.write(1);
    }

    /// The thread is awake: clears the doorbell, and counts the driver's rings.
    fn clear_doorbell(&self) {
        self.asleep.wake();
        if let Ok(rings) = self.kick.read() {
            self.ledger.kicks.add(rings - self.take_own_rings(rings));
        }
        if let Some(watch) = &self.watch {
            self.ledger.kicks.add(watch.take_events());
        }
    }

    /// Returns how many of `rings` rings were our own, and removes those from the account.
    fn take_own_rings(&self, rings: u64) -> u64 {
        let own = self
            .own_rings
            .fetch_update(Ordering::Acquire, Ordering::Acquire, |own| Some(own.saturating_sub(rings)));
        own.unwrap_or_else(|own| own).min(rings)
    }
}

/// One direction of a NIC: the queues of all pairs.
pub struct Direction<Q> {
    queues: Vec<QueueSlot<Q>>,
    /// Readable while a doorbell of any pair rings; used if there are several bells.
    any: Option<Epoll>,
}

impl<Q> Direction<Q> {
    /// Creates the queues, and a descriptor for their doorbells and these timers.
    fn new(pairs: usize, foreign: bool, timers: &[Arc<dyn InterruptTimer>]) -> Result<Self> {
        let queues = (0..pairs).map(|_| QueueSlot::new(foreign)).collect::<Result<Vec<_>>>()?;
        let eventfds = queues.iter().map(QueueSlot::rings);
        let eventfds: Vec<_> = eventfds.chain(timers.iter().map(|timer| timer.bell())).collect();
        let any = if eventfds.len() > 1 { Some(watch(&eventfds)?) } else { None };
        Ok(Self { queues, any })
    }

    /// Starts serving this queue of a pair, if there is such a pair.
    pub fn install(&self, pair: usize, running: Running<Q>) {
        if let Some(mut place) = self.lock(pair) {
            *place = Some(running);
        }
    }

    /// Sets the message by which the queue of a pair interrupts from now on, if any.
    pub fn set_line(&self, pair: usize, line: Option<Arc<dyn Line>>) {
        if let Some(mut place) = self.lock(pair)
            && let Some(running) = place.as_mut()
        {
            running.notifier.set_line(line);
        }
    }

    /// Locks the queue of a pair, if there is such a pair.
    fn lock(&self, pair: usize) -> Option<Place<'_, Q>> {
        Some(self.queues.get(pair)?.lock())
    }

    /// Returns the doorbell of a pair, if there is such a pair.
    pub fn kick(&self, pair: usize) -> Option<&EventFd> {
        Some(&self.queues.get(pair)?.kick)
    }

    /// Rings for the thread that serves a pair, if there is such a pair.
    pub fn ring(&self, pair: usize, ringer: Ringer) {
        if let Some(served) = self.queues.get(pair) {
            served.ring(ringer);
        }
    }

    /// Returns the sum of all pairs' counters.
    fn ledger(&self) -> NicDirection {
        let sum = NicDirection::default();
        self.queues.iter().for_each(|served| sum.add_all(&served.ledger));
        sum
    }

    /// Returns a bell that rings when any pair's doorbell does.
    fn bell(&self) -> Bell<'_> {
        match (&self.any, self.queues.first()) {
            (Some(any), _) => Bell::Readable(borrow(any)),
            (None, Some(only)) => only.bell(),
            (None, None) => Bell::None,
        }
    }
}

/// Combines all bells into one descriptor.
fn watch(eventfds: &[BorrowedFd<'_>]) -> Result<Epoll> {
    let any = Epoll::new().context("cannot make an epoll descriptor")?;
    for bell in eventfds {
        let event = EpollEvent::new(EventSet::IN, 0);
        any.ctl(ControlOperation::Add, bell.as_raw_fd(), event)
            .context("cannot watch a doorbell (epoll_ctl)")?;
    }
    Ok(any)
}

/// The queues of a NIC, between the device model and the threads that serve them.
pub struct NicQueues {
    /// Frames to the router.
    pub rx: Direction<RxQueue>,
    /// Frames from the router.
    pub tx: Direction<TxQueue>,
    pairs: Pairs,
    /// True if several threads deliver: then frames are copied without holding the lock.
    several_senders: bool,
    in_access: Option<InAccess>,
    /// True if another backend serves the queues.
    handed: bool,
    stop: Arc<AtomicBool>,
    timers: Vec<Arc<dyn InterruptTimer>>,
    /// If each pair has a timer: for each pair, a descriptor for its own doorbell and timer.
    alone: Vec<Epoll>,
    /// If there are timers: a descriptor for the timers of all pairs, without doorbells.
    any_timer: Option<Epoll>,
    registers: Option<Arc<E1000Registers>>,
    collector: Option<Arc<dyn StoreCoalescing>>,
    /// Where frames go instead of out: bits [`loopback::LOOPBACK`], [`cable::UNPLUGGED`], and
    /// [`remote_driver::DISCARDING`] if it depends on the pair; 0: out.
    diversion: AtomicU8,
    /// Times for which threads were found blocked while ringing for another program.
    waits: BlockedTime,
    /// Memory of the rings. Kept because a frame that is being copied while the guest ends still needs its target
    /// mapped.
    memory: OnceLock<Arc<dyn Memory>>,
}

impl NicQueues {
    /// Creates queues that do not run yet.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn new(design: NicQueuesConfig) -> Result<Arc<Self>> {
        Self::with_settle(design, SETTLE)
    }

    fn with_settle(design: NicQueuesConfig, settle: Duration) -> Result<Arc<Self>> {
        Self::by(Clock::default(), design, settle)
    }

    fn by(clock: Clock, design: NicQueuesConfig, settle: Duration) -> Result<Arc<Self>> {
        let NicQueuesConfig {
            pairs,
            foreign,
            several_senders,
            in_access,
            timers,
            registers,
            collector,
            handed,
            stop,
        } = design;
        let (rx, tx) = (Direction::new(pairs, foreign, &[])?, Direction::new(pairs, foreign, &timers)?);
        let alone = tx.queues.iter().zip(&timers);
        let alone = alone.map(|(served, timer)| watch(&[borrow(&served.kick), timer.bell()]));
        let eventfds: Vec<_> = timers.iter().map(|timer| timer.bell()).collect();
        Ok(Arc::new(Self {
            any_timer: if eventfds.is_empty() { None } else { Some(watch(&eventfds)?) },
            alone: alone.collect::<Result<_>>()?,
            rx,
            tx,
            pairs: Pairs::new(settle, clock),
            several_senders,
            in_access: in_access.then(|| InAccess::new(pairs)),
            handed,
            stop,
            timers,
            registers,
            collector,
            diversion: AtomicU8::new(0),
            waits: BlockedTime::default(),
            memory: OnceLock::new(),
        }))
    }

    /// Keeps this memory mapped as long as any thread can move a frame.
    pub fn keep(&self, memory: Arc<dyn Memory>) {
        self.memory.get_or_init(|| memory);
    }

    /// Sets the number of pairs that the driver uses from now on.
    pub fn use_pairs(&self, pairs: usize) {
        let pairs = pairs.clamp(ONE, self.pairs().max(ONE));
        if self.rx_ledger().frames.get() != self.pairs.came_before.load(Ordering::Relaxed) {
            self.pairs.close();
        }
        self.pairs.served.fetch_max(pairs, Ordering::AcqRel);
        self.pairs.active.store(pairs, Ordering::Release);
        // Threads that wait for room must wait at another queue from now on.
        self.rouse_receivers();
    }

    /// Wakes threads that wait for room. If the queues were handed on, their doorbells are the peer's too, and no
    /// thread waits here.
    fn rouse_receivers(&self) {
        if !self.handed {
            self.rx.queues.iter().for_each(|served| served.ring(Ringer::Device));
        }
    }

    /// Sets the offloads that frames may leave to the driver from now on. Frames whose copy has begun before may still
    /// arrive with others. Virtio 1.2, section 5.1.6.5.6, does not exclude that, and a driver has to cope with such frames
    /// in any case: some may lie in its ring when it sends the command.
    pub fn take_offloads(&self, takes: Offloads) {
        self.rx.queues.iter().for_each(|served| {
            served.with(|running| running.queue.take_offloads(takes));
        });
        self.pairs.takes.store(takes.bits(), Ordering::Release);
    }

    /// Returns the offloads that frames may leave to the driver.
    pub fn offloads(&self) -> Offloads {
        self.pairs.takes()
    }

    /// Returns the number of pairs of the device.
    pub fn pairs(&self) -> usize {
        self.rx.queues.len()
    }

    /// Sets the hash that spreads frames over the pairs, and thus which frames stay together; initially those of a
    /// flow.
    pub fn spread_by(&self, hash: Hash) {
        self.pairs.symmetric.store(hash == Hash::Symmetric, Ordering::Relaxed);
    }

    /// Returns the counters of frames to the router, summed over all pairs.
    pub fn rx_ledger(&self) -> NicDirection {
        self.rx.ledger()
    }

    /// Returns the counters of frames from the router, summed over all pairs.
    pub fn tx_ledger(&self) -> NicDirection {
        self.tx.ledger()
    }

    /// Returns the counters of its interrupts.
    pub fn interrupts(&self) -> NicInterrupts {
        let sum = NicInterrupts::default();
        let (rx, tx) = (self.rx_ledger(), self.tx_ledger());
        sum.suppressed.add(rx.interrupts_suppressed.get() + tx.interrupts_suppressed.get());
        if self.timers.is_empty() {
            sum.raised.add(rx.interrupts.get() + tx.interrupts.get());
        }
        for counts in self.timers.iter().map(|timer| timer.counts()) {
            sum.raised.add(counts.raised);
            sum.suppressed.add(counts.suppressed);
            sum.moderated.add(counts.moderated);
        }
        sum
    }

    /// Returns the counters of its register accesses, for an e1000.
    pub fn registers(&self) -> Option<&E1000Registers> {
        self.registers.as_deref()
    }

    /// Returns the reason why a receive queue stopped, if one did: its driver broke the ring.
    pub fn rx_broken(&self) -> Option<Broken> {
        self.rx.queues.iter().find_map(|served| served.published_error.read())
    }

    /// Returns the reason why a transmit queue stopped, if one did: its driver broke the ring.
    pub fn tx_broken(&self) -> Option<Broken> {
        self.tx.queues.iter().find_map(|served| served.published_error.read())
    }

    /// Returns a sink for frames to the router; each frame goes to the pair of its flow. One thread at a time may wait
    /// for room.
    pub fn sink(self: &Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(NicSink(self.clone()))
    }

    /// Returns a sink for several threads. They cannot wait for room: frames without room are lost, and counted.
    pub fn common_sink(self: &Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(CommonSink(self.clone()))
    }

    /// Returns a sink for frames that were already spread over `parts`, of which this is number `part`. All its frames
    /// go to one pair: part `k` to pair `k` if the driver uses as many pairs as there are parts. Its bell is that
    /// pair's.
    pub fn sink_of(self: &Arc<Self>, part: usize, parts: usize) -> Arc<dyn Sink> {
        Arc::new(PartSink::new(self.clone(), part, parts))
    }

    /// Returns the source of frames from the router, by any pair. For one thread.
    pub fn source(self: &Arc<Self>) -> Box<dyn Source> {
        Box::new(NicSource::new(self.clone()))
    }

    /// Returns the source of frames that the router sent by one pair. For one thread.
    pub fn source_of(self: &Arc<Self>, pair: usize) -> Box<dyn Source> {
        Box::new(PairSource::new(self.clone(), pair))
    }
}

fn borrow(event: &impl AsRawFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor stays open for as long as its owner is borrowed.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod cable_tests;
#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod offload_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod remote_driver_conformance_tests;
#[cfg(test)]
mod remote_driver_tests;
#[cfg(test)]
mod tests;
