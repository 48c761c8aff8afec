//! Paced sending: computes which frames of a rate are due, for a sending thread that may be scheduled late.

use std::time::{Duration, Instant};

/// Largest burst, in frames.
pub(crate) const BURST: u64 = 64;
/// Sleep between two looks while no frame is due.
pub(crate) const NAP: Duration = Duration::from_micros(60);
/// Time over which due frames are gathered into a burst (of at most [`BURST`] frames), as a NIC's interrupt moderation does. If each
/// frame were sent alone, each would wake a thread on another CPU, which on a virtualised host costs the load generator as much time
/// as a whole burst.
const GATHERED: Duration = Duration::from_micros(250);
/// Delay beyond which due frames are skipped rather than sent: a backlog sent all at once is not a rate.
const LATE: Duration = Duration::from_millis(2);

/// Sends to each destination at its rate (frames a second) until `is_over` returns true. Returns, for each destination, the frames
/// offered and the frames accepted. `send` receives the destination's index, the number of frames, and the number of bursts sent
/// before; it returns how many frames were accepted. `rest` is called while no frame is due.
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

/// Send state of one destination: frames sent, and frames skipped because they were too late.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    sent: u64,
    left_out: u64,
}

impl Due {
    /// Returns the number of frames to send now: 0 until [`GATHERED`] worth of frames is due. For an infinite rate it is always a
    /// whole burst.
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

    /// Sends the frames that are due now through `send`, which returns how many of the given number were accepted. Frames that a
    /// full queue refuses are lost, as they would be at the end of a wire; at a finite rate the frames behind a refused one are
    /// still tried, one by one. Returns frames offered and frames accepted.
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
