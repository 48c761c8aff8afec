//! Trunks: NICs of which VLANs belong to other routers on the same platform than the NIC itself.

use arrayvec::ArrayVec;
use frame::vlan::{self, Tags};

use crate::config::{MAX_INTERFACES, MAX_NICS, Vlan};
use crate::platform::Buffer;
use crate::tags::has_tag;

/// The VLANs of a platform's NICs, and the router that each belongs to, by its number.
#[derive(Default)]
pub struct Trunks {
    vlans: ArrayVec<(Vlan, u8), MAX_INTERFACES>,
    /// The trunks, as bits.
    nics: u32,
}

impl Trunks {
    /// Creates a platform without VLANs.
    pub const fn new() -> Self {
        Self { vlans: ArrayVec::new_const(), nics: 0 }
    }

    /// Adds a VLAN of router number `router`, on a NIC of router number `of_nic`. Those after the first [`MAX_INTERFACES`] are
    /// left out.
    pub fn add(&mut self, vlan: Vlan, router: u8, of_nic: u8) {
        if self.vlans.try_push((vlan, router)).is_ok() && router != of_nic {
            self.nics |= 1 << (usize::from(vlan.nic) % MAX_NICS);
        }
    }

    /// Returns the trunks as bits: their frames have to be sorted.
    pub fn nics(&self) -> u32 {
        self.nics
    }

    /// Returns the number of the router that a frame from a NIC is for; `None`: that of the NIC.
    pub fn router_of<B: Buffer>(&self, buffer: &mut B, nic: u8) -> Option<u8> {
        if !has_tag(buffer) {
            return None;
        }
        let tags = Tags::parse(buffer.octets()).ok().filter(|tags| !vlan::is_tag(tags.ethertype))?;
        let ids: ArrayVec<u16, { vlan::MOST }> = vlan::ids(tags.tags()).collect();
        let is_its = |own: &Vlan| match (own.outer, &ids[..]) {
            (None, [id]) => *id == own.id,
            (Some(outer), [first, second]) => *first == outer && *second == own.id,
            _ => false,
        };
        let found = self.vlans.iter().find(|(own, _)| own.nic == nic && is_its(own));
        found.map(|(_, router)| *router)
    }
}
