//! I/O thread (the papers' vhost thread): moves frames from sources to sinks, polls while there is work, and
//! sleeps when there is none.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::Spin;
use ledger::{WorkCounters, counters};
use nic_port::deferred;
use port::{Backlog, Bell, Sink, Source, pump_on};
use ring::meter::{Meter, Timed};
use ring::wake::{Poller, RingServer, Turn};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use sandbox::{Class, Confinement};
use threads::Thread;

/// One direction of frames: everything that leaves the source is delivered to the sink.
pub struct Pump {
    /// The origin of the frames.
    pub source: Box<dyn Source>,
    /// The destination of the frames.
    pub sink: Arc<dyn Sink>,
}

counters! {
    /// Counters of one I/O thread's passes.
    pub struct IoThreadCounters {
        /// Frames that left a source.
        frames,
        /// Passes over all pumps.
        passes,
        /// Passes in which no frame was moved.
        passes_empty,
        /// Times it slept.
        sleeps,
        /// Times it was about to sleep and found work in the recheck.
        rechecks,
    }
}

/// Idle policy: how long a thread polls without work before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Busy-polls and never sleeps.
    Poll,
    /// Sleeps after this time without work.
    Sleep(Duration),
    /// Sleeps as soon as it has no work, and holds back interrupts until then ([`nic_port::deferred`]): it shares
    /// a CPU with the vCPU that it wakes.
    SharesVcpuCpu,
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

/// Commands to the running thread.
struct Orders {
    /// One of the commands below.
    order: AtomicU32,
    /// Idle policy.
    idle: Mutex<Idle>,
    /// Eventfd that wakes the thread.
    bell: OwnedFd,
}

/// Continue.
const SERVE: u32 = 0;
/// Read [`Orders::idle`] again, and continue.
const LOOK: u32 = 1;
/// Terminate.
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
        // A full counter means that the eventfd is signalled already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Resets the eventfd that has woken the thread. The command itself is not in the eventfd: it may be
    /// signalled for a command that the thread has seen already, and would then stay signalled.
    fn clear_eventfd(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
    }

    /// Acknowledges [`LOOK`]; returns false if the thread is to terminate.
    fn acknowledge_look(&self) -> bool {
        // A STOP may have replaced the LOOK meanwhile, and stays.
        self.order.compare_exchange(LOOK, SERVE, Ordering::AcqRel, Ordering::Acquire) != Err(STOP)
    }
}

impl IoThread {
    /// Starts a thread called `name` on these CPUs (empty: any CPU) that serves the pumps until it is
    /// dropped.
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

    /// Changes its idle policy. Frames are neither delayed nor lost by that.
    pub fn set_idle(&self, idle: Idle) {
        *self.orders.idle.lock().unwrap_or_else(PoisonError::into_inner) = idle;
        // If the thread is about to terminate, the command stays STOP.
        let _ = self.orders.order.compare_exchange(SERVE, LOOK, Ordering::AcqRel, Ordering::Relaxed);
        self.orders.ring();
    }

    /// Returns the thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Returns the counters of its passes.
    pub fn counters(&self) -> &Arc<IoThreadCounters> {
        &self.counters
    }

    /// Returns the counters of what frames cost it.
    pub fn work(&self) -> &Arc<WorkCounters> {
        &self.work
    }

    /// Stops the thread and waits for its end; its sources and sinks are dropped there.
    pub fn stop(&mut self) {
        self.tell_to_end();
        self.thread.join();
    }

    /// Stops several threads concurrently, within one common time limit.
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

/// Number of passes by which a thread measures, before its first frame, the cost of an empty pass.
const CALIBRATION: u32 = 64;

impl Loop {
    fn run(&mut self) {
        loop {
            let idle = self.orders.idle();
            deferred::hold(idle == Idle::SharesVcpuCpu);
            let mut poller = Poller::new(self.spin(idle));
            while self.orders.order.load(Ordering::Relaxed) == SERVE {
                match poller.turn(self, Self::sleep) {
                    Turn::Slept => self.counters.sleeps.add(1),
                    Turn::Stayed => self.counters.rechecks.add(1),
                    Turn::Moved | Turn::Empty => {}
                }
            }
            if !self.orders.acknowledge_look() {
                deferred::hold(false);
                return;
            }
        }
    }

    /// Returns how many empty passes fit into the polling budget.
    fn spin(&mut self, idle: Idle) -> u32 {
        let budget = match idle {
            Idle::Poll => return u32::MAX,
            Idle::SharesVcpuCpu => return 0,
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
            // A pump that waits for room still serves its source's timer.
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
            self.orders.clear_eventfd();
        }
        for fd in events {
            // If it was not signalled the read fails with EAGAIN, and nothing is lost.
            let _ = rustix::io::read(fd, &mut [0u8; 8]);
        }
    }
}

impl RingServer for Loop {
    #[inline]
    fn poll(&mut self) -> bool {
        let begun = self.meter.begin();
        let pumps = self.pumps.iter_mut();
        let moved: usize = pumps.map(|(p, backlog)| pump_on(&mut *p.source, &*p.sink, backlog)).sum();
        self.counters.passes.add(1);
        if moved == 0 {
            self.counters.passes_empty.add(1);
            deferred::release();
            return false;
        }
        self.counters.frames.add(moved as u64);
        deferred::release_late();
        match self.meter.end(begun, moved as u64) {
            None => {}
            Some(Timed::Whole(cycles)) => self.work.add_pass(cycles, moved as u64),
            Some(Timed::Preempted) => self.work.torn.add(1),
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
        // A microsecond is taken as 1024 ns here.
        Some(self.since.elapsed().as_nanos() as u64 >> 10)
    }

    fn yield_core(&mut self) {
        std::thread::yield_now();
    }
}

/// Condition that a pump waits for before it can move a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// It can proceed at once.
    Nothing,
    /// Frames in its source.
    Frames,
    /// Room in its sink. The source has frames, and a source that stays readable must not keep the thread
    /// awake.
    Room,
}

fn arm((pump, backlog): &mut (Pump, Backlog)) -> Wait {
    let frames = pump.source.arm() || !backlog.is_empty();
    match (frames, pump.sink.arm()) {
        (true, false) if pump.source.waits() => Wait::Room,
        // Frames that do not wait are drained without room as well.
        (true, _) => Wait::Nothing,
        (false, _) => Wait::Frames,
    }
}

#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
