//! A NIC of a guest as ports of the host: its receive queues are a sink, its transmit queues a source.
//!
//! ```text
//!            all pairs, one thread                      a thread for each pair
//!   frames --> sink --hash--> rx 0 .. rx n      frames of part k --> sink_of(k) --> rx k
//!   frames <-- source <------ tx 0 .. tx n      frames <----------- source_of(k) <-- tx k
//! ```
//!
//! The queues come and go with the driver (DRIVER_OK, reset), in the thread of the vCPU that wrote the register. So
//! each sits in a mutex that the serving thread takes once a burst: after a reset has taken the queue out, nobody
//! touches the guest's rings any more. Lock, counters, doorbell and leases of a queue are its own and lie on lines of
//! their own: threads that serve different pairs write nothing in common.
//!
//! A driver may change how many pairs it uses while frames pass. The flows that move to another pair must not
//! overtake their own frames, which wait in the guest or on their way out of it: so the NIC takes no frame for the
//! time of [`SETTLE`] then.

// It panics where nobody reads: what a data plane says there may be lost.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod access;
mod breakage;
mod cable;
mod collecting;
mod design;
mod foreign;
mod handed;
pub mod irq;
mod life;
mod loopback;
mod notifier;
mod pairs;
mod ringing;
mod sink;
mod source;

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
use ring::wake::doze::Doze;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use access::InAccess;
use breakage::{Breakable, Breakage};
pub use collecting::Collecting;
pub use design::Design;
pub use foreign::Bells;
use foreign::{Ringers, Watch};
pub use handed::{HandedQueue, Kicks, Memory, Receiver, SetUp};
pub use irq::held;
use irq::{Line, Timekeeping};
pub use notifier::{Notifier, Running};
use pairs::Pairs;
use ringing::Waits;
use sink::{CommonSink, NicSink, PartSink};
use source::{NicSource, PairSource};

/// Pairs that a driver uses until it asks for more (virtio 1.2, section 5.1.6.5.5).
const ONE: usize = 1;

/// How long a NIC takes nothing after the number of pairs changed under frames that had come: a guest with work is
/// through with what it has after a millisecond, and one that has to wait for its CPU gets it within a few slices of
/// the scheduler (3 ms).
pub const SETTLE: Duration = Duration::from_millis(50);

type Place<'a, Q> = MutexGuard<'a, Option<Running<Q>>>;

/// The side that rings for the thread that serves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ringer {
    /// The guest's driver, by a register access: a kick, which is counted.
    Driver,
    /// We ourselves, so that the thread looks at what has changed.
    Device,
}

/// The queue of one pair, with all that its servers write.
#[repr(align(128))]
struct Served<Q> {
    place: Mutex<Option<Running<Q>>>,
    ledger: NicDirection,
    leases: Mutex<Vec<Lease>>,
    /// Rung by its doorbell, and by ourselves.
    kick: EventFd,
    /// How often we rang `kick` ourselves, of what was not yet read from it.
    own_rings: AtomicU64,
    /// Where the doorbell is a descriptor of the driver's, and `kick` for us alone.
    watch: Option<Watch>,
    /// Whether a doorbell that is a register access is to ring: the thread sleeps, or is about to.
    asleep: Doze,
    /// Why nothing is served, if the driver is to blame: it broke the ring, or wanted one that cannot be served.
    breakage: Breakage,
    /// Threads that ring for the other side, where that is another program.
    ringers: Ringers,
}

