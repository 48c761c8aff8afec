//! Histograms of times. Each octave is divided into 16 buckets of equal width, so the relative error is at most 1/16.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::experiment::ExtraFigures;

/// Buckets of an octave, and the logarithm of that number.
const PARTS: u64 = 1 << PART_BITS;
const PART_BITS: u32 = 4;
/// Limits in microseconds for which [`Histogram::told`] returns the fraction of the times below.
pub(crate) const BELOW: [u32; 12] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// Number of times in each bucket.
    buckets: BTreeMap<u64, u64>,
    count: u64,
    longest: u64,
}

impl Histogram {
    /// Adds a time.
    pub(crate) fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        *self.buckets.entry(bucket(ns)).or_default() += 1;
        self.count += 1;
        self.longest = self.longest.max(ns);
    }

    /// Returns the number of times added.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns a percentile in microseconds: the end of its bucket, at most the longest time. `None` without times.
    pub(crate) fn percentile(&self, part: f64) -> Option<f64> {
        let wanted = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut passed = 0;
        let found = self.buckets.iter().find(|(_, times)| {
            passed += **times;
            passed >= wanted
        });
        found.map(|(number, _)| end(*number).min(self.longest) as f64 * 1e-3)
    }

    /// Returns the fraction of the times below a limit, counting only whole buckets.
    fn below(&self, microseconds: u32) -> f64 {
        let limit = u64::from(microseconds) * 1000;
        let below: u64 =
            self.buckets.iter().filter(|(at, _)| end(**at) <= limit).map(|(_, times)| times).sum();
        below as f64 / self.count.max(1) as f64
    }

    /// Returns the figures of the histogram, with the suffix `of` in their names: percentiles in microseconds, and fractions
    /// below the limits [`BELOW`] in percent.
    pub(crate) fn told(&self, of: &str) -> ExtraFigures {
        let mut further = ExtraFigures::default();
        let percentiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("longest", 1.0)];
        for (name, part) in percentiles {
            further.extend(self.percentile(part).map(|us| (format!("{name}_us{of}"), us)));
        }
        if self.count > 0 {
            let part = |us: u32| (format!("below_{us}us{of}"), self.below(us) * 100.0);
            further.extend(BELOW.into_iter().map(part));
        }
        further.push(format!("probes{of}"), self.count as f64);
        further
    }
}

/// Returns the bucket of a time in nanoseconds.
const fn bucket(ns: u64) -> u64 {
    if ns < PARTS {
        return ns;
    }
    let octave = ns.ilog2() - PART_BITS;
    (octave as u64 + 1) * PARTS + ((ns >> octave) & (PARTS - 1))
}

/// Returns the end of a bucket in nanoseconds: the first time of the next bucket.
const fn end(bucket: u64) -> u64 {
    if bucket < PARTS {
        return bucket + 1;
    }
    let octave = bucket / PARTS - 1;
    let end = (PARTS + bucket % PARTS + 1) as u128 * (1u128 << octave);
    if end > u64::MAX as u128 { u64::MAX } else { end as u64 }
}

#[cfg(test)]
mod tests;
