//! Epochs of the route table: a vCPU that reads an old one delays the reuse of entries that were removed
//! since.

use std::time::Duration;

use fib::OFFLINE;

use super::{Charge, Kind, Rules, Sample, VcpuSample, answer_limit};

/// Lag of a vCPU.
#[derive(Clone, Copy, Debug)]
struct Lag {
    /// The epoch that it has to reach.
    target: u32,
    /// When it was first seen behind that epoch.
    since: Duration,
    /// CPU time of its thread at that moment.
    cpu: Duration,
}

/// The lag of each vCPU.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    lags: Vec<Option<Lag>>,
}

impl Epochs {
    /// Charges a vCPU that has stayed at an old epoch for too long. A sleeping vCPU is offline: it reads
    /// nothing.
    pub(super) fn judge(&mut self, rules: &Rules, seen: Duration, sample: &Sample) -> Option<Charge> {
        self.lags.resize(sample.vcpus.len(), None);
        let vcpus = sample.vcpus.iter().zip(&mut self.lags).enumerate();
        let line = vcpus.into_iter().find_map(|(index, (vcpu, lag))| {
            *lag = follow(*lag, vcpu, sample.epoch, seen);
            let lag = lag.as_ref()?;
            let waited = seen.saturating_sub(lag.since);
            (waited >= answer_limit(rules, vcpu, lag.cpu))
                .then(|| describe(index, vcpu.epoch, lag.target, waited))
        });
        Charge::new(Kind::OldEpoch, line?)
    }
}

/// Updates a vCPU's lag. Epochs are compared modulo 2^32; an epoch ahead of the table is a lie that harms
/// only its reader, and counts as reached.
fn follow(lag: Option<Lag>, vcpu: &VcpuSample, epoch: u32, seen: Duration) -> Option<Lag> {
    if vcpu.epoch == OFFLINE || reached(vcpu.epoch, epoch) {
        return None;
    }
    match lag {
        Some(lag) if !reached(vcpu.epoch, lag.target) => Some(lag),
        // New, or it has advanced: it must not be charged because the table changes all the time.
        _ => Some(Lag { target: epoch, since: seen, cpu: vcpu.cpu }),
    }
}

fn reached(epoch: u32, target: u32) -> bool {
    epoch.wrapping_sub(target) as i32 >= 0
}

fn describe(index: usize, epoch: u32, target: u32, waited: Duration) -> String {
    let waited = waited.as_secs_f64();
    format!(
        "vCPU {index} still reads epoch {epoch} of the routes, {waited:.1} s after epoch {target} was published"
    )
}
