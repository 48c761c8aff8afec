//! "Packet Address Filtering", "802.1q VLAN Packet Filtering".

use super::*;
use crate::e1000::{Filters, Pass};
use std::sync::Arc;

const OTHER: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x56];
const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x00, 0x01];
const ALL: [u8; 6] = [0xff; 6];

/// Returns the filters of a device after these writes.
fn filters(writes: &[(u64, u32)]) -> Arc<Filters> {
    let mut slot = Slot::new();
    slot.write(r::RDLEN, 128);
    for (register, value) in writes {
        slot.write(*register, *value);
    }
    let control = slot.read(r::RCTL);
    slot.write(r::RCTL, control | rctl::EN);
    let started = slot.effects().into_iter().find_map(|effect| match effect {
        Effect::ReceiveStarted(setup) => Some(setup.settings.filters),
        _ => None,
    });
    started.expect("reception has started")
}

#[test]
fn only_the_own_address_passes_at_first() {
    let filters = filters(&[]);
    assert_eq!(filters.pass(MAC, None), Some(Pass::Exact));
    assert_eq!(filters.pass(MAC, Some(7)), Some(Pass::Exact), "VLANs are not looked at");
    for address in [OTHER, GROUP, ALL, [0; 6]] {
        assert_eq!(filters.pass(address, None), None, "{address:02x?}");
    }
}

#[test]
fn each_kind_passes_by_its_bit() {
    for (bit, passes) in [
        (rctl::UPE, [true, true, false, false]),
        (rctl::MPE, [true, false, true, true]),
        (rctl::BAM, [true, false, false, true]),
    ] {
        let filters = filters(&[(r::RCTL, bit)]);
        let passed = [MAC, OTHER, GROUP, ALL].map(|address| filters.pass(address, None).is_some());
        assert_eq!(passed, passes, "{bit:#x}");
    }
}

#[test]
fn sixteen_addresses_pass_while_they_are_valid() {
    let low = u32::from_le_bytes([2, 0, 0, 0]);
    for n in [0, 1, 15] {
        let at = r::RAL + 8 * n;
        let address = [2, 0, 0, 0, 0, n as u8];
        let high = u32::from(n as u8) << 8;
        let valid = filters(&[(at, low), (at + 4, high | 1 << 31)]);
        assert_eq!(valid.pass(address, None), Some(Pass::Exact));
        assert_eq!(filters(&[(at, low), (at + 4, high)]).pass(address, None), None, "not valid");
        let source = filters(&[(at, low), (at + 4, high | 1 << 31 | 1 << 16)]);
        assert_eq!(source.pass(address, None), None, "compared with sources");
    }
}

#[test]
fn a_group_address_among_the_sixteen_passes_exactly() {
    let (low, high) = (u32::from_le_bytes([1, 0, 0x5e, 0]), u32::from(u16::from_le_bytes([0, 1])));
    let filters = filters(&[(r::RAL + 8, low), (r::RAH + 8, high | 1 << 31)]);
    assert_eq!(filters.pass(GROUP, None), Some(Pass::Exact));
}

/// The address ends with 9a:bc, of which bc is the higher octet.
#[test]
fn the_hash_is_twelve_bits_of_the_last_two_octets() {
    let address = [0x13, 0x34, 0x56, 0x78, 0x9a, 0xbc];
    // 1011_1100_1001_1010: from bit 4, 3, 2 and 0 on.
    for (offset, hash) in
        [(0, 0b1011_1100_1001_u32), (1, 0b0111_1001_0011), (2, 0b1111_0010_0110), (3, 0b1100_1001_1010)]
    {
        let bit = (r::MTA + 4 * u64::from(hash >> 5), 1 << (hash & 31));
        let matching = filters(&[(r::RCTL, offset << 12), bit]);
        assert_eq!(matching.pass(address, None), Some(Pass::Hashed), "offset {offset}");
        let mut table: Vec<(u64, u32)> = (0..128).map(|n| (r::MTA + 4 * n, u32::MAX)).collect();
        table.push((bit.0, !bit.1));
        table.push((r::RCTL, offset << 12));
        assert_eq!(filters(&table).pass(address, None), None, "every other bit, offset {offset}");
    }
}

#[test]
fn unicast_addresses_are_not_hashed() {
    let table: Vec<(u64, u32)> = (0..128).map(|n| (r::MTA + 4 * n, u32::MAX)).collect();
    let filters = filters(&table);
    assert_eq!(filters.pass(OTHER, None), None);
    assert_eq!(filters.pass(GROUP, None), Some(Pass::Hashed));
    assert_eq!(filters.pass(ALL, None), Some(Pass::Hashed), "broadcast is a group");
}

#[test]
fn vlans_pass_by_their_bit_of_the_table() {
    let filters = filters(&[(r::RCTL, rctl::VFE), (r::VFTA + 4 * 3, 1 << 5)]);
    assert_eq!(filters.pass(MAC, Some(101)), Some(Pass::Exact));
    assert_eq!(filters.pass(MAC, Some(0xe000 | 101)), Some(Pass::Exact), "priority does not matter");
    assert_eq!(filters.pass(MAC, Some(100)), None);
    assert_eq!(filters.pass(MAC, None), Some(Pass::Exact), "no tag, no VLAN");
    assert_eq!(filters.pass(OTHER, Some(101)), None, "the address matters too");
}

#[test]
fn cfi_is_compared_if_the_driver_wants() {
    const CFIEN: u32 = 1 << 19;
    const CFI: u32 = 1 << 20;
    let set: Vec<(u64, u32)> = (0..128).map(|n| (r::VFTA + 4 * n, u32::MAX)).collect();
    for (bits, clear, tagged) in [(0, true, true), (CFIEN, true, false), (CFIEN | CFI, false, true)] {
        let mut writes = set.clone();
        writes.push((r::RCTL, rctl::VFE | bits));
        let filters = filters(&writes);
        assert_eq!(filters.pass(MAC, Some(1)).is_some(), clear);
        assert_eq!(filters.pass(MAC, Some(0x1001)).is_some(), tagged);
    }
}

#[test]
fn a_running_ring_is_told_of_each_change() {
    let mut slot = Slot::running();
    slot.write(r::MTA, 1);
    slot.write(r::VFTA, 1);
    assert_eq!(slot.orders(), ["receive changed"], "VLANs are not looked at");
    slot.write(r::RCTL, rctl::EN | rctl::VFE);
    slot.write(r::VFTA, 3);
    slot.write(r::RAH, 0);
    assert_eq!(slot.orders(), ["receive changed"; 3]);
}
