//! Frame buffers of the firmware: there are two builds of it, one with buffers for jumbo frames.

use crate::BootInfo;

/// Octets of a virtio-net header, for which a buffer of any NIC model has room before the frame.
const HEADER: u32 = 12;
/// Octets of an Ethernet header and of two VLAN tags.
const ETHERNET: u32 = 14;
const TAGS: u32 = 8;
/// Octets behind the part of a buffer that devices write: one cache line, which the firmware uses itself.
pub const SPARE: u32 = 64;
/// Octets of a buffer that a device may write, of the firmware for plain frames.
pub const PLAIN: u32 = 2048;
/// Octets of a buffer that a device may write, of the firmware for jumbo frames: each frame lies in one buffer.
pub const JUMBO: u32 = 9344;
/// Largest MTU with plain buffers.
pub const PLAIN_MTU: u32 = PLAIN - HEADER - ETHERNET;
/// Largest MTU of a NIC.
pub const MOST_MTU: u32 = 9216;

const _: () = assert!(HEADER + ETHERNET + TAGS + MOST_MTU <= JUMBO);
// With an even number of cache lines the first lines of all buffers would fall into few sets of the caches.
const _: () = assert!((PLAIN + SPARE) / 64 % 2 == 1 && (JUMBO + SPARE) / 64 % 2 == 1);

/// Returns true if a NIC with this MTU needs the firmware for jumbo frames; it has one kind of buffers for all NICs. `tagged`: its
/// router has interfaces for VLANs, whose tags add to the frames.
pub const fn is_jumbo(mtu: u32, tagged: bool) -> bool {
    mtu > if tagged { PLAIN_MTU - TAGS } else { PLAIN_MTU }
}

/// Returns the distance between buffers in octets, with jumbo frames or without.
pub const fn stride(jumbo: bool) -> u64 {
    let writable = if jumbo { JUMBO } else { PLAIN };
    (writable + SPARE) as u64
}

impl BootInfo {
    /// Returns true if it is for the firmware for jumbo frames.
    pub fn is_jumbo(&self) -> bool {
        let tagged = self.vlan_count != 0;
        self.nics.iter().take(self.nic_count as usize).any(|nic| is_jumbo(nic.mtu, tagged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    #[test]
    fn one_nic_with_jumbo_frames_is_enough() {
        let mut info = BootInfo::new(Role::Router, 1);
        info.nic_count = 2;
        info.nics[0].mtu = 1500;
        info.nics[1].mtu = PLAIN_MTU;
        info.nics[2].mtu = 9000;
        assert!(!info.is_jumbo(), "it has no third NIC");
        info.vlan_count = 1;
        assert!(info.is_jumbo(), "its tags have no room");
        info.vlan_count = 0;
        info.nics[1].mtu = PLAIN_MTU + 1;
        assert!(info.is_jumbo());
    }

    #[test]
    fn the_largest_frame_with_two_tags_fits() {
        assert_eq!((PLAIN_MTU, stride(false), stride(true)), (2022, 2112, 9408));
        assert!(is_jumbo(MOST_MTU, false) && !is_jumbo(1500, true));
    }
}
