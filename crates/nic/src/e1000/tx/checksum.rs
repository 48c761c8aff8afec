//! Checksums that the device inserts into a frame.

use frame::checksum;

/// Range and place of a checksum, as offsets from the frame's first octet. (The tag that the device inserts is added
/// later, so offsets do not include it.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// First octet covered (IPCSS, TUCSS, CSS).
    pub(super) start: u8,
    /// Offset at which the checksum is stored (IPCSO, TUCSO, CSO).
    pub(super) at: u8,
    /// Last octet covered; 0: the frame's last (IPCSE, TUCSE).
    pub(super) end: u16,
}

/// Representation of a checksum of zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// Stored as zero.
    Stays,
    /// Stored as all ones, the other zero of ones' complement arithmetic: in UDP a zero means that there is no checksum
    /// (RFC 768). In TCP both are equivalent, so the protocol need not be known.
    AllOnes,
}

impl Sum {
    /// Stores the checksum of the octets from `start` to `end`. If its own place lies in that range, the value there
    /// takes part in the sum: a driver leaves zero, or the sum of a pseudo header. Does nothing if the place or the
    /// start lies outside the frame, as the manual specifies for CSS and CSO.
    pub(super) fn insert(self, frame: &mut [u8], zero: Zero) {
        let start = usize::from(self.start);
        let end = if self.end == 0 { frame.len() } else { frame.len().min(usize::from(self.end) + 1) };
        let Some(octets) = frame.get(start..end).filter(|octets| !octets.is_empty()) else { return };
        let sum = match (checksum::of(octets), zero) {
            (0, Zero::AllOnes) => 0xffff,
            (sum, _) => sum,
        };
        if let Some(place) = self.place(frame) {
            *place = sum.to_be_bytes();
        }
    }

    /// Adds the length of the transport header and data to the sum of the pseudo header that the driver left at the
    /// checksum's place: the driver cannot know the length of each segment.
    pub(super) fn add_length(self, frame: &mut [u8]) {
        let len = frame.len().saturating_sub(usize::from(self.start)).min(0xffff) as u16;
        if let Some(place) = self.place(frame) {
            *place = checksum::sum(u16::from_be_bytes(*place), &len.to_be_bytes()).to_be_bytes();
        }
    }

    fn place(self, frame: &mut [u8]) -> Option<&mut [u8; 2]> {
        frame.get_mut(usize::from(self.at)..)?.first_chunk_mut()
    }
}

#[cfg(test)]
mod tests;
