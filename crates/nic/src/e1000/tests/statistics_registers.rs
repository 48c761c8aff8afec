//! "Statistics Registers".

use super::*;
use crate::e1000::{BurstCounts, Destination, Statistics};
use std::sync::Arc;

const MPC: u64 = 0x4010;
const PRC64: u64 = 0x405c;
const GPRC: u64 = 0x4074;
const BPRC: u64 = 0x4078;
const MPRC: u64 = 0x407c;
const GPTC: u64 = 0x4080;
const GORCL: u64 = 0x4088;
const GOTCL: u64 = 0x4090;
const RNBC: u64 = 0x40a0;
const ROC: u64 = 0x40ac;
const TORL: u64 = 0x40c0;
const TOTL: u64 = 0x40c8;
const TPR: u64 = 0x40d0;
const TPT: u64 = 0x40d4;
const PTC64: u64 = 0x40d8;
const MPTC: u64 = 0x40f0;
const BPTC: u64 = 0x40f4;
const TSCTC: u64 = 0x40f8;
const TSCTFC: u64 = 0x40fc;

fn counting() -> (Slot, Arc<Statistics>) {
    let mut slot = Slot::new();
    slot.write(r::RDLEN, 128);
    slot.write(r::RCTL, rctl::EN);
    let started = slot.effects().into_iter().find_map(|effect| match effect {
        Effect::ReceiveStarted(setup) => Some(setup.statistics),
        _ => None,
    });
    (slot, started.expect("reception has started"))
}

fn tally(frames: &[(usize, Destination)]) -> BurstCounts {
    let mut tally = BurstCounts::default();
    frames.iter().for_each(|(len, destination)| tally.frame(*len, *destination));
    tally
}

fn many(frames: u64, octets: u64) -> BurstCounts {
    let mut tally = BurstCounts::default();
    tally.frames(frames, octets);
    tally
}

#[test]
fn frames_count_once_in_each_register_that_is_about_them() {
    let (mut slot, statistics) = counting();
    statistics.received.add(&tally(&[
        (60, Destination::Unicast),
        (1514, Destination::Multicast),
        (60, Destination::Broadcast),
    ]));
    let expected = [
        (GPRC, 3),
        (TPR, 3),
        (BPRC, 1),
        (MPRC, 1),
        (PRC64, 2),
        (PRC64 + 20, 1),
        (GORCL, 60 + 1514 + 60 + 12),
        (TORL, 60 + 1514 + 60 + 12),
    ];
    for (register, count) in expected {
        assert_eq!(slot.read(register), count, "{register:#x}");
    }
    for register in [GPTC, TPT, BPTC, MPTC, PTC64, PTC64 + 20, GOTCL, TOTL] {
        assert_eq!(slot.read(register), 0, "{register:#x}: nothing was sent");
    }
    statistics.sent.add(&tally(&[(60, Destination::Multicast), (100, Destination::Broadcast)]));
    let expected =
        [(GPTC, 2), (TPT, 2), (BPTC, 1), (MPTC, 1), (PTC64, 1), (PTC64 + 4, 1), (GOTCL, 168), (TOTL, 168)];
    for (register, count) in expected {
        assert_eq!(slot.read(register), count, "{register:#x}");
    }
}

#[test]
fn sizes_are_those_on_the_wire() {
    let (mut slot, statistics) = counting();
    for (len, class) in
        [(60, 0), (61, 1), (123, 1), (124, 2), (251, 2), (252, 3), (507, 3), (508, 4), (1019, 4)]
    {
        statistics.sent.add(&tally(&[(len, Destination::Unicast)]));
        let counts: Vec<u32> = (0..6).map(|n| slot.read(PTC64 + 4 * n)).collect();
        assert_eq!(counts.iter().position(|count| *count == 1), Some(class), "{len}");
        assert_eq!(counts.iter().sum::<u32>(), 1);
    }
    statistics.sent.add(&tally(&[(1020, Destination::Unicast), (9014, Destination::Unicast)]));
    assert_eq!(slot.read(PTC64 + 20), 2);
}

