use std::sync::Mutex;

use frame::offload::{Gso, Offload};
use proptest::prelude::*;
use ring::Bytes;

use super::*;
use crate::boundary::Source;

/// Creates a TCP packet over IPv4 with this much payload, in segments of 1000 octets.
fn tcp(len: usize, mark: u8) -> (Vec<u8>, Offload) {
    let mut octets = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    octets.extend([0x45, 0, 0, 0, 0, mark, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    octets.extend([0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 9, 0, 0, 0, 0]);
    octets.extend((0..len).map(|at| (at / 3) as u8 ^ mark));
    (octets, Offload::checksum(34, 16).unwrap().with_gso(Gso::Tcp4, 1000, 54))
}

fn small(mark: u8) -> (Vec<u8>, Offload) {
    (vec![mark; 60], Offload::NONE)
}

fn shown(frames: &mut [(Vec<u8>, Offload)]) -> Vec<Frame<'_>> {
    frames
        .iter_mut()
        .map(|(octets, offload)| Frame::with_offload(Bytes::from_slice(octets), *offload))
        .collect()
}

fn octets(frame: &Frame<'_>) -> Vec<u8> {
    let mut octets = vec![0; frame.len()];
    frame.octets().copy_to_slice(&mut octets);
    octets
}

/// A sink with bounded room that accepts these offloads.
struct Kept {
    takes: Offloads,
    room: Mutex<usize>,
    frames: Mutex<Vec<(Vec<u8>, Offload)>>,
    lost: Mutex<usize>,
    done: Mutex<Completed>,
}

impl Kept {
    fn new(takes: Offloads, room: usize) -> Self {
        Self {
            takes,
            room: Mutex::new(room),
            frames: Mutex::default(),
            lost: Mutex::default(),
            done: Mutex::default(),
        }
    }

    fn lengths(&self) -> Vec<usize> {
        self.frames.lock().unwrap().iter().map(|(octets, _)| octets.len()).collect()
    }
}

impl Sink for Kept {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut room = self.room.lock().unwrap();
        let taken = frames.len().min(*room);
        *room -= taken;
        *self.lost.lock().unwrap() += frames.len() - taken;
        let came = frames[..taken].iter().map(|frame| {
            assert!(self.takes.has(frame.offload().needed()), "{:?} was not asked for", frame.offload());
            (octets(frame), frame.offload())
        });
        self.frames.lock().unwrap().extend(came);
        taken
    }

    fn room(&self) -> usize {
        *self.room.lock().unwrap()
    }

    fn offloads(&self) -> Offloads {
        self.takes
    }

    fn completed(&self, done: &Completed) {
        *self.done.lock().unwrap() = *done;
    }
}

#[test]
fn what_a_sink_takes_it_gets_as_it_is() {
    let mut frames = vec![tcp(5000, 1), small(2)];
    let sink = Kept::new(Offloads::CSUM | Offloads::TSO4, 64);
    assert_eq!(deliver(&sink, &shown(&mut frames)), 2);
    assert_eq!(*sink.frames.lock().unwrap(), frames);
    assert_eq!(*sink.done.lock().unwrap(), Completed::default());
}

#[test]
fn what_it_cannot_take_is_cut_and_stays_in_its_place() {
    let mut frames = vec![small(1), tcp(2500, 2), small(3), tcp(1000, 4)];
    let sink = Kept::new(Offloads::NONE, 64);
    assert_eq!(deliver(&sink, &shown(&mut frames)), 4);
    assert_eq!(sink.lengths(), [60, 1054, 1054, 554, 60, 1054]);
    let done = Completed { checksums: 0, segmented: 2, segments: 4, drop_bad_offload: 0 };
    assert_eq!(*sink.done.lock().unwrap(), done);
}

#[test]
fn checksums_alone_are_left_to_who_takes_them() {
    let (mut octets, _) = tcp(100, 1);
    octets.truncate(154);
    let mut frames = vec![(octets, Offload::checksum(34, 16).unwrap()), tcp(2000, 2)];
    let sink = Kept::new(Offloads::CSUM, 64);
    deliver(&sink, &shown(&mut frames));
    assert_eq!(sink.lengths(), [154, 1054, 1054]);
    assert!(
        sink.frames.lock().unwrap().iter().all(|(_, offload)| *offload == Offload::checksum(34, 16).unwrap())
    );
    let sink = Kept::new(Offloads::NONE, 64);
    deliver(&sink, &shown(&mut frames));
    assert_eq!(sink.done.lock().unwrap().checksums, 1);
    let came = sink.frames.lock().unwrap();
    assert_eq!(frame::checksum::sum(0, &came[0].0[34..]), 0xffff);
}

#[test]
fn what_makes_no_sense_is_dropped_and_counted_and_its_neighbours_pass() {
    let (mut udp, offload) = tcp(2000, 1);
    udp[23] = 17;
    let outside = Offload::checksum(59, 16).unwrap();
    let mut frames = vec![small(1), (udp, offload), (vec![3; 60], outside), small(4)];
    let sink = Kept::new(Offloads::NONE, 64);
    assert_eq!(deliver(&sink, &shown(&mut frames)), 4, "they were dealt with");
    assert_eq!(sink.lengths(), [60, 60]);
    assert_eq!(sink.done.lock().unwrap().drop_bad_offload, 2);
}

#[test]
fn a_burst_of_the_largest_frames_is_cut() {
    let mut frames: Vec<_> = (0..BURST as u8).map(|i| tcp(65_400, i)).collect();
    let sink = Kept::new(Offloads::NONE, usize::MAX);
    assert_eq!(deliver(&sink, &shown(&mut frames)), BURST);
    assert_eq!(sink.lengths().len(), BURST * 66);
    let came = sink.frames.lock().unwrap();
    for (i, (octets, _)) in came.iter().enumerate() {
        assert_eq!((octets[19], octets[19 + 35]), ((i / 66 + i % 66) as u8, octets[54]), "in order");
    }
}

