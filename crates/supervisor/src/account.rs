//! CPU time of threads and cores, read by the supervisor because the data plane opens no file; it complements
//! what the data plane counts.
//! Files are read only when a client asks for counters. Every value is cumulative: a client that wants rates
//! subtracts two answers, and the first answer starts at zero. While a client asks for the cores, a tracer
//! tells interrupts apart, where the host allows one; for the run's own table and metrics the kernel's tick
//! accounting is enough.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{Answer, Outcome, Request};
use sched::account::{Account, Sample, Split, Thread, TimeCategory};

use super::Supervisor;
use super::request_router::Requester;
use super::thread_placement::ReportedThread;

/// Time for which the tracer stays attached after a client last asked for cores.
const TRACER_GRACE: Duration = Duration::from_secs(10);

/// Counters of a core: names and help texts.
pub(super) const OF_CPU: &[(&str, &str)] = &[
    ("guest_ns", "Time of a CPU in guests of vCPUs."),
    ("vhost_ns", "Time of a CPU in vhost threads."),
    ("kernel_ns", "Time of a CPU in the kernel for anything else."),
    ("user_ns", "Time of a CPU in other programs."),
    ("irq_ns", "Time of a CPU in handlers of interrupts."),
    ("softirq_ns", "Time of a CPU in soft interrupts."),
    ("steal_ns", "Time of a CPU that the hypervisor gave to others."),
    ("idle_ns", "Time of a CPU without work."),
    ("traced_ns", "Time of a CPU in which interrupts were told apart by a tracer, and not by ticks."),
];
/// Counters of a thread: names and help texts.
pub(super) const OF_THREAD: &[(&str, &str)] = &[
    ("guest_ns", "Time of a thread in its guest."),
    ("system_ns", "Time of a thread in the kernel."),
    ("wait_ns", "Time in which a thread was ready and waited for a CPU."),
    ("switches", "Times a thread left a CPU."),
    ("wakeups", "Times a thread was woken."),
];

/// Reader of CPU time, with the totals so far.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    account: Option<Account>,
    last: Option<Sample>,
    /// Totals (nanoseconds or counts) by counter name.
    sums: BTreeMap<String, f64>,
    /// When tracing of interrupts ends unless a client asks again.
    traced_until: Option<Instant>,
}

impl Accounting {
    /// Reads the times since the last sample and adds them to the totals; `threads` are the threads that
    /// exist now.
    fn read(&mut self, threads: &[Thread]) {
        let account = match self.account.take() {
            Some(mut account) => account.watch(threads).map(|()| account),
            None => Account::open(&[], threads),
        };
        // If no file can be opened, nothing is counted; the next read tries again.
        let Ok(mut account) = account else { return };
        if self.traced_until.is_some() {
            // If the kernel refuses the tracer, tick accounting is used instead.
            let _ = account.trace();
        }
        let sample = account.sample();
        if let Some(last) = self.last.replace(sample.clone()) {
            self.add(&Split::between(&last, &sample));
        }
        self.account = Some(account);
    }

    /// Notes that a client asks for the cores: turns the tracer on, or extends its time.
    fn trace(&mut self, now: Instant) {
        self.traced_until = Some(now + TRACER_GRACE);
    }

    /// Stops the tracer when no client has asked for [`TRACER_GRACE`].
    pub(super) fn attend(&mut self, now: Instant) {
        if self.traced_until.take_if(|until| now >= *until).is_some()
            && let Some(account) = &mut self.account
        {
            account.stop_tracing();
        }
    }

    /// When [`Self::attend`] has something to do without a request.
    pub(super) fn due(&self) -> Option<Instant> {
        self.traced_until
    }

    fn add(&mut self, split: &Split) {
        let mut add = |name: String, value: f64| *self.sums.entry(name).or_default() += value;
        for (cpu, core) in &split.cores {
            for (column, ns) in core.columns() {
                add(format!("host.cpu{cpu}.{column}_ns"), ns);
            }
            add(format!("host.cpu{cpu}.traced_ns"), if core.traced { core.all() } else { 0.0 });
        }
        for (name, thread) in &split.threads {
            let times = [("guest_ns", thread.guest), ("system_ns", thread.system), ("wait_ns", thread.wait)];
            let counts = [("switches", thread.switches as f64), ("wakeups", thread.wakeups as f64)];
            for (what, value) in times.into_iter().chain(counts) {
                add(format!("{name}.sched.{what}"), value);
            }
        }
    }

    /// Counters of the threads of one router, or of a group with its members, or, for `None`, of all threads and cores.
    fn known(&self, router: Option<&str>) -> impl Iterator<Item = (String, u64)> {
        let own = router.map(str::to_owned);
        let of = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let wanted = move |name: &str| own.as_ref().is_none_or(|own| config::is_meant(&of(name), own));
        self.sums.iter().filter(move |(name, _)| wanted(name)).map(|(name, sum)| (name.clone(), *sum as u64))
    }
}

/// Category that a thread's time is counted under, by the thread's name.
fn column(name: &str) -> TimeCategory {
    let what = name.split_once('/').map_or(name, |(_, what)| what);
    let numbered = |begin| what.strip_prefix(begin).is_some_and(|n: &str| n.parse::<u32>().is_ok());
    match what {
        _ if numbered("vcpu") => TimeCategory::Guest,
        "bus" | "clock" | "capture" | "group" => TimeCategory::Other,
        _ if what.ends_with("-peer") || what.ends_with("-talk") || what.ends_with("-replay") => {
            TimeCategory::Other
        }
        _ => TimeCategory::Vhost,
    }
}

/// Describes a thread of the data plane to the account.
fn watched((name, task): ReportedThread<'_>) -> Thread {
    Thread { name: name.to_owned(), pid: task.pid, tid: task.tid, column: column(name) }
}

