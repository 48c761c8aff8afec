//! Tag in front of a frame between router and control plane: one link carries the frames of all NICs.
//!
//! ```text
//!  0        1        2        3        4                 6
//! | version| NIC    | class  | 0      | VLAN            | 0               | frame ...
//! ```

use crate::Class;

/// Version of the tag.
const VERSION: u8 = 1;
/// Largest VLAN identifier (IEEE 802.1Q).
const LAST_VLAN: u16 = 4094;

/// Where a frame has come from, or is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the NIC.
    pub nic: u8,
    /// VLAN whose interface it is; 0: that of the NIC itself.
    pub vlan: u16,
    /// Class; towards the NIC it means nothing.
    pub class: Class,
}

impl Tag {
    /// Octets of a tag.
    pub const LEN: usize = 8;

    /// Reads the tag; returns it with the frame. `None` if there is none, or its sender is of another version or lies.
    pub fn parse(octets: &[u8]) -> Option<(Self, &[u8])> {
        let (&[version, nic, class, zero, high, low, after @ ..], frame) =
            octets.split_first_chunk::<{ Self::LEN }>()?;
        let vlan = u16::from_be_bytes([high, low]);
        let class = *Class::ALL.get(usize::from(class))?;
        let is_valid = version == VERSION && zero == 0 && after == [0; 2] && vlan <= LAST_VLAN;
        is_valid.then_some((Self { nic, vlan, class }, frame))
    }

    /// Octets of the tag.
    pub const fn octets(self) -> [u8; Self::LEN] {
        let [high, low] = self.vlan.to_be_bytes();
        [VERSION, self.nic, self.class as u8, 0, high, low, 0, 0]
    }
}

#[cfg(test)]
mod tests;
