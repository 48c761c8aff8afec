//! Derives the data path's settings from the control registers (82540EM manual, "Receive Control Register", "Transmit
//! Control Register", "Receive Checksum Control", "Device Control Register").

use std::sync::Arc;

use super::filters::Filters;
use super::plain::StatelessRegisters;
use super::register as r;
use super::{RxChecksum, RxSettings, TxSettings};

/// RCTL: loopback mode.
const LOOPBACK: u32 = 3 << 6;
/// RCTL: threshold of free descriptors.
const THRESHOLD_SHIFT: u32 = 8;
/// RCTL: selects the bits of a multicast address that form its hash.
const HASH_SHIFT: u32 = 12;
const BUFFER_SIZE_SHIFT: u32 = 16;
/// RCTL: the CFI bit of a tag is checked.
const CFI_ENABLED: u32 = 1 << 19;
const CFI: u32 = 1 << 20;
/// RCTL: buffers are sixteen times as large.
const BUFFER_SIZE_EXTENDED: u32 = 1 << 25;
/// RAH: address field to compare with; 0: the destination.
const ADDRESS_SELECT: u32 = 3 << 16;

/// TXDCTL: position of LWTHRESH, and its unit in descriptors.
const LOW_SHIFT: u32 = 25;
const LOW_UNIT: u16 = 8;

/// Longest frame in octets without RCTL.LPE: 1522 with tag and FCS.
const LONGEST: usize = 1518;
/// Longest frame in octets with RCTL.LPE: 16384 with FCS.
const LONGEST_LONG: usize = 16384 - 4;
const ETHERNET_HEADER: usize = 14;

pub(super) fn transmit(registers: &StatelessRegisters, mtu: u16, phy_loopback: bool) -> TxSettings {
    TxSettings {
        pad_short: registers.get(r::TCTL) & r::tctl::PSP != 0,
        vlan: registers.get(r::CTRL) & r::ctrl::VME != 0,
        vlan_type: registers.get(r::VET) as u16,
        longest: usize::from(mtu) + ETHERNET_HEADER,
        low: (registers.get(r::TXDCTL) >> LOW_SHIFT) as u16 * LOW_UNIT,
        loopback: loopback(registers, phy_loopback),
    }
}

pub(super) fn receive(
    registers: &StatelessRegisters,
    phy_loopback: bool,
    filters: Arc<Filters>,
) -> RxSettings {
    let control = registers.get(r::RCTL);
    let has = |bit| control & bit != 0;
    RxSettings {
        buffer_len: buffer_len(control),
        longest: if has(r::rctl::LPE) { LONGEST_LONG } else { LONGEST },
        fcs: !has(r::rctl::SECRC),
        vlan: registers.get(r::CTRL) & r::ctrl::VME != 0,
        vlan_type: registers.get(r::VET) as u16,
        filters,
        checksum: checksum(registers.get(r::RXCSUM)),
        // The fourth value is reserved.
        threshold: 2 << (control >> THRESHOLD_SHIFT & 3).min(2),
        loopback: loopback(registers, phy_loopback),
    }
}

fn loopback(registers: &StatelessRegisters, phy: bool) -> bool {
    phy || registers.get(r::RCTL) & LOOPBACK != 0
}

/// Returns the buffer length: 2048, 1024, 512 or 256 octets, or with BSEX 16384, 8192 or 4096; the reserved combination
/// counts as without BSEX.
fn buffer_len(control: u32) -> u32 {
    let len = 2048 >> (control >> BUFFER_SIZE_SHIFT & 3);
    let extended = control & BUFFER_SIZE_EXTENDED != 0 && len != 2048;
    if extended { len * 16 } else { len }
}

fn checksum(control: u32) -> RxChecksum {
    RxChecksum {
        start: (control & r::rxcsum::PCSS) as u8,
        ip: control & r::rxcsum::IPOFL != 0,
        transport: control & r::rxcsum::TUOFL != 0,
    }
}

pub(super) fn filters(registers: &StatelessRegisters) -> Filters {
    let control = registers.get(r::RCTL);
    let has = |bit| control & bit != 0;
    let (low, high) = (registers.table::<16>(r::RAL), registers.table::<16>(r::RAH));
    let mut addresses = [None; 16];
    for (place, (low, high)) in addresses.iter_mut().zip(low.into_iter().zip(high)) {
        *place = address(low, high);
    }
    Filters {
        unicast: has(r::rctl::UPE),
        multicast: has(r::rctl::MPE),
        broadcast: has(r::rctl::BAM),
        hash: (control >> HASH_SHIFT & 3) as u8,
        addresses,
        hashes: registers.table(r::MTA),
        vlans: has(r::rctl::VFE).then(|| Box::new(registers.table(r::VFTA))),
        canonical: has(CFI_ENABLED).then_some(has(CFI)),
    }
}

/// Returns the address of an entry that is valid and compared with destinations.
fn address(low: u32, high: u32) -> Option<[u8; 6]> {
    let [a, b, c, d] = low.to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    (high & r::ADDRESS_VALID != 0 && high & ADDRESS_SELECT == 0).then_some([a, b, c, d, e, f])
}
