//! Words of next hops, as far as both tables have them in common.
//!
//! ```text
//!   63     56 55    48 47       46           32 31                 0
//!  +---------+--------+--------+---------------+--------------------+
//!  |  kind   |  NIC   |  down  |       0       | gateway, or number |
//!  +---------+--------+--------+---------------+--------------------+
//!  |  GROUP  |  bits  |             0          | first bucket       |   a group of 2^bits buckets
//!  +---------+--------+------------------------+--------------------+
//! ```
//!
//! A bucket is one word too: up to four numbers of next hops, in the order in which they are preferred, 0 behind the last
//! one. A flow has the bucket that its hash selects, and the first next hop of it that is not down. So one word moves all
//! routes of a neighbour that fails, and no other flow moves.

use router::CHOICES;

/// Position of the kind.
pub(crate) const KIND_SHIFT: u32 = 56;
/// Position of the NIC.
pub(crate) const NIC_SHIFT: u32 = 48;
pub(crate) const LOCAL: u64 = 1;
pub(crate) const CONNECTED: u64 = 2;
pub(crate) const GATEWAY: u64 = 3;
/// An IPv6 gateway; in the IPv4 table by its number in the header.
pub(crate) const GATEWAY6: u64 = 4;
/// None, as the route says.
pub(crate) const REFUSED: u64 = 5;
/// A group of next hops.
pub(crate) const GROUP: u64 = 6;
/// Bit of a next hop whose neighbour is not reached: groups use another one.
pub(crate) const DOWN: u64 = 1 << 47;
/// Largest number of buckets of a group, as a power of two.
pub(crate) const MOST_BITS: u32 = 10;

/// Returns true if a word is that of a group.
#[inline(always)]
pub(crate) const fn is_group(word: u64) -> bool {
    word >> KIND_SHIFT == GROUP
}

/// Returns the word of a group.
#[cfg(feature = "rib")]
pub(crate) const fn group(first: u32, bits: u32) -> u64 {
    GROUP << KIND_SHIFT | (bits as u64) << NIC_SHIFT | first as u64
}

/// Returns the number of the bucket that a hash selects in a group.
#[inline(always)]
pub(crate) const fn bucket(group: u64, hash: u32) -> usize {
    let bits = (group >> NIC_SHIFT) as u32 & 0xff;
    let bits = if bits > MOST_BITS { MOST_BITS } else { bits };
    group as u32 as usize + (hash as u64 >> (32 - bits)) as usize
}

/// Returns the numbers of the buckets of a group.
pub(crate) const fn buckets(group: u64) -> core::ops::Range<usize> {
    bucket(group, 0)..bucket(group, u32::MAX) + 1
}

/// Returns the next hop number `place` of a bucket; 0: it has no more.
#[inline(always)]
pub(crate) const fn choice(bucket: u64, place: usize) -> u32 {
    (bucket >> (16 * place)) as u16 as u32
}

/// Returns the next hops of a bucket that are not down, and all if all are; zeros follow.
pub(crate) fn choices(bucket: u64, is_down: impl Fn(u32) -> bool) -> [u32; CHOICES] {
    let all: [u32; CHOICES] = core::array::from_fn(|place| choice(bucket, place));
    let mut up = [0; CHOICES];
    let usable = all.iter().filter(|number| **number != 0 && !is_down(**number));
    up.iter_mut().zip(usable).for_each(|(place, number)| *place = *number);
    if up[0] == 0 { all } else { up }
}

/// Returns the first of those next hops.
#[inline(always)]
pub(crate) fn first_choice(bucket: u64, is_down: impl Fn(u32) -> bool) -> u32 {
    for place in 0..CHOICES {
        let number = choice(bucket, place);
        if number == 0 {
            break;
        }
        if !is_down(number) {
            return number;
        }
    }
    choice(bucket, 0)
}
