//! What context descriptors leave behind: the places of two checksums, and how a large packet is cut (82540EM manual,
//! "TCP/IP Context Descriptor Layout").

use ring::e1000::{Context, Descriptor, tx};

use super::checksum::Sum;

/// What the headers of segments are, and so what is changed in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocols {
    /// Neither bit of TUCMD is set: each segment has the same header, as it is.
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

/// Which checksums the first data descriptor of a packet asks for (POPTS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) ip: bool,
    pub(super) transport: bool,
}

impl Wanted {
    pub(super) const fn by(options: u8) -> Self {
        Self { ip: options & tx::IXSM != 0, transport: options & tx::TXSM != 0 }
    }
}

/// The checksum of the IP header.
pub(super) const fn ip_sum(context: &Context) -> Sum {
    Sum { start: context.ip_start, at: context.ip_offset, end: context.ip_end }
}

/// The checksum of the TCP or UDP header and what follows it.
pub(super) const fn transport_sum(context: &Context) -> Sum {
    Sum { start: context.tcp_start, at: context.tcp_offset, end: context.tcp_end }
}

/// The device's two contexts: which one a context descriptor sets, its TSE bit says. A packet works by what they are
/// when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contexts {
    /// For packets that are one frame.
    pub(super) normal: Context,
    /// For packets that are cut into segments.
    pub(super) segmentation: Context,
}

impl Contexts {
    pub(super) fn set(&mut self, descriptor: Descriptor) {
        let context = Context::from(descriptor);
        *(if context.command & tx::TSE != 0 { &mut self.segmentation } else { &mut self.normal }) = context;
    }
}
