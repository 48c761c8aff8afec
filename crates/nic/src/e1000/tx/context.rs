//! What context descriptors leave behind: the places of two checksums, and how a large packet is cut (82540EM manual,
//! "TCP/IP Context Descriptor Layout").

use super::checksum::Sum;
use super::descriptor::Descriptor;

/// TUCMD: TCP, not UDP.
const TCP: u64 = 1 << 24;
/// TUCMD: IPv4, not IPv6.
const IPV4: u64 = 1 << 25;

/// One context descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// Of the IP header.
    pub(super) ip: Sum,
    /// Of the TCP or UDP header and its data.
    pub(super) transport: Sum,
    /// PAYLEN: octets behind the header, of all segments together.
    pub(super) payload: u32,
    /// HDRLEN: octets of the header that each segment begins with.
    pub(super) header: u8,
    /// MSS: octets behind the header of one segment.
    pub(super) segment: u16,
    /// What the header is made of.
    pub(super) protocols: Protocols,
}

/// What the headers of segments are, and so what is changed in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocols {
    /// Neither bit is set: each segment has the same header, as it is.
    #[default]
    Any,
    /// TCP in IPv4.
    Tcp4,
    /// TCP in IPv6.
    Tcp6,
    /// UDP in IPv4.
    Udp4,
}

impl Context {
    pub(super) const fn from_descriptor(descriptor: Descriptor) -> Self {
        let Descriptor { address: sums, word } = descriptor;
        Self {
            ip: sum(sums as u32),
            transport: sum((sums >> 32) as u32),
            payload: (word & 0xf_ffff) as u32,
            header: (word >> 40) as u8,
            segment: (word >> 48) as u16,
            protocols: match (word & TCP, word & IPV4) {
                (0, 0) => Protocols::Any,
                (0, _) => Protocols::Udp4,
                (_, 0) => Protocols::Tcp6,
                _ => Protocols::Tcp4,
            },
        }
    }
}

/// Start, place and end of a checksum: 8, 8 and 16 bits from the lowest.
const fn sum(half: u32) -> Sum {
    Sum { start: half as u8, at: (half >> 8) as u8, end: (half >> 16) as u16 }
}

/// The device's two contexts: which one a context descriptor sets, its TSE bit says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contexts {
    /// For packets that are one frame.
    pub(super) normal: Context,
    /// For packets that are cut into segments.
    pub(super) segmentation: Context,
}

impl Contexts {
    pub(super) const fn set(&mut self, descriptor: Descriptor) {
        let context = Context::from_descriptor(descriptor);
        *(if descriptor.segments() { &mut self.segmentation } else { &mut self.normal }) = context;
    }
}

#[cfg(test)]
mod tests;
