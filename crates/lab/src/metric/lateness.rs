//! How late a timer comes to a program on a CPU: what somebody notices of a core that others keep busy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host::cores;
use sched::account::CoreTicks;

use super::usage::Reader;
use crate::rig::Worker;

/// Fewest trials of which a percentile is told.
pub(crate) const TRIALS: usize = 100;
/// The shortest sleep, and the steps by which others are longer, so that trials keep no time with anybody.
const SLEEP: Duration = Duration::from_millis(3);
const STEP: Duration = Duration::from_micros(370);
const STEPS: u32 = 11;
/// The steps are taken in an order in which neighbours are far apart.
const STRIDE: u32 = 7;

/// One sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    /// How much longer it took than was asked for.
    late: Duration,
    /// Whether the hypervisor gave the CPU to somebody else meanwhile: that is no lateness of this host's.
    was_stolen: bool,
}

/// What came of all trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Late {
    /// Trials that count.
    pub(crate) trials: usize,
    /// Trials that were dropped.
    pub(crate) stolen: usize,
    /// The middle one of those that count, and the one that 99 of 100 are not later than, in milliseconds.
    pub(crate) median_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Late {
    fn of(trials: &[Trial]) -> Result<Self> {
        let kept = trials.iter().filter(|trial| !trial.was_stolen);
        let mut late: Vec<f64> = kept.map(|trial| trial.late.as_secs_f64() * 1e3).collect();
        late.sort_unstable_by(f64::total_cmp);
        let stolen = trials.len() - late.len();
        ensure!(late.len() >= TRIALS, "{} trials count and {stolen} do not; {TRIALS} are needed", late.len());
        // The nearest rank.
        let at = |percent: usize| late[(late.len() * percent).div_ceil(100) - 1];
        Ok(Self { trials: late.len(), stolen, median_ms: at(50), p99_ms: at(99) })
    }
}

/// A thread that sleeps again and again on one CPU, scheduled as any program is.
pub(crate) struct Sleeper {
    counted: Arc<AtomicUsize>,
    worker: Worker<Vec<Trial>>,
}

impl Sleeper {
    /// On this CPU.
    ///
    /// # Errors
    /// There are no threads left.
    pub(crate) fn start(cpu: usize) -> Result<Self> {
        let counted = Arc::<AtomicUsize>::default();
        let counts = counted.clone();
        let worker = Worker::start("lab/sleeper", move |stop| {
            cores::pin(cpu)?;
            let (mut reader, mut trials) = (Reader::by_ticks()?, Vec::new());
            let mut look = || stolen(&reader.look(&[])?.cores, cpu);
            let mut last = look()?;
            while !stop.is_set() {
                let (late, now) = (oversleep(trials.len() as u32), look()?);
                let was_stolen = std::mem::replace(&mut last, now) != now;
                counts.fetch_add(usize::from(!was_stolen), Relaxed);
                trials.push(Trial { late, was_stolen });
            }
            Ok(trials)
        })?;
        Ok(Self { counted, worker })
    }

    /// Whether enough trials count so far.
    pub(crate) fn is_enough(&self) -> bool {
        self.counted.load(Relaxed) >= TRIALS
    }

    /// Ends it.
    ///
    /// # Errors
    /// Too few trials count, or the CPU is not there.
    pub(crate) fn end(self) -> Result<Late> {
        Late::of(&self.worker.end()?)
    }
}

/// The n-th sleep: how much longer it takes than was asked for.
fn oversleep(n: u32) -> Duration {
    let length = SLEEP + STEP * (n.wrapping_mul(STRIDE) % STEPS);
    let start = Instant::now();
    sleep(length);
    start.elapsed().saturating_sub(length)
}

/// What the hypervisor has stolen from a CPU, in the kernel's ticks.
fn stolen(cores: &BTreeMap<u32, CoreTicks>, cpu: usize) -> Result<u64> {
    let core = u32::try_from(cpu).ok().and_then(|cpu| cores.get(&cpu));
    Ok(core.with_context(|| format!("the kernel tells nothing of CPU {cpu}"))?.steal)
}

#[cfg(test)]
mod tests;
