use port::Frame;
use port::pair::{PairPort, pair};
use ring::Bytes;
use rustix::event::Timespec;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// An I/O thread that moves frames from one wire to another.
struct Bench {
    near: PairPort,
    far: PairPort,
    thread: IoThread,
}

fn bench(idle: Idle) -> Bench {
    let (near, one) = pair(256).expect("a wire");
    let (other, far) = pair(256).expect("a wire");
    let pumps = vec![
        Pump { source: Box::new(one.source), sink: other.sink },
        Pump { source: Box::new(other.source), sink: one.sink },
    ];
    let thread = IoThread::spawn("test/vhost", &[], pumps, idle, Confinement::Off).expect("a thread");
    Bench { near, far, thread }
}

pub(super) fn deliver(sink: &dyn Sink, count: usize) {
    let mut octets = vec![[7u8; 60]; count];
    let frames: Vec<Frame<'_>> =
        octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    assert_eq!(sink.deliver(&frames), count);
}

pub(super) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for frames at the far end.
fn collect(source: &mut dyn Source, count: usize) {
    let mut came = 0;
    wait_for("the frames", || {
        came += source.drain(64, &mut |_| {});
        came == count
    });
}

/// Returns true if the thread sleeps; a thread that only waits for its CPU is runnable (R).
fn is_asleep(thread: &IoThread) -> bool {
    let stat = format!("/proc/self/task/{}/stat", thread.thread().tid());
    std::fs::read_to_string(stat).expect("its state").contains(") S ")
}

#[test]
fn it_sleeps_and_every_frame_wakes_it() {
    let mut bench = bench(Idle::Sleep(Duration::from_micros(50)));
    let counters = bench.thread.counters().clone();
    for round in 1..=200 {
        // In some rounds it is asleep, in others about to fall asleep.
        if round % 3 == 0 {
            wait_for("the thread to fall asleep", || is_asleep(&bench.thread));
        }
        deliver(&*bench.near.sink, 1);
        collect(&mut bench.far.source, 1);
        deliver(&*bench.far.sink, 3);
        collect(&mut bench.near.source, 3);
    }
    // The last frames are counted after they were delivered.
    wait_for("all to be counted", || counters.frames.get() >= 800);
    assert_eq!(counters.frames.get(), 800);
}

#[test]
fn asleep_it_costs_nothing() {
    let bench = bench(Idle::Sleep(Duration::from_micros(50)));
    let passes = || bench.thread.counters().passes.get();
    let sleeps = || is_asleep(&bench.thread);
    let mut before = 0;
    wait_for("the thread to fall asleep", || {
        let asleep = sleeps();
        before = passes();
        asleep && before > 0
    });
    assert!(sleeps(), "nothing wakes it");
    assert_eq!(passes(), before);
}

#[test]
fn a_thread_that_polls_never_sleeps() {
    let mut bench = bench(Idle::Poll);
    deliver(&*bench.near.sink, 64);
    collect(&mut bench.far.source, 64);
    wait_for("many passes", || bench.thread.counters().passes.get() > 10_000);
    assert_eq!(bench.thread.counters().sleeps.get(), 0);
}

#[test]
fn it_stops_whatever_it_does() {
    for idle in
        [Idle::Poll, Idle::SharesVcpuCpu, Idle::Sleep(Duration::ZERO), Idle::Sleep(Duration::from_micros(50))]
    {
        for round in 0..20 {
            let mut bench = bench(idle);
            deliver(&*bench.near.sink, 10);
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let start = Instant::now();
            bench.thread.stop();
            // Far more than it takes; without the wake-up the thread would never end.
            assert!(start.elapsed() < PATIENCE);
            assert!(bench.thread.thread().is_finished());
        }
    }
}

#[test]
fn a_full_wire_keeps_frames_where_they_are_until_there_is_room() {
    let (near, one) = pair(1024).expect("a wire");
    let (other, mut far) = pair(64).expect("a wire");
    let pumps = vec![Pump { source: Box::new(one.source), sink: other.sink }];
    let _thread = IoThread::spawn("test/vhost", &[], pumps, Idle::Poll, Confinement::Off).expect("a thread");
    for _ in 0..10 {
        deliver(&*near.sink, 64);
    }
    collect(&mut far.source, 640);
}

#[test]
fn a_cpu_that_is_not_there_is_one_line() {
    let error =
        IoThread::spawn("test/vhost", &[1023], vec![], Idle::Poll, Confinement::Off).err().expect("refused");
    let line = format!("{error:#}");
    assert!(line.starts_with("thread test/vhost: cannot run on CPU [1023]"), "{line}");
}

#[test]
fn a_bell_that_rings_for_an_order_that_was_seen_already_is_heard_once() {
    let bench = bench(Idle::Sleep(Duration::from_micros(50)));
    // The order of events if the thread sees the command before the eventfd is signalled.
    bench.thread.orders.ring();
    wait_for("the thread to take the ring", || {
        let mut bell = [PollFd::new(&bench.thread.orders.bell, PollFlags::IN)];
        poll(&mut bell, Some(&Timespec::default())) == Ok(0)
    });
}

#[test]
fn a_thread_whose_core_others_want_sleeps_before_its_time() {
    let (stop, spinner) = (Arc::new(AtomicU32::new(0)), [0]);
    let seen = stop.clone();
    let body = move || while seen.load(Ordering::Relaxed) == 0 {};
    let mut other =
        Thread::spawn("test/spinner", &spinner, Class::Vhost, Confinement::Off, body).expect("a thread");
    let (near, one) = pair(256).expect("a wire");
    let (end, mut far) = pair(256).expect("a wire");
    let pumps = vec![Pump { source: Box::new(one.source), sink: end.sink }];
    // With no other load it would poll for an hour.
    let idle = Idle::Sleep(Duration::from_secs(3600));
    let thread = IoThread::spawn("test/vhost", &[0], pumps, idle, Confinement::Off).expect("a thread");
    // A sleep is counted when it ends.
    wait_for("the thread to have slept", || {
        deliver(&*near.sink, 1);
        collect(&mut far.source, 1);
        std::thread::sleep(Duration::from_millis(20));
        thread.counters().sleeps.get() > 0
    });
    stop.store(1, Ordering::Relaxed);
    other.join();
}
