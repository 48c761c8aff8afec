//! Rates that no honest router reaches: doorbells without buffers, register accesses instead of forwarding.

use std::time::Duration;

use super::{Charge, Kind, NicSample, Rules, Sample, VcpuSample};

/// Length of the window over which a rate is judged.
const WINDOW: Duration = Duration::from_secs(1);

/// Value of a counter at the end of the last window, and the number of consecutive windows above the limit.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    last: u64,
    strikes: u32,
}

impl Rate {
    /// Evaluates a window of length `span` that ends at the value `count`; `allowed` of its increments were
    /// justified. Returns the unjustified increments per second once they have exceeded `limit` for `strikes`
    /// windows in a row.
    fn window(
        &mut self,
        span: Duration,
        count: u64,
        allowed: u64,
        (limit, strikes): (u64, u32),
    ) -> Option<u64> {
        let excess = count.wrapping_sub(self.last).saturating_sub(allowed);
        let rate = (excess as f64 / span.as_secs_f64()) as u64;
        self.last = count;
        self.strikes = if rate > limit { self.strikes + 1 } else { 0 };
        (self.strikes >= strikes).then_some(rate)
    }
}

/// All rates of a router.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// When the current window began.
    since: Duration,
    kicks: Vec<Rate>,
    /// Frames of each direction at the end of the last window.
    frames: Vec<u64>,
    accesses: Vec<Rate>,
}

impl Rates {
    /// Begins the first window; what the router did while it came up is not judged.
    pub(super) fn begin(&mut self, seen: Duration, sample: &Sample) {
        self.since = seen;
        let rate = |last| Rate { last, strikes: 0 };
        self.kicks = sample.nics.iter().map(|nic| rate(nic.kicks)).collect();
        self.frames = sample.nics.iter().map(|nic| nic.frames).collect();
        self.accesses = sample.vcpus.iter().map(|vcpu| rate(vcpu.accesses)).collect();
    }

    /// Judges the window that has ended, if one has.
    pub(super) fn judge(&mut self, rules: &Rules, seen: Duration, sample: &Sample) -> Option<Charge> {
        let span = seen.saturating_sub(self.since);
        if span < WINDOW {
            return None;
        }
        self.since = seen;
        let reasons = self.doorbells(&sample.nics).saturating_add(self.for_frames(&sample.nics));
        let kicks = self.judge_kicks(rules, span, &sample.nics);
        // Evaluate both, so that both begin their next window here.
        let accesses = self.judge_accesses(rules, span, reasons, &sample.vcpus);
        kicks.or(accesses)
    }

    /// Returns the doorbells of this window: without ioeventfds each is a register access.
    fn doorbells(&self, nics: &[NicSample]) -> u64 {
        nics.iter().zip(&self.kicks).map(|(nic, rate)| nic.kicks.wrapping_sub(rate.last)).sum()
    }

    /// Returns the register accesses that the frames of this window may have needed.
    fn for_frames(&self, nics: &[NicSample]) -> u64 {
        let each = nics.iter().zip(&self.frames);
        let needed =
            each.map(|(nic, last)| nic.frames.wrapping_sub(*last).saturating_mul(nic.accesses_a_frame));
        needed.fold(0, u64::saturating_add)
    }

    fn judge_kicks(&mut self, rules: &Rules, span: Duration, nics: &[NicSample]) -> Option<Charge> {
        self.kicks.resize(nics.len(), Rate::default());
        self.frames.resize(nics.len(), 0);
        let mut found = None;
        for (nic, (rate, frames)) in nics.iter().zip(self.kicks.iter_mut().zip(&mut self.frames)) {
            // Each doorbell announces at least one buffer, and each buffer serves for at most one frame at a
            // time.
            let announced = nic.frames.wrapping_sub(std::mem::replace(frames, nic.frames));
            let excess = rate.window(span, nic.kicks, announced, (rules.kicks, rules.strikes));
            found = found.or(excess.map(|excess| (nic.name.as_str(), excess)));
        }
        let (name, excess) = found?;
        Charge::new(
            Kind::Kicks,
            format!("it rang the doorbell of {name} {excess} times a second for nothing"),
        )
    }

    fn judge_accesses(
        &mut self,
        rules: &Rules,
        span: Duration,
        reasons: u64,
        vcpus: &[VcpuSample],
    ) -> Option<Charge> {
        self.accesses.resize(vcpus.len(), Rate::default());
        let mut found = None;
        for (index, (vcpu, rate)) in vcpus.iter().zip(&mut self.accesses).enumerate() {
            let excess = rate.window(span, vcpu.accesses, reasons, (rules.registers, rules.strikes));
            found = found.or(excess.map(|excess| (index, excess)));
        }
        let (index, excess) = found?;
        let line =
            format!("vCPU {index} accessed device registers {excess} times a second while it should forward");
        Charge::new(Kind::Registers, line)
    }
}
