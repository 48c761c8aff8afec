use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::process::getpid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::parse::{cores, schedstat, stat, status};
use super::*;

#[test]
fn cores_by_their_ticks() {
    let text = "cpu  36447 1 10506 89318 3802 7 1359 203 114 0\n\
                cpu0 17129 1 5152 46789 531 3 1245 90 2 0\n\
                cpu12 5 0 6 7 8 9 10 11 0 0\nintr 123 4 5\nctxt 99\ncpu99 1 1 1 1 1 1 1 1\n";
    let cores = cores(text);
    let first = CoreTicks { user: 17130, system: 5152, idle: 47320, irq: 3, softirq: 1245, steal: 90 };
    assert_eq!(cores.get(&0), Some(&first));
    assert_eq!(cores.keys().collect::<Vec<_>>(), [&0, &12], "lines behind the CPUs are something else");
    assert_eq!(first.all(), 70940);
}

#[test]
fn a_thread_by_its_files() {
    let mut times = ThreadTimes::default();
    let text = "77 (a) R (b) S 1 77 77 0 -1 4194560 40 37 0 9 59 273 2 22 10 -10 13 0 24 48 42 \
                18446744073709551615 1 1 0 0 0 0 0 4096 1256 0 0 0 17 3 0 0 0 41 5 0 0 0 0 0 0 0\n";
    assert_eq!(stat(text, &mut times), Some(()));
    assert_eq!(schedstat("597312 65307 2\n", &mut times), Some(()));
    let text =
        "Name:\tvoluntary_ctxt_switches: 9\nvoluntary_ctxt_switches:\t362\nnonvoluntary_ctxt_switches:\t20\n";
    assert_eq!(status(text, &mut times), Some(()));
    let wanted = ThreadTimes {
        tid: 0,
        cpu: 3,
        run_ns: 597_312,
        wait_ns: 65_307,
        user: 59,
        system: 273,
        guest: 41,
        sleeps: 362,
        preemptions: 20,
    };
    assert_eq!(times, wanted);
}

#[test]
fn what_is_no_such_file_is_nothing() {
    for text in ["", "7 (x)", "7 (x) R 1", "no bracket", "7 (x) R a b c d e f g h i j k l m n o p"] {
        assert_eq!(stat(text, &mut ThreadTimes::default()), None, "{text}");
    }
    assert_eq!(schedstat("1", &mut ThreadTimes::default()), None);
    assert_eq!(status("voluntary_ctxt_switches:\tx\n", &mut ThreadTimes::default()), None);
    assert!(cores("cpu0 1 2\ncpux 1 2 3 4 5 6 7 8\n").is_empty());
}

const SECOND: u64 = 1_000_000_000;

fn sample(at_ns: u64, core: CoreTicks, threads: &[(&str, TimeCategory, ThreadTimes)]) -> Sample {
    let threads =
        threads.iter().map(|(name, column, times)| ((*name).to_owned(), (*column, *times))).collect();
    Sample { at_ns, cores: [(1, core)].into(), threads, ..Sample::default() }
}

/// A core as in Fig. 4: a vCPU that spends nine tenths in its guest, a vhost thread, and others.
#[test]
fn a_core_is_split_among_who_had_it() {
    let start = sample(0, CoreTicks::default(), &[]);
    let vcpu = ThreadTimes {
        tid: 5,
        cpu: 1,
        run_ns: 300_000_000,
        user: 27,
        system: 3,
        guest: 27,
        sleeps: 40,
        ..ThreadTimes::default()
    };
    let vhost = ThreadTimes {
        tid: 6,
        cpu: 1,
        run_ns: 250_000_000,
        user: 15,
        system: 10,
        preemptions: 2,
        ..ThreadTimes::default()
    };
    let core = CoreTicks { user: 52, system: 18, idle: 20, irq: 1, softirq: 6, steal: 3 };
    let end = sample(
        SECOND,
        core,
        &[("edge/vcpu0", TimeCategory::Guest, vcpu), ("edge/vhost", TimeCategory::Vhost, vhost)],
    );
    let split = Split::between(&start, &end);
    let percent = |ns: f64| (ns / 1e7).round() as u32;
    let shown = split.cores[&1].columns().map(|(name, ns)| (name, percent(ns)));
    assert_eq!(
        shown,
        [
            ("guest", 27),
            ("vhost", 25),
            // 100 - 27 - 25 - 1 - 6 - 3 - 20, of which the kernel had 8 ticks and programs 10.
            ("kernel", 8),
            ("user", 10),
            ("irq", 1),
            ("softirq", 6),
            ("steal", 3),
            ("idle", 20)
        ]
    );
    let vcpu = split.threads["edge/vcpu0"];
    assert_eq!((percent(vcpu.run), percent(vcpu.guest), percent(vcpu.system)), (30, 27, 3));
    assert_eq!((vcpu.wakeups, vcpu.switches, vcpu.cpu, vcpu.moved), (40, 40, 1, false));
    assert_eq!(split.threads["edge/vhost"].switches, 2);
}

