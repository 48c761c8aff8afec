//! Frames with VLAN tags (IEEE 802.1Q, 802.1ad). A tag that only has a priority is taken off (VLAN 0); other tags select the
//! interface at which a frame seems to arrive, and are put in front of what leaves by it.
//!
//! Tags are taken off on the hot path of mixed bursts (`crate::six::burst`), to which the first frame with a tag switches its
//! NIC, and put on where the hot path looks for what has no entry of the usual kind (`crate::detour`). Either moves the twelve
//! octets before the tags, if the platform's buffers have room before the frame.

use arrayvec::ArrayVec;
use frame::{ethernet, vlan};
use ledger::VlanCounters;

use crate::config::{MAX_INTERFACES, Nic};
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::{Origin, ethertype};

/// The place of each interface, by its number: few cache lines, where the interfaces themselves have several each.
pub(crate) struct Places(ArrayVec<u32, MAX_INTERFACES>);

impl Places {
    /// Creates the places of these interfaces.
    pub(crate) fn new(nics: &[Nic]) -> Self {
        Self(nics.iter().map(|own| place(own.port, &own.tags)).collect())
    }
}

/// Returns a number for a NIC and the VLANs of at most two tags. Priorities do not matter, nor tags that have nothing else, and
/// neither do the kinds of tags: some devices have customer tags on the outside.
fn place(nic: u8, tags: &[vlan::Tag]) -> u32 {
    let ids = vlan::ids(tags);
    let start = u32::from(nic) << 2 | ids.clone().count() as u32;
    ids.fold(start, |place, id| place << 12 | u32::from(id))
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles a frame with tags from a NIC.
    pub(crate) fn accept_tagged<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        nic: u8,
    ) {
        match self.untag(&mut buffer, nic) {
            Some(interface) => {
                self.mixed |= 1 << nic;
                self.accept(platform, buffer, interface);
            }
            None => self.discard(platform, buffer, Origin::Received(nic), &self.counters.drop_protocol),
        }
    }

    /// Takes the tags off a frame from a NIC; returns the interface at which it arrives. `None`, and the frame is as before, if
    /// there is none, or the frame has no tags.
    #[inline(never)]
    pub(crate) fn untag(&self, buffer: &mut B, nic: u8) -> Option<u8> {
        let tags = vlan::Tags::parse(buffer.octets()).ok()?;
        let interface = self.interface_of(&tags, nic)?;
        let octets = tags.tags().len() * vlan::TAG;
        if buffer.len() < ethernet::HEADER + octets || !buffer.take_out(vlan::AT, octets) {
            return None;
        }
        if let Some(counters) = self.vlan_counters(interface.into()) {
            counters.in_frames.add(1);
            counters.in_bytes.add(buffer.len() as u64);
        }
        Some(interface)
    }

    /// Returns the counters of a VLAN's interface.
    fn vlan_counters(&self, interface: usize) -> Option<&VlanCounters> {
        self.vlans.get(interface.checked_sub(self.ports)?)
    }

    /// Returns the interface for frames with these tags: the NIC itself if they only have priorities. A frame at a VLAN has
    /// no tags of further VLANs.
    fn interface_of(&self, tags: &vlan::Tags, nic: u8) -> Option<u8> {
        if usize::from(nic) >= self.ports || vlan::is_tag(tags.ethertype) || tags.tags().is_empty() {
            return None;
        }
        let wanted = place(nic, tags.tags());
        self.places.0.iter().position(|own| *own == wanted).map(|at| at as u8)
    }

    /// Returns the NIC by which a frame leaves, with the tags of its interface in front; `None` if they cannot be put there,
    /// because there is no room.
    #[inline(always)]
    pub(crate) fn port_of(&self, interface: usize, buffer: &mut B) -> Option<usize> {
        if interface < self.ports {
            return Some(interface);
        }
        self.tagged(interface, buffer).map(|(port, _)| port)
    }

    /// Puts the tags of a VLAN's interface into a frame; returns its NIC, and the octets of the tags.
    #[inline(never)]
    pub(crate) fn tagged(&self, interface: usize, buffer: &mut B) -> Option<(usize, usize)> {
        let own = self.nics.get(interface)?;
        let port = Some(usize::from(own.port)).filter(|port| *port < self.ports)?;
        let (len, octets) = (buffer.len(), own.tags.len() * vlan::TAG);
        if !buffer.make_room(vlan::AT, octets) {
            return None;
        }
        if let Some(counters) = self.vlan_counters(interface) {
            counters.out_frames.add(1);
            counters.out_bytes.add(len as u64);
        }
        let places = buffer.head()[vlan::AT..vlan::AT + octets].chunks_exact_mut(vlan::TAG);
        places.zip(&own.tags).for_each(|(place, tag)| place.copy_from_slice(&tag.octets()));
        Some((port, octets))
    }
}

/// Returns true if a frame has a tag.
#[inline(always)]
pub(crate) fn has_tag<B: Buffer>(buffer: &mut B) -> bool {
    vlan::is_tag(ethertype(buffer))
}
