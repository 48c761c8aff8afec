//! Replays the stored inputs of this crate's fuzz targets.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/device.rs"]
mod device;
#[path = "../../../fuzz/bodies/double_fetch.rs"]
mod double_fetch;
#[path = "../../../fuzz/bodies/e1000_registers.rs"]
mod e1000_registers;
#[path = "../../../fuzz/bodies/e1000_rings.rs"]
mod e1000_rings;
#[path = "../../../fuzz/bodies/e1000_tso.rs"]
mod e1000_tso;
#[path = "../../../fuzz/bodies/pci.rs"]
mod pci;
#[path = "../../../fuzz/bodies/rings.rs"]
mod rings;

#[test]
fn a_hostile_driver_finds_a_sound_device() {
    corpus::replay("device", device::run);
}

#[test]
fn a_guest_that_changes_its_mind_breaks_no_ring() {
    corpus::replay("double_fetch", double_fetch::run);
}

#[test]
fn a_driver_that_pokes_an_e1000_finds_a_sound_device() {
    corpus::replay("e1000_registers", e1000_registers::run);
}

#[test]
fn a_hostile_guest_breaks_no_ring_of_an_e1000() {
    corpus::replay("e1000_rings", e1000_rings::run);
}

#[test]
fn a_driver_that_segments_nonsense_breaks_nothing() {
    corpus::replay("e1000_tso", e1000_tso::run);
}

#[test]
fn a_driver_that_pokes_registers_finds_a_sound_device() {
    corpus::replay("pci", pci::run);
}

#[test]
fn a_hostile_guest_breaks_no_ring() {
    corpus::replay("rings", rings::run);
}
