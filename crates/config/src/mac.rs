//! Ethernet addresses.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Ethernet address of a single station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Default address of a NIC: a hash (FNV-1a) of both names under a locally administered prefix, so the
    /// same file yields the same addresses on every run and every host.
    pub fn derived(router: &str, nic: &str) -> Self {
        let text = router.bytes().chain([b'/']).chain(nic.bytes());
        let hash = text.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mixed = hash ^ (hash >> 40);
        let [a, b, c, d, e, ..] = mixed.to_le_bytes();
        Self([0x02, a, b, c, d, e])
    }

    /// Returns the link-local address of an interface that has this address (RFC 4291, appendix A).
    pub(crate) fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        let word = |high, low| u16::from_be_bytes([high, low]);
        Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f))
    }

    /// Returns true if it is a group address (IEEE 802, the lowest bit of the first octet).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// Error: the text is not six two-digit hexadecimal numbers with colons between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an Ethernet address")]
pub struct NotMac;

impl FromStr for Mac {
    type Err = NotMac;

    fn from_str(text: &str) -> Result<Self, NotMac> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(NotMac)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(NotMac);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| NotMac)?;
        }
        if parts.next().is_some() { Err(NotMac) } else { Ok(Self(octets)) }
    }
}
