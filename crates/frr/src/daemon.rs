//! Daemons of FRR.

use std::fmt;

/// Daemon of FRR, in the order in which they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Daemon {
    /// Routes, interfaces and next hops: all others talk to it.
    Zebra,
    /// Static routes.
    Static,
    /// Bidirectional forwarding detection.
    Bfd,
    /// BGP.
    Bgp,
    /// OSPF for IPv4.
    Ospf,
    /// OSPF for IPv6.
    Ospf6,
    /// IS-IS.
    Isis,
    /// RIP.
    Rip,
    /// RIP for IPv6.
    Ripng,
    /// VRRP.
    Vrrp,
}

impl Daemon {
    /// All daemons, in the order in which they are started.
    pub const ALL: [Self; 10] = [
        Self::Zebra,
        Self::Static,
        Self::Bfd,
        Self::Bgp,
        Self::Ospf,
        Self::Ospf6,
        Self::Isis,
        Self::Rip,
        Self::Ripng,
        Self::Vrrp,
    ];

    /// Name of its program, and of its sockets and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zebra => "zebra",
            Self::Static => "staticd",
            Self::Bfd => "bfdd",
            Self::Bgp => "bgpd",
            Self::Ospf => "ospfd",
            Self::Ospf6 => "ospf6d",
            Self::Isis => "isisd",
            Self::Rip => "ripd",
            Self::Ripng => "ripngd",
            Self::Vrrp => "vrrpd",
        }
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
