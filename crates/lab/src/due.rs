//! Which frames of a rate are due, for a thread that may come late, and sending them.

use std::time::{Duration, Instant};

/// Most frames sent at once.
pub(crate) const BURST: u64 = 64;
/// Sleep while nothing is due.
pub(crate) const NAP: Duration = Duration::from_micros(60);
/// Frames of so much time go together, up to a burst, as a NIC's interrupts gather them. One at a time each would wake a thread
/// on another CPU, which takes the load as long as a burst where the host is itself virtual.
const GATHERED: Duration = Duration::from_micros(250);
/// Delay beyond which a frame is left out: what comes in a heap is no rate.
const LATE: Duration = Duration::from_millis(2);

/// Sends to each at its rate, frames a second, until it is over; frames that each was offered, and took. `send` is told to whom, how
/// many, and how many bursts there were before; it tells how many were taken. `rest` is called while nothing is due.
pub(crate) fn send_each(
    rates: &[f64],
    burst: u64,
    is_over: impl Fn(Duration) -> bool,
    mut send: impl FnMut(usize, usize, u64) -> usize,
    rest: impl Fn(),
) -> Vec<(u64, u64)> {
    let (start, mut lanes, mut turn) = (Instant::now(), vec![(Due::default(), 0); rates.len()], 0);
    loop {
        let elapsed = start.elapsed();
        if is_over(elapsed) {
            return lanes.into_iter().map(|(due, taken)| (due.sent, taken)).collect();
        }
        let before = turn;
        for (to, ((due, taken), &rate)) in lanes.iter_mut().zip(rates).enumerate() {
            let (offered, of_them) = due.send((elapsed, rate), burst, |frames| send(to, frames, turn));
            *taken += of_them;
            turn += u64::from(offered > 0);
        }
        if turn == before {
            rest();
        }
    }
}

/// What one of them is to be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    sent: u64,
    left_out: u64,
}

impl Due {
    /// Frames to send now: none until those of [`GATHERED`] are due. A rate that is not finite is a whole burst, always.
    fn now(&mut self, elapsed: Duration, rate: f64, burst: u64) -> u64 {
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
    fn send(
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
mod tests;
