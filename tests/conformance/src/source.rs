//! Contract of a source.

use std::time::{Duration, Instant};

use port::{Bell, Frame, Source};
use ring::BURST;

use super::pattern::{Mark, Pattern};

/// A source under test, and a way to feed it frames.
pub trait SourceBench {
    /// The source.
    fn source(&mut self) -> &mut dyn Source;

    /// Makes frames wait in the source, in this order; returns how many found room.
    fn feed(&mut self, frames: &[Vec<u8>]) -> usize;

    /// Returns the pattern that frames need to pass.
    fn pattern(&self) -> Pattern {
        Pattern::default()
    }

    /// Returns how long a fed frame may take to be seen.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

/// Numbers of more frames than any burst, and of those fed after them. Each check feeds frames from the start of these.
const MANY: std::ops::Range<u32> = 0..1024;
const LATER: std::ops::Range<u32> = 2000..2004;

/// Returns the numbers of all frames that a check feeds to a source that takes them all.
pub(super) fn numbers() -> impl Iterator<Item = u32> {
    MANY.chain(LATER)
}

/// Checks all contracts of a source, each on a new one.
pub fn check_source<B: SourceBench>(mut make: impl FnMut() -> B) {
    without_frames_nothing_is_shown(&mut make());
    frames_are_shown_whole_in_order_and_once(&mut make());
    a_budget_is_kept(&mut make());
    a_waiting_frame_forbids_sleep(&mut make());
    the_bell_rings_for_a_sleeper(&mut make());
    a_full_source_empties(&mut make());
}

/// Drains a source until no frame waits; used by benches for the queue behind their sink.
pub fn drained(source: &mut dyn Source) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut copy = |frames: &[Frame<'_>]| all.extend(frames.iter().map(octets));
    while source.drain(BURST, &mut copy) != 0 {}
    all
}

fn octets(frame: &Frame<'_>) -> Vec<u8> {
    let mut octets = vec![0; frame.len()];
    frame.octets().copy_to_slice(&mut octets);
    octets
}

/// Calls `drain` once, and checks the contract of the call itself.
pub(super) fn drain(bench: &mut impl SourceBench, budget: usize) -> Vec<Mark> {
    let pattern = bench.pattern();
    let (mut calls, mut frames_shown, mut marks) = (0, 0, Vec::new());
    let drained = bench.source().drain(budget, &mut |frames| {
        calls += 1;
        frames_shown += frames.len();
        for frame in frames {
            marks.extend(pattern.recognise(&octets(frame)));
        }
    });
    assert_eq!(drained, frames_shown, "drain returned another number than it showed");
    assert!(drained <= budget.min(BURST), "drain showed {drained} frames, the budget was {budget}");
    assert_eq!(calls, usize::from(drained > 0), "take is called once if a frame waits, and otherwise not");
    marks
}

/// Drains until `expected` frames arrived, or patience is over.
fn drain_all(bench: &mut impl SourceBench, budget: usize, expected: usize) -> Vec<Mark> {
    let deadline = Instant::now() + bench.patience();
    let mut marks = Vec::new();
    loop {
        let some = drain(bench, budget);
        let quiet = some.is_empty();
        marks.extend(some);
        if quiet && (marks.len() >= expected || Instant::now() >= deadline) {
            return marks;
        }
    }
}

/// Feeds frames numbered from `first`; returns the marks of those that found room.
fn feed(bench: &mut impl SourceBench, first: u32, count: u32) -> Vec<Mark> {
    let pattern = bench.pattern();
    let octets: Vec<_> =
        (first..first + count).map(|number| pattern.octets(1, number, pattern.length(number))).collect();
    let fed = bench.feed(&octets);
    assert!(fed <= octets.len(), "the bench fed more than it was given");
    (first..first + fed as u32).map(|number| Mark { sender: 1, number }).collect()
}

fn without_frames_nothing_is_shown(bench: &mut impl SourceBench) {
    for budget in [0, 1, BURST] {
        assert_eq!(drain(bench, budget), []);
    }
}

fn frames_are_shown_whole_in_order_and_once(bench: &mut impl SourceBench) {
    for first in [0, 8, 16] {
        let fed = feed(bench, first, 8);
        assert!(!fed.is_empty(), "an empty source could not be fed");
        assert_eq!(drain_all(bench, BURST, fed.len()), fed);
    }
}

fn a_budget_is_kept(bench: &mut impl SourceBench) {
    let fed = feed(bench, 0, 8);
    assert_eq!(drain(bench, 0), [], "nothing may be shown for a budget of 0");
    assert_eq!(drain_all(bench, 3, fed.len()), fed);
}

fn a_waiting_frame_forbids_sleep(bench: &mut impl SourceBench) {
    if matches!(bench.source().bell(), Bell::None) {
        return;
    }
    let fed = feed(bench, 0, 2);
    if bench.source().waits() && bench.patience().is_zero() {
        assert!(
            bench.source().arm() || readable(bench),
            "frames wait, and neither arm() nor the bell says so"
        );
    }
    bench.source().disarm();
    assert_eq!(drain_all(bench, BURST, fed.len()), fed);
}

fn the_bell_rings_for_a_sleeper(bench: &mut impl SourceBench) {
    if matches!(bench.source().bell(), Bell::None) {
        return;
    }
    let deadline = Instant::now() + bench.patience() + Duration::from_millis(1);
    if bench.source().arm() {
        return;
    }
    let fed = feed(bench, 0, 1);
    while !readable(bench) {
        assert!(Instant::now() < deadline, "a frame came, and the bell of an armed source did not ring");
        std::thread::yield_now();
    }
    bench.source().disarm();
    assert_eq!(drain_all(bench, BURST, fed.len()), fed);
}

pub(super) fn readable(bench: &mut impl SourceBench) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (Bell::Event(bell) | Bell::Readable(bell)) = bench.source().bell() else { return false };
    let mut polled = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())) == Ok(1)
}

fn a_full_source_empties(bench: &mut impl SourceBench) {
    let mut fed = Vec::new();
    for first in MANY.step_by(BURST) {
        let some = feed(bench, first, BURST as u32);
        let full = some.len() < BURST;
        fed.extend(some);
        if full {
            break;
        }
    }
    assert_eq!(drain_all(bench, BURST, fed.len()), fed);
    let fed = feed(bench, LATER.start, LATER.len() as u32);
    assert_eq!(drain_all(bench, BURST, fed.len()), fed, "a source that was full once must work on");
}