impl<Q> Served<Q> {
    fn new(foreign: bool) -> Result<Self> {
        let kick = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")?;
        Ok(Self {
            watch: if foreign { Some(Watch::new(&kick)?) } else { None },
            place: Mutex::default(),
            ledger: NicDirection::default(),
            leases: Mutex::default(),
            kick,
            own_rings: AtomicU64::new(0),
            asleep: Doze::default(),
            breakage: Breakage::default(),
            ringers: Ringers::default(),
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

    /// What is readable when its doorbell rings.
    fn rings(&self) -> BorrowedFd<'_> {
        self.watch.as_ref().map_or_else(|| borrow(&self.kick), |watch| borrow(watch.any()))
    }

    /// The thread is about to sleep; after this it looks at the ring once more.
    fn fall_asleep(&self) {
        self.asleep.fall_asleep();
    }

    /// The driver has moved the end of its ring by a register access: rings if the thread sleeps.
    fn news(&self) {
        if self.asleep.wants_news() {
            self.ring(Ringer::Driver);
        }
    }

    /// Rings for the thread that serves the queue.
    fn ring(&self, ringer: Ringer) {
        if ringer == Ringer::Device {
            // Before the descriptor is rung: who reads that finds what is ours of it.
            self.own_rings.fetch_add(1, Ordering::Release);
        }
        // The only error is a full counter, and then it is rung.
        let _ = self.kick.write(1);
    }

    /// The thread is awake; takes back what the doorbell rang.
    fn silence(&self) {
        self.asleep.wake();
        if let Ok(rings) = self.kick.read() {
            self.ledger.kicks.add(rings - self.take_own_rings(rings));
        }
        if let Some(watch) = &self.watch {
            self.ledger.kicks.add(watch.hush());
        }
    }

    /// How many of so many rings were our own; those are accounted for.
    fn take_own_rings(&self, rings: u64) -> u64 {
        let own = self
            .own_rings
            .fetch_update(Ordering::Acquire, Ordering::Acquire, |own| Some(own.saturating_sub(rings)));
        own.unwrap_or_else(|own| own).min(rings)
    }
}

impl<Q: Breakable> Served<Q> {
    /// Lets `act` do something to the queue, if it runs.
    #[inline(always)]
    fn with<R>(&self, act: impl FnOnce(&mut Running<Q>) -> R) -> Option<R> {
        let mut place = self.lock();
        let running = place.as_mut()?;
        let done = act(running);
        if let Some(broken) = running.queue.breakage() {
            self.breakage.publish(broken);
        }
        Some(done)
    }
}

impl Served<RxQueue> {
    fn lease(&self) -> Lease {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn return_lease(&self, lease: Lease) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }
}

/// One direction of a NIC: the queues of all pairs.
pub struct Direction<Q> {
    queues: Vec<Served<Q>>,
    /// Readable while a doorbell of any pair rings; there if there are several.
    any: Option<Epoll>,
}

impl<Q> Direction<Q> {
    /// What else is to ring comes last.
    fn new(pairs: usize, foreign: bool, timers: &[Arc<dyn Timekeeping>]) -> Result<Self> {
        let queues = (0..pairs).map(|_| Served::new(foreign)).collect::<Result<Vec<_>>>()?;
        let bells = queues.iter().map(Served::rings);
        let bells: Vec<_> = bells.chain(timers.iter().map(|timer| timer.bell())).collect();
        let any = if bells.len() > 1 { Some(watch(&bells)?) } else { None };
        Ok(Self { queues, any })
    }

    /// Serves this queue of a pair from now on, if there is such a pair.
    pub fn install(&self, pair: usize, running: Running<Q>) {
        if let Some(mut place) = self.lock(pair) {
            *place = Some(running);
        }
    }

    /// From now on the queue of a pair interrupts by this message, if any.
    pub fn set_line(&self, pair: usize, line: Option<Arc<dyn Line>>) {
        if let Some(mut place) = self.lock(pair)
            && let Some(running) = place.as_mut()
        {
            running.notifier.set_line(line);
        }
    }

    /// The queue of a pair, if there is such a pair.
    fn lock(&self, pair: usize) -> Option<Place<'_, Q>> {
        Some(self.queues.get(pair)?.lock())
    }

    /// The doorbell of a pair, if there is such a pair.
    pub fn kick(&self, pair: usize) -> Option<&EventFd> {
        Some(&self.queues.get(pair)?.kick)
    }

    /// Rings for the thread that serves a pair, if there is such a pair.
    pub fn ring(&self, pair: usize, ringer: Ringer) {
        if let Some(served) = self.queues.get(pair) {
            served.ring(ringer);
        }
    }

    /// What all pairs count.
    fn ledger(&self) -> NicDirection {
        let sum = NicDirection::default();
        self.queues.iter().for_each(|served| sum.add_all(&served.ledger));
        sum
    }

    /// Rings when any pair's doorbell does.
    fn bell(&self) -> Bell<'_> {
        match (&self.any, self.queues.first()) {
            (Some(any), _) => Bell::Readable(borrow(any)),
            (None, Some(only)) => only.bell(),
            (None, None) => Bell::None,
        }
    }
}

