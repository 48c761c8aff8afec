//! A vhost-user peer (back end) of one NIC: connects to it, and reconnects when it is lost.
//!
//! ```text
//!          a peer connects        greeted             the driver is ready, handed over
//!  Away -----------------> Talking ----------> Idle -------------------> Talking ------> Serving
//!   ^ ^                       |                  |                          |               |
//!   | '--- refused, late -----'                  '------ it went away ------'---------------+
//!   '---------------- the driver takes its queues back: returned (Talking) -----------------'
//! ```
//!
//! One thread drives these stages and forwards interrupts that the peer cannot send itself; another one
//! exchanges messages (`messaging`). All waits for a peer are bounded, provided that [`Peer::interrupt_blocked_writers`] is
//! called regularly.

mod observed_limit;
mod stage;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use door::Door;
use nic_port::{NicQueues, Receiver, SetUp};
use sandbox::{Class, Confinement};
use signals::interrupt::END_LIMIT;
use threads::Thread;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::messaging::talk;
use super::session::Offer;
use observed_limit::ObservedLimit;
use stage::ConnectionStateMachine;

/// Time limit, in observed time, for a driver that waits for the return of its queues. A peer has less than that.
const RETURN_LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of queue pairs of a NIC.
const MOST_PAIRS: usize = 16;

ledger::counters! {
    /// Counters of a peer. Its frames are not counted: they do not pass this process.
    pub struct PeerCounters {
        /// Times that it was handed the rings.
        handed,
        /// Times that its connection was lost while it had the rings.
        lost,
        /// Times that a peer connected and could not be used.
        refused,
        /// Interrupts that were forwarded to the driver. Those that a peer sends by itself are not counted.
        interrupts,
    }
}

/// Status of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// No peer is connected.
    #[default]
    Away,
    /// A peer is connected, and the driver is not ready.
    Idle,
    /// It serves the rings.
    Serving,
}

impl Status {
    /// Returns the status of this number.
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Away,
            1 => Self::Idle,
            _ => Self::Serving,
        }
    }

    /// Returns its name in tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Idle => "there",
            Self::Serving => "serves",
        }
    }
}

/// Clock of the stages and of waiting drivers; tests replace it.
type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// State shared by both threads and the users of a [`Peer`].
struct Shared {
    path: PathBuf,
    clock: Clock,
    /// A [`Status`].
    status: AtomicU8,
    said: Mutex<PeerInfo>,
    /// Also locked by the driver's threads; readers of the status do not need it.
    wishes: Mutex<DriverRequest>,
    /// NICs whose queues were handed over, as long as they exist: threads may still be blocked in doorbells
    /// of one that was taken back.
    nics: Mutex<Vec<Weak<NicQueues>>>,
    changed: Condvar,
    /// Signalled when a wish changes.
    news: EventFd,
    quit: AtomicBool,
    counters: PeerCounters,
}

/// Wishes of the driver, and their progress.
#[derive(Default)]
struct DriverRequest {
    set_up: Option<Arc<SetUp>>,
    /// Number of queue pairs that the driver uses.
    pairs: usize,
    /// Incremented at each start and end.
    turn: u64,
    /// True if the return of the driver's queues was requested, and has not been waited for yet.
    recalled: bool,
    /// The last turn that was processed, with no queue of an earlier one still handed out.
    settled: u64,
}

/// Information on the last peer.
#[derive(Default)]
struct PeerInfo {
    offer: Option<Offer>,
    /// Why it could not be used, or is not connected.
    why: Option<String>,
    /// Its process ID, if known.
    process: Option<i32>,
}

impl Shared {
    fn new(path: PathBuf, clock: Clock) -> Result<Self> {
        Ok(Self {
            path,
            clock,
            status: AtomicU8::new(Status::Away as u8),
            said: Mutex::default(),
            wishes: Mutex::default(),
            nics: Mutex::default(),
            changed: Condvar::new(),
            news: event()?,
            quit: AtomicBool::new(false),
            counters: PeerCounters::default(),
        })
    }

    fn status(&self) -> Status {
        Status::of(self.status.load(Ordering::Acquire))
    }

    fn said(&self) -> MutexGuard<'_, PeerInfo> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, DriverRequest> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases threads that are blocked in doorbells, and has the peer disconnected that caused this. Never
    /// blocks.
    fn interrupt_blocked_writers(&self) {
        // Another thread is starting a NIC or doing this at the moment.
        let Ok(mut nics) = self.nics.try_lock() else { return };
        nics.retain(|nic| nic.strong_count() > 0);
        let mut deaf = false;
        for nic in nics.iter().filter_map(Weak::upgrade) {
            nic.interrupt_blocked_writers();
            deaf |= nic.has_blocked_us();
        }
        drop(nics);
        if deaf && self.status() == Status::Serving {
            self.ring();
        }
    }

    /// Registers a NIC whose queues are to be handed over.
    fn know(&self, set_up: &SetUp) {
        let Some(nic) = set_up.nic() else { return };
        let mut nics = self.nics.lock().unwrap_or_else(PoisonError::into_inner);
        if !nics.iter().any(|known| known.as_ptr() == Arc::as_ptr(nic)) {
            nics.push(Arc::downgrade(nic));
        }
    }

