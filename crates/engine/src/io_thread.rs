//! The vhost thread: moves frames from sources to sinks, polls while there is work, and sleeps when there is none.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::Spin;
use ledger::{WorkCounters, counters};
use nic_port::held;
use port::{Backlog, Bell, Sink, Source, pump_on};
use ring::meter::{Meter, Timed};
use ring::wake::{Party, Poller, Turn};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use sandbox::{Class, Confinement};
use threads::Thread;

/// One way of frames: everything that leaves the source goes to the sink.
pub struct Pump {
    /// Where frames come from.
    pub source: Box<dyn Source>,
    /// Where they go.
    pub sink: Arc<dyn Sink>,
}

counters! {
    /// How one I/O thread spends its passes.
    pub struct IoThreadCounters {
        /// Frames that left a source.
        frames,
        /// Passes over all pumps.
        passes,
        /// Passes that moved nothing.
        passes_empty,
        /// Times it slept.
        sleeps,
        /// Times it was about to sleep and found work in the second look.
        rechecks,
    }
}

/// How long a thread polls for nothing before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It never sleeps.
    Poll,
    /// It sleeps after this time without work.
    Sleep(Duration),
    /// It sleeps as soon as it has nothing to do, and interrupts nobody before ([`nic_port::held`]): it is beside the vCPU that it
    /// wakes, on one CPU.
    Beside,
}

impl From<Spin> for Idle {
    fn from(spin: Spin) -> Self {
        match spin {
            Spin::Always => Self::Poll,
            Spin::For(time) => Self::Sleep(time),
        }
    }
}

/// A running I/O thread.
pub struct IoThread {
    thread: Thread,
    orders: Arc<Orders>,
    counters: Arc<IoThreadCounters>,
    work: Arc<WorkCounters>,
}

/// What the thread is told while it runs.
struct Orders {
    /// One of the orders below.
    order: AtomicU32,
    /// How it is to idle.
    idle: Mutex<Idle>,
    /// Wakes it.
    bell: OwnedFd,
}

/// To go on.
const SERVE: u32 = 0;
/// To look at [`Orders::idle`] again, and go on.
const LOOK: u32 = 1;
/// To end.
const STOP: u32 = 2;

impl Orders {
    fn new(idle: Idle) -> Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .context("cannot make an event descriptor")?;
        Ok(Self { order: AtomicU32::new(SERVE), idle: Mutex::new(idle), bell })
    }

    fn idle(&self) -> Idle {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // A full counter means that it is ringing already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes the ring back by which the thread was woken. What is ordered is not in the bell: it may ring for an order that the
    /// thread has seen already, and would then ring for ever.
    fn heard(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
    }

    /// Takes note that the thread has seen [`LOOK`]; false if it is to end.
    fn seen(&self) -> bool {
        // An order to end may have come in the place of the one to look, and stays.
        self.order.compare_exchange(LOOK, SERVE, Ordering::AcqRel, Ordering::Acquire) != Err(STOP)
    }
}

impl IoThread {
    /// Starts a thread called `name` on these CPUs (empty: anywhere) that serves the pumps until it is dropped.
    pub fn spawn(
        name: &str,
        cpus: &[usize],
        pumps: Vec<Pump>,
        idle: Idle,
        confinement: Confinement,
    ) -> Result<Self> {
        let orders = Arc::new(Orders::new(idle)?);
        let (counters, work) = <(Arc<IoThreadCounters>, Arc<WorkCounters>)>::default();
        let pumps: Vec<_> = pumps.into_iter().map(|pump| (pump, Backlog::default())).collect();
        let waits = Vec::with_capacity(pumps.len());
        let mut body = Loop {
            pumps,
            waits,
            orders: orders.clone(),
            counters: counters.clone(),
            work: work.clone(),
            meter: Meter::default(),
            since: Instant::now(),
        };
        let thread = Thread::spawn(name, cpus, Class::Vhost, confinement, move || body.run())?;
        Ok(Self { thread, orders, counters, work })
    }

