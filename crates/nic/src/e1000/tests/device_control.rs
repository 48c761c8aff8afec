//! "Device Control Register", "General Initialization and Reset Operation".

use super::*;
use crate::e1000::cause;
use ring::e1000::HeadTail;
use std::sync::Arc;

#[test]
fn bits_that_start_something_clear_themselves_and_others_are_held() {
    let mut slot = Slot::new();
    assert_eq!(slot.read(r::CTRL), 0x201, "full duplex, 1000 Mbit/s");
    slot.write(r::CTRL, !(ctrl::RST | ctrl::PHY_RST));
    assert_eq!(slot.read(r::CTRL), 0x58fc_1be9);
    assert_eq!(slot.read(r::CTRL_DUP), 0x58fc_1be9);
    slot.write(r::CTRL_DUP, ctrl::SLU);
    assert_eq!(slot.read(r::CTRL), ctrl::SLU);
    slot.write(r::CTRL, ctrl::SLU | ctrl::RST);
    assert_eq!(slot.read(r::CTRL), 0x201);
}

#[test]
fn a_reset_takes_every_register_back_to_power_on() {
    let mut slot = Slot::running();
    let mut fresh = Slot::new();
    for offset in (0..0xa000).step_by(4) {
        if !matches!(offset, r::CTRL | r::CTRL_DUP | r::MDIC | r::EECD) {
            slot.write(offset, 0x5555_5555);
        }
    }
    slot.write(r::CTRL, ctrl::RST);
    for offset in (0..0xa000).step_by(4) {
        assert_eq!(slot.read(offset), fresh.read(offset), "register {offset:#x}");
    }
}

#[test]
fn a_reset_stops_rings_and_interrupts_in_the_middle() {
    let mut slot = Slot::running();
    slot.write(r::IMS, u32::MAX);
    slot.write(r::RDTR, 10);
    slot.interrupts.raise(cause::RXT0, 1, slot.now);
    slot.interrupts.raise(cause::TXDW, 0, slot.now);
    slot.write(r::TDT, 7);
    assert_eq!(slot.orders(), ["transmit tail"]);
    assert!(slot.asserted());
    slot.write(r::CTRL, ctrl::RST);
    assert_eq!(slot.orders(), ["transmit stopped", "receive stopped"]);
    assert_eq!(slot.line(), Line { asserted: false, next: None });
    slot.now += 1_000_000;
    assert_eq!((slot.read(r::ICR), slot.read(r::TDT), slot.read(r::IMS)), (0, 0, 0));
    assert_eq!(slot.interrupts.counts().raised, 1, "counts are not the driver's");
    slot.start();
}

#[test]
fn a_reset_at_rest_stops_nothing() {
    let mut slot = Slot::new();
    slot.write(r::CTRL, ctrl::RST);
    assert_eq!(slot.orders(), Vec::<&str>::new());
}

#[test]
fn who_still_works_on_a_ring_after_a_reset_moves_nobody_s_ends() {
    let mut slot = Slot::new();
    slot.write(r::TDLEN, 4096);
    slot.write(r::TCTL, tctl::EN);
    let before = ends(&mut slot);
    slot.write(r::TDT, 5);
    before.set_head(3);
    assert_eq!(slot.read(r::TDH), 3);
    slot.write(r::CTRL, ctrl::RST);
    before.set_head(5);
    assert_eq!((slot.read(r::TDH), slot.read(r::TDT)), (0, 0));
    slot.write(r::TDLEN, 4096);
    slot.write(r::TCTL, tctl::EN);
    assert!(!Arc::ptr_eq(&before, &ends(&mut slot)));
}

#[test]
fn who_still_works_on_a_ring_that_was_disabled_moves_nobody_s_ends_once_it_runs_again() {
    let mut slot = Slot::new();
    slot.write(r::TDLEN, 4096);
    slot.write(r::TDT, 9);
    slot.write(r::TCTL, tctl::EN);
    let before = ends(&mut slot);
    before.set_head(4);
    slot.write(r::TCTL, 0);
    slot.write(r::TCTL, tctl::EN);
    before.set_head(7);
    let after = ends(&mut slot);
    assert_eq!((after.head(), after.tail(), slot.read(r::TDH)), (4, 9, 4));
}

fn ends(slot: &mut Slot) -> Arc<HeadTail> {
    let started = slot.effects().into_iter().rev().find_map(|effect| match effect {
        Effect::TransmitStarted(setup) => Some(setup.ends),
        _ => None,
    });
    started.expect("transmission has started")
}

#[test]
fn vlan_mode_is_told_to_both_directions() {
    let mut slot = Slot::running();
    slot.write(r::CTRL, ctrl::SLU | ctrl::VME);
    assert_eq!(slot.orders(), ["transmit changed", "receive changed"]);
    slot.write(r::VET, 0x88a8);
    let types: Vec<(bool, u16)> = slot
        .effects()
        .iter()
        .filter_map(|effect| match effect {
            Effect::TransmitChanged(settings) => Some((settings.vlan, settings.vlan_type)),
            Effect::ReceiveChanged(settings) => Some((settings.vlan, settings.vlan_type)),
            _ => None,
        })
        .collect();
    assert_eq!(types, [(true, 0x88a8); 2]);
}
