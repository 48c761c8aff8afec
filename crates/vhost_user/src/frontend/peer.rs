//! A peer, found and kept.
//!
//! ```text
//!          a peer comes           greeted             the driver is ready, handed over
//!  Away -----------------> Talking ----------> Idle -------------------> Talking ------> Serving
//!   ^ ^                       |                  |                          |               |
//!   | '--- refused, late -----'                  '------ it went away ------'---------------+
//!   '------------------ the driver takes its queues back: given back (Talking) -------------'
//! ```
//!
//! One thread goes through these stages and passes interrupts on where the peer cannot send them itself; another one speaks
//! (`talk`). Neither ever waits for a peer without end, provided that somebody looks ([`Peer::look_after_bells`]).

mod stage;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use door::Door;
use nic_port::{NicQueues, Receiver, SetUp};
use sandbox::{Class, Confinement};
use threads::Thread;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::session::Offer;
use super::talk::talk;
use stage::Course;

/// How long a driver waits until its queues are given back. A peer has less than that.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Most pairs of queues of a NIC.
const MOST_PAIRS: usize = 16;

ledger::counters! {
    /// What is counted of a peer. Its frames are not: they pass nobody here.
    pub struct PeerCounters {
        /// Times that it was handed the rings.
        handed,
        /// Times that it went away with them.
        lost,
        /// Times that one came and could not be used.
        refused,
        /// Interrupts that were passed on to the driver here. What a peer sends by itself is not counted.
        interrupts,
    }
}

/// How it is with a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// None is there.
    #[default]
    Away,
    /// One is there, and the driver is not ready.
    Idle,
    /// It serves the rings.
    Serving,
}

impl Status {
    /// That of this number.
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Away,
            1 => Self::Idle,
            _ => Self::Serving,
        }
    }

    /// Its name in tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Idle => "there",
            Self::Serving => "serves",
        }
    }
}

/// What time it is for the course of things.
type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// What both threads and everybody else know of each other.
struct Shared {
    path: PathBuf,
    /// A [`Status`].
    status: AtomicU8,
    said: Mutex<Said>,
    /// Held by the driver's threads, too: whoever only looks has no need of it.
    wishes: Mutex<Wishes>,
    /// NICs whose queues were to be handed over, as long as anybody has them: threads may be in doorbells of one that was taken back.
    nics: Mutex<Vec<Weak<NicQueues>>>,
    changed: Condvar,
    /// Rung when a wish changes.
    news: EventFd,
    quit: AtomicBool,
    counters: PeerCounters,
}

/// What the driver wants, and how far that has come.
#[derive(Default)]
struct Wishes {
    set_up: Option<Arc<SetUp>>,
    /// Pairs that the driver uses.
    pairs: usize,
    /// Moves with each start and end.
    turn: u64,
    /// Whether what the driver had set up was asked back, and nobody has waited for it yet.
    recalled: bool,
    /// The turn that has been heard of, with nothing of an earlier one in anybody's hands.
    settled: u64,
}

/// What is known of the last peer, for whoever asks.
#[derive(Default)]
struct Said {
    offer: Option<Offer>,
    /// Why it could not be used, or is not there.
    why: Option<String>,
    /// The process that it is, where that is known.
    process: Option<i32>,
}

impl Shared {
    fn status(&self) -> Status {
        Status::of(self.status.load(Ordering::Acquire))
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes threads out of doorbells that make them wait, and has a peer sent away for it. Waits for nobody.
    fn look_after_bells(&self) {
        // Somebody begins or looks just now.
        let Ok(mut nics) = self.nics.try_lock() else { return };
        nics.retain(|nic| nic.strong_count() > 0);
        let mut deaf = false;
        for nic in nics.iter().filter_map(Weak::upgrade) {
            nic.look_after_bells();
            deaf |= nic.is_deaf();
        }
        drop(nics);
        if deaf && self.status() == Status::Serving {
            self.ring();
        }
    }

    /// Takes note of a NIC whose queues are to be handed over.
    fn know(&self, set_up: &SetUp) {
        let Some(nic) = set_up.nic() else { return };
        let mut nics = self.nics.lock().unwrap_or_else(PoisonError::into_inner);
        if !nics.iter().any(|known| known.as_ptr() == Arc::as_ptr(nic)) {
            nics.push(Arc::downgrade(nic));
        }
    }

    /// Asks for what was handed over.
    fn recall(&self) {
        let mut wishes = self.lock();
        if wishes.set_up.take().is_some() {
            wishes.turn += 1;
            wishes.recalled = true;
            self.ring();
        }
    }

    fn ring(&self) {
        // The only error is a full counter, and then it is rung.
        let _ = self.news.write(1);
    }
}

/// The one who is handed the rings of a NIC. Dropping it takes them back.
pub struct Peer {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

impl Peer {
    /// Waits for a peer at this door, for the NIC `router.nic`, and keeps it.
    ///
    /// # Errors
    /// No thread or descriptor can be had.
    pub fn new(nic: &str, door: Arc<Door>, confinement: Confinement) -> Result<Self> {
        Self::with_clock(nic, door, confinement, Arc::new(Instant::now))
    }