    /// Requests the return of what was handed over.
    fn recall(&self) {
        let mut wishes = self.lock();
        if wishes.set_up.take().is_some() {
            wishes.turn += 1;
            wishes.recalled = true;
            self.ring();
        }
    }

    fn ring(&self) {
        // The only error is a full counter, and then it is signalled already.
        let _ = self.news.write(1);
    }
}

/// The peer that is handed the rings of a NIC. Dropping it takes them back.
pub struct Peer {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

impl Peer {
    /// Waits for a peer at this door, for the NIC `router.nic`, and keeps the connection.
    ///
    /// # Errors
    /// No thread can be started, or no descriptor is available.
    pub fn new(nic: &str, door: Arc<Door>, confinement: Confinement) -> Result<Self> {
        Self::with_clock(nic, door, confinement, Arc::new(Instant::now))
    }

    fn with_clock(nic: &str, door: Arc<Door>, confinement: Confinement, clock: Clock) -> Result<Self> {
        let shared = Arc::new(Shared::new(door.path().to_owned(), clock.clone())?);
        let calls = (0..2 * MOST_PAIRS).map(|_| event()).collect::<Result<Vec<_>>>()?;
        let calls = Arc::new(calls);
        let (job_in, job_out) = mpsc::channel();
        let (outcome_in, outcome_out) = mpsc::channel();
        let done = Arc::new(event()?);
        let (known, events) = ((clock, shared.clone()), (calls.clone(), done.clone()));
        let course = ConnectionStateMachine::new(known, door, job_in, outcome_out, events);
        let mut peer = Self { shared, threads: Vec::new() };
        let name = |what| format!("{}-{what}", nic.replace('.', "/"));
        let talk = move || talk(&job_out, &outcome_in, &calls, &done);
        peer.threads.push(Thread::spawn(&name("talk"), &[], Class::Peer, confinement, talk)?);
        let course = move || course.run();
        peer.threads.push(Thread::spawn(&name("peer"), &[], Class::Peer, confinement, course)?);
        Ok(peer)
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns its counters.
    pub fn counters(&self) -> &PeerCounters {
        &self.shared.counters
    }

    /// Returns its status and, if it is away, the reason if known.
    pub fn status(&self) -> (Status, Option<String>) {
        let status = self.shared.status();
        (status, self.shared.said().why.clone().filter(|_| status == Status::Away))
    }

    /// Returns true if a peer is connected.
    pub fn is_there(&self) -> bool {
        self.shared.status() != Status::Away
    }

    /// Returns the process at the other end of the socket, or the last one, if known.
    pub fn process(&self) -> Option<i32> {
        self.shared.said().process
    }

    /// Returns the features of the current or last peer; if none has connected yet, those of every peer.
    pub fn offer(&self) -> Offer {
        self.shared.said().offer.unwrap_or(Offer::LEAST)
    }

    /// Releases our threads that are blocked in doorbells of the peer. To be called about ten times a second;
    /// never blocks.
    pub fn interrupt_blocked_writers(&self) {
        self.shared.interrupt_blocked_writers();
    }

    /// Returns the interface for a device model.
    pub fn receiver(&self) -> Arc<dyn Receiver> {
        Arc::new(PeerReceiver(self.shared.clone()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        self.shared.ring();
        // One thread ends the other once the peer has returned the queues, or the observed time for that is over;
        // the peer may block it in a doorbell.
        Thread::urge_all(&mut self.threads, END_LIMIT, |_, _| self.shared.interrupt_blocked_writers());
    }
}

/// The interface for a device model.
struct PeerReceiver(Arc<Shared>);

impl Receiver for PeerReceiver {
    fn begin(&self, set_up: SetUp) {
        self.0.know(&set_up);
        let mut wishes = self.0.lock();
        wishes.set_up = Some(Arc::new(set_up));
        // A driver uses one pair until it enables more (virtio 1.2, section 5.1.6.5.5).
        wishes.pairs = 1;
        wishes.turn += 1;
        drop(wishes);
        self.0.ring();
    }

    fn use_pairs(&self, pairs: usize) {
        self.0.lock().pairs = pairs;
        self.0.ring();
    }

    fn recall(&self) {
        self.0.recall();
    }

    fn end(&self) {
        self.0.recall();
        let mut wishes = self.0.lock();
        if !std::mem::take(&mut wishes.recalled) {
            return;
        }
        let clock = &self.0.clock;
        let (turn, mut limit) = (wishes.turn, ObservedLimit::new(RETURN_LIMIT, clock()));
        while wishes.settled < turn && !self.0.quit.load(Ordering::Acquire) {
            if limit.is_over(clock()) {
                return;
            }
            wishes = wait(&self.0.changed, wishes, limit.pause());
        }
    }
}

fn wait<'w>(
    changed: &Condvar,
    wishes: MutexGuard<'w, DriverRequest>,
    most: Duration,
) -> MutexGuard<'w, DriverRequest> {
    changed.wait_timeout(wishes, most).unwrap_or_else(PoisonError::into_inner).0
}

fn event() -> Result<EventFd> {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")
}

#[cfg(test)]
mod tests;
