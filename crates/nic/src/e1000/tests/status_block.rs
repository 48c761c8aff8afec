//! The status block of seed paper 001, section 3.3: CSBAL, CSBAH.

use super::*;

fn with_block() -> Slot {
    let mut slot = Slot::with(&Config { block: true, ..Config::new(MAC) });
    slot.start();
    slot
}

/// Returns the blocks with which rings were started.
fn blocks(slot: &mut Slot) -> Vec<Option<u64>> {
    let blocks = slot.effects().into_iter().filter_map(|effect| match effect {
        Effect::TransmitStarted(setup) => Some(setup.block),
        Effect::ReceiveStarted(setup) => Some(setup.block),
        _ => None,
    });
    blocks.collect()
}

#[test]
fn the_low_half_puts_the_block_into_use_and_zero_out_of_it() {
    let mut slot = with_block();
    slot.write(r::CSBAH, 0x3);
    assert_eq!((slot.orders(), slot.nic.block()), (vec![], None));
    slot.write(r::CSBAL, 0x1234_567f);
    assert_eq!(blocks(&mut slot), [Some(0x3_1234_5640); 2], "at a multiple of 64");
    assert_eq!((slot.read(r::CSBAL), slot.read(r::CSBAH)), (0x1234_5640, 3));
    slot.write(r::CSBAL, 0x1234_5640);
    assert_eq!(slot.orders(), Vec::<&str>::new(), "the same");
    slot.write(r::CSBAH, 0);
    slot.write(r::CSBAL, 0);
    assert_eq!(blocks(&mut slot), [None; 2]);
}

#[test]
fn tails_only_ring_while_the_block_is_in_use() {
    let mut slot = with_block();
    slot.write(r::CSBAL, 0x1000);
    slot.effects();
    for value in [1, 256, u32::MAX] {
        slot.write(r::TDT, value);
        slot.write(r::RDT, value);
        assert_eq!(slot.orders(), ["transmit tail", "receive tail"]);
    }
    assert_eq!((slot.read(r::TDT), slot.read(r::RDT), slot.nic.faults().outside), (0, 0, 0));
}

#[test]
fn a_block_that_is_there_before_the_rings_serves_them() {
    let mut slot = Slot::with(&Config { block: true, ..Config::new(MAC) });
    slot.write(r::CSBAL, 0x1000);
    slot.write(r::TDLEN, 128);
    slot.write(r::TCTL, tctl::EN);
    assert_eq!(blocks(&mut slot), [Some(0x1000)]);
    slot.write(r::CTRL, ctrl::RST);
    assert_eq!((slot.nic.block(), slot.read(r::CSBAL)), (None, 0));
}

#[test]
fn a_device_that_does_not_offer_it_has_no_such_registers() {
    let mut slot = Slot::running();
    slot.write(r::CSBAH, 1);
    slot.write(r::CSBAL, 0x1000);
    assert_eq!((slot.read(r::CSBAL), slot.orders(), slot.nic.block()), (0, vec![], None));
    assert_eq!(slot.nic.faults().unknown, 3);
}
