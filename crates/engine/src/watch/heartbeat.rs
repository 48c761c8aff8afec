//! Signs of life: a number goes to every vCPU about once a second, and each is to show it again.

use std::time::Duration;

use super::{Charge, Kind, Rules, Sample, VcpuSigns, patience};

/// The challenge that is under way.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    challenge: u32,
    /// When it was asked first.
    asked: Duration,
    /// When it was asked last: an interrupt may be lost on a guest that was not ready for it.
    reminded: Duration,
    /// CPU time of each vCPU's thread when it was asked.
    cpu: Vec<Duration>,
}

impl Heartbeat {
    /// The router serves from now on.
    pub(super) fn begin(&mut self, seen: Duration) {
        (self.asked, self.reminded) = (seen, seen);
    }

    /// The vCPU for whose answer the present challenge has waited too long.
    pub(super) fn judge(&self, rules: &Rules, seen: Duration, sample: &Sample) -> Option<Charge> {
        let waited = seen.saturating_sub(self.asked);
        let silent = |(index, vcpu): (usize, &VcpuSigns)| {
            let then = self.cpu.get(index).copied().unwrap_or_default();
            let late = vcpu.answer != self.challenge && waited >= patience(rules, vcpu, then);
            late.then(|| describe(index, waited, vcpu.cpu.saturating_sub(then)))
        };
        Charge::new(Kind::Silent, sample.vcpus.iter().enumerate().find_map(silent)?)
    }

    /// What to ask now: a new number when all have answered the last one, the same again while somebody has not.
    pub(super) fn ask(&mut self, rules: &Rules, seen: Duration, sample: &Sample) -> Option<u32> {
        if seen.saturating_sub(self.reminded) < rules.heartbeat {
            return None;
        }
        self.reminded = seen;
        if sample.vcpus.iter().all(|vcpu| vcpu.answer == self.challenge) {
            self.asked = seen;
            self.challenge = self.challenge.wrapping_add(1);
            self.cpu.clear();
            self.cpu.extend(sample.vcpus.iter().map(|vcpu| vcpu.cpu));
        }
        Some(self.challenge)
    }
}

/// Says what it does instead. Whoever is woken and sleeps again uses microseconds; who spins uses all that it gets, which
/// may be little on a busy host.
fn describe(index: usize, waited: Duration, cpu: Duration) -> String {
    let how = if cpu.is_zero() {
        "its thread got no CPU"
    } else if cpu > waited / 50 {
        "it spins"
    } else {
        "it sleeps, and interrupts do not wake it"
    };
    format!("vCPU {index} has not answered for {:.1} s: {how}", waited.as_secs_f64())
}
