//! Detects the time taken from a thread that does nothing but read the clock: a gap between two readings that is much longer
//! than a reading means that something else had the CPU. Time of other threads is excluded by means of the scheduler's
//! statistics, except that of `ksoftirqd`, which continues softirqs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::seated;
use crate::rig::Worker;

/// Shortest gap that counts: much longer than the time between two readings, and shorter than an empty interrupt.
const GAP: Duration = Duration::from_nanos(600);

/// Clock-reading thread and its counters.
pub(super) struct StolenTimeDetector {
    told: Arc<GapCounters>,
    /// Its `schedstat`: how long it waited for its CPU.
    own: File,
    /// `schedstat` of the kernel's softirq thread (`ksoftirqd`), where visible.
    softirqs: Option<File>,
    _worker: Worker<()>,
}

#[derive(Default)]
struct GapCounters {
    lost_ns: AtomicU64,
    gaps: AtomicU64,
}

/// Time taken from the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super::super) struct StolenTime {
    /// Length of the observation, in seconds.
    pub(in super::super::super) elapsed: f64,
    /// Time taken, in seconds.
    pub(in super::super::super) lost: f64,
    /// Number of gaps.
    pub(in super::super::super) gaps: f64,
    /// Time in which other threads had the CPU, in seconds.
    pub(in super::super::super) away: f64,
}

impl StolenTime {
    /// Share of the CPU.
    pub(in super::super::super) fn part(&self) -> f64 {
        self.lost / self.elapsed
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            elapsed: self.elapsed - before.elapsed,
            lost: self.lost - before.lost,
            gaps: self.gaps - before.gaps,
            away: self.away - before.away,
        }
    }
}

impl StolenTimeDetector {
    /// Starts the thread on this CPU.
    pub(super) fn start(cpu: usize) -> Result<Self> {
        let told = Arc::<GapCounters>::default();
        let (tells, mut last) = (told.clone(), Instant::now());
        let turn = move || {
            let now = Instant::now();
            let gap = now - last;
            last = now;
            if gap >= GAP {
                tells.lost_ns.fetch_add(gap.as_nanos() as u64, Relaxed);
                tells.gaps.fetch_add(1, Relaxed);
            }
        };
        let (worker, tid) = seated("burn/gaps", cpu, turn)?;
        let own = format!("/proc/self/task/{tid}/schedstat");
        let own = File::open(&own).with_context(|| format!("cannot open {own}"))?;
        let softirqs = thread_of_softirqs(cpu).and_then(|path| File::open(path).ok());
        Ok(Self { told, own, softirqs, _worker: worker })
    }

    /// Number of gaps so far.
    pub(super) fn seen(&self) -> u64 {
        self.told.gaps.load(Relaxed)
    }

    /// Totals since the start; `elapsed` is left 0.
    pub(super) fn look(&self) -> StolenTime {
        // Fields of `schedstat`: time on the CPU, time waiting for one, number of time slices.
        let waited = number(&self.own, 1);
        let carried_on = self.softirqs.as_ref().map_or(0.0, |file| number(file, 0));
        let away = (waited - carried_on) * 1e-9;
        let lost = self.told.lost_ns.load(Relaxed) as f64 * 1e-9 - away;
        StolenTime { elapsed: 0.0, lost, gaps: self.seen() as f64, away }
    }
}

/// Reads the n-th number of a file; 0 if there is none.
fn number(file: &File, n: usize) -> f64 {
    let mut buffer = [0; 128];
    let len = file.read_at(&mut buffer, 0).unwrap_or(0);
    let text = std::str::from_utf8(&buffer[..len]).unwrap_or_default();
    text.split_ascii_whitespace().nth(n).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Path of the `schedstat` of `ksoftirqd/CPU`.
fn thread_of_softirqs(cpu: usize) -> Option<std::path::PathBuf> {
    let name = format!("ksoftirqd/{cpu}\n");
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let mut named =
        processes.filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm == name));
    named.next().map(|path| path.join("schedstat"))
}

#[cfg(test)]
mod tests;
