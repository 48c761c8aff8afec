//! Checksums that the device inserts into a frame.

use frame::checksum;

/// What is summed, and where the result goes: offsets from the frame's first octet. (The tag that the device inserts is
/// not there yet: offsets do not count it.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// First octet under the checksum (IPCSS, TUCSS, CSS).
    pub(super) start: u8,
    /// Where it is stored (IPCSO, TUCSO, CSO).
    pub(super) at: u8,
    /// Last octet under it; 0: the frame's last (IPCSE, TUCSE).
    pub(super) end: u16,
}

/// What a checksum of zero is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// Itself.
    Stays,
    /// All ones, the other zero of this arithmetic: in UDP a zero says that there is no checksum (RFC 768). For TCP
    /// the two are equal, so nobody has to know which of the two it is.
    AllOnes,
}

impl Sum {
    /// Stores the checksum of the octets from `start` to `end`. What lies at its place takes part in the sum if it lies
    /// there: a driver leaves zero, or the sum of a pseudo header. A place or a start outside of the frame inserts
    /// nothing, as the manual has it for CSS and CSO.
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

    /// Adds the length of the transport's header and data to the sum of the pseudo header that the driver left at the
    /// checksum's place: it cannot know the length of each segment.
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
