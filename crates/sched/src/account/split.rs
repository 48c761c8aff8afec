//! Difference of two samples, as a pure function.

use std::collections::BTreeMap;

use super::parse::{CoreTicks, ThreadTimes};
use super::{Interrupts, Sample, TimeCategory, Traced};

/// Nanoseconds per tick of USER_HZ, which is 100 on every x86-64 kernel.
const TICK: f64 = 1e7;

/// Time of a core by category, in nanoseconds of the interval. The categories add up to the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreSplit {
    /// Guests of vCPU threads.
    pub guest: f64,
    /// Vhost threads.
    pub vhost: f64,
    /// Other kernel work, including work for vCPUs.
    pub kernel: f64,
    /// Other programs.
    pub user: f64,
    /// Hard interrupt handlers.
    pub irq: f64,
    /// Softirqs.
    pub softirq: f64,
    /// Stolen by the hypervisor for other virtual machines.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
    /// True if interrupt times come from a tracer, not from ticks.
    pub traced: bool,
}

impl CoreSplit {
    /// Name and value of each category, in stacking order.
    pub const fn columns(&self) -> [(&'static str, f64); 8] {
        [
            ("guest", self.guest),
            ("vhost", self.vhost),
            ("kernel", self.kernel),
            ("user", self.user),
            ("irq", self.irq),
            ("softirq", self.softirq),
            ("steal", self.steal),
            ("idle", self.idle),
        ]
    }

    /// Limits interrupt times to `most`, keeping their proportions: they were read a little later than the
    /// rest.
    fn shrink_interrupts(&mut self, most: f64) {
        let interrupts = self.irq + self.softirq;
        if interrupts > most {
            (self.irq, self.softirq) = (self.irq * most / interrupts, self.softirq * most / interrupts);
        }
    }

    /// Limits guests and vhost threads to `most`, keeping their proportions.
    fn shrink_threads(&mut self, most: f64) {
        let threads = self.guest + self.vhost;
        if threads > most {
            (self.guest, self.vhost) = (self.guest * most / threads, self.vhost * most / threads);
        }
    }

    /// Sum of all categories, which is the interval.
    pub fn all(&self) -> f64 {
        self.columns().iter().map(|(_, ns)| ns).sum()
    }
}

/// Activity of a thread in the interval; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSplit {
    /// Category of its time.
    pub column: TimeCategory,
    /// CPU that it ran on last.
    pub cpu: u32,
    /// True if it was on another CPU at the beginning: then its time does not belong to that CPU alone.
    pub moved: bool,
    /// Time on a CPU, without interrupts that a tracer has measured.
    pub run: f64,
    /// Part of that in its guest.
    pub guest: f64,
    /// Part of that in the kernel.
    pub system: f64,
    /// Time ready to run but waiting for a CPU.
    pub wait: f64,
    /// Context switches, voluntary or not.
    pub switches: u64,
    /// Number of wake-ups.
    pub wakeups: u64,
}

/// Activity between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// Length of the interval in nanoseconds.
    pub interval: f64,
    /// By CPU number.
    pub cores: BTreeMap<u32, CoreSplit>,
    /// By name.
    pub threads: BTreeMap<String, ThreadSplit>,
}

impl Split {
    /// Subtracts a sample from a later one. A thread that is new, or whose number was reused, counts from its
    /// start, but for at most the interval.
    pub fn between(earlier: &Sample, later: &Sample) -> Self {
        let interval = later.at_ns.saturating_sub(earlier.at_ns) as f64;
        let mut threads = BTreeMap::new();
        // Ticks of our threads by CPU; the core's ticks include them.
        let mut ticks: BTreeMap<u32, Share> = BTreeMap::new();
        for (name, (column, now)) in &later.threads {
            let before = earlier.threads.get(name).map(|(_, before)| *before);
            let before = before.filter(|before| before.tid == now.tid).unwrap_or_default();
            let charged = charged(earlier, later, now.tid);
            // The thread was read after the nominal moment of its sample.
            let longest = interval + later.took_ns as f64;
            let split = thread(*column, (&before, now), charged, longest);
            ticks.entry(now.cpu).or_default().add(&split, &before, now);
            threads.insert(name.clone(), split);
        }
        let core = |(cpu, now): (&u32, &CoreTicks)| {
            let before = earlier.cores.get(cpu)?;
            let share = ticks.get(cpu).copied().unwrap_or_default();
            let traced = traced(earlier, later, *cpu);
            Some((*cpu, core(interval, (before, now), &share, traced)))
        };
        let cores = later.cores.iter().filter_map(core).collect();
        Self { interval, cores, threads }
    }
}

/// Part of one core's time that our threads took.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    guest: f64,
    vhost: f64,
    /// Their ticks, which must not be counted again as part of the rest.
    user: u64,
    system: u64,
}

