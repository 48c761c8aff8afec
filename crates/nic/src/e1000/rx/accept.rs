//! Selection of received frames and the contents of their descriptors (82540EM manual, "Packet Address Filtering",
//! "Receive Data Storage", "Receive Packet Checksum Offloading", "802.1q VLAN Support").

use port::Frame;
use ring::Bytes;
use ring::e1000::{Received, rx};

use super::super::{Destination, Filters, Pass, RxSettings};
use super::checksum;
use super::lease::{Drop, TAG, TAG_AT};

/// Length of the shortest frame on a wire, without FCS: shorter frames are padded with zeros.
pub(super) const SHORTEST: usize = 60;
/// Length of an Ethernet header: anything shorter is not a frame.
const HEADER: usize = 14;
/// Length of an FCS. A driver that wants it gets zeros: frames have none here, and drivers do not check it.
const FCS: u32 = 4;

/// Criteria for the fast path: frames stored whole and unchanged in one buffer, for which the descriptor reports only
/// the length.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastPathFilter {
    /// Shortest length for the fast path, and the range of lengths above it; if the fast path is disabled, no frame
    /// matches.
    shortest: usize,
    span: usize,
    /// All destinations pass, and the kind of destination is not needed.
    any: bool,
    /// All unicast destinations pass.
    all_stations: bool,
    /// Otherwise the only unicast destination that passes, its first octet the least significant.
    own: u64,
    /// EtherType of frames with a tag that must be checked.
    tagged: Option<u16>,
}

/// Mask of a destination in a word, and its group bit.
const DESTINATION: u64 = 0xffff_ffff_ffff;
const GROUP: u64 = 1;

impl FastPathFilter {
    /// Derives the criteria from the settings. With the status block, the statistics do not distinguish destinations.
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

    /// Returns true if all frames of a suitable length take the fast path.
    #[inline(always)]
    pub(super) const fn takes_any(&self) -> bool {
        self.any && self.tagged.is_none()
    }

    /// Returns true if a frame takes the fast path; `ANY` is the result of [`Self::takes_any`].
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

/// Returns the station's own address in the format of [`FastPathFilter::own`].
fn own(filters: &Filters) -> u64 {
    let [a, b, c, d, e, f] = match filters.addresses[0] {
        Some(address) if address[0] & 1 == 0 => address,
        _ => return u64::MAX,
    };
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// Decision about a frame.
pub(super) enum Verdict {
    Drop(Drop),
    Take(Stored),
}

/// Form in which a frame is stored.
pub(super) struct Stored {
    /// Length in octets.
    pub(super) len: u32,
    /// True if its VLAN tag is removed.
    pub(super) untagged: bool,
    /// Contents of its last descriptor, without the length.
    pub(super) received: Received,
    pub(super) destination: Destination,
}

/// Checks a frame against all filters and settings.
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

/// Returns the VLAN tag of a frame of this EtherType, if it has one.
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
