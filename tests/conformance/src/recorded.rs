//! Sources that have all their frames from the start, such as a recording: the suite cannot feed them arbitrary frames,
//! and they end.

use std::time::Instant;

use port::Bell;
use ring::BURST;

use super::pattern::{Mark, Pattern};
use super::source::{SourceBench, check_source, drain, numbers, readable};

/// Number of frames of a source that ends: more than any burst.
const COUNT: u32 = 300;

/// Checks all contracts of [`check_source`] on a source that is created with its frames and holds them back until they
/// are due. `feed` is given the next frames, and must release them.
pub fn check_recorded_source<B: SourceBench>(pattern: &Pattern, mut make: impl FnMut(&[Vec<u8>]) -> B) {
    let frames = frames(pattern, numbers());
    check_source(|| make(&frames));
}

/// Checks a source that is created with its frames, shows them as they become due, and ends: a poller gets each of them
/// even if it sleeps whenever it may, and after the last one it may sleep forever. The suite feeds no frames.
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

/// Sleeps, if the source permits it, until its bell rings.
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
