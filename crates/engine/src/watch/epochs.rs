//! Epochs of the route table: who reads an old one holds up the reuse of what was taken out of the table since.

use std::time::Duration;

use fib::OFFLINE;

use super::{Charge, Kind, Rules, Sample, VcpuSigns, patience};

/// A vCPU that is behind.
#[derive(Clone, Copy, Debug)]
struct Lag {
    /// The epoch that it is to reach.
    target: u32,
    /// When it was seen behind that epoch first.
    since: Duration,
    /// CPU time of its thread then.
    cpu: Duration,
}

/// What each vCPU has to catch up with.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    lags: Vec<Option<Lag>>,
}

impl Epochs {
    /// Charges a vCPU that has kept to an old epoch for too long. One that sleeps is offline: it reads nothing.
    pub(super) fn judge(&mut self, rules: &Rules, seen: Duration, sample: &Sample) -> Option<Charge> {
        self.lags.resize(sample.vcpus.len(), None);
        let vcpus = sample.vcpus.iter().zip(&mut self.lags).enumerate();
        let line = vcpus.into_iter().find_map(|(index, (vcpu, lag))| {
            *lag = follow(*lag, vcpu, sample.epoch, seen);
            let lag = lag.as_ref()?;
            let waited = seen.saturating_sub(lag.since);
            (waited >= patience(rules, vcpu, lag.cpu))
                .then(|| describe(index, vcpu.epoch, lag.target, waited))
        });
        Charge::new(Kind::OldEpoch, line?)
    }
}

/// How a vCPU's lag goes on. Epochs are compared modulo 2^32; one that is ahead of the table is a lie that harms
/// nobody but its reader, and counts as having arrived.
fn follow(lag: Option<Lag>, vcpu: &VcpuSigns, epoch: u32, seen: Duration) -> Option<Lag> {
    if vcpu.epoch == OFFLINE || reached(vcpu.epoch, epoch) {
        return None;
    }
    match lag {
        Some(lag) if !reached(vcpu.epoch, lag.target) => Some(lag),
        // New, or it has moved: it is not to be blamed for a table that moves all the time.
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
