//! Invalid source addresses: those of the router itself and the broadcast and network addresses of its
//! networks.

use crate::config::Nic;
use crate::ip::Ip;

/// Number of bits that an address is hashed to.
const BITS: u32 = 12;
const WORDS: usize = 1 << (BITS - 6);

/// A filter of 512 octets for each family in front of the list of addresses: decides whether a source must be compared
/// with the list.
pub(crate) struct OwnSourceFilter {
    marks: [u64; WORDS],
    marks6: [u64; WORDS],
}

impl OwnSourceFilter {
    /// Creates the filter for a router with these NICs.
    pub(crate) fn new(nics: &[Nic]) -> Self {
        let mut sources = Self { marks: [0; WORDS], marks6: [0; WORDS] };
        for own in nics.iter().flat_map(|nic| &nic.six.own) {
            let (word, bit) = place6(own.ip);
            sources.marks6[word] |= bit;
        }
        for address in nics.iter().flat_map(|nic| &nic.addresses) {
            for ip in [address.ip, address.network(), address.broadcast()] {
                let (word, bit) = place(ip);
                sources.marks[word] |= bit;
            }
        }
        sources
    }

    /// Returns true if `source` may be such an address. False for nearly all other addresses.
    #[inline(always)]
    pub(crate) const fn suspects(&self, source: u32) -> bool {
        let (word, bit) = place(source);
        self.marks[word] & bit != 0
    }

    /// Returns true if the IPv6 address `source` may be an own one.
    #[inline(always)]
    pub(crate) const fn suspects6(&self, source: u128) -> bool {
        let (word, bit) = place6(source);
        self.marks6[word] & bit != 0
    }
}

#[inline(always)]
const fn place6(ip: u128) -> (usize, u64) {
    let hash = Ip::v6(ip).hash(0) >> (64 - BITS);
    (hash as usize >> 6, 1 << (hash & 63))
}

/// Returns true if `source` is an address of one of these NICs, or a broadcast or network address of their
/// networks.
#[cold]
#[inline(never)]
pub(crate) fn is_ours(nics: &[Nic], source: u32) -> bool {
    nics.iter().any(|nic| nic.owns(source) || nic.is_network_wide(source))
}

#[inline(always)]
const fn place(ip: u32) -> (usize, u64) {
    let hash = ip.wrapping_mul(0x9e37_79b1) >> (32 - BITS);
    (hash as usize >> 6, 1 << (hash & 63))
}
