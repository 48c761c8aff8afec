//! Sources that no packet may come from: the addresses of the router itself and of its networks as a whole.

use crate::config::Nic;

/// Bits that an address is hashed to.
const BITS: u32 = 12;
const WORDS: usize = 1 << (BITS - 6);

/// A filter of 512 octets before the list of addresses: whether a source is worth a look at the list.
pub(crate) struct Sources {
    marks: [u64; WORDS],
}

impl Sources {
    /// The filter for a router with these NICs.
    pub(crate) fn new(nics: &[Nic]) -> Self {
        let mut sources = Self { marks: [0; WORDS] };
        for address in nics.iter().flat_map(|nic| &nic.addresses) {
            for ip in [address.ip, address.network(), address.broadcast()] {
                let (word, bit) = place(ip);
                sources.marks[word] |= bit;
            }
        }
        sources
    }

    /// Whether `source` may be such an address. False for all but a few of those that are none.
    #[inline(always)]
    pub(crate) const fn suspects(&self, source: u32) -> bool {
        let (word, bit) = place(source);
        self.marks[word] & bit != 0
    }
}

/// Whether `source` is an address of one of these NICs, or names one of their networks.
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
