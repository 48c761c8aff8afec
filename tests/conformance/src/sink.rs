//! Contract of a sink.

use std::time::{Duration, Instant};

use port::Sink;
use ring::BURST;

use super::large;
use super::pattern::{Mark, Pattern, Shown};

/// A sink under test, and access to its results.
pub trait SinkBench {
    /// The sink.
    fn sink(&self) -> &dyn Sink;

    /// Returns the octets of each frame that came out behind the sink since the last call, in order. `None` if frames
    /// vanish there (a null port), so that only counts can be checked.
    fn received(&mut self) -> Option<Vec<Vec<u8>>>;

    /// Returns how many frames the sink, or a component behind it, has lost and counted since its creation, under any
    /// name. Frames that [`Sink::deliver`] did not take must be counted too.
    fn lost(&self) -> u64;

    /// Returns how many frames of [`SinkBench::lost`] were dropped by a rule of the sink independent of its room, such
    /// as a limit. [`Sink::room`] promises nothing about them.
    fn refused(&self) -> u64 {
        0
    }

    /// Returns the pattern that frames need to pass.
    fn pattern(&self) -> Pattern {
        Pattern::default()
    }

    /// Returns how long frames may take to come out; ports that forward in `deliver` itself need no time.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

/// Checks all contracts of a sink, each on a new one.
pub fn check_sink<B: SinkBench>(mut make: impl FnMut() -> B) {
    an_empty_delivery_does_nothing(&mut make());
    frames_come_whole_and_in_order(&mut make());
    a_burst_of_the_largest_size(&mut make());
    what_is_not_taken_is_the_end_of_the_burst_and_counted(&mut make());
    room_is_honest(&mut make());
    a_sink_with_room_is_not_waited_for(&mut make());
    two_threads_deliver_at_the_same_time(&mut make());
    large::comes_whole_or_as_on_a_wire(&mut make());
}

/// Returns the marks of the frames received, once all offered frames have arrived or are counted as lost, or patience
/// is over.
fn marks(bench: &mut impl SinkBench, offered: usize) -> Option<Vec<Mark>> {
    let deadline = Instant::now() + bench.patience();
    let pattern = bench.pattern();
    let mut marks = Vec::new();
    loop {
        marks.extend(bench.received()?.iter().filter_map(|octets| pattern.recognise(octets)));
        if marks.len() as u64 + bench.lost() >= offered as u64 || Instant::now() >= deadline {
            // Surplus frames would have been created on the way; gives them one more chance to show up.
            marks.extend(bench.received()?.iter().filter_map(|octets| pattern.recognise(octets)));
            return Some(marks);
        }
        std::thread::yield_now();
    }
}

/// Checks that, of `offered` frames, all of `taken` arrived or are among the counted losses; in order, each once.
fn check_arrivals(bench: &mut impl SinkBench, offered: usize, taken: &[Mark]) {
    let lost_before_taken = (offered - taken.len()) as u64;
    let Some(marks) = marks(bench, offered) else { return };
    let lost = bench.lost();
    assert!(
        lost >= lost_before_taken,
        "{lost_before_taken} frames were not taken, and {lost} counted as lost"
    );
    assert!(bench.refused() <= lost, "what a rule drops is lost, and counted as that");
    assert_eq!(marks.len() as u64 + lost, offered as u64, "in = out + counted drops");
    let mut rest = taken.iter();
    for mark in &marks {
        assert!(rest.any(|offer| offer == mark), "{mark:?} came twice, out of order, or was never taken");
    }
}

/// Returns the marks of the first frames of a sender.
fn first(sender: u8, count: usize) -> Vec<Mark> {
    (0..count as u32).map(|number| Mark { sender, number }).collect()
}

fn an_empty_delivery_does_nothing(bench: &mut impl SinkBench) {
    assert_eq!(bench.sink().deliver(&[]), 0, "an empty delivery took something");
    check_arrivals(bench, 0, &[]);
}

fn frames_come_whole_and_in_order(bench: &mut impl SinkBench) {
    let pattern = bench.pattern();
    // Few enough for any queue: first one at a time, then several together.
    for (first, count) in [(0, 1), (1, 1), (2, 3), (5, 3)] {
        let shown = Shown::new(&pattern, 1, first, count);
        let n = bench.sink().deliver(&shown.frames());
        assert_eq!(n, count, "a new port with little to do took only {n} of {count} frames");
    }
    check_arrivals(bench, 8, &first(1, 8));
}

fn a_burst_of_the_largest_size(bench: &mut impl SinkBench) {
    let shown = Shown::new(&bench.pattern(), 1, 0, BURST);
    let room = bench.sink().room();
    let taken = bench.sink().deliver(&shown.frames());
    assert!(taken <= BURST, "took {taken} of {BURST} frames");
    let dealt_with = taken + bench.refused() as usize;
    assert!(
        room == usize::MAX || dealt_with >= room.min(BURST),
        "said it had room for {room} and took {taken}"
    );
    check_arrivals(bench, BURST, &first(1, taken));
}

fn what_is_not_taken_is_the_end_of_the_burst_and_counted(bench: &mut impl SinkBench) {
    let pattern = bench.pattern();
    // No frame is taken out meanwhile: a bounded port must fill up, an unbounded one may take them all.
    let (mut taken, mut offers) = (Vec::new(), 0);
    for first in (0..2048).step_by(BURST) {
        let shown = Shown::new(&pattern, 1, first, BURST);
        let n = bench.sink().deliver(&shown.frames());
        taken.extend((first..first + n as u32).map(|number| Mark { sender: 1, number }));
        offers += BURST;
        if n < BURST {
            break;
        }
    }
    let Some(marks) = marks(bench, offers) else { return };
    assert_eq!(marks.len() as u64 + bench.lost(), offers as u64, "in = out + counted drops");
    let mut rest = taken.iter();
    for mark in &marks {
        assert!(rest.any(|offer| offer == mark), "{mark:?} came twice, out of order, or was never taken");
    }
}

fn room_is_honest(bench: &mut impl SinkBench) {
    let pattern = bench.pattern();
    let (mut taken, mut offers) = (Vec::new(), 0);
    for number in 0..2048 {
        let (room, refused) = (bench.sink().room(), bench.refused());
        if room == usize::MAX {
            return;
        }
        let shown = Shown::new(&pattern, 1, number, 1);
        let n = bench.sink().deliver(&shown.frames());
        taken.extend((n > 0).then_some(Mark { sender: 1, number }));
        offers += 1;
        let (promised, refused) = (room.min(1), (bench.refused() - refused) as usize);
        let honest = n <= promised && n + refused >= promised;
        assert!(honest, "said it had room for {room} frames, took {n} of 1, and refused {refused}");
        if room == 0 {
            break;
        }
    }
    check_arrivals(bench, offers, &taken);
}

fn a_sink_with_room_is_not_waited_for(bench: &mut impl SinkBench) {
    assert!(bench.sink().room() > 0, "a new port has no room");
    assert!(bench.sink().arm(), "arm() must say that there is room, or a sender sleeps for ever");
    bench.sink().disarm();
    bench.sink().disarm();
}

fn two_threads_deliver_at_the_same_time(bench: &mut impl SinkBench) {
    const EACH: u32 = 512;
    let (pattern, sink) = (bench.pattern(), bench.sink());
    let deliver = |sender: u8| {
        for first in (0..EACH).step_by(8) {
            sink.deliver(&Shown::new(&pattern, sender, first, 8).frames());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| deliver(1));
        scope.spawn(|| deliver(2));
    });
    let Some(marks) = marks(bench, 2 * EACH as usize) else { return };
    assert_eq!(marks.len() as u64 + bench.lost(), u64::from(2 * EACH), "in = out + counted drops");
    for sender in [1, 2] {
        let numbers = marks.iter().filter(|mark| mark.sender == sender).map(|mark| mark.number);
        assert!(numbers.is_sorted_by(|a, b| a < b), "frames of one sender came twice or out of order");
    }
}
