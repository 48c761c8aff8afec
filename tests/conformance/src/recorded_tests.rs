//! Sources that end, and some with intentional faults.

use std::panic::{AssertUnwindSafe, catch_unwind};

use port::{Bell, Frame, IngressSource, Sink, Source, ingress};

use super::*;

/// A source that ends; frames fed later are not its own.
struct Ending(Replay);

/// A queue that has all its frames from the start, with one fault or none.
struct Replay {
    inner: IngressSource,
    /// Number of frames that it has not shown.
    left: usize,
    habit: Habit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    None,
    OneTooFew,
    OneTooMany,
    SleepsOnFrames,
    NeverSleeps,
}

impl Ending {
    fn new(frames: &[Vec<u8>], habit: Habit) -> Self {
        let (sink, inner) = ingress(1000).expect("a queue");
        let mut frames = frames.to_vec();
        if habit == Habit::OneTooFew {
            frames.pop();
        }
        let shown: Vec<_> = frames.iter_mut().map(|f| Frame::new(ring::Bytes::from_slice(f))).collect();
        assert_eq!(sink.deliver(&shown), frames.len());
        Self(Replay { inner, left: frames.len(), habit })
    }
}

impl Source for Replay {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        if self.left == 0 && self.habit == Habit::OneTooMany {
            let mut octets = Pattern::default().octets(1, 0, HEADER);
            take(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
            return 1;
        }
        let shown = self.inner.drain(budget, take);
        self.left -= shown;
        shown
    }

    fn arm(&mut self) -> bool {
        match self.habit {
            Habit::SleepsOnFrames => false,
            Habit::NeverSleeps => true,
            _ => self.inner.arm(),
        }
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn bell(&self) -> Bell<'_> {
        self.inner.bell()
    }
}

impl SourceBench for Ending {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.0
    }

    fn feed(&mut self, _frames: &[Vec<u8>]) -> usize {
        0
    }
}

#[test]
fn a_source_that_ends_need_not_be_fed() {
    check_ending_source(&Pattern::default(), |frames| Ending::new(frames, Habit::None));
}

#[test]
fn the_suite_finds_bad_habits_of_a_source_that_ends() {
    for habit in [Habit::OneTooFew, Habit::OneTooMany, Habit::SleepsOnFrames, Habit::NeverSleeps] {
        let check = || check_ending_source(&Pattern::default(), |frames| Ending::new(frames, habit));
        let noticed = catch_unwind(AssertUnwindSafe(check)).is_err();
        assert!(noticed, "the suite did not notice {habit:?}");
    }
}

/// A queue for which all frames that it may be given are known in advance.
struct Recorded {
    source: IngressSource,
    sink: std::sync::Arc<port::IngressSink>,
    rest: std::collections::VecDeque<Vec<u8>>,
}

impl SourceBench for Recorded {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut next: Vec<_> = self.rest.drain(..frames.len()).collect();
        assert_eq!(next, frames, "others than were told");
        let shown: Vec<_> = next.iter_mut().map(|f| Frame::new(ring::Bytes::from_slice(f))).collect();
        self.sink.deliver(&shown)
    }
}

#[test]
fn what_is_fed_to_a_recorded_source_is_what_it_was_made_of() {
    check_recorded_source(&Pattern::default(), |frames| {
        let (sink, source) = ingress(2000).expect("a queue");
        Recorded { source, sink, rest: frames.to_vec().into() }
    });
}