#[test]
fn frames_of_which_a_segment_is_lost_were_not_taken() {
    let mut frames = vec![tcp(2500, 1), tcp(2500, 2), tcp(2500, 3)];
    let sink = Kept::new(Offloads::NONE, 4);
    assert_eq!(deliver(&sink, &shown(&mut frames)), 1);
    assert_eq!((*sink.lost.lock().unwrap(), sink.lengths().len()), (5, 4));
}

/// A source of waiting frames.
struct Waiting {
    frames: Vec<(Vec<u8>, Offload)>,
    settled: Vec<Offloads>,
    /// Number of passes in which it was drained or tended.
    tended: usize,
}

impl Source for Waiting {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.tended += 1;
        let n = budget.min(self.frames.len());
        let mut now: Vec<_> = self.frames.drain(..n).collect();
        if n > 0 {
            take(&shown(&mut now));
        }
        n
    }

    fn tend(&mut self) {
        self.tended += 1;
    }

    fn set_sink_offloads(&mut self, takes: Offloads) {
        self.settled.push(takes);
    }
}

#[test]
fn segments_wait_for_room_and_the_frames_behind_them_too() {
    let frames = vec![tcp(4000, 1), small(2), tcp(65_000, 3), small(4)];
    let mut plain = Vec::new();
    show_completed(&shown(&mut frames.clone()), &mut |frames| plain.extend(frames.iter().map(octets)));
    assert_eq!(plain.len(), 4 + 1 + 65 + 1);
    let mut source = Waiting { frames, settled: Vec::new(), tended: 0 };
    let (sink, mut backlog) = (Kept::new(Offloads::NONE, 3), Backlog::default());
    for pass in 1..=60 {
        pump_on(&mut source, &sink, &mut backlog);
        assert_eq!(source.tended, pass, "in each pass, also when frames are kept for later");
        *sink.room.lock().unwrap() = 3;
    }
    assert!(backlog.is_empty() && source.frames.is_empty());
    let came: Vec<_> = sink.frames.lock().unwrap().iter().map(|(octets, _)| octets.clone()).collect();
    assert!(came == plain, "all of them, in order");
    assert_eq!(*sink.lost.lock().unwrap(), 0);
    assert!(source.settled.len() >= 2 && source.settled.iter().all(|&takes| takes == Offloads::NONE));
}

#[test]
fn a_source_is_told_at_once_what_its_sink_takes_now() {
    let mut source = Waiting { frames: Vec::new(), settled: Vec::new(), tended: 0 };
    let mut backlog = Backlog::default();
    for takes in [Offloads::NONE, Offloads::ALL, Offloads::ALL, Offloads::CSUM] {
        pump_on(&mut source, &Kept::new(takes, 3), &mut backlog);
    }
    assert_eq!(source.settled, [Offloads::NONE, Offloads::ALL, Offloads::CSUM]);
}

#[test]
fn a_sink_that_delivers_to_another_one_completes_for_it() {
    struct Through(Kept);
    impl Sink for Through {
        fn deliver(&self, frames: &[Frame<'_>]) -> usize {
            deliver(&self.0, frames)
        }

        fn offloads(&self) -> Offloads {
            Offloads::CSUM
        }
    }
    let mut frames = vec![tcp(2500, 1)];
    let sink = Through(Kept::new(Offloads::NONE, 64));
    assert_eq!(deliver(&sink, &shown(&mut frames)), 1);
    assert_eq!(sink.0.lengths(), [1054, 1054, 554]);
    let mut plain = Vec::new();
    show_completed(&shown(&mut frames), &mut |frames| plain.extend(frames.iter().map(octets)));
    assert_eq!(
        sink.0.frames.lock().unwrap().iter().map(|(octets, _)| octets.clone()).collect::<Vec<_>>(),
        plain
    );
}

/// Arbitrary offload metadata of a header.
fn header() -> impl Strategy<Value = Offload> {
    let kind = prop_oneof![Just(0u8), Just(1), Just(0x81), Just(4), Just(5)];
    let numbers = [0..2000_u16, 0..100, 0..20];
    (any::<bool>(), kind, numbers).prop_map(|(csum, kind, [size, start, offset])| {
        let [size, start, offset] = [size, start, offset].map(u16::to_le_bytes);
        let header = [csum.into(), kind, 0, 0, size[0], size[1], start[0], start[1], offset[0], offset[1]];
        Offload::from_virtio(header).unwrap_or_default()
    })
}

proptest! {
    /// For arbitrary frames and arbitrary room: frames that are not delivered are counted.
    #[test]
    fn nothing_is_lost_without_a_name(
        orders in prop::collection::vec((header(), 0..3000_usize, any::<bool>()), 0..64),
        takes in any::<u8>(),
        room in 0..300_usize,
    ) {
        let mut frames: Vec<_> = orders
            .iter()
            .map(|&(other, len, sound)| {
                let (octets, offload) = tcp(len, 7);
                (octets, if sound { offload } else { other })
            })
            .collect();
        let sink = Kept::new(Offloads::from_bits(takes).consistent(), room);
        let taken = deliver(&sink, &shown(&mut frames));
        let done = *sink.done.lock().unwrap();
        let whole = frames.len() as u64 - done.segmented - done.drop_bad_offload;
        let came = sink.frames.lock().unwrap().len() + *sink.lost.lock().unwrap();
        prop_assert_eq!(came as u64, whole + done.segments);
        prop_assert!(taken <= frames.len() && (*sink.lost.lock().unwrap() > 0 || taken == frames.len()));
    }
}
