//! "MDI Control Register", "PHY Registers": the PHY behind MDIC.

use super::*;
use crate::e1000::cause;
use crate::e1000::phy::{
    COMPLETE, ERROR, INTERRUPT, LINK, LOOPBACK, NEGOTIATE, POWER_DOWN, READ, READY, RESET, RESTART, WRITE,
    number,
};

const PHY: u32 = 1 << 21;

impl Slot {
    fn phy(&mut self, number: usize) -> u16 {
        self.write(r::MDIC, READ | PHY | (number as u32) << 16);
        let value = self.read(r::MDIC);
        assert_eq!(value & (READY | ERROR), READY);
        value as u16
    }

    fn write_phy(&mut self, number: usize, value: u16) {
        self.write(r::MDIC, WRITE | PHY | (number as u32) << 16 | u32::from(value));
        assert_eq!(self.read(r::MDIC) & (READY | ERROR), READY);
    }
}

#[test]
fn the_phy_is_a_marvell_88e1011() {
    let mut slot = Slot::new();
    assert_eq!((slot.phy(number::ID), slot.phy(number::ID_LOW) & 0xfff0), (0x0141, 0x0c20));
    assert_eq!(slot.phy(number::CONTROL), 0x1140, "negotiates up to 1000 Mbit/s in full duplex");
    assert_eq!(slot.phy(number::EXTENDED_STATUS), 0x3000, "1000BASE-T");
}

#[test]
fn only_address_1_answers() {
    let mut slot = Slot::new();
    for address in [0_u32, 2, 31] {
        slot.write(r::MDIC, READ | address << 21 | 2 << 16);
        assert_eq!(slot.read(r::MDIC) & (READY | ERROR | 0xffff), READY | ERROR | 0xffff);
        slot.write(r::MDIC, WRITE | address << 21 | POWER_DOWN as u32);
    }
    assert_eq!(slot.phy(number::CONTROL) & POWER_DOWN, 0);
    slot.write(r::MDIC, PHY);
    assert_eq!(slot.read(r::MDIC) & (READY | ERROR), READY | ERROR, "no operation");
}

#[test]
fn the_end_of_an_access_interrupts_if_asked() {
    let mut slot = Slot::new();
    slot.phy(number::ID);
    assert_eq!(slot.read(r::ICR), 0);
    slot.write(r::MDIC, READ | INTERRUPT | PHY | 2 << 16);
    assert_eq!(slot.read(r::ICR), cause::MDAC);
}

#[test]
fn a_link_is_negotiated_with_a_partner_that_can_everything() {
    let mut slot = Slot::new();
    assert_eq!(slot.phy(number::STATUS) & (COMPLETE | LINK), COMPLETE | LINK);
    assert_eq!(slot.phy(number::PARTNER), 0x41e1);
    assert_eq!(slot.phy(number::STATUS_1000) & 0x3c00, 0x3c00, "both receivers are up, 1000BASE-T");
    assert_eq!(slot.phy(number::SPECIFIC_STATUS), 0xac00, "1000 Mbit/s, full duplex, resolved, link");
}

#[test]
fn speed_and_duplex_follow_what_is_advertised() {
    let mut slot = Slot::new();
    slot.write(r::CTRL, ctrl::SLU);
    for (advertised, gigabit, expected) in [
        (0x01e1, 0x0300, Some(0xac00_u16)),
        (0x01e1, 0x0100, Some(0x8c00)),
        (0x01e1, 0x0000, Some(0x6c00)),
        (0x00e1, 0x0000, Some(0x4c00)),
        (0x0061, 0x0000, Some(0x2c00)),
        (0x0021, 0x0000, Some(0x0c00)),
        (0x0001, 0x0000, None),
    ] {
        slot.write_phy(number::ADVERTISED, advertised);
        slot.write_phy(number::CONTROL_1000, gigabit);
        slot.write_phy(number::CONTROL, NEGOTIATE | RESTART);
        assert_eq!(slot.phy(number::SPECIFIC_STATUS), expected.unwrap_or(0));
        assert_eq!(slot.phy(number::STATUS) & LINK != 0, expected.is_some());
        assert_eq!(slot.read(r::STATUS) & r::status::LU != 0, expected.is_some());
        let speed = expected.map_or(2, |status| status >> 14);
        assert_eq!(slot.read(r::STATUS) >> 6 & 3, u32::from(speed));
    }
}

