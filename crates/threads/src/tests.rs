use super::*;

fn spawn(body: impl FnOnce() + Send + 'static) -> Thread {
    Thread::spawn("edge/test", &[], Class::Vhost, Confinement::Off, body).expect("a thread")
}

/// A thread that runs until its flag is set, and the flag.
fn held() -> (Thread, Arc<AtomicBool>) {
    let end = Arc::<AtomicBool>::default();
    let told = end.clone();
    let body = move || {
        while !told.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    (spawn(body), end)
}

#[test]
fn a_meter_never_goes_back_and_reads_no_stranger() {
    let ended = Arc::<AtomicBool>::default();
    let meter =
        CpuMeter { name: String::new(), tid: gettid(), ended: ended.clone(), seen: AtomicU64::new(0) };
    assert_eq!(meter.note(|_| 700), 700);
    assert_eq!(meter.note(|_| 0), 700, "the clock could not be read");
    assert_eq!(meter.note(|_| 900), 900);
    ended.store(true, Ordering::Release);
    assert_eq!(meter.note(|_| 5_000_000), 900, "its number is another thread's by now");
}

#[test]
fn a_thread_that_has_ended_keeps_its_time() {
    let mut thread = spawn(|| ());
    let meter = thread.meter();
    thread.join();
    let last = meter.read();
    assert_eq!((meter.name(), meter.read()), ("edge/test", last));
    assert!(meter.ended.load(Ordering::Acquire));
}

#[test]
fn a_thread_that_waits_in_a_call_is_taken_out_of_it() {
    use rustix::event::{EventfdFlags, eventfd};
    // No one ever writes to it.
    let nothing = eventfd(0, EventfdFlags::CLOEXEC).expect("an event descriptor");
    let mut thread = spawn(move || {
        let _ = rustix::io::read(&nothing, &mut [0; 8]);
    });
    assert!(thread.join());
}

#[test]
fn a_thread_that_does_not_end_is_left_behind() {
    let (mut thread, end) = held();
    assert_eq!(Thread::end_all([&mut thread], Duration::ZERO, Duration::from_millis(1)), 1);
    // The thread was abandoned; there is nothing to wait for any more.
    assert!(thread.join());
    end.store(true, Ordering::Release);
}

#[test]
fn of_several_threads_those_are_left_behind_that_do_not_end() {
    let (held, end) = held();
    let mut threads = [held, spawn(|| ())];
    while !threads[1].is_finished() {
        std::thread::yield_now();
    }
    assert_eq!(Thread::end_all(&mut threads, Duration::ZERO, Duration::ZERO), 1);
    end.store(true, Ordering::Release);
}
