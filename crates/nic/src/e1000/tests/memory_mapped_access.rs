//! "Memory-Mapped Access": sizes, offsets, registers that do not exist.

use super::*;
use crate::e1000::Faults;

#[test]
fn a_write_is_of_whole_registers_or_nothing() {
    let mut slot = Slot::new();
    slot.write_octets(r::TDBAL, &0x0000_0001_2345_6780_u64.to_le_bytes());
    assert_eq!((slot.read(r::TDBAL), slot.read(r::TDBAH)), (0x2345_6780, 1), "two registers");
    for (offset, len) in [(0, 1), (0, 2), (1, 2), (2, 4), (0, 3), (0, 0), (0, 6), (0, 12), (3, 8)] {
        slot.write_octets(r::TDBAL + offset, &[0xff; 12][..len]);
    }
    assert_eq!((slot.read(r::TDBAL), slot.read(r::TDBAH)), (0x2345_6780, 1));
    assert_eq!(slot.nic.faults(), Faults { partial: 9, ..Faults::default() });
}

#[test]
fn a_read_of_any_size_shows_the_octets_of_the_registers_that_it_touches() {
    let mut slot = Slot::new();
    slot.write(r::TDBAL, 0x4433_2210);
    slot.write(r::TDBAH, 0x8877_6655);
    assert_eq!(slot.octets(r::TDBAL), [0x10]);
    assert_eq!(slot.octets(r::TDBAL + 1), [0x22, 0x33]);
    assert_eq!(slot.octets(r::TDBAL + 3), [0x44, 0x55]);
    assert_eq!(slot.octets(r::TDBAL), [0x10, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    assert_eq!(slot.octets(r::TDBAL + 2), [0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0], "TDLEN follows");
    assert_eq!(slot.octets::<0>(r::TDBAL), []);
    assert_eq!(slot.nic.faults().partial, 0);
}

#[test]
fn reading_a_part_of_icr_clears_it_as_a_whole() {
    let mut slot = Slot::new();
    slot.write(r::ICS, 0x8081);
    assert_eq!(slot.octets(r::ICR + 1), [0x80]);
    assert_eq!(slot.read(r::ICR), 0);
}

#[test]
fn what_does_not_exist_reads_as_zero_and_is_counted() {
    let mut slot = Slot::new();
    let nowhere = [0x000c, 0x00dc, 0x1008, 0x2004, 0x4024, 0x4100, 0x5054, 0x5480, 0xfffc, 0x1_fffc];
    for offset in nowhere {
        slot.write(offset, u32::MAX);
        assert_eq!(slot.read(offset), 0, "{offset:#x}");
    }
    assert_eq!(slot.nic.faults(), Faults { unknown: 20, ..Faults::default() });
    assert_eq!(slot.octets(0x1_fffe), [0; 8], "across the end of the BAR");
    assert_eq!(slot.octets(u64::MAX - 1), [0; 8]);
    slot.write_octets(u64::MAX - 3, &[0xff; 8]);
}

#[test]
fn registers_without_an_effect_hold_the_bits_that_they_have() {
    let mut slot = Slot::new();
    let held: [(u64, u32); 22] = [
        (r::FCAL, u32::MAX),
        (r::FCAH, 0xffff),
        (r::FCT, 0xffff),
        (r::FCTTV, 0xffff),
        (r::VET, 0xffff),
        (r::TIPG, 0x3fff_ffff),
        (r::AIT, 0xffff),
        (r::FCRTL, 0x8000_fff8),
        (r::FCRTH, 0x8000_fff8),
        (r::RXDCTL, 0x013f_3f3f),
        (r::TXDCTL, 0xff3f_3f3f),
        (r::RAL + 8 * 15, u32::MAX),
        (r::RAH + 8 * 15, 0x8003_ffff),
        (r::MTA + 4 * 127, u32::MAX),
        (r::VFTA + 4 * 127, u32::MAX),
        (r::WUFC, 0x000f_80ff),
        (r::MANC, u32::MAX),
        (r::IP4AT + 24, u32::MAX),
        (r::FFLT + 24, 0x7ff),
        (r::FFVT + 8 * 127, u32::MAX),
        (r::RDLEN, 0xf_ff80),
        (r::RDBAL, 0xffff_fff0),
    ];
    for (offset, mask) in held {
        slot.write(offset, u32::MAX);
        assert_eq!(slot.read(offset), mask, "{offset:#x}");
        slot.write(offset, 0);
        assert_eq!(slot.read(offset), 0, "{offset:#x}");
    }
    for read_only in [r::WUS, r::WUPL, r::WUPM, r::RXCW, r::FLA] {
        slot.write(read_only, u32::MAX);
        assert_eq!(slot.read(read_only), 0, "{read_only:#x}");
    }
    assert_eq!(slot.nic.faults(), Faults::default());
}

#[test]
fn what_is_not_given_to_receive_is_there_to_transmit() {
    let mut slot = Slot::new();
    assert_eq!(slot.read(r::PBA), 0x0010_0030);
    slot.write(r::PBA, 40);
    assert_eq!(slot.read(r::PBA), 0x0018_0028);
    slot.write(r::PBA, 0xffff);
    assert_eq!(slot.read(r::PBA), 0x0000_ffff);
}
