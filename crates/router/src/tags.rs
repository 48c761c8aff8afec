//! Frames with VLAN tags (IEEE 802.1Q, 802.1ad). A tag that only has a priority is taken off (VLAN 0); other tags select the
//! interface at which a frame seems to arrive, and are put in front of what leaves by it. All of it is on the slow path, and
//! moves the frame by the length of its tags.

use frame::{ethernet, vlan};

use crate::offload;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::Origin;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Handles a frame with tags from a NIC.
    pub(crate) fn accept_tagged<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        nic: u8,
    ) {
        let tags = vlan::Tags::parse(buffer.octets()).unwrap_or_default();
        let interface = self.interface_of(&tags, nic);
        match interface.filter(|_| take_off(&mut buffer, tags.tags().len())) {
            Some(interface) => self.accept(platform, buffer, interface),
            None => self.discard(platform, buffer, Origin::Received(nic), &self.counters.drop_protocol),
        }
    }

    /// Returns the interface for frames with these tags: the NIC itself if there is only a priority. A frame at a VLAN has
    /// no further tags.
    fn interface_of(&self, tags: &vlan::Tags, nic: u8) -> Option<u8> {
        if usize::from(nic) >= self.ports || vlan::is_tag(tags.ethertype) {
            return None;
        }
        if matches!(tags.tags(), [only] if only.id() == 0) {
            return Some(nic);
        }
        let same = |own: &[vlan::Tag]| {
            // Some devices have customer tags on the outside.
            own.len() == tags.tags().len()
                && own.iter().zip(tags.tags()).all(|(own, tag)| own.id() == tag.id())
        };
        let found = self
            .nics
            .iter()
            .position(|own| own.port == nic && !own.tags.is_empty() && same(own.tags.as_slice()));
        found.map(|at| at as u8)
    }

    /// Returns the NIC by which a frame leaves, with the tags of its interface in front; `None` if they cannot be put there,
    /// because the frame consists of several buffers or has no room.
    #[inline(always)]
    pub(crate) fn port_of(&self, interface: usize, buffer: &mut B) -> Option<usize> {
        if interface < self.ports {
            return Some(interface);
        }
        let own = self.nics.get(interface)?;
        let port = Some(usize::from(own.port)).filter(|port| *port < self.ports)?;
        own.tags.iter().rev().all(|tag| put_on(buffer, *tag)).then_some(port)
    }
}

/// Returns true if a frame can be moved: it lies in one buffer, and is not to be segmented later.
fn is_simple<B: Buffer>(buffer: &mut B) -> bool {
    let len = buffer.len();
    buffer.octets().len() == len && buffer.offload().gso().is_none()
}

/// Takes tags off a frame; returns false if its contents cannot be moved.
fn take_off<B: Buffer>(buffer: &mut B, tags: usize) -> bool {
    if tags == 0 || !is_simple(buffer) || buffer.len() < ethernet::HEADER + tags * vlan::TAG {
        return false;
    }
    offload::make_plain(buffer);
    for _ in 0..tags {
        let len = buffer.len();
        if vlan::remove(buffer.octets()).is_err() {
            return false;
        }
        buffer.set_len(len.saturating_sub(vlan::TAG));
    }
    true
}

/// Puts a tag in front of a frame; returns false if there is no room.
#[cold]
#[inline(never)]
fn put_on<B: Buffer>(buffer: &mut B, tag: vlan::Tag) -> bool {
    if !is_simple(buffer) {
        return false;
    }
    offload::make_plain(buffer);
    let len = buffer.len();
    buffer.set_len(len + vlan::TAG);
    buffer.len() == len + vlan::TAG && vlan::insert(buffer.octets(), tag).is_ok()
}
