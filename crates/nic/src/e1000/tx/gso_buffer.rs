//! Buffer for one large packet that the receiving port segments (GSO).

use frame::offload::LARGEST;
use ring::Bytes;

use super::assembly_buffer::TAG;

/// Length of the two addresses in octets; a tag follows them.
const ADDRESSES: usize = 12;

/// Buffer for one such packet: spare octets for a tag, then the packet.
#[derive(Debug, Default)]
pub(super) struct GsoBuffer {
    /// Empty until first used.
    octets: Vec<u8>,
    /// Length of the packet in octets.
    len: usize,
    /// True if the packet is complete, and shown with this burst.
    shown: bool,
}

impl GsoBuffer {
    /// Frees the packet that was shown.
    pub(super) fn begin_burst(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.len = 0;
        }
    }

    /// Begins a packet with this header unless it has begun; returns false if the buffer is not free before
    /// the next burst.
    pub(super) fn begin(&mut self, header: &[u8]) -> bool {
        if self.shown {
            return false;
        }
        if self.len == 0 {
            self.octets.resize(TAG + LARGEST, 0);
            if let Some(place) = self.octets.get_mut(TAG..TAG + header.len()) {
                place.copy_from_slice(header);
                self.len = header.len();
            }
        }
        true
    }

    /// Adds octets; returns how many fitted.
    pub(super) fn add(&mut self, octets: Bytes<'_>) -> usize {
        let copied = octets.copy_to_slice(self.octets.get_mut(TAG + self.len..).unwrap_or_default());
        self.len += copied;
        copied
    }

    /// Returns the packet so far.
    pub(super) fn frame(&mut self) -> &mut [u8] {
        self.octets.get_mut(TAG..TAG + self.len).unwrap_or_default()
    }

    /// Completes the packet, with this tag between addresses and type; returns the offset of its first octet.
    pub(super) fn finish(&mut self, tag: Option<[u8; TAG]>) -> usize {
        self.shown = true;
        let Some(tag) = tag else { return TAG };
        self.octets.copy_within(TAG..TAG + ADDRESSES, 0);
        if let Some(place) = self.octets.get_mut(ADDRESSES..ADDRESSES + TAG) {
            place.copy_from_slice(&tag);
        }
        0
    }

    /// Discards an incomplete packet.
    pub(super) fn discard(&mut self) {
        if !self.shown {
            self.len = 0;
        }
    }

    /// Returns all octets up to the end of the packet.
    pub(super) fn octets(&mut self) -> &mut [u8] {
        self.octets.get_mut(..TAG + self.len).unwrap_or_default()
    }
}