#[test]
fn reading_clears_each_by_itself() {
    let (mut slot, statistics) = counting();
    statistics.received.add(&tally(&[(60, Destination::Unicast)]));
    assert_eq!((slot.read(GPRC), slot.read(GPRC), slot.read(TPR)), (1, 0, 1));
    statistics.received.add(&tally(&[(60, Destination::Unicast); 2]));
    assert_eq!((slot.read(GPRC), slot.read(TPR), slot.read(PRC64)), (2, 2, 3));
    slot.write(GPRC, 77);
    assert_eq!((slot.read(GPRC), slot.nic.faults().unknown), (0, 0), "read-only");
}

#[test]
fn a_register_sticks_at_its_maximum() {
    let (mut slot, statistics) = counting();
    statistics.received.add(&many(u64::from(u32::MAX), 0));
    assert_eq!(slot.read(GPRC), u32::MAX);
    assert_eq!(slot.read(GPRC), 0, "exactly the maximum");
    statistics.received.add(&many(1 << 33, 0));
    assert_eq!((slot.read(GPRC), slot.read(GPRC)), (u32::MAX, 0), "more than that");
}

#[test]
fn octets_have_64_bits_of_one_moment() {
    let (mut slot, statistics) = counting();
    statistics.sent.add(&many(0, 0x1_ffff_ffff));
    assert_eq!(slot.read(GOTCL), 0xffff_ffff);
    statistics.sent.add(&many(0, 1));
    assert_eq!(slot.read(GOTCL + 4), 1, "as it was when the low half was read");
    assert_eq!((slot.read(GOTCL), slot.read(GOTCL + 4)), (1, 0), "what came between is not lost");
    assert_eq!((slot.read(TOTL), slot.read(TOTL + 4)), (0, 2), "the other pair has its own");
    statistics.sent.add(&many(0, 5 << 32));
    assert_eq!((slot.read(GOTCL + 4), slot.read(GOTCL)), (5, 0), "the high half alone clears too");
}

#[test]
fn the_low_half_alone_clears_nothing() {
    let (mut slot, statistics) = counting();
    statistics.received.add(&many(0, 700));
    assert_eq!((slot.read(GORCL), slot.read(GORCL), slot.read(GORCL + 4)), (700, 700, 0));
    assert_eq!(slot.read(GORCL), 0);
}

#[test]
fn losses_and_segmentation_have_registers() {
    let (mut slot, statistics) = counting();
    statistics.missed(3);
    statistics.too_long(2);
    statistics.segmented(7);
    statistics.unsegmented(1);
    let counts = [MPC, RNBC, ROC, TSCTC, TSCTFC, TPR, GPRC].map(|register| slot.read(register));
    assert_eq!(counts, [3, 3, 2, 7, 1, 5, 0]);
}

#[test]
fn a_reset_clears_them_all() {
    let (mut slot, statistics) = counting();
    statistics.received.add(&tally(&[(60, Destination::Broadcast)]));
    statistics.missed(1);
    slot.write(r::CTRL, ctrl::RST);
    for register in (0x4000..0x4100).step_by(4) {
        assert_eq!(slot.read(register), 0, "{register:#x}");
    }
    statistics.received.add(&tally(&[(60, Destination::Broadcast)]));
    assert_eq!((slot.read(GPRC), slot.read(BPRC)), (1, 1), "and they go on from there");
}

#[test]
fn every_register_of_the_manual_exists() {
    let (mut slot, _) = counting();
    let gaps = [0x4024, 0x402c, 0x4044, 0x4084, 0x4098, 0x409c];
    for register in (0x4000..0x4100_u64).step_by(4) {
        let before = slot.nic.faults().unknown;
        slot.read(register);
        assert_eq!(slot.nic.faults().unknown > before, gaps.contains(&register), "{register:#x}");
    }
}