impl Share {
    fn add(&mut self, split: &ThreadSplit, before: &ThreadTimes, now: &ThreadTimes) {
        let (user, system) = (grown(before.user, now.user), grown(before.system, now.system));
        match split.column {
            TimeCategory::Guest => {
                self.guest += split.guest;
                self.user += user;
            }
            TimeCategory::Vhost => {
                self.vhost += split.run;
                self.user += user;
                self.system += system;
            }
            TimeCategory::Other => {}
        }
    }
}

/// Increase of a counter; one that was restarted has increased by its value.
fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn thread(
    column: TimeCategory,
    (before, now): (&ThreadTimes, &ThreadTimes),
    charged: f64,
    longest: f64,
) -> ThreadSplit {
    let run = (grown(before.run_ns, now.run_ns) as f64 - charged).clamp(0.0, longest);
    let (user, system) = (grown(before.user, now.user) as f64, grown(before.system, now.system) as f64);
    let part = |ticks: f64| if user + system > 0.0 { run * (ticks / (user + system)).min(1.0) } else { 0.0 };
    let sleeps = grown(before.sleeps, now.sleeps);
    let guest = if column == TimeCategory::Guest { part(grown(before.guest, now.guest) as f64) } else { 0.0 };
    ThreadSplit {
        column,
        cpu: now.cpu,
        moved: before.tid == now.tid && before.cpu != now.cpu,
        run,
        guest,
        system: part(system),
        wait: (grown(before.wait_ns, now.wait_ns) as f64).min(longest),
        switches: sleeps + grown(before.preemptions, now.preemptions),
        wakeups: sleeps,
    }
}

/// Readings of the tracer in both samples, if it is the same tracer.
fn tracers<'a>(earlier: &'a Sample, later: &'a Sample) -> Option<(&'a Traced, &'a Traced)> {
    let both = (earlier.traced.as_ref()?, later.traced.as_ref()?);
    (both.0.since_ns == both.1.since_ns).then_some(both)
}

/// Interrupt time that a tracer has measured on the time of a thread.
fn charged(earlier: &Sample, later: &Sample, tid: i32) -> f64 {
    let Some((earlier, later)) = tracers(earlier, later) else { return 0.0 };
    let of = |traced: &Traced| traced.threads.get(&tid).copied().unwrap_or_default();
    let known = difference(of(earlier), of(later));
    (known.irq_ns + known.softirq_ns) as f64
}

/// Interrupt time that a tracer has measured on a core.
fn traced(earlier: &Sample, later: &Sample, cpu: u32) -> Option<Interrupts> {
    let (earlier, later) = tracers(earlier, later)?;
    let before = earlier.cores.get(&cpu).copied().unwrap_or_default();
    Some(difference(before, *later.cores.get(&cpu)?))
}

fn difference(before: Interrupts, now: Interrupts) -> Interrupts {
    Interrupts {
        irq_ns: grown(before.irq_ns, now.irq_ns),
        softirq_ns: grown(before.softirq_ns, now.softirq_ns),
    }
}

fn core(
    interval: f64,
    (before, now): (&CoreTicks, &CoreTicks),
    share: &Share,
    traced: Option<Interrupts>,
) -> CoreSplit {
    let ticks = |count: fn(&CoreTicks) -> u64| now_minus(count(before), count(now)) * TICK;
    let mut split = CoreSplit {
        guest: share.guest,
        vhost: share.vhost,
        irq: traced.map_or_else(|| ticks(|t| t.irq), |known| known.irq_ns as f64),
        softirq: traced.map_or_else(|| ticks(|t| t.softirq), |known| known.softirq_ns as f64),
        steal: ticks(|t| t.steal),
        idle: ticks(|t| t.idle),
        traced: traced.is_some(),
        ..CoreSplit::default()
    };
    split.shrink_interrupts(interval);
    if traced.is_none() {
        // Without a tracer, threads may have been charged for interrupts.
        let left = interval - split.irq - split.softirq - split.steal - split.idle;
        split.shrink_threads(left.max(0.0));
    }
    // Ticks are rounded, so values known to the nanosecond take precedence.
    split.shrink_threads((interval - split.irq - split.softirq).max(0.0));
    let rest =
        |split: &CoreSplit| (interval - split.guest - split.vhost - split.irq - split.softirq).max(0.0);
    split.steal = split.steal.min(rest(&split));
    split.idle = split.idle.min(rest(&split) - split.steal);
    let rest = (rest(&split) - split.steal - split.idle).max(0.0);
    let system = (ticks(|t| t.system) - share.system as f64 * TICK).max(0.0);
    let user = (ticks(|t| t.user) - share.user as f64 * TICK).max(0.0);
    let part = if system + user > 0.0 { system / (system + user) } else { 1.0 };
    (split.kernel, split.user) = (rest * part, rest * (1.0 - part));
    split
}

fn now_minus(before: u64, now: u64) -> f64 {
    grown(before, now) as f64
}
