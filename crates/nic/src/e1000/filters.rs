//! Receive filters (82540EM manual, "Packet Address Filtering").

/// Way in which a frame passes the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// By an exact match, or because all frames of its kind pass.
    Exact,
    /// Only by the hash of its multicast address: software has to check the address (PIF).
    Hashed,
}

/// Configuration of the filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    /// All unicast frames pass (RCTL.UPE).
    pub unicast: bool,
    /// All multicast frames pass (RCTL.MPE).
    pub multicast: bool,
    /// Broadcast frames pass (RCTL.BAM).
    pub broadcast: bool,
    /// Selects the bits of a multicast address that form its hash, 0 to 3 (RCTL.MO).
    pub hash: u8,
    /// Exact addresses (RAL, RAH with AV).
    pub addresses: [Option<[u8; 6]>; 16],
    /// Hashes of multicast addresses that pass (MTA).
    pub hashes: [u32; 128],
    /// VLANs that pass, if the VLAN filter is enabled (RCTL.VFE, VFTA).
    pub vlans: Option<Box<[u32; 128]>>,
    /// With `vlans`: required value of a tag's CFI bit (RCTL.CFIEN, CFI).
    pub canonical: Option<bool>,
}

impl Filters {
    /// Checks a frame to `destination`; `tag` is its VLAN tag (TCI), if it has one. `None` if the frame does not pass.
    #[inline]
    pub fn pass(&self, destination: [u8; 6], tag: Option<u16>) -> Option<Pass> {
        if let (Some(vlans), Some(tag)) = (&self.vlans, tag)
            && !self.vlan_passes(vlans, tag)
        {
            return None;
        }
        self.address_passes(destination)
    }

    fn address_passes(&self, destination: [u8; 6]) -> Option<Pass> {
        let group = destination[0] & 1 != 0;
        let broadcast = destination == [0xff; 6];
        let all = if broadcast { self.broadcast } else { false }
            || if group { self.multicast } else { self.unicast };
        if all || self.addresses.contains(&Some(destination)) {
            return Some(Pass::Exact);
        }
        (group && bit(&self.hashes, self.hash_of(destination))).then_some(Pass::Hashed)
    }

    /// Returns the twelve-bit hash of a multicast address: bits 47:36, 46:35, 45:34 or 43:32 of the address, whose last
    /// octet on the wire is the most significant.
    fn hash_of(&self, destination: [u8; 6]) -> u16 {
        let high = u16::from_le_bytes([destination[4], destination[5]]);
        (high >> [4, 3, 2, 0][usize::from(self.hash & 3)]) & 0xfff
    }

    fn vlan_passes(&self, vlans: &[u32; 128], tag: u16) -> bool {
        let canonical = self.canonical.is_none_or(|wanted| wanted == (tag & 1 << 12 != 0));
        canonical && bit(vlans, tag & 0xfff)
    }
}

/// Returns bit `n`, 0 to 4095, of a table.
fn bit(table: &[u32; 128], n: u16) -> bool {
    table.get(usize::from(n >> 5)).is_some_and(|word| word & 1 << (n & 31) != 0)
}
