//! "Receive Control Register", "Receive Checksum Control", "Receive Descriptor Queue Structure": RDBAL to RDT.

use super::*;
use crate::e1000::{RxChecksum, RxSettings, RxSetup};

fn settings(control: u32) -> RxSettings {
    let mut slot = Slot::new();
    slot.write(r::RDLEN, 128);
    slot.write(r::RCTL, control | rctl::EN);
    started(&mut slot).settings
}

fn started(slot: &mut Slot) -> RxSetup {
    let started = slot.effects().into_iter().find_map(|effect| match effect {
        Effect::ReceiveStarted(setup) => Some(setup),
        _ => None,
    });
    started.expect("reception has started")
}

#[test]
fn buffers_have_the_sizes_of_bsize_and_bsex() {
    let sizes = (0..8).map(|n| settings((n & 3) << 16 | (n >> 2) << 25).buffer_len);
    let expected = [2048, 1024, 512, 256, 2048, 16384, 8192, 4096];
    assert_eq!(sizes.collect::<Vec<u32>>(), expected);
}

#[test]
fn long_frames_and_the_fcs_are_the_driver_s_choice() {
    let plain = settings(0);
    assert_eq!((plain.longest, plain.fcs, plain.loopback), (1518, true, false));
    let other = settings(rctl::LPE | rctl::SECRC | 3 << 6);
    assert_eq!((other.longest, other.fcs, other.loopback), (16380, false, true));
}

#[test]
fn few_descriptors_are_a_half_a_quarter_or_an_eighth() {
    let thresholds: Vec<u32> = (0..4).map(|n| settings(n << 8).threshold).collect();
    assert_eq!(thresholds, [2, 4, 8, 8]);
}

#[test]
fn checksums_are_told_as_rxcsum_says() {
    let mut slot = Slot::running();
    for (value, ip, transport, start) in
        [(0x100, true, false, 0), (0x200, false, true, 0), (0x30e, true, true, 14)]
    {
        slot.write(r::RXCSUM, value);
        let Some(Effect::ReceiveChanged(settings)) = slot.effects().pop() else { panic!("nothing told") };
        assert_eq!(settings.checksum, RxChecksum { start, ip, transport });
    }
    slot.write(r::RXCSUM, 0x30e);
    assert_eq!(slot.orders(), Vec::<&str>::new(), "the same again");
}

#[test]
fn a_ring_starts_when_enabled_with_a_length() {
    let mut slot = Slot::new();
    slot.write(r::RDBAL, 0x1234_5678);
    slot.write(r::RDBAH, 0x9);
    slot.write(r::RCTL, rctl::EN);
    assert_eq!(slot.orders(), Vec::<&str>::new(), "length 0");
    slot.write(r::RDLEN, 1024);
    let setup = started(&mut slot);
    assert_eq!((setup.layout.base, setup.layout.entries, setup.block), (0x9_1234_5670, 64, None));
    slot.write(r::RCTL, 0);
    assert_eq!(slot.orders(), ["receive stopped"]);
    slot.write(r::RCTL, 0);
    assert_eq!(slot.orders(), Vec::<&str>::new());
}

#[test]
fn lengths_that_are_none_are_not_taken_and_the_largest_is() {
    let mut slot = Slot::new();
    slot.write(r::RCTL, rctl::EN);
    for absurd in [0, 1, 127, 0xfff0_0000] {
        slot.write(r::RDLEN, absurd);
        assert_eq!((slot.read(r::RDLEN), slot.orders()), (0, vec![]));
    }
    slot.write(r::RDLEN, u32::MAX);
    assert_eq!(started(&mut slot).layout.entries, 65528);
}

#[test]
fn a_head_or_tail_outside_does_not_start() {
    for register in [r::RDH, r::RDT] {
        let mut slot = Slot::new();
        slot.write(register, 8);
        slot.write(r::RDLEN, 128);
        slot.write(r::RCTL, rctl::EN);
        assert_eq!((slot.orders(), slot.read(register)), (vec![], 8));
        slot.write(register, 7);
        assert_eq!(slot.orders(), ["receive started"]);
    }
}

#[test]
fn the_tail_of_a_running_ring_stays_inside() {
    let mut slot = Slot::running();
    slot.write(r::RDT, 255);
    assert_eq!((slot.orders(), slot.read(r::RDT)), (vec!["receive tail"], 255));
    for outside in [256, 257, 0xffff, 0xffff_0100] {
        slot.write(r::RDT, outside);
        assert_eq!((slot.orders(), slot.read(r::RDT)), (vec![], 255));
    }
    assert_eq!(slot.nic.faults().outside, 4);
}

#[test]
fn a_running_ring_that_is_moved_starts_anew() {
    let mut slot = Slot::running();
    for (register, value) in [(r::RDBAL, 0x8000), (r::RDBAH, 1), (r::RDLEN, 8192), (r::RDH, 3)] {
        slot.write(register, value);
        assert_eq!(slot.orders(), ["receive stopped", "receive started"], "{register:#x}");
        assert_eq!(slot.read(register), value);
    }
    slot.write(r::RDLEN, 0);
    assert_eq!(slot.orders(), ["receive stopped"]);
    slot.write(r::RDLEN, 4096);
    assert_eq!(slot.orders(), ["receive started"]);
}

#[test]
fn a_ring_that_cannot_be_served_stays_down_until_it_is_disabled() {
    let mut slot = Slot::running();
    slot.nic.fail_receive();
    slot.nic.fail_receive();
    assert_eq!(slot.orders(), ["receive stopped"]);
    slot.write(r::RDT, 3);
    slot.write(r::RCTL, rctl::EN | rctl::BAM);
    assert_eq!(slot.orders(), Vec::<&str>::new());
    slot.write(r::RCTL, 0);
    slot.write(r::RCTL, rctl::EN);
    assert_eq!(slot.orders(), ["receive started"]);
}

#[test]
fn settings_of_a_ring_at_rest_are_told_when_it_starts() {
    let mut slot = Slot::new();
    slot.write(r::RCTL, rctl::SECRC);
    slot.write(r::RDLEN, 128);
    assert_eq!(slot.orders(), Vec::<&str>::new());
    slot.write(r::RCTL, rctl::SECRC | rctl::EN);
    assert!(!started(&mut slot).settings.fcs);
    slot.write(r::RCTL, rctl::EN);
    assert_eq!(slot.orders(), ["receive changed"]);
}
