//! Where a packet is put together that is cut by who has it next.

use frame::offload::LARGEST;
use ring::Bytes;

use super::room::TAG;

/// Octets of the two addresses, behind which a tag lies.
const ADDRESSES: usize = 12;

/// Room for one such packet: a tag's spare octets, then the packet.
#[derive(Debug, Default)]
pub(super) struct Large {
    /// Empty until it is needed.
    octets: Vec<u8>,
    /// Octets of the packet.
    len: usize,
    /// It is there whole, and shown with this burst.
    shown: bool,
}

impl Large {
    /// What was shown is gone.
    pub(super) fn begin_burst(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.len = 0;
        }
    }

    /// Begins a packet with this header, if it has not begun; false if there is no room before the next burst.
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

    /// Adds octets; returns how many there was room for.
    pub(super) fn add(&mut self, octets: Bytes<'_>) -> usize {
        let copied = octets.copy_to_slice(self.octets.get_mut(TAG + self.len..).unwrap_or_default());
        self.len += copied;
        copied
    }

    /// The packet as it is by now.
    pub(super) fn frame(&mut self) -> &mut [u8] {
        self.octets.get_mut(TAG..TAG + self.len).unwrap_or_default()
    }

    /// It is there whole, with this tag between addresses and type; says where it begins.
    pub(super) fn finish(&mut self, tag: Option<[u8; TAG]>) -> usize {
        self.shown = true;
        let Some(tag) = tag else { return TAG };
        self.octets.copy_within(TAG..TAG + ADDRESSES, 0);
        if let Some(place) = self.octets.get_mut(ADDRESSES..ADDRESSES + TAG) {
            place.copy_from_slice(&tag);
        }
        0
    }

    /// Forgets a packet that has begun.
    pub(super) fn discard(&mut self) {
        if !self.shown {
            self.len = 0;
        }
    }

    /// All octets, up to the end of the packet.
    pub(super) fn octets(&mut self) -> &mut [u8] {
        self.octets.get_mut(..TAG + self.len).unwrap_or_default()
    }
}
