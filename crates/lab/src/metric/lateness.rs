//! Lateness of timers of a program on a CPU: the delay that a program notices on a core that others keep
//! busy.

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

/// Fewest trials from which a percentile is computed.
pub(crate) const TRIALS: usize = 100;
/// Shortest sleep, and the steps by which others are longer, so that trials do not synchronise with periodic
/// activity.
const SLEEP: Duration = Duration::from_millis(3);
const STEP: Duration = Duration::from_micros(370);
const STEPS: u32 = 11;
/// Stride through the steps, so that consecutive sleeps differ much.
const STRIDE: u32 = 7;

/// One timed sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    /// Time by which the sleep exceeded the requested length.
    late: Duration,
    /// True if the hypervisor ran something else on the CPU meanwhile (steal time): such lateness is not
    /// caused by this host.
    was_stolen: bool,
}

/// Results of all trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimerLateness {
    /// Trials that count.
    pub(crate) trials: usize,
    /// Discarded trials.
    pub(crate) stolen: usize,
    /// Median and 99th percentile of the counted trials' lateness, in milliseconds.
    pub(crate) median_ms: f64,
    pub(crate) p99_ms: f64,
}

impl TimerLateness {
    fn of(trials: &[Trial]) -> Result<Self> {
        let kept = trials.iter().filter(|trial| !trial.was_stolen);
        let mut late: Vec<f64> = kept.map(|trial| trial.late.as_secs_f64() * 1e3).collect();
        late.sort_unstable_by(f64::total_cmp);
        let stolen = trials.len() - late.len();
        ensure!(late.len() >= TRIALS, "{} trials count and {stolen} do not; {TRIALS} are needed", late.len());
        // Nearest-rank percentile.
        let at = |percent: usize| late[(late.len() * percent).div_ceil(100) - 1];
        Ok(Self { trials: late.len(), stolen, median_ms: at(50), p99_ms: at(99) })
    }
}

/// Thread that sleeps repeatedly on one CPU, with the default scheduling policy.
pub(crate) struct Sleeper {
    counted: Arc<AtomicUsize>,
    worker: Worker<Vec<Trial>>,
}

impl Sleeper {
    /// Starts the thread on this CPU.
    ///
    /// # Errors
    /// The thread cannot be started.
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

    /// Returns true if enough trials count so far.
    pub(crate) fn is_enough(&self) -> bool {
        self.counted.load(Relaxed) >= TRIALS
    }

    /// Stops the thread and returns the results.
    ///
    /// # Errors
    /// Too few trials count, or the CPU does not exist.
    pub(crate) fn end(self) -> Result<TimerLateness> {
        TimerLateness::of(&self.worker.end()?)
    }
}

/// Performs the n-th sleep; returns the time by which it exceeded the requested length.
fn oversleep(n: u32) -> Duration {
    let length = SLEEP + STEP * (n.wrapping_mul(STRIDE) % STEPS);
    let start = Instant::now();
    sleep(length);
    start.elapsed().saturating_sub(length)
}

/// Steal time of a CPU, in the kernel's ticks.
fn stolen(cores: &BTreeMap<u32, CoreTicks>, cpu: usize) -> Result<u64> {
    let core = u32::try_from(cpu).ok().and_then(|cpu| cores.get(&cpu));
    Ok(core.with_context(|| format!("the kernel tells nothing of CPU {cpu}"))?.steal)
}

#[cfg(test)]
mod tests;