/// One descriptor for all bells.
fn watch(bells: &[BorrowedFd<'_>]) -> Result<Epoll> {
    let any = Epoll::new().context("cannot make an epoll descriptor")?;
    for bell in bells {
        let event = EpollEvent::new(EventSet::IN, 0);
        any.ctl(ControlOperation::Add, bell.as_raw_fd(), event)
            .context("cannot watch a doorbell (epoll_ctl)")?;
    }
    Ok(any)
}

/// The queues of a NIC, between the device model and the threads that serve it.
pub struct NicQueues {
    /// What comes to the router.
    pub rx: Direction<RxQueue>,
    /// What it sends.
    pub tx: Direction<TxQueue>,
    pairs: Pairs,
    /// Whether several threads deliver: then frames are copied outside of the lock.
    several_senders: bool,
    in_access: Option<InAccess>,
    /// Whether somebody else serves the queues.
    handed: bool,
    stop: Arc<AtomicBool>,
    timers: Vec<Arc<dyn Timekeeping>>,
    /// With a timer of its own: what rings for each pair alone.
    alone: Vec<Epoll>,
    /// With timers: what rings for those of all pairs, and for no doorbell.
    any_timer: Option<Epoll>,
    registers: Option<Arc<E1000Registers>>,
    collector: Option<Arc<dyn Collecting>>,
    /// Where frames go instead of out: [`loopback::BACK`], [`cable::NOWHERE`]; 0: out.
    aside: AtomicU8,
    /// For how long threads were found ringing for another program.
    waits: Waits,
    /// What the rings lie in. A frame that is being copied while the guest goes must still have somewhere to go.
    memory: OnceLock<Arc<dyn Memory>>,
}

impl NicQueues {
    /// Queues that do not run yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(design: Design) -> Result<Arc<Self>> {
        Self::with_settle(design, SETTLE)
    }

    fn with_settle(design: Design, settle: Duration) -> Result<Arc<Self>> {
        Self::by(Clock::default(), design, settle)
    }

    fn by(clock: Clock, design: Design, settle: Duration) -> Result<Arc<Self>> {
        let Design { pairs, foreign, several_senders, in_access, timers, registers, collector, handed, stop } =
            design;
        let (rx, tx) = (Direction::new(pairs, foreign, &[])?, Direction::new(pairs, foreign, &timers)?);
        let alone = tx.queues.iter().zip(&timers);
        let alone = alone.map(|(served, timer)| watch(&[borrow(&served.kick), timer.bell()]));
        let bells: Vec<_> = timers.iter().map(|timer| timer.bell()).collect();
        Ok(Arc::new(Self {
            any_timer: if bells.is_empty() { None } else { Some(watch(&bells)?) },
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
            aside: AtomicU8::new(0),
            waits: Waits::default(),
            memory: OnceLock::new(),
        }))
    }

    /// Keeps this memory for as long as anybody can move a frame.
    pub fn keep(&self, memory: Arc<dyn Memory>) {
        self.memory.get_or_init(|| memory);
    }

    /// From now on the driver uses so many pairs.
    pub fn use_pairs(&self, pairs: usize) {
        let pairs = pairs.clamp(ONE, self.pairs().max(ONE));
        if self.rx_ledger().frames.get() != self.pairs.came_before.load(Ordering::Relaxed) {
            self.pairs.close();
        }
        self.pairs.served.fetch_max(pairs, Ordering::AcqRel);
        self.pairs.active.store(pairs, Ordering::Release);
        // Whoever waits for room does so in another queue from now on.
        self.rouse_receivers();
    }

    /// Wakes those who wait for room. The doorbells of queues that were handed on are a peer's as well, and nobody waits here.
    fn rouse_receivers(&self) {
        if !self.handed {
            self.rx.queues.iter().for_each(|served| served.ring(Ringer::Device));
        }
    }

    /// From now on frames may leave this to the driver.
    pub fn take_offloads(&self, takes: Offloads) {
        self.rx.queues.iter().for_each(|served| {
            served.with(|running| running.queue.take_offloads(takes));
        });
        self.pairs.takes.store(takes.bits(), Ordering::Release);
    }

    /// What frames may leave to the driver.
    pub fn offloads(&self) -> Offloads {
        self.pairs.takes()
    }

    /// Pairs that the device has.
    pub fn pairs(&self) -> usize {
        self.rx.queues.len()
    }

    /// What belongs together when frames are spread over the pairs; at first the frames of a flow.
    pub fn spread_by(&self, hash: Hash) {
        self.pairs.symmetric.store(hash == Hash::Symmetric, Ordering::Relaxed);
    }

    /// What moved towards the router, by all pairs.
    pub fn rx_ledger(&self) -> NicDirection {
        self.rx.ledger()
    }

    /// What the router sent, by all pairs.
    pub fn tx_ledger(&self) -> NicDirection {
        self.tx.ledger()
    }

    /// Its interrupts.
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

    /// How often its registers were accessed, for an e1000.
    pub fn registers(&self) -> Option<&E1000Registers> {
        self.registers.as_deref()
    }

    /// Why a receive queue stopped, if one did: its driver broke the ring.
    pub fn rx_broken(&self) -> Option<Broken> {
        self.rx.queues.iter().find_map(|served| served.breakage.read())
    }

    /// Why a transmit queue stopped, if one did: its driver broke the ring.
    pub fn tx_broken(&self) -> Option<Broken> {
        self.tx.queues.iter().find_map(|served| served.breakage.read())
    }

    /// Where frames for the router go, each by the pair of its flow. One thread at a time may wait for room.
    pub fn sink(self: &Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(NicSink(self.clone()))
    }

    /// A sink for several threads. Nobody waits for room there: what finds none is lost, and counted.
    pub fn common_sink(self: &Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(CommonSink(self.clone()))
    }

    /// Where frames go that were spread before over `parts`, of which this is number `part`: all by one pair, part `k`
    /// by pair `k` while the driver uses as many pairs as there are parts. What its bell rings for is that pair's.
    pub fn sink_of(self: &Arc<Self>, part: usize, parts: usize) -> Arc<dyn Sink> {
        Arc::new(PartSink::new(self.clone(), part, parts))
    }

    /// Where frames of the router come from, by any pair. For one thread.
    pub fn source(self: &Arc<Self>) -> Box<dyn Source> {
        Box::new(NicSource::new(self.clone()))
    }

    /// Where frames come from that the router sent by one pair. For one thread.
    pub fn source_of(self: &Arc<Self>, pair: usize) -> Box<dyn Source> {
        Box::new(PairSource::new(self.clone(), pair))
    }
}

fn borrow(event: &impl AsRawFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open for as long as the borrow of its owner.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod cable_tests;
#[cfg(test)]
mod foreign_conformance_tests;
#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod offload_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod tests;
