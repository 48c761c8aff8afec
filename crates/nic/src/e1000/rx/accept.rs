//! Which frames are received, and what is stored and told of them (82540EM manual, "Packet Address Filtering",
//! "Receive Data Storage", "Receive Packet Checksum Offloading", "802.1q VLAN Support").

use port::Frame;
use ring::Bytes;
use ring::e1000::{Received, rx};

use super::super::{Destination, Filters, Pass, RxSettings};
use super::checksum;
use super::lease::{Drop, TAG, TAG_AT};

/// Octets of the shortest frame on a wire, without FCS: shorter ones are filled up with zeros on their way.
pub(super) const SHORTEST: usize = 60;
/// Octets of an Ethernet header: less is no frame at all.
const HEADER: usize = 14;
/// Octets of an FCS. Where a driver wants it, it finds zeros: frames have none here, and nobody looks at it.
const FCS: u32 = 4;

/// Frames that go the short way: whole, as they are, into one buffer, nothing told of them but their length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quick {
    /// The shortest such frame, and how much longer others are at most; where there are none, no frame is so long.
    shortest: usize,
    span: usize,
    /// All destinations pass, and nobody asks what they are.
    any: bool,
    /// All single stations pass.
    all_stations: bool,
    /// Otherwise the only one that passes, its first octet the lowest.
    own: u64,
    /// Frames of this type have a tag that is looked at.
    tagged: Option<u16>,
}

/// The octets of a destination in a word, and its bit that tells of a group.
const DESTINATION: u64 = 0xffff_ffff_ffff;
const GROUP: u64 = 1;

impl Quick {
    /// With the status block the statistics do not tell destinations apart.
    pub(super) fn new(settings: &RxSettings, by_block: bool) -> Self {
        let filters = &settings.filters;
        let longest = settings.longest.min(settings.buffer_len as usize);
        let nothing_told = !settings.fcs && !settings.checksum.ip && !settings.checksum.transport;
        let usable = nothing_told && !settings.loopback;
        let span = longest.checked_sub(SHORTEST).filter(|_| usable);
        let looks_at_tags = settings.vlan || filters.vlans.is_some();
        Self {
            shortest: if span.is_some() { SHORTEST } else { usize::MAX },
            span: span.unwrap_or(0),
            any: by_block && filters.unicast && filters.multicast,
            all_stations: filters.unicast,
            own: own(filters),
            tagged: looks_at_tags.then_some(settings.vlan_type),
        }
    }

    /// Whether all frames of the right length go the short way.
    #[inline(always)]
    pub(super) const fn takes_any(&self) -> bool {
        self.any && self.tagged.is_none()
    }

    /// Whether a frame goes the short way; `ANY` is what [`Self::takes_any`] says.
    #[inline(always)]
    pub(super) fn takes<const ANY: bool>(&self, frame: &Frame<'_>) -> bool {
        if frame.len().wrapping_sub(self.shortest) > self.span {
            return false;
        }
        if ANY {
            return true;
        }
        if !self.any {
            let Some(head) = frame.octets().read(0) else { return false };
            let destination = u64::from_le_bytes(head) & DESTINATION;
            let passes = if self.all_stations { destination & GROUP == 0 } else { destination == self.own };
            if !passes {
                return false;
            }
        }
        self.tagged.is_none_or(|tagged| frame.octets().read(TAG_AT as usize) != Some(tagged.to_be_bytes()))
    }
}

/// The one address of the own station, as [`Quick::own`] has it.
fn own(filters: &Filters) -> u64 {
    let [a, b, c, d, e, f] = match filters.addresses[0] {
        Some(address) if address[0] & 1 == 0 => address,
        _ => return u64::MAX,
    };
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// What happens to a frame.
pub(super) enum Verdict {
    Drop(Drop),
    Take(Stored),
}

/// What is stored of a frame.
pub(super) struct Stored {
    /// Octets.
    pub(super) len: u32,
    /// Whether its tag is left out.
    pub(super) untagged: bool,
    /// What its last descriptor says, without the length.
    pub(super) received: Received,
    pub(super) destination: Destination,
}

/// Looks at a frame closely.
pub(super) fn verdict(settings: &RxSettings, frame: &Frame<'_>) -> Verdict {
    let octets = frame.octets();
    let Some(head) = octets.read::<HEADER>(0) else { return Verdict::Drop(Drop::TooShort) };
    if frame.len() > settings.longest {
        return Verdict::Drop(Drop::TooLong);
    }
    let [a, b, c, d, e, f, ..] = head;
    let destination = [a, b, c, d, e, f];
    let tag = tag(settings, octets, u16::from_be_bytes([head[12], head[13]]));
    let Some(pass) = settings.filters.pass(destination, tag) else { return Verdict::Drop(Drop::Filtered) };
    let untagged = settings.vlan && tag.is_some();
    let mut received = Received { status: rx::DD | rx::EOP, ..Received::default() };
    if pass == Pass::Hashed {
        received.status |= rx::PIF;
    }
    if let (true, Some(tag)) = (untagged, tag) {
        received.status |= rx::VP;
        received.special = tag;
    }
    checksum::check(settings, *frame, tag.map_or(HEADER, |_| HEADER + TAG as usize), &mut received);
    let len = frame.len().max(SHORTEST) as u32 + if settings.fcs { FCS } else { 0 };
    let len = if untagged { len - TAG } else { len };
    Verdict::Take(Stored { len, untagged, received, destination: kind(destination) })
}

/// The tag of a frame of this type, if it has one.
fn tag(settings: &RxSettings, octets: Bytes<'_>, kind: u16) -> Option<u16> {
    if kind != settings.vlan_type {
        return None;
    }
    octets.read::<2>((TAG_AT + 2) as usize).map(u16::from_be_bytes)
}

fn kind(destination: [u8; 6]) -> Destination {
    match destination {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Destination::Broadcast,
        [first, ..] if first & 1 != 0 => Destination::Multicast,
        _ => Destination::Unicast,
    }
}
