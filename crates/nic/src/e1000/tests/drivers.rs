//! Access sequences of real drivers from the first access to the first frame.

use super::*;
use crate::e1000::cause;

const LINUX_CAUSES: u32 = cause::RXT0 | cause::TXDW | cause::RXDMT0 | cause::RXSEQ | cause::LSC;

/// Linux and FreeBSD: disable interrupts, reset by ports, read the EEPROM by its pins, negotiate, rings, interrupts.
#[test]
fn a_driver_that_does_everything_comes_up_and_goes_down() {
    let mut slot = Slot::new();
    slot.write(r::IMC, u32::MAX);
    slot.write(r::RCTL, 0);
    slot.write(r::TCTL, tctl::PSP);
    slot.read(r::STATUS);
    let control = slot.read(r::CTRL);
    slot.write_port(0, 0);
    slot.write_port(4, control | ctrl::RST);
    let management = slot.read(r::MANC);
    slot.write(r::MANC, management & !(1 << 13));
    slot.write(r::IMC, u32::MAX);
    slot.read(r::ICR);
    let control = slot.read(r::CTRL);
    slot.write(r::CTRL, (control | ctrl::SLU) & !(0x3 << 11));
    assert_eq!(slot.read(r::STATUS) & r::status::LU, r::status::LU);
    slot.write(r::VET, 0x8100);
    set_address_and_tables(&mut slot);
    set_receive(&mut slot);
    set_transmit(&mut slot);
    assert_eq!(slot.orders(), ["receive started", "transmit started"]);
    slot.write(r::IMS, LINUX_CAUSES);
    assert!(slot.asserted(), "the link came up meanwhile");
    assert_eq!(slot.read(r::ICR), cause::LSC);
    slot.write(r::RDT, 254);
    slot.write(r::TDT, 1);
    assert_eq!(slot.orders(), ["receive tail", "transmit tail"]);
    slot.write(r::IMC, u32::MAX);
    slot.write(r::RCTL, 0);
    slot.write(r::TCTL, 0);
    assert_eq!(slot.orders(), ["receive stopped", "transmit stopped"]);
    assert_eq!(slot.nic.faults(), crate::e1000::Faults::default());
}

fn set_address_and_tables(slot: &mut Slot) {
    for n in 0..16 {
        slot.write(r::RAL + 8 * n, 0);
        slot.write(r::RAH + 8 * n, 0);
    }
    slot.write(r::RAL, 0x3322_1102);
    slot.write(r::RAH, 0x8000_5544);
    for n in 0..128 {
        slot.write(r::MTA + 4 * n, 0);
        slot.write(r::VFTA + 4 * n, 0);
    }
    for (register, value) in [(r::FCT, 0x8808), (r::FCAH, 0x100), (r::FCAL, 0x00c2_8001), (r::FCTTV, 0)] {
        slot.write(register, value);
    }
}

fn set_receive(slot: &mut Slot) {
    slot.write(r::RDTR, 0);
    slot.write(r::RADV, 8);
    slot.write(r::ITR, 488);
    slot.write(r::RDLEN, 4096);
    slot.write(r::RDBAH, 0);
    slot.write(r::RDBAL, 0x10_0000);
    slot.write(r::RDT, 0);
    slot.write(r::RDH, 0);
    slot.write(r::RXCSUM, 0x200);
    slot.write(r::RCTL, rctl::EN | rctl::BAM);
}

fn set_transmit(slot: &mut Slot) {
    slot.write(r::TDLEN, 4096);
    slot.write(r::TDBAH, 0);
    slot.write(r::TDBAL, 0x20_0000);
    slot.write(r::TDT, 0);
    slot.write(r::TDH, 0);
    slot.write(r::TIPG, 0x0060_200a);
    slot.write(r::TIDV, 8);
    slot.write(r::TADV, 32);
    slot.write(r::TCTL, 0x0104_00fa);
}

