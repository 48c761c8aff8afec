//! Sources that have their frames from the start, as a recording does: they cannot be fed whatever the suite likes, and
//! they end.

use std::time::Instant;

use ring::BURST;

use super::pattern::{Mark, Pattern};
use super::source::{SourceBench, check_source, drain, numbers, readable};
use crate::boundary::Bell;

/// Frames of a source that ends: more than any burst.
const COUNT: u32 = 300;

/// Checks all promises of [`check_source`] on a source that is made of its frames and holds them back until they are due.
/// `feed` is given the next of them, and is to let them come.
pub fn check_recorded_source<B: SourceBench>(pattern: &Pattern, mut make: impl FnMut(&[Vec<u8>]) -> B) {
    let frames = frames(pattern, numbers());
    check_source(|| make(&frames));
}

/// Checks a source that is made of its frames, shows them as they come by themselves, and ends: whoever polls it gets each
/// of them, though he sleeps whenever he may, and after the last one he may sleep for ever. Nothing is fed.
pub fn check_ending_source<B: SourceBench>(pattern: &Pattern, mut make: impl FnMut(&[Vec<u8>]) -> B) {
    comes_and_ends(&mut make(&[]), BURST, 0);
    let frames = frames(pattern, 0..COUNT);
    for budget in [1, 3, BURST] {
        comes_and_ends(&mut make(&frames), budget, COUNT);
    }
}

fn frames(pattern: &Pattern, numbers: impl Iterator<Item = u32>) -> Vec<Vec<u8>> {
    numbers.map(|number| pattern.octets(1, number, pattern.length(number))).collect()
}

fn comes_and_ends(bench: &mut impl SourceBench, budget: usize, count: u32) {
    let deadline = Instant::now() + bench.patience();
    let mut came = Vec::new();
    while came.len() < count as usize {
        sleep(bench, deadline);
        let some = drain(bench, budget);
        assert!(!some.is_empty() || Instant::now() < deadline, "{} of {count} frames came", came.len());
        came.extend(some);
    }
    let sent: Vec<_> = (0..count).map(|number| Mark { sender: 1, number }).collect();
    assert_eq!(came, sent, "other frames than it was made of, or in another order");
    for budget in [1, BURST] {
        assert_eq!(drain(bench, budget), [], "a source that has shown all of its frames shows another one");
    }
    assert!(!bench.source().arm(), "a source that has ended keeps its poller awake");
    bench.source().disarm();
}

/// Sleeps, if the source allows it, until its bell rings.
fn sleep(bench: &mut impl SourceBench, deadline: Instant) {
    if matches!(bench.source().bell(), Bell::None) {
        return;
    }
    if !bench.source().arm() {
        while !readable(bench) {
            assert!(
                Instant::now() < deadline,
                "frames are missing, and the bell of an armed source does not ring"
            );
            std::thread::yield_now();
        }
        if let Bell::Event(bell) = bench.source().bell() {
            let _ = rustix::io::read(bell, &mut [0_u8; 8]);
        }
    }
    bench.source().disarm();
}
