//! Which frames of a rate are due, for a thread that may come late.

use std::time::Duration;

/// Most frames sent at once.
pub(crate) const BURST: u64 = 64;
/// Frames of so much time go together, up to a burst, as a NIC's interrupts gather them. One at a time each would wake a thread
/// on another CPU, which takes the load as long as a burst where the host is itself virtual.
const GATHERED: Duration = Duration::from_micros(250);
/// Delay beyond which a frame is left out: what comes in a heap is no rate.
const LATE: Duration = Duration::from_millis(2);

/// What one router is to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    pub(crate) sent: u64,
    left_out: u64,
}

impl Due {
    /// Frames to send now: none until those of [`GATHERED`] are due. A rate that is not finite is a whole burst, always.
    pub(crate) fn now(&mut self, elapsed: Duration, rate: f64, burst: u64) -> u64 {
        if !rate.is_finite() {
            return burst;
        }
        let due = (elapsed.as_secs_f64() * rate) as u64;
        let most = ((LATE.as_secs_f64() * rate) as u64).max(2 * burst);
        let waiting = due.saturating_sub(self.sent + self.left_out);
        self.left_out += waiting.saturating_sub(most);
        let gathered = GATHERED.as_secs_f64() * burst as f64 / BURST as f64;
        let least = ((gathered * rate) as u64).clamp(1, burst);
        if waiting < least { 0 } else { waiting.min(burst) }
    }

    /// Sends what is due now by `send`, which tells how many of so many frames were taken. What a full queue refuses is lost there,
    /// as what comes by a wire is; of a rate the frames behind that are tried, too, one by one. Returns frames offered, and taken.
    pub(crate) fn send(
        &mut self,
        (elapsed, rate): (Duration, f64),
        burst: u64,
        mut send: impl FnMut(usize) -> usize,
    ) -> (u64, u64) {
        let offered = self.now(elapsed, rate, burst);
        let (mut left, mut all) = (offered as usize, 0);
        while left > 0 {
            let taken = send(left);
            all += taken as u64;
            left = if rate.is_finite() { left.saturating_sub(taken + 1) } else { 0 };
        }
        self.sent += offered;
        (offered, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_sent_and_what_is_late_is_left_out() {
        let second = Duration::from_secs(1);
        let (micros, burst) = (Duration::from_micros, 16);
        let mut lane = Due::default();
        assert_eq!(lane.now(Duration::ZERO, 1e6, burst), 0);
        assert_eq!(lane.now(micros(15), 1e6, burst), 0);
        assert_eq!(lane.now(micros(17), 1e6, burst), burst);
        assert_eq!(Due::default().now(micros(71), 1e5, burst), 7);
        assert_eq!(Due::default().now(micros(1001), 1e3, burst), 1);
        lane.sent += burst;
        assert_eq!(lane.now(micros(17), 1e6, burst), 0);
        // A second without the CPU: of a million frames only those of the last two milliseconds are sent.
        let mut all = 0;
        while lane.now(second, 1e6, burst) > 0 {
            lane.sent += burst;
            all += burst;
        }
        assert!((1_980..=2_000).contains(&all), "{all}");
        assert_eq!(Due::default().now(second, f64::INFINITY, burst), burst);
    }
}