/// A boot ROM: no interrupts, the address from the receive address registers, rings of few descriptors, reset at the
/// end.
#[test]
fn a_boot_rom_polls() {
    let mut slot = Slot::new();
    let control = slot.read(r::CTRL);
    slot.write(r::CTRL, control | ctrl::RST);
    slot.write(r::CTRL, control | ctrl::SLU | 1 << 5);
    assert_ne!(slot.read(r::STATUS) & r::status::LU, 0);
    assert_eq!((slot.read(r::RAL), slot.read(r::RAH) & 0xffff), (0x3322_1102, 0x5544));
    for (low, ring) in [(r::TDBAL, 0x8000), (r::RDBAL, 0x9000)] {
        slot.write(low, ring);
        slot.write(low + 4, 0);
        slot.write(low + 8, 256);
        slot.write(low + 16, 0);
        slot.write(low + 24, 0);
        let queue = slot.read(low + 40);
        slot.write(low + 40, queue | 1 << 25);
    }
    slot.write(r::TCTL, tctl::EN | tctl::PSP | 0x0004_00f0);
    slot.write(r::RCTL, rctl::EN | rctl::UPE | rctl::MPE | rctl::BAM | rctl::SECRC);
    slot.write(r::RDT, 8);
    assert_eq!(slot.orders(), ["transmit started", "receive started", "receive tail"]);
    slot.write(r::IMS, cause::TXDW | cause::RXT0);
    slot.write(r::IMC, u32::MAX);
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    assert_eq!(slot.read(r::ICR) & cause::RXT0, cause::RXT0);
    slot.write(r::RCTL, 0);
    slot.write(r::TCTL, 0);
    for low in [r::RDBAL, r::TDBAL] {
        slot.write(low + 8, 0);
    }
    let control = slot.read(r::CTRL);
    slot.write(r::CTRL, control | ctrl::RST | ctrl::PHY_RST);
    slot.write(r::CTRL, control);
    assert_eq!(slot.orders(), ["receive stopped", "transmit stopped"]);
}

/// Linux triggers a check of the receive ring periodically by ICS, and reads the link's state from the PHY.
#[test]
fn a_watchdog_finds_what_it_looks_for() {
    let mut slot = Slot::running();
    slot.write(r::IMS, LINUX_CAUSES);
    slot.write(r::ICS, cause::RXDMT0);
    assert!(slot.asserted());
    assert_eq!(slot.read(r::ICR), cause::RXDMT0);
    slot.write(r::ICS, cause::LSC);
    assert!(slot.asserted());
    slot.read(r::ICR);
    for _ in 0..2 {
        // The link bit latches in real parts: drivers read it twice.
        slot.write(r::MDIC, 2 << 26 | 1 << 21 | 1 << 16);
        assert_ne!(slot.read(r::MDIC) & 1 << 2, 0);
    }
    for register in (0x4000..=0x40fc).step_by(4) {
        slot.read(register);
    }
}

/// Register writes, reads and interrupts of a driver's own self-test.
#[test]
fn a_self_test_passes() {
    let mut slot = Slot::new();
    let status = slot.read(r::STATUS);
    slot.write(r::STATUS, !status);
    assert_eq!(slot.read(r::STATUS), status);
    let registers: [(u64, u32); 17] = [
        (r::FCAL, u32::MAX),
        (r::FCAH, 0xffff),
        (r::FCT, 0xffff),
        (r::VET, 0xffff),
        (r::RDTR, 0xffff),
        (r::RDBAH, u32::MAX),
        (r::RDLEN, 0x000f_ff80),
        (r::RDH, 0xffff),
        (r::RDT, 0xffff),
        (r::FCRTH, 0xfff8),
        (r::FCTTV, 0xffff),
        (r::TIPG, 0x3fff_ffff),
        (r::TDBAH, u32::MAX),
        (r::TDLEN, 0x000f_ff80),
        (r::RDBAL, 0xffff_fff0),
        (r::TDBAL, 0xffff_fff0),
        (r::RAH + 8 * 14, 0x8003_ffff),
    ];
    for (register, mask) in registers {
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, u32::MAX] {
            slot.write(register, pattern & mask);
            assert_eq!(slot.read(register) & mask, pattern & mask, "{register:#x}");
        }
    }
    for (register, written, expected) in [(r::RCTL, u32::MAX, 0x06df_b3fe), (r::RCTL, 0, 0), (r::TCTL, 0, 0)]
    {
        slot.write(register, written);
        assert_eq!(slot.read(register) & 0x06df_b3fe, expected);
    }
    for cause in (0..10).map(|bit| 1 << bit) {
        slot.write(r::IMC, u32::MAX);
        slot.write(r::ICS, cause);
        assert!(!slot.asserted(), "{cause:#x} is disabled");
        slot.write(r::IMS, cause);
        slot.write(r::ICS, cause);
        assert!(slot.asserted(), "{cause:#x}");
        assert_eq!(slot.read(r::ICR), cause);
        slot.write(r::ICS, 0x7fff & !cause);
        assert!(!slot.asserted(), "only {cause:#x} is enabled");
        slot.read(r::ICR);
    }
}