#[test]
fn a_thread_that_is_read_for_the_first_time_has_no_more_than_the_interval() {
    let core = CoreTicks::default();
    let start = sample(10 * SECOND, core, &[]);
    let old =
        ThreadTimes { tid: 6, cpu: 1, run_ns: 910 * SECOND, wait_ns: 77 * SECOND, ..ThreadTimes::default() };
    let mut end = sample(11 * SECOND, core, &[("edge/vhost", TimeCategory::Vhost, old)]);
    end.took_ns = SECOND / 2;
    let split = Split::between(&start, &end).threads["edge/vhost"];
    assert_eq!((split.run, split.wait), (1.5 * SECOND as f64, 1.5 * SECOND as f64));
}

#[test]
fn a_tracer_takes_interrupts_from_whom_they_interrupted() {
    let traced = |softirq_ns| {
        let known = Interrupts { irq_ns: 0, softirq_ns };
        Some(Traced { since_ns: 5, cores: [(1, known)].into(), threads: [(6, known)].into() })
    };
    let before = Sample { traced: traced(7), ..sample(0, CoreTicks::default(), &[]) };
    let vhost = ThreadTimes { tid: 6, cpu: 1, run_ns: 600_000_000, system: 60, ..ThreadTimes::default() };
    // The ticks have seen less softirq time than there was.
    let core = CoreTicks { system: 35, softirq: 25, idle: 40, ..CoreTicks::default() };
    let after = Sample {
        traced: traced(300_000_007),
        ..sample(SECOND, core, &[("edge/vhost", TimeCategory::Vhost, vhost)])
    };
    let split = Split::between(&before, &after);
    let core = split.cores[&1];
    assert_eq!((core.vhost, core.softirq, core.idle, core.traced), (3e8, 3e8, 4e8, true));
    assert_eq!(split.threads["edge/vhost"].run, 3e8);
    // Without a tracer, or with another one than before, the core's own times bound the thread's.
    let another = after.traced.clone().map(|traced| Traced { since_ns: 6, ..traced });
    for (first, second) in [(None, None), (None, after.traced.clone()), (before.traced.clone(), another)] {
        let (before, after) =
            (Sample { traced: first, ..before.clone() }, Sample { traced: second, ..after.clone() });
        let blind = Split::between(&before, &after);
        assert_eq!(
            (blind.cores[&1].vhost, blind.cores[&1].softirq, blind.cores[&1].traced),
            (3.5e8, 2.5e8, false)
        );
    }
}

#[test]
fn another_thread_of_that_name_counts_from_its_start() {
    let times = |tid, run_ns| ThreadTimes { tid, cpu: 1, run_ns, ..ThreadTimes::default() };
    let before = sample(0, CoreTicks::default(), &[("edge/vhost", TimeCategory::Vhost, times(6, 900))]);
    let after = sample(SECOND, CoreTicks::default(), &[("edge/vhost", TimeCategory::Vhost, times(7, 1000))]);
    assert_eq!(Split::between(&before, &after).threads["edge/vhost"].run, 1000.0);
}

prop_compose! {
    fn some_times()(run_ns in 0..3 * SECOND, user in 0..300_u64, system in 0..300_u64, guest in 0..400_u64) -> ThreadTimes {
        ThreadTimes { tid: 1, cpu: 1, run_ns, user, system, guest, ..ThreadTimes::default() }
    }
}

prop_compose! {
    fn some_ticks()(user in 0..200_u64, system in 0..200_u64, idle in 0..200_u64, irq in 0..200_u64, softirq in 0..200_u64,
                    steal in 0..200_u64) -> CoreTicks {
        CoreTicks { user, system, idle, irq, softirq, steal }
    }
}

prop_compose! {
    fn some_interrupts()(are in any::<bool>(), irq_ns in 0..2 * SECOND, softirq_ns in 0..2 * SECOND) -> Option<Interrupts> {
        are.then_some(Interrupts { irq_ns, softirq_ns })
    }
}

proptest! {
    /// Whatever the files and a tracer report, no category is negative, and they add up to the interval.
    #[test]
    fn columns_are_the_interval(vcpu in some_times(), vhost in some_times(), core in some_ticks(), traced in some_interrupts()) {
        let none = traced.map(|_| Traced { cores: [(1, Interrupts::default())].into(), ..Traced::default() });
        let before = Sample { traced: none, ..sample(0, CoreTicks::default(), &[]) };
        let after = sample(SECOND, core, &[("a", TimeCategory::Guest, vcpu), ("b", TimeCategory::Vhost, vhost)]);
        let known = traced.map(|known| Traced { cores: [(1, known)].into(), threads: [(1, known)].into(), ..Traced::default() });
        let split = Split::between(&before, &Sample { traced: known, ..after }).cores[&1];
        prop_assert!(split.columns().iter().all(|(_, ns)| *ns >= 0.0), "{split:?}");
        prop_assert!((split.all() - 1e9).abs() < 1.0, "{split:?}");
        prop_assert_eq!(split.traced, traced.is_some());
    }
}

