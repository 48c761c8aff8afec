//! Fixed-size pieces of a slice, without panics.

use crate::Error;

/// Returns the `N` octets at `at`.
#[inline(always)]
pub(crate) fn array<const N: usize>(octets: &[u8], at: usize) -> Result<[u8; N], Error> {
    octets.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(Error::Short)
}

/// Returns the first `N` octets, mutably.
#[inline(always)]
pub(crate) fn first_mut<const N: usize>(octets: &mut [u8]) -> Result<&mut [u8; N], Error> {
    octets.first_chunk_mut::<N>().ok_or(Error::Short)
}

/// Reads a big-endian 16-bit word at `at` of a header of known size.
#[inline(always)]
pub(crate) fn be16<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// Reads a big-endian 32-bit word at `at` of a header of known size.
#[inline(always)]
pub(crate) fn be32<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// A slice that is written from its beginning.
pub(crate) struct Cursor<'a> {
    octets: &'a mut [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning.
    pub(crate) const fn new(octets: &'a mut [u8]) -> Self {
        Self { octets, at: 0 }
    }

    /// Writes the next octets.
    pub(crate) fn put(&mut self, octets: &[u8]) -> Result<(), Error> {
        let end = self.at + octets.len();
        self.octets.get_mut(self.at..end).ok_or(Error::Short)?.copy_from_slice(octets);
        self.at = end;
        Ok(())
    }

    /// Returns how many octets are written.
    pub(crate) const fn len(&self) -> usize {
        self.at
    }
}
