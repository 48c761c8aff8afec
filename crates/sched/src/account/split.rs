//! The difference of two samples. Pure.

use std::collections::BTreeMap;

use super::parse::{CoreTicks, ThreadTimes};
use super::{Column, Interrupts, Sample, Traced};

/// Nanoseconds of a tick of USER_HZ, which is 100 on every x86-64 kernel.
const TICK: f64 = 1e7;

/// Where a core's time went, in nanoseconds of the interval. Together they are the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreSplit {
    /// In guests.
    pub guest: f64,
    /// In vhost threads.
    pub vhost: f64,
    /// In the kernel otherwise, what it does for vCPUs included.
    pub kernel: f64,
    /// In other programs.
    pub user: f64,
    /// In interrupt handlers.
    pub irq: f64,
    /// In softirqs.
    pub softirq: f64,
    /// With others, who the hypervisor gave it to.
    pub steal: f64,
    /// Nothing to do.
    pub idle: f64,
    /// Whether interrupts are those of a tracer, and not of ticks.
    pub traced: bool,
}

impl CoreSplit {
    /// Each column with its name, in the order in which they are stacked.
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

    /// Lets interrupts have no more than this, each its part of it: what is read later has gone on meanwhile.
    fn shrink_interrupts(&mut self, most: f64) {
        let interrupts = self.irq + self.softirq;
        if interrupts > most {
            (self.irq, self.softirq) = (self.irq * most / interrupts, self.softirq * most / interrupts);
        }
    }

    /// Lets guests and vhost threads have no more than this, each its part of it.
    fn shrink_threads(&mut self, most: f64) {
        let threads = self.guest + self.vhost;
        if threads > most {
            (self.guest, self.vhost) = (self.guest * most / threads, self.vhost * most / threads);
        }
    }

    /// The interval.
    pub fn all(&self) -> f64 {
        self.columns().iter().map(|(_, ns)| ns).sum()
    }
}

/// What a thread did, in nanoseconds of the interval, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSplit {
    /// What its time counts as.
    pub column: Column,
    /// The CPU that it ran on last.
    pub cpu: u32,
    /// Whether it was seen on another CPU at the beginning: then its time is not all that CPU's.
    pub moved: bool,
    /// On a CPU, without interrupts that a tracer knows of.
    pub run: f64,
    /// Of that in a guest.
    pub guest: f64,
    /// Of that in the kernel.
    pub system: f64,
    /// Ready to run, and waiting for a CPU.
    pub wait: f64,
    /// Times it was taken off a CPU, or gave it up.
    pub switches: u64,
    /// Times it was woken.
    pub wakeups: u64,
}

/// What happened between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// The interval in nanoseconds.
    pub interval: f64,
    /// By number of the CPU.
    pub cores: BTreeMap<u32, CoreSplit>,
    /// By name.
    pub threads: BTreeMap<String, ThreadSplit>,
}

impl Split {
    /// From one sample to a later one. A thread that was not there before, or is another one now, counts from its start, but
    /// for no more than there was time.
    pub fn between(earlier: &Sample, later: &Sample) -> Self {
        let interval = later.at_ns.saturating_sub(earlier.at_ns) as f64;
        let mut threads = BTreeMap::new();
        // Ticks of our threads by CPU, which are in the ticks of the core as well.
        let mut ticks: BTreeMap<u32, Share> = BTreeMap::new();
        for (name, (column, now)) in &later.threads {
            let before = earlier.threads.get(name).map(|(_, before)| *before);
            let before = before.filter(|before| before.tid == now.tid).unwrap_or_default();
            let charged = charged(earlier, later, now.tid);
            // It was read after the moment that its sample is of.
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

/// What our threads took of one core.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    guest: f64,
    vhost: f64,
    /// Ticks of those, which are not to be looked for among the rest.
    user: u64,
    system: u64,
}

impl Share {
    fn add(&mut self, split: &ThreadSplit, before: &ThreadTimes, now: &ThreadTimes) {
        let (user, system) = (grown(before.user, now.user), grown(before.system, now.system));
        match split.column {
            Column::Guest => {
                self.guest += split.guest;
                self.user += user;
            }
            Column::Vhost => {
                self.vhost += split.run;
                self.user += user;
                self.system += system;
            }
            Column::Other => {}
        }
    }
}

/// How much a counter has grown; one that began anew has grown by what it is.
fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn thread(
    column: Column,
    (before, now): (&ThreadTimes, &ThreadTimes),
    charged: f64,
    longest: f64,
) -> ThreadSplit {
    let run = (grown(before.run_ns, now.run_ns) as f64 - charged).clamp(0.0, longest);
    let (user, system) = (grown(before.user, now.user) as f64, grown(before.system, now.system) as f64);
    let part = |ticks: f64| if user + system > 0.0 { run * (ticks / (user + system)).min(1.0) } else { 0.0 };
    let sleeps = grown(before.sleeps, now.sleeps);
    let guest = if column == Column::Guest { part(grown(before.guest, now.guest) as f64) } else { 0.0 };
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

/// What one and the same tracer knew at both times.
fn tracers<'a>(earlier: &'a Sample, later: &'a Sample) -> Option<(&'a Traced, &'a Traced)> {
    let both = (earlier.traced.as_ref()?, later.traced.as_ref()?);
    (both.0.since_ns == both.1.since_ns).then_some(both)
}

/// What a tracer knows to have run on the time of a thread.
fn charged(earlier: &Sample, later: &Sample, tid: i32) -> f64 {
    let Some((earlier, later)) = tracers(earlier, later) else { return 0.0 };
    let of = |traced: &Traced| traced.threads.get(&tid).copied().unwrap_or_default();
    let known = difference(of(earlier), of(later));
    (known.irq_ns + known.softirq_ns) as f64
}

/// What a tracer knows of a core.
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
        // Threads may have been charged with interrupts that nobody has told apart.
        let left = interval - split.irq - split.softirq - split.steal - split.idle;
        split.shrink_threads(left.max(0.0));
    }
    // Ticks are rounded: what is known to the nanosecond is believed first.
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
