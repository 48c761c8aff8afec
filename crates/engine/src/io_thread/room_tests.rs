//! Frames that wait for room: the thread sleeps until there is room, although the source is readable all the
//! time.

use std::os::fd::AsFd;
use std::sync::atomic::AtomicUsize;

use port::pair::pair;
use port::{Frame, SourceWrapper};

use super::tests::{deliver, wait_for};
use super::*;

/// A sink with a bell and an adjustable amount of room.
struct Gate {
    room: AtomicUsize,
    taken: AtomicUsize,
    bell: OwnedFd,
}

impl Gate {
    fn new() -> Arc<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a bell");
        Arc::new(Self { room: AtomicUsize::new(0), taken: AtomicUsize::new(0), bell })
    }

    fn open(&self, room: usize) {
        self.room.fetch_add(room, Ordering::SeqCst);
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).expect("rung");
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

impl Sink for Gate {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let taken = frames.len().min(self.room());
        self.room.fetch_sub(taken, Ordering::SeqCst);
        self.taken.fetch_add(taken, Ordering::SeqCst);
        taken
    }

    fn room(&self) -> usize {
        self.room.load(Ordering::SeqCst)
    }

    fn arm(&self) -> bool {
        self.room() > 0
    }

    fn bell(&self) -> Bell<'_> {
        Bell::Event(self.bell.as_fd())
    }
}

#[test]
fn frames_without_room_do_not_keep_the_thread_awake_and_room_wakes_it() {
    let (near, far) = pair(256).expect("a wire");
    let gate = Gate::new();
    let pumps = vec![Pump { source: Box::new(far.source), sink: gate.clone() }];
    let idle = Idle::Sleep(Duration::from_micros(50));
    let thread = IoThread::spawn("test/vhost", &[], pumps, idle, Confinement::Off).expect("a thread");
    deliver(&*near.sink, 100);
    let look = || (thread.counters().passes.get(), thread.thread().cpu_time());
    wait_for("the thread to sleep", || {
        let (passes, cpu) = look();
        std::thread::sleep(Duration::from_millis(50));
        let (later, spent) = look();
        passes > 0 && later == passes && spent - cpu < Duration::from_millis(1)
    });
    assert_eq!(gate.taken(), 0);
    for room in [1, 10, 89] {
        let before = gate.taken();
        gate.open(room);
        wait_for("frames that have room", || gate.taken() == before + room);
    }
    assert_eq!(gate.taken(), 100);
}

#[test]
fn frames_that_come_to_an_open_gate_wake_the_thread_too() {
    let (near, far) = pair(256).expect("a wire");
    let gate = Gate::new();
    gate.open(1000);
    let pumps = vec![Pump { source: Box::new(far.source), sink: gate.clone() }];
    let idle = Idle::Sleep(Duration::ZERO);
    let _thread = IoThread::spawn("test/vhost", &[], pumps, idle, Confinement::Off).expect("a thread");
    for turn in 1..=1000 {
        deliver(&*near.sink, 1);
        wait_for("the frame", || gate.taken() == turn);
    }
}

/// A source whose frame finds no room, and which has other work when its timer fires.
struct Busy {
    timer: Arc<OwnedFd>,
    tended: Arc<AtomicUsize>,
}

impl Source for Busy {
    fn drain(&mut self, _: usize, _: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        unreachable!("there is no room")
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn tend(&mut self) {
        if rustix::io::read(&*self.timer, &mut [0u8; 8]).is_ok() {
            self.tended.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn timer(&self) -> Bell<'_> {
        Bell::Readable(self.timer.as_fd())
    }
}

#[test]
fn a_source_whose_frames_wait_for_room_is_tended() {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let timer = Arc::new(eventfd(0, flags).expect("a bell"));
    let tended = Arc::new(AtomicUsize::new(0));
    let source = Busy { timer: timer.clone(), tended: tended.clone() };
    let pumps = vec![Pump { source: Box::new(source), sink: Gate::new() }];
    let idle = Idle::Sleep(Duration::ZERO);
    let thread = IoThread::spawn("test/vhost", &[], pumps, idle, Confinement::Off).expect("a thread");
    for turn in 1..=100 {
        rustix::io::write(&*timer, &1u64.to_ne_bytes()).expect("rung");
        wait_for("the source to be tended", || tended.load(Ordering::SeqCst) == turn);
    }
    drop(thread);
}

/// A source whose frames do not wait for room, and which shows them in some passes only.
struct Heedless {
    source: Box<dyn Source>,
    passes: u32,
}

impl SourceWrapper for Heedless {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.passes = self.passes.wrapping_add(1);
        if self.passes.is_multiple_of(16) { self.source.drain(budget, take) } else { 0 }
    }

    fn waits_on(&self) -> bool {
        false
    }
}

#[test]
fn no_thread_sleeps_for_room_that_its_frames_do_not_need() {
    let (near, far) = pair(256).expect("a wire");
    let source = Box::new(Heedless { source: Box::new(far.source), passes: 0 });
    let pumps = vec![Pump { source, sink: Gate::new() }];
    let idle = Idle::Sleep(Duration::ZERO);
    let thread = IoThread::spawn("test/vhost", &[], pumps, idle, Confinement::Off).expect("a thread");
    for turn in 1..=100 {
        deliver(&*near.sink, 1);
        wait_for("the frame to leave its source", || thread.counters().frames.get() == turn);
    }
}
