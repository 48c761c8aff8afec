//! Segments of a link: the frames of one VLAN, or those without a tag, with neighbours of their own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use config::Address;
use config::six::Six;
use frame::vlan::{self, MOST, TAG, Tag, Tags};

use super::hosts::{Hosts, Own};
use super::nodes::{LONGEST, Nodes};

/// The frames of one VLAN, or those without a tag.
pub(super) struct Segment {
    /// Number by which members know it, in their tables and questions: NICs come first, then VLANs.
    pub(super) number: u8,
    /// Tags of its frames, the outer one first.
    tags: Vec<Tag>,
    hosts: Mutex<Hosts>,
    nodes: Mutex<Nodes>,
    /// True if the group has IPv6 there.
    pub(super) has_six: bool,
}

impl Segment {
    /// Creates the segment with this number, of frames with these tags, for a group with this Ethernet address and these addresses.
    pub(super) fn new(
        number: usize,
        (mac, tags): (frame::Mac, Vec<Tag>),
        (four, six): (&[Address], &Six),
    ) -> Self {
        let own = four.iter().map(|address| Own {
            ip: address.ip.to_bits(),
            mask: u32::MAX.checked_shl(32 - u32::from(address.len)).unwrap_or(0),
        });
        let six: Vec<_> = six.addresses.iter().map(|own| (own.ip.to_bits(), own.len)).collect();
        Self {
            number: number as u8,
            tags,
            hosts: Mutex::new(Hosts::new(mac, own.collect())),
            nodes: Mutex::new(Nodes::new(mac, &six)),
            has_six: !six.is_empty(),
        }
    }

    /// Returns the tags of a VLAN's frames.
    pub(super) fn tags_of(tags: config::forwarding::Tags) -> Vec<Tag> {
        let outer = tags.outer.map(|outer| Tag::new(vlan::SERVICE, outer));
        outer.into_iter().chain([Tag::new(vlan::CUSTOMER, tags.id)]).collect()
    }

    /// Locks its IPv4 neighbours.
    pub(super) fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks its IPv6 neighbours.
    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all neighbours: there may be other hosts by now.
    pub(super) fn forget(&self) {
        self.hosts().forget();
        self.nodes().forget();
    }

    /// Returns true if a frame with these tags belongs to it, whatever the priorities and types of the tags.
    pub(super) fn has(&self, tags: &Tags) -> bool {
        !vlan::is_tag(tags.ethertype) && vlan::ids(tags.tags()).eq(vlan::ids(&self.tags))
    }

    /// Calls `send` with an untagged frame in the form that it has on the link, with the segment's tags.
    pub(super) fn on_link<T>(&self, octets: &mut [u8], send: impl FnOnce(&mut [u8]) -> T) -> T {
        if self.tags.is_empty() {
            return send(octets);
        }
        let mut room = [0; LONGEST + MOST * TAG];
        let mut len = octets.len().min(LONGEST);
        room[..len].copy_from_slice(&octets[..len]);
        for tag in self.tags.iter().rev().take(MOST) {
            len += TAG;
            // There is room for the maximum number of tags.
            let _ = vlan::insert(&mut room[..len], *tag);
        }
        send(&mut room[..len])
    }
}

/// Removes the tags of a frame; `None`: it ends before them.
pub(super) fn untag<'o>(octets: &'o mut [u8], tags: &Tags) -> Option<&'o mut [u8]> {
    let end = octets.len().checked_sub(tags.tags().len() * TAG)?;
    tags.tags().iter().try_for_each(|_| vlan::remove(octets).map(drop)).ok()?;
    octets.get_mut(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(outer: Option<u16>, id: u16) -> Segment {
        let tags = Segment::tags_of(config::forwarding::Tags { outer, id });
        Segment::new(1, (frame::Mac::default(), tags), (&[], &Six::default()))
    }

    /// A frame with these tags and this content.
    fn tagged(tags: &[[u8; 4]]) -> Vec<u8> {
        [&[2; 12][..], &tags.concat(), &[8, 6], &[7; 46]].concat()
    }

    #[test]
    fn a_frame_is_of_the_vlan_that_its_tags_name() {
        let all = [
            Segment::new(0, (frame::Mac::default(), Vec::new()), (&[], &Six::default())),
            segment(None, 100),
            segment(Some(200), 100),
        ];
        let of = |tags: &[[u8; 4]]| {
            let read = Tags::parse(&tagged(tags)).expect("complete");
            all.iter().position(|segment| segment.has(&read))
        };
        assert_eq!(of(&[]), Some(0));
        assert_eq!(of(&[[0x81, 0, 0xe0, 0]]), Some(0), "a priority alone");
        assert_eq!(of(&[[0x81, 0, 0x60, 100]]), Some(1));
        assert_eq!(of(&[[0x81, 0, 0, 0], [0x81, 0, 0, 100]]), Some(1));
        assert_eq!(of(&[[0x88, 0xa8, 0, 200], [0x81, 0, 0, 100]]), Some(2));
        assert_eq!(of(&[[0x81, 0, 0, 100], [0x81, 0, 0, 200]]), None);
        assert_eq!(of(&[[0x88, 0xa8, 0, 200], [0x81, 0, 0, 100], [0x81, 0, 0, 1]]), None);
    }

    #[test]
    fn what_is_sent_has_the_tags_that_are_removed_from_what_is_heard() {
        for (own, tags) in [
            (segment(None, 100), vec![[0x81, 0, 0, 100]]),
            (segment(Some(200), 100), vec![[0x88, 0xa8, 0, 200], [0x81, 0, 0, 100]]),
        ] {
            let (plain, mut on_link) = (tagged(&[]), tagged(&tags));
            assert_eq!(own.on_link(&mut plain.clone(), |octets| octets.to_vec()), on_link);
            let read = Tags::parse(&on_link).expect("complete");
            assert_eq!(untag(&mut on_link, &read), Some(&mut plain.clone()[..]));
        }
        let mut short = [0; 13];
        let tags = Tags::parse(&tagged(&[[0x81, 0, 0, 100]])).expect("complete");
        assert_eq!(untag(&mut short, &tags), None);
    }
}