#[test]
fn a_forced_link_is_not_negotiated() {
    let mut slot = Slot::new();
    slot.write(r::CTRL, ctrl::SLU);
    for (control, speed) in [(0x2100, 1), (0x0100, 0), (0x0140, 2)] {
        slot.write_phy(number::CONTROL, control);
        assert_eq!(slot.phy(number::STATUS) & (COMPLETE | LINK), LINK);
        assert_eq!((slot.phy(number::PARTNER), slot.phy(number::STATUS_1000)), (0, 0));
        assert_eq!(slot.read(r::STATUS) >> 6 & 3, speed);
    }
}

#[test]
fn power_down_takes_the_link_away_and_power_up_brings_it_back() {
    let mut slot = Slot::new();
    slot.write(r::CTRL, ctrl::SLU);
    assert_eq!(slot.read(r::ICR), cause::LSC);
    slot.write_phy(number::CONTROL, NEGOTIATE | POWER_DOWN);
    assert_eq!((slot.read(r::STATUS) & r::status::LU, slot.read(r::ICR)), (0, cause::LSC));
    assert_eq!((slot.phy(number::STATUS) & LINK, slot.phy(number::SPECIFIC_STATUS)), (0, 0));
    slot.write_phy(number::CONTROL, NEGOTIATE);
    assert_eq!((slot.read(r::STATUS) & r::status::LU, slot.read(r::ICR)), (r::status::LU, cause::LSC));
}

#[test]
fn negotiating_anew_is_told() {
    let mut slot = Slot::running();
    for value in [NEGOTIATE | RESTART, NEGOTIATE | RESET] {
        slot.write_phy(number::CONTROL, value);
        assert_eq!(slot.read(r::ICR), cause::LSC);
        assert_eq!(slot.phy(number::CONTROL), NEGOTIATE, "clears itself");
    }
}

#[test]
fn a_reset_by_control_keeps_what_is_advertised_and_one_by_ctrl_does_not() {
    let mut slot = Slot::new();
    slot.write_phy(number::ADVERTISED, 0x0101);
    slot.write_phy(number::EXTENDED_CONTROL, 7);
    slot.write_phy(number::CONTROL, NEGOTIATE | RESET);
    assert_eq!((slot.phy(number::ADVERTISED), slot.phy(number::EXTENDED_CONTROL)), (0x0101, 0x0d60));
    slot.write(r::CTRL, ctrl::RST);
    assert_eq!(slot.phy(number::ADVERTISED), 0x0101, "a reset of the device leaves the PHY alone");
    slot.write(r::CTRL, ctrl::PHY_RST);
    assert_eq!((slot.phy(number::ADVERTISED), slot.read(r::CTRL) & ctrl::PHY_RST), (0x0de1, 0));
}

#[test]
fn the_phy_s_own_interrupt_status_clears_by_reading() {
    let mut slot = Slot::new();
    assert_ne!(slot.phy(number::INTERRUPT_STATUS), 0, "power-on");
    assert_eq!(slot.phy(number::INTERRUPT_STATUS), 0);
    slot.nic.set_link(false, &mut slot.interrupts, 0);
    assert_ne!(slot.phy(number::INTERRUPT_STATUS) & 1 << 10, 0, "link");
}

#[test]
fn read_only_and_reserved_registers_keep_their_values() {
    let mut slot = Slot::new();
    let read_only =
        [number::STATUS, number::ID, number::ID_LOW, number::PARTNER, number::SPECIFIC_STATUS, 8, 11];
    for register in read_only {
        let before = slot.phy(register);
        slot.write_phy(register, !before);
        assert_eq!(slot.phy(register), before, "register {register}");
    }
    for register in [number::SPECIFIC_CONTROL, number::EXTENDED_CONTROL, number::PAGE, number::PAGED, 26] {
        slot.write_phy(register, 0x5a5a);
        assert_eq!(slot.phy(register), 0x5a5a, "register {register}");
    }
}

#[test]
fn loopback_in_the_phy_keeps_frames_inside() {
    let mut slot = Slot::running();
    slot.write_phy(number::CONTROL, LOOPBACK | 0x0140);
    let loopbacks: Vec<bool> = slot
        .effects()
        .iter()
        .filter_map(|effect| match effect {
            Effect::TransmitChanged(settings) => Some(settings.loopback),
            Effect::ReceiveChanged(settings) => Some(settings.loopback),
            _ => None,
        })
        .collect();
    assert_eq!(loopbacks, [true, true]);
    slot.nic.set_link(false, &mut slot.interrupts, 0);
    assert_ne!(slot.phy(number::STATUS) & LINK, 0, "needs no cable");
}