    /// Lets it idle in another way from now on. Nothing that it moves is held up or lost by that.
    pub fn set_idle(&self, idle: Idle) {
        *self.orders.idle.lock().unwrap_or_else(PoisonError::into_inner) = idle;
        // Where it is about to end, there is nothing to say.
        let _ = self.orders.order.compare_exchange(SERVE, LOOK, Ordering::AcqRel, Ordering::Relaxed);
        self.orders.ring();
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// How it spends its passes.
    pub fn counters(&self) -> &Arc<IoThreadCounters> {
        &self.counters
    }

    /// What frames cost it.
    pub fn work(&self) -> &Arc<WorkCounters> {
        &self.work
    }

    /// Ends the thread; its sources and sinks are dropped there.
    pub fn stop(&mut self) {
        self.tell_to_end();
        self.thread.join();
    }

    /// Ends several, which have the same time for it together.
    pub(crate) fn stop_all(mut threads: Vec<Self>) {
        threads.iter().for_each(Self::tell_to_end);
        Thread::join_all(threads.iter_mut().map(|io| &mut io.thread));
    }

    fn tell_to_end(&self) {
        self.orders.order.store(STOP, Ordering::Release);
        self.orders.ring();
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Loop {
    pumps: Vec<(Pump, Backlog)>,
    waits: Vec<Wait>,
    orders: Arc<Orders>,
    counters: Arc<IoThreadCounters>,
    work: Arc<WorkCounters>,
    meter: Meter,
    since: Instant,
}

/// Passes by which a thread measures, before its first frame, what an empty pass costs.
const CALIBRATION: u32 = 64;

impl Loop {
    fn run(&mut self) {
        loop {
            let idle = self.orders.idle();
            held::hold(idle == Idle::Beside);
            let mut poller = Poller::new(self.spin(idle));
            while self.orders.order.load(Ordering::Relaxed) == SERVE {
                match poller.turn(self, Self::sleep) {
                    Turn::Slept => self.counters.sleeps.add(1),
                    Turn::Stayed => self.counters.rechecks.add(1),
                    Turn::Moved | Turn::Empty => {}
                }
            }
            if !self.orders.seen() {
                held::hold(false);
                return;
            }
        }
    }

    /// How many empty passes fit into the time that the thread may poll for nothing.
    fn spin(&mut self, idle: Idle) -> u32 {
        let budget = match idle {
            Idle::Poll => return u32::MAX,
            Idle::Beside => return 0,
            Idle::Sleep(budget) => budget,
        };
        let start = Instant::now();
        for _ in 0..CALIBRATION {
            self.poll();
        }
        let pass = (start.elapsed() / CALIBRATION).max(Duration::from_nanos(1));
        (budget.as_nanos() / pass.as_nanos()).min(u128::from(u32::MAX - 1)) as u32
    }

    fn sleep(&mut self) {
        let mut fds = vec![PollFd::new(&self.orders.bell, PollFlags::IN)];
        let mut events: Vec<BorrowedFd<'_>> = Vec::new();
        for ((p, _), wait) in self.pumps.iter().zip(&self.waits) {
            // A pump that waits for room still tends its source.
            for bell in match wait {
                Wait::Room => [p.sink.bell(), p.source.timer()],
                Wait::Frames | Wait::Nothing => [p.source.bell(), Bell::None],
            } {
                match bell {
                    Bell::None => {}
                    Bell::Event(fd) => {
                        fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                        events.push(fd);
                    }
                    Bell::Readable(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                }
            }
        }
        // An interrupted poll is a spurious wake-up, which every caller allows for.
        let _ = poll(&mut fds, None);
        if fds.first().is_some_and(|own| !own.revents().is_empty()) {
            self.orders.heard();
        }
        for fd in events {
            // Not rung: the read says so and nothing is lost.
            let _ = rustix::io::read(fd, &mut [0u8; 8]);
        }
    }
}

impl Party for Loop {
    #[inline]
    fn poll(&mut self) -> bool {
        let begun = self.meter.begin();
        let pumps = self.pumps.iter_mut();
        let moved: usize = pumps.map(|(p, backlog)| pump_on(&mut *p.source, &*p.sink, backlog)).sum();
        self.counters.passes.add(1);
        if moved == 0 {
            self.counters.passes_empty.add(1);
            held::release();
            return false;
        }
        self.counters.frames.add(moved as u64);
        held::release_late();
        match self.meter.end(begun, moved as u64) {
            None => {}
            Some(Timed::Whole(cycles)) => self.work.add_pass(cycles, moved as u64),
            Some(Timed::Torn) => self.work.torn.add(1),
        }
        true
    }

    fn arm(&mut self) -> bool {
        self.waits.clear();
        self.waits.extend(self.pumps.iter_mut().map(arm));
        self.waits.contains(&Wait::Nothing)
    }

    fn disarm(&mut self) {
        for (p, _) in &mut self.pumps {
            p.source.disarm();
            p.sink.disarm();
        }
    }

    fn now(&self) -> Option<u64> {
        // 1024 ns are a microsecond here.
        Some(self.since.elapsed().as_nanos() as u64 >> 10)
    }

    fn give_way(&mut self) {
        std::thread::yield_now();
    }
}

/// What a pump waits for before it can move a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing: it can go on.
    Nothing,
    /// Frames in its source.
    Frames,
    /// Room in its sink. The source has frames, and a source that stays readable must not keep us awake.
    Room,
}

fn arm((pump, backlog): &mut (Pump, Backlog)) -> Wait {
    let frames = pump.source.arm() || !backlog.is_empty();
    match (frames, pump.sink.arm()) {
        (true, true) => Wait::Nothing,
        (true, false) => Wait::Room,
        (false, _) => Wait::Frames,
    }
}

#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
