//! Metrics: readings before and after a slice, and the figures derived from them.

pub(crate) mod accesses;
pub(crate) mod histogram;
pub(crate) mod lateness;
mod reading;
pub(crate) mod usage;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) use reading::{HasCounters, Reading, check, exits, kvm_costs, take_vcpus};

/// CPU time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
