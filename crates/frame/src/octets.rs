//! Fixed pieces of a slice, without a panic.

use crate::Error;

/// The `N` octets at `at`.
#[inline(always)]
pub(crate) fn array<const N: usize>(octets: &[u8], at: usize) -> Result<[u8; N], Error> {
    octets.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(Error::Short)
}

/// The first `N` octets, to be written.
#[inline(always)]
pub(crate) fn first_mut<const N: usize>(octets: &mut [u8]) -> Result<&mut [u8; N], Error> {
    octets.first_chunk_mut::<N>().ok_or(Error::Short)
}

/// Big-endian 16 bits at `at` of a header whose size the caller knows.
#[inline(always)]
pub(crate) fn be16<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// Big-endian 32 bits at `at` of a header whose size the caller knows.
#[inline(always)]
pub(crate) fn be32<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
