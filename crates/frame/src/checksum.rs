//! The internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Returns the ones' complement sum of `octets` as big-endian 16-bit words, added to `start` and folded to 16 bits. An
/// odd last octet counts as the high half of a word.
#[inline]
pub fn sum(start: u16, octets: &[u8]) -> u16 {
    let mut words = octets.chunks_exact(4);
    let mut total = u64::from(start);
    for word in &mut words {
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut tail = [0; 4];
    let rest = words.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    fold(total + u64::from(u32::from_be_bytes(tail)))
}

/// Returns the sum of the pseudo header of a transport message of `len` octets over IPv6 (RFC 8200, 8.1).
pub fn pseudo6(source: u128, destination: u128, len: u32, protocol: u8) -> u16 {
    let words = |address: u128| {
        let (high, low) = ((address >> 64) as u64, address as u64);
        (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
    };
    fold(words(source) + words(destination) + u64::from(len) + u64::from(protocol))
}

/// Returns the checksum of `octets`, in which the checksum field must be zero.
#[inline]
pub fn of(octets: &[u8]) -> u16 {
    !sum(0, octets)
}

/// Returns true if the checksum of `octets`, which includes the checksum field as received, is correct.
#[inline]
pub fn holds(octets: &[u8]) -> bool {
    sum(0, octets) == 0xffff
}

/// Returns true if a 20-octet header, which includes its checksum field as received, is correct: [`holds`] unrolled for
/// the hot path.
#[inline(always)]
pub fn holds20(header: &[u8; 20]) -> bool {
    // The ones' complement sum does not depend on the byte order (RFC 1071, 2 (B)), so words are added as loaded.
    let word = |at: usize| {
        u64::from(u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
    };
    let total = word(0) + word(4) + word(8) + word(12) + word(16);
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    // At most 0x1_0003 + 0xffff, so the last fold is replaced by a comparison with the two sums that fold to all ones.
    total == 0xffff || total == 0x1_fffe
}

/// Returns the checksum after one covered 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
#[inline(always)]
pub fn replace(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Returns the checksum after 32 covered bits changed from `old` to `new`; both halves lie on 16-bit boundaries.
#[inline(always)]
pub fn replace32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Folds a sum to 16 bits with end-around carry.
#[inline(always)]
fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    total as u16
}
