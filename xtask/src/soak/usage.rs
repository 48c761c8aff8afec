//! Resource usage of processes, sampled repeatedly, and detection of growth.

use std::time::Duration;

use anyhow::{Context, Result};
use support::{Process, threads_of};

/// Growth of heap and stacks after warm-up that does not count as a leak, in KiB.
const HEAP_SLACK: f64 = 1024.0;
/// Growth of all memory that does not count as a leak, in KiB; it includes the guests' memory, which depends on
/// their activity.
const SHARE_SLACK: f64 = 8192.0;
/// Descriptors and threads that come and go with a restart.
const COUNT_SLACK: usize = 4;
/// Warm-up: until every misdeed has been committed twice under each engine, memory may grow to its final size.
const WARM_UP: Duration = Duration::from_secs(300);
/// Fewest samples after warm-up that can be judged.
const FEWEST: usize = 10;

/// Usage of one process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    /// Time since the start.
    pub(super) at: Duration,
    /// Heap and stacks in KiB.
    pub(super) heap: u64,
    /// All memory in KiB, with shared pages in proportion (PSS).
    pub(super) share: u64,
    pub(super) descriptors: usize,
    pub(super) threads: usize,
}

impl Usage {
    pub(super) fn of(process: u32, at: Duration) -> Result<Self> {
        let seen = Process::look(process).with_context(|| format!("process {process} is gone"))?;
        let memory = seen.memory()?;
        Ok(Self {
            at,
            heap: memory.anonymous,
            share: memory.share,
            descriptors: seen.descriptors()?,
            threads: threads_of(process)?.len(),
        })
    }

    /// Formats it in one line.
    pub(super) fn shown(&self) -> String {
        format!(
            "heap {} KiB, all {} KiB, {} descriptors, {} threads",
            self.heap, self.share, self.descriptors, self.threads
        )
    }
}

/// Lists which resources of a process have grown; empty if none has, or if there are too few samples.
pub(super) fn growth(name: &str, samples: &[Usage]) -> Vec<String> {
    let warm: Vec<Usage> = samples.iter().filter(|usage| usage.at >= WARM_UP).copied().collect();
    let (Some(first), Some(last), FEWEST..) = (warm.first(), warm.last(), warm.len()) else {
        println!("{name}: too few samples after warm-up, nothing is said about growth");
        return Vec::new();
    };
    let minutes = (last.at - first.at).as_secs_f64() / 60.0;
    let mut found = Vec::new();
    for (what, slack, value) in [
        ("heap", HEAP_SLACK, (|usage| usage.heap) as fn(&Usage) -> u64),
        ("memory", SHARE_SLACK, |usage| usage.share),
    ] {
        let points: Vec<_> =
            warm.iter().map(|usage| (usage.at.as_secs_f64() / 60.0, value(usage) as f64)).collect();
        let a_minute = slope(&points);
        println!("{name}: {what} {a_minute:+.2} KiB a minute over {minutes:.1} minutes");
        if a_minute * minutes > slack {
            found.push(format!("{name}: its {what} grows by {a_minute:.1} KiB a minute"));
        }
    }
    let (early, late) = warm.split_at(warm.len() / 2);
    for (what, value) in [
        ("descriptors", (|usage| usage.descriptors) as fn(&Usage) -> usize),
        ("threads", |usage| usage.threads),
    ] {
        let most = |part: &[Usage]| part.iter().map(value).max().unwrap_or(0);
        if most(late) > most(early) + COUNT_SLACK {
            found.push(format!("{name}: from {} to {} {what}", most(early), most(late)));
        }
    }
    found
}

/// Slope of the least-squares line through the points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / n, sum_y / n);
    let (with, square) = points.iter().fold((0.0, 0.0), |(with, square), (x, y)| {
        (with + (x - mean_x) * (y - mean_y), square + (x - mean_x).powi(2))
    });
    if square > 0.0 { with / square } else { 0.0 }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