/// Counters that the kernel keeps for a TAP or macvtap.
pub(super) const OF_TAP: &[(&str, &str)] =
    &[("drop_full", "Frames lost because those before them were not fetched in time.")];

impl Supervisor {
    /// Passes an answer on to its asker; counters are completed by CPU times of threads and cores.
    pub(super) fn deliver(&mut self, requester: Requester, mut outcome: Outcome, now: Instant) {
        if let Ok(Answer::Counters(counters)) = &mut outcome {
            // The controller of promises asks several times a second, and for nothing of this.
            if requester == Requester::Promises {
                return self.hand_over(requester, outcome, now);
            }
            let router = match &requester {
                Requester::Client(_, Request::Counters { router }) => router.as_deref(),
                _ => None,
            };
            let lost = self.resources.lost_before(&self.running.plan, &self.link_monitor.lost).into_iter();
            let is_asked = |nic: &str| router.is_none_or(|router| nic.split('.').next() == Some(router));
            let lost = lost.filter(|(nic, _)| is_asked(nic));
            counters.counters.extend(lost.map(|(nic, lost)| (format!("{nic}.tap.kernel.drop_full"), lost)));
            // The number of members depends on what is lost before them, and on nothing that follows.
            if requester == Requester::Scaling {
                return self.hand_over(requester, outcome, now);
            }
            if matches!(requester, Requester::Client(..)) && router.is_none() {
                self.accounting.trace(now);
            }
            let threads: Vec<Thread> = self.threads_told().into_iter().map(watched).collect();
            self.accounting.read(&threads);
            counters.counters.extend(self.accounting.known(router));
            self.controls.list_counters(router, &mut counters.counters);
            let promises = self.placement.promises.iter();
            counters.counters.extend(promises.flat_map(|promises| promises.counters(router)));
        }
        self.hand_over(requester, outcome, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_as_what_their_names_say() {
        for (name, wanted) in [
            ("edge/vcpu0", TimeCategory::Guest),
            ("edge/vcpu15", TimeCategory::Guest),
            ("edge/vhost", TimeCategory::Vhost),
            ("edge/wan", TimeCategory::Vhost),
            ("edge/wan-rx", TimeCategory::Vhost),
            ("edge/q0", TimeCategory::Vhost),
            ("edge/wan-kernel0", TimeCategory::Vhost),
            ("edge/wan-napi0", TimeCategory::Vhost),
            // A NIC named `vcpu`, not a vCPU thread.
            ("edge/vcpu", TimeCategory::Vhost),
            ("edge/bus", TimeCategory::Other),
            ("edge/wan-peer", TimeCategory::Other),
            ("ringroad/clock", TimeCategory::Other),
            // What watches the members of a group, and what moves frames to them.
            ("core/group", TimeCategory::Other),
            ("core/lb0", TimeCategory::Vhost),
        ] {
            assert_eq!(column(name), wanted, "{name}");
        }
    }

    #[test]
    fn what_is_read_counts_up() {
        let mut accounting = Accounting::default();
        let own = std::process::id().cast_signed();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let thread = Thread { name: "edge/vhost".to_owned(), pid: own, tid, column: TimeCategory::Vhost };
        accounting.read(std::slice::from_ref(&thread));
        assert_eq!(accounting.known(None).count(), 0, "one reading is no interval");
        for _ in 0..2 {
            std::thread::yield_now();
            accounting.read(std::slice::from_ref(&thread));
        }
        let all: BTreeMap<_, _> = accounting.known(None).collect();
        assert!(all.contains_key("edge/vhost.sched.wakeups"), "{all:?}");
        assert!(all.keys().any(|name| name.starts_with("host.cpu") && name.ends_with(".idle_ns")), "{all:?}");
        assert!(accounting.known(Some("edge")).all(|(name, _)| name.starts_with("edge/vhost.sched.")));
        assert_eq!(accounting.known(Some("edg")).count(), 0);
        let sums = ["core/lb0.sched.wakeups", "core_1/vhost.sched.wakeups"];
        accounting.sums = sums.map(|name| (name.to_owned(), 1.0)).into();
        assert_eq!(accounting.known(Some("core")).count(), 2, "a group has the threads of its members");
    }

    #[test]
    fn interrupts_are_traced_as_long_as_somebody_asks() {
        let (mut accounting, start) = (Accounting::default(), Instant::now());
        let traced = |accounting: &Accounting| {
            let known: BTreeMap<_, _> = accounting.known(None).collect();
            let (name, idle) = known.iter().find(|(name, _)| name.ends_with(".idle_ns")).expect("a core");
            (known[&name.replace("idle", "traced")], *idle)
        };
        let read = |accounting: &mut Accounting| {
            std::thread::sleep(Duration::from_millis(20));
            accounting.read(&[]);
        };
        accounting.read(&[]);
        read(&mut accounting);
        assert_eq!((traced(&accounting).0, accounting.due()), (0, None), "nobody has asked");
        accounting.trace(start);
        assert_eq!(accounting.due(), Some(start + TRACER_GRACE));
        read(&mut accounting);
        if !accounting.account.as_ref().is_some_and(Account::is_traced) {
            return println!("SKIPPED: no tracer here");
        }
        assert_eq!(traced(&accounting).0, 0, "it has just been started");
        read(&mut accounting);
        let so_far = traced(&accounting).0;
        assert!(so_far > 0);
        accounting.attend(start + TRACER_GRACE / 2);
        assert!(accounting.account.as_ref().is_some_and(Account::is_traced));
        accounting.attend(start + TRACER_GRACE);
        read(&mut accounting);
        assert_eq!((traced(&accounting).0, accounting.due()), (so_far, None), "it is let go");
    }
}
