use super::*;
use crate::pair::{PairPort, pair};

fn numbered(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|n| vec![n; 60]).collect()
}

fn deliver(sink: &dyn Sink, octets: &mut [Vec<u8>]) -> usize {
    let frames: Vec<_> = octets.iter_mut().map(|o| Frame::new(ring::Bytes::from_slice(o))).collect();
    sink.deliver(&frames)
}

fn contents(source: &mut dyn Source) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut take = |frames: &[Frame<'_>]| {
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            seen.push(octets);
        }
    };
    while source.drain(BURST, &mut take) != 0 {}
    seen
}

/// Sends `count` numbered frames through a faulty sink; returns the frames that come out, and the counters.
fn through(faults: Faults, count: u8) -> (Vec<Vec<u8>>, Arc<FaultCounters>) {
    let (near, PairPort { mut source, .. }) = pair(256).unwrap();
    let sink = FaultSink::new(near.sink, faults);
    let mut octets = numbered(count);
    deliver(&sink, &mut octets);
    assert_eq!(octets, numbered(count), "the sender's own memory was touched");
    (contents(&mut source), sink.counters.clone())
}

#[test]
fn every_fault_does_what_its_name_says() {
    assert_eq!(through(Faults::default(), 9).0, numbered(9));
    let (seen, counters) = through(Faults { drop: 1000, ..Faults::default() }, 9);
    assert_eq!((seen.len(), counters.dropped.get()), (0, 9));
    let (seen, counters) = through(Faults { duplicate: 1000, ..Faults::default() }, 9);
    assert_eq!((seen.len(), counters.duplicated.get()), (18, 9));
    assert_eq!(seen[2], seen[3]);
    let (seen, _) = through(Faults { reorder: 1000, ..Faults::default() }, 3);
    assert_eq!(seen.iter().map(|octets| octets[0]).collect::<Vec<_>>(), [1, 2, 0]);
    let (seen, counters) = through(Faults { truncate: 1000, ..Faults::default() }, 9);
    assert!(seen.iter().all(|octets| octets.len() < 60) && counters.truncated.get() == 9);
    let (seen, counters) = through(Faults { corrupt: 1000, ..Faults::default() }, 9);
    assert_eq!(counters.corrupted.get(), 9);
    for (octets, right) in seen.iter().zip(numbered(9)) {
        let bits: u32 = octets.iter().zip(&right).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
    }
    let (seen, counters) = through(Faults { stall: 1000, ..Faults::default() }, 9);
    assert_eq!((seen.len(), counters.stalled.get(), counters.dropped.get()), (0, 1, 9));
}

#[test]
fn the_same_seed_makes_the_same_faults_and_the_books_balance() {
    let faults = |seed| Faults {
        drop: 100,
        duplicate: 100,
        reorder: 100,
        truncate: 100,
        corrupt: 100,
        stall: 0,
        seed,
    };
    let (first, counters) = through(faults(7), 200);
    assert_eq!(first, through(faults(7), 200).0);
    assert_ne!(first, through(faults(8), 200).0);
    assert_eq!(first.len() as u64, counters.passed.get());
    assert_eq!(
        counters.shown.get() + counters.duplicated.get(),
        counters.passed.get() + counters.dropped.get()
    );
}

#[test]
fn a_faulty_source_keeps_to_the_budget_and_loses_nothing_by_a_stall() {
    let (near, far) = pair(256).unwrap();
    deliver(&*near.sink, &mut numbered(100));
    let faults = Faults { duplicate: 500, stall: 500, ..Faults::default() };
    let mut source = FaultSource::new(far.source, faults);
    let counters = source.counters();
    let (mut seen, mut quiet) = (0, 0);
    while quiet < 50 {
        let n = source.drain(10, &mut |frames| assert!(frames.len() <= 10));
        seen += n;
        quiet = if n == 0 { quiet + 1 } else { 0 };
    }
    assert_eq!(counters.shown.get(), 100);
    assert_eq!(seen as u64, 100 + counters.duplicated.get());
    assert!(counters.stalled.get() > 0);
}

#[test]
fn the_answer_counts_the_frames_dealt_with_before_the_first_that_was_not() {
    let (near, _far) = pair(3).unwrap();
    let sink = FaultSink::new(near.sink, Faults { duplicate: 1000, ..Faults::default() });
    assert_eq!(deliver(&sink, &mut numbered(4)), 1);
}