    fn with_clock(nic: &str, door: Arc<Door>, confinement: Confinement, clock: Clock) -> Result<Self> {
        let shared = Arc::new(Shared {
            path: door.path().to_owned(),
            status: AtomicU8::new(Status::Away as u8),
            said: Mutex::default(),
            wishes: Mutex::default(),
            nics: Mutex::default(),
            changed: Condvar::new(),
            news: event()?,
            quit: AtomicBool::new(false),
            counters: PeerCounters::default(),
        });
        let calls = (0..2 * MOST_PAIRS).map(|_| event()).collect::<Result<Vec<_>>>()?;
        let calls = Arc::new(calls);
        let (job_in, job_out) = mpsc::channel();
        let (outcome_in, outcome_out) = mpsc::channel();
        let done = Arc::new(event()?);
        let (known, events) = ((clock, shared.clone()), (calls.clone(), done.clone()));
        let course = Course::new(known, door, job_in, outcome_out, events);
        let mut peer = Self { shared, threads: Vec::new() };
        let name = |what| format!("{}-{what}", nic.replace('.', "/"));
        let talk = move || talk(&job_out, &outcome_in, &calls, &done);
        peer.threads.push(Thread::spawn(&name("talk"), &[], Class::Peer, confinement, talk)?);
        let course = move || course.run();
        peer.threads.push(Thread::spawn(&name("peer"), &[], Class::Peer, confinement, course)?);
        Ok(peer)
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What is counted.
    pub fn counters(&self) -> &PeerCounters {
        &self.shared.counters
    }

    /// How it is, and where none is there, why not if that is known.
    pub fn status(&self) -> (Status, Option<String>) {
        let status = self.shared.status();
        (status, self.shared.said().why.clone().filter(|_| status == Status::Away))
    }

    /// Whether one is there.
    pub fn is_there(&self) -> bool {
        self.shared.status() != Status::Away
    }

    /// The process at the other end of the socket, or the last one, where that is known.
    pub fn process(&self) -> Option<i32> {
        self.shared.said().process
    }

    /// What the peer can do, or the last one could; where none has come yet, what every peer can.
    pub fn offer(&self) -> Offer {
        self.shared.said().offer.unwrap_or(Offer::LEAST)
    }

    /// Takes threads of ours out of doorbells that the peer makes wait. To be called about ten times a second; waits for nobody itself.
    pub fn look_after_bells(&self) {
        self.shared.look_after_bells();
    }

    /// As a device model knows it.
    pub fn receiver(&self) -> Arc<dyn Receiver> {
        Arc::new(Hand(self.shared.clone()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        self.shared.ring();
        // One lets go of the other when what the peer was handed is given back; the peer may make it wait in a doorbell.
        Thread::urge_all(&mut self.threads, END_LIMIT, |_, _| self.shared.look_after_bells());
    }
}

/// For a device model.
struct Hand(Arc<Shared>);

impl Receiver for Hand {
    fn begin(&self, set_up: SetUp) {
        self.0.know(&set_up);
        let mut wishes = self.0.lock();
        wishes.set_up = Some(Arc::new(set_up));
        // Of several, a driver uses one until it asks for more (virtio 1.2, section 5.1.6.5.5).
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
        let (turn, end) = (wishes.turn, Instant::now() + END_LIMIT);
        while wishes.settled < turn && !self.0.quit.load(Ordering::Acquire) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            wishes = wait(&self.0.changed, wishes, left);
        }
    }
}

fn wait<'w>(changed: &Condvar, wishes: MutexGuard<'w, Wishes>, most: Duration) -> MutexGuard<'w, Wishes> {
    changed.wait_timeout(wishes, most).unwrap_or_else(PoisonError::into_inner).0
}

fn event() -> Result<EventFd> {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")
}

#[cfg(test)]
mod tests;