/// CPU time of the calling thread.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Burns 3 ms of every 10 for so long. Returns the CPU time used.
fn burn(long: Duration) -> Duration {
    let (start, before) = (Instant::now(), own_time());
    let mut due = start;
    while start.elapsed() < long {
        let until = own_time() + Duration::from_millis(3);
        while own_time() < until {
            std::hint::spin_loop();
        }
        due += Duration::from_millis(10);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    own_time() - before
}

/// Compares seconds of this host's CPU with the kernel's accounts: run alone, and not for each commit.
mod alone {
    mod all {
        use super::super::*;

        /// CPU time that a thread burns is found in its category, on the core where it ran, to two hundredths
        /// of that core.
        #[test]
        fn a_burn_is_found_in_its_column() {
            let Ok(allowed) = sched_getaffinity(None) else {
                return println!("SKIPPED: no affinity can be read");
            };
            let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
            for column in [TimeCategory::Vhost, TimeCategory::Other] {
                let (tell, told) = std::sync::mpsc::channel();
                let (go, gone) = std::sync::mpsc::channel::<()>();
                let burner = std::thread::spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(cpu);
                    sched_setaffinity(None, &one).expect("a CPU of its own");
                    tell.send(gettid().as_raw_nonzero().get()).expect("somebody listens");
                    gone.recv().expect("somebody speaks");
                    let burned = burn(Duration::from_secs(3));
                    // It lives until its last sample was taken, and sleeps, so that its clock is current.
                    tell.send(0).expect("somebody listens");
                    let _ = gone.recv();
                    burned
                });
                let tid = told.recv().expect("a thread");
                let thread =
                    Thread { name: "t/burn".to_owned(), pid: getpid().as_raw_nonzero().get(), tid, column };
                let mut account = Account::open(&[cpu as u32], &[thread]).expect("files to read");
                let before = account.sample();
                go.send(()).expect("it listens");
                told.recv().expect("it burns");
                std::thread::sleep(Duration::from_millis(20));
                let after = account.sample();
                drop(go);
                let burned = burner.join().expect("it ends").as_nanos() as f64;
                let split = Split::between(&before, &after);
                let (thread, core) = (split.threads["t/burn"], split.cores[&(cpu as u32)]);
                let two = 0.02 * split.interval;
                println!(
                    "{column:?}: burned {burned}, seen {}, core {core:?}; a sample took {} ns",
                    thread.run, after.took_ns
                );
                assert!((thread.run - burned).abs() <= two, "{burned} and not {}", thread.run);
                assert_eq!((thread.cpu, thread.moved), (cpu as u32, false));
                // It slept at the end, if not before: when others use the core it is always late.
                assert!(thread.wakeups >= 1 && thread.wakeups <= thread.switches, "{thread:?}");
                let seen = match column {
                    TimeCategory::Vhost => core.vhost,
                    _ => core.user + core.kernel,
                };
                // Others may have burned time there too, but no other vhost thread.
                let most = if column == TimeCategory::Vhost { burned + two } else { f64::INFINITY };
                assert!(seen >= burned - 2.0 * two && seen <= most, "{burned} in {core:?}");
                assert!((core.all() - split.interval).abs() <= two, "{core:?} of {}", split.interval);
            }
        }
    }
}

#[test]
fn a_thread_that_has_ended_is_missing() {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(gettid().as_raw_nonzero().get()).expect("somebody listens");
        let _ = ended.recv();
    });
    let pid = getpid().as_raw_nonzero().get();
    let named = |name: &str, tid| Thread { name: name.to_owned(), pid, tid, column: TimeCategory::Other };
    let threads = [named("t/short", told.recv().expect("a thread")), named("t/none", i32::MAX)];
    let mut account = Account::open(&[], &threads).expect("files to read");
    assert_eq!(account.sample().threads.keys().collect::<Vec<_>>(), ["t/short"]);
    drop(end);
    thread.join().expect("it ends");
    // The kernel removes it from its tables after its end is visible, once the thread has got a CPU again.
    let start = Instant::now();
    while !account.sample().threads.is_empty() {
        assert!(start.elapsed().as_secs() < 60, "it is there for ever");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_is_looked_at_without_an_account() {
    let (pid, tid) = (getpid().as_raw_nonzero().get(), gettid().as_raw_nonzero().get());
    let before = times(pid, tid).expect("this thread");
    std::thread::sleep(Duration::from_millis(2));
    let after = times(pid, tid).expect("this thread");
    assert!(after.run_ns >= before.run_ns && after.sleeps > before.sleeps, "{before:?} {after:?}");
    assert_eq!(times(pid, i32::MAX), None);
}
