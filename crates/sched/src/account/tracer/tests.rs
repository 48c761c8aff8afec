use std::net::UdpSocket;
use std::process;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::super::{Account, Sample, Split, Thread, TimeCategory};
use super::*;

/// Sends datagrams to an unread socket on the loopback device, whose softirq receives and drops them: 3 ms of
/// every 10.
fn flood(long: Duration) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("another");
    let to = nobody.local_addr().expect("its address");
    let start = Instant::now();
    while start.elapsed() < long {
        let burst = Instant::now();
        while burst.elapsed() < Duration::from_millis(3) {
            let _ = socket.send_to(&[7; 1400], to);
        }
        std::thread::sleep(Duration::from_millis(7));
    }
}

mod alone {
    use super::*;

    mod all {
        use super::*;

        /// In the long run the tracer agrees with the kernel's ticks, and the interrupted thread is known.
        #[test]
        fn softirqs_are_found_where_they_ran() {
            let mut tracer = match Tracer::start() {
                Ok(tracer) => tracer,
                Err(error) => return println!("SKIPPED: no tracer here: {error}"),
            };
            let cpu = sched_getcpu();
            let before_all = sched_getaffinity(None).expect("an affinity");
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).expect("it runs here already");
            let tid = gettid().as_raw_nonzero().get();
            tracer.watch(&[tid]).expect("one thread");
            let thread = Thread {
                name: "t/flood".to_owned(),
                pid: process::id().cast_signed(),
                tid,
                column: TimeCategory::Vhost,
            };
            let mut account = Account::open(&[cpu as u32], &[thread]).expect("files to read");
            let mut sample = |tracer: &Tracer| {
                let mut sample = account.sample();
                sample.traced = Some(tracer.read());
                sample
            };
            let before = sample(&tracer);
            flood(Duration::from_secs(4));
            let after = sample(&tracer);
            sched_setaffinity(None, &before_all).expect("as it was");

            let split = Split::between(&before, &after);
            let core = split.cores[&(cpu as u32)];
            let own = tracer.read().threads[&tid];
            println!("{core:?}, on the thread's time {own:?}, thread {:?}", split.threads["t/flood"]);
            let ticks = |sample: &Sample| sample.cores[&(cpu as u32)].softirq as f64 * 1e7;
            let sampled = ticks(&after) - ticks(&before);
            // A thousand ticks determine a third of a core to 0.015 of it; six times that happens by chance
            // once in a billion.
            let off = (core.softirq - sampled).abs() / split.interval;
            assert!(off <= 0.09, "{} traced, {sampled} by ticks", core.softirq);
            let busy = split.threads["t/flood"].run + own.softirq_ns as f64;
            assert!(
                own.softirq_ns as f64 >= 0.05 * busy,
                "a flood is received in softirqs: {own:?} of {busy}"
            );
            assert!(own.softirq_ns as f64 <= core.softirq, "{own:?} of {core:?}");
            // No other thread is watched, and a thread that is no longer watched is forgotten.
            assert_eq!(tracer.read().threads.len(), 1);
            tracer.watch(&[]).expect("nobody");
            assert!(tracer.read().threads.is_empty());
            tracer.watch(&[tid]).expect("one thread");
            assert!(tracer.read().threads[&tid].softirq_ns < own.softirq_ns);
        }
    }
}
