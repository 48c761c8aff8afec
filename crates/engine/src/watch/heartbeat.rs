//! Heartbeat: every vCPU is sent a number about once a second, and has to echo it.

use std::time::Duration;

use super::{ASLEEP, Charge, Kind, Rules, Sample, VcpuSample, answer_limit};

/// The current challenge.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    challenge: u32,
    /// When it was sent first.
    asked: Duration,
    /// When it was sent last: an interrupt may be lost on a guest that was not ready for it.
    reminded: Duration,
    /// CPU time of each vCPU's thread when the challenge was sent.
    cpu: Vec<Duration>,
}

impl Heartbeat {
    /// Starts the heartbeat when the router has come up.
    pub(super) fn begin(&mut self, seen: Duration) {
        (self.asked, self.reminded) = (seen, seen);
    }

    /// Charges a vCPU whose answer to the current challenge is overdue.
    pub(super) fn judge(&self, rules: &Rules, seen: Duration, sample: &Sample) -> Option<Charge> {
        let waited = seen.saturating_sub(self.asked);
        let silent = |(index, vcpu): (usize, &VcpuSample)| {
            let then = self.cpu.get(index).copied().unwrap_or_default();
            let late = vcpu.answer != self.challenge && waited >= answer_limit(rules, vcpu, then);
            let cpu = (!vcpu.is_shared).then(|| vcpu.cpu.saturating_sub(then));
            late.then(|| describe(index, waited, cpu))
        };
        Charge::new(Kind::Silent, sample.vcpus.iter().enumerate().find_map(silent)?)
    }

    /// Returns the number to send now: a new one once all have answered, the same again while an answer is
    /// missing.
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

/// Describes what the vCPU does instead. One that is woken and sleeps again uses microseconds; one that spins
/// uses all the CPU time that it gets, which may be little on a busy host. `None`: the CPU time of its thread is not known.
fn describe(index: usize, waited: Duration, cpu: Option<Duration>) -> String {
    let how = match cpu {
        None => "it spins or sleeps, or its thread got no CPU".to_owned(),
        Some(cpu) if cpu.is_zero() => "its thread got no CPU".to_owned(),
        Some(cpu) if cpu > waited / ASLEEP => format!("it spins ({:.1} s of CPU)", cpu.as_secs_f64()),
        Some(_) => "it sleeps, and interrupts do not wake it".to_owned(),
    };
    format!("vCPU {index} has not answered for {:.1} s: {how}", waited.as_secs_f64())
}
