//! State set by context descriptors: the places of two checksums, and the parameters of segmentation (82540EM manual,
//! "TCP/IP Context Descriptor Layout").

use ring::e1000::{Context, Descriptor, tx};

use super::checksum::Sum;

/// Protocols of the headers of segments, which determine the fields that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocols {
    /// Neither bit of TUCMD is set: each segment has the same, unchanged header.
    Any,
    /// TCP in IPv4.
    Tcp4,
    /// TCP in IPv6.
    Tcp6,
    /// UDP in IPv4.
    Udp4,
}

impl Protocols {
    pub(super) const fn of(context: &Context) -> Self {
        match (context.command & tx::TCP, context.command & tx::IP) {
            (0, 0) => Self::Any,
            (0, _) => Self::Udp4,
            (_, 0) => Self::Tcp6,
            _ => Self::Tcp4,
        }
    }
}

/// Checksums that the first data descriptor of a packet requests (POPTS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedChecksums {
    pub(super) ip: bool,
    pub(super) transport: bool,
}

impl RequestedChecksums {
    pub(super) const fn by(options: u8) -> Self {
        Self { ip: options & tx::IXSM != 0, transport: options & tx::TXSM != 0 }
    }
}

/// Returns the range of the IP header checksum.
pub(super) const fn ip_sum(context: &Context) -> Sum {
    Sum { start: context.ip_start, at: context.ip_offset, end: context.ip_end }
}

/// Returns the range of the TCP or UDP checksum.
pub(super) const fn transport_sum(context: &Context) -> Sum {
    Sum { start: context.tcp_start, at: context.tcp_offset, end: context.tcp_end }
}

/// The device's two contexts: the TSE bit of a context descriptor selects the one that it sets. A packet uses the
/// contents at its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contexts {
    /// For packets that are one frame.
    pub(super) normal: Context,
    /// For packets that are segmented.
    pub(super) segmentation: Context,
}

impl Contexts {
    pub(super) fn set(&mut self, descriptor: Descriptor) {
        let context = Context::from(descriptor);
        *(if context.command & tx::TSE != 0 { &mut self.segmentation } else { &mut self.normal }) = context;
    }
}
