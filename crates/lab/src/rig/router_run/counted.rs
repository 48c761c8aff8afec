//! Counters of running routers, summed from the lines of `ringroad run --json`.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Totals over all vCPUs: frames forwarded, doorbells rung, and exits to the VMM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(super) forwarded: u64,
    pub(super) kicks: u64,
    pub(super) exits: u64,
}

/// Totals that a reading thread updates.
#[derive(Default)]
pub(super) struct RunCounters {
    counts: Mutex<Counts>,
    news: Condvar,
}

impl RunCounters {
    /// Starts a thread that reads lines until end of file.
    pub(super) fn by(lines: impl Read + Send + 'static) -> Arc<Self> {
        let counted = Arc::<Self>::default();
        let adds = counted.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                adds.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&line);
                adds.news.notify_all();
            }
        });
        counted
    }

    /// Returns the totals up to the last line.
    pub(super) fn so_far(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns doorbells and exits per frame forwarded since `before`. It waits for the first line that reports forwarded frames;
    /// there is a line each second.
    ///
    /// # Errors
    /// No line does within `patience`.
    pub(super) fn each_since(&self, before: &Counts, patience: Duration) -> Result<[f64; 2]> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + patience;
        loop {
            if let Some(each) = counts.each_since(before) {
                return Ok(each);
            }
            let left = end.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "the router does not tell what it counts");
            counts = self.news.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Counts {
    fn add(&mut self, line: &str) {
        let Ok(said) = serde_json::from_str::<serde_json::Value>(line) else { return };
        let counters = said.get("counters").and_then(serde_json::Value::as_object);
        for (name, value) in counters.into_iter().flatten() {
            let Some(sum) = self.of(name) else { continue };
            *sum += value.as_u64().unwrap_or(0);
        }
    }

    /// Returns the total that a counter adds to: `ROUTER.vcpuN.forwarded`, `ROUTER.vcpuN.NIC.kicks`, `ROUTER.vcpuN.exit.REASON`.
    fn of(&mut self, name: &str) -> Option<&mut u64> {
        let parts: Vec<&str> = name.split('.').collect();
        let [_, vcpu, rest @ ..] = parts.as_slice() else { return None };
        match rest {
            _ if !vcpu.starts_with("vcpu") => None,
            ["forwarded"] => Some(&mut self.forwarded),
            [_, "kicks"] => Some(&mut self.kicks),
            ["exit", _] => Some(&mut self.exits),
            _ => None,
        }
    }

    /// Doorbells and exits since `before`, per frame forwarded.
    fn each_since(&self, before: &Self) -> Option<[f64; 2]> {
        let frames = self.forwarded.checked_sub(before.forwarded).filter(|frames| *frames > 0)?;
        let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / frames as f64;
        Some([each(self.kicks, before.kicks), each(self.exits, before.exits)])
    }
}

#[cfg(test)]
mod tests;
