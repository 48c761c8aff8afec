use std::thread;

use host::cores;

use super::*;

#[test]
fn what_other_threads_take_is_not_taken() {
    let cpu = cores::allowed().unwrap()[0];
    let gaps = StolenTimeDetector::start(cpu).unwrap();
    let (other, _) = seated("burn/other", cpu, || {}).unwrap();
    let (before, start) = (gaps.look(), Instant::now());
    let raw = gaps.told.lost_ns.load(Relaxed);
    thread::sleep(Duration::from_millis(600));
    let taken = StolenTime { elapsed: start.elapsed().as_secs_f64(), ..gaps.look().since(&before) };
    let raw = (gaps.told.lost_ns.load(Relaxed) - raw) as f64 * 1e-9;
    drop(other);
    assert!(taken.gaps >= 1.0 && raw > 0.1 * taken.elapsed, "the other one ran: {taken:?}, {raw}");
    // A wait that has not ended yet is counted in neither.
    assert!(taken.lost.abs() < 0.2 * taken.elapsed, "{taken:?} of {raw}");
}

/// Tests that see kernel threads, which are visible only in the host's initial PID namespace.
mod alone {
    use super::*;

    #[test]
    fn the_kernel_carries_softirqs_on_in_a_thread() {
        let cpu = cores::allowed().unwrap()[0];
        match thread_of_softirqs(cpu) {
            Some(path) => assert!(number(&File::open(path).unwrap(), 2) > 0.0, "it has run"),
            None => println!("SKIPPED: no threads of the kernel are to be seen here"),
        }
        assert_eq!(thread_of_softirqs(usize::MAX), None);
    }
}
