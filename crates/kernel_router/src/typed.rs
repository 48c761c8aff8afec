//! Routes by which nothing is forwarded.

use std::fmt;

use netlink::{Prefix, RouteKind};

use crate::config::{in_table, write_metric};

/// Treatment of packets by such a route; the names are those of iproute2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteType {
    /// Dropped silently.
    Blackhole,
    /// Dropped; the sender is told that the host is unreachable.
    Unreachable,
    /// Dropped; the sender is told that this is administratively prohibited.
    Prohibit,
}

impl RouteType {
    const ALL: [Self; 3] = [Self::Blackhole, Self::Unreachable, Self::Prohibit];

    const fn name(self) -> &'static str {
        match self {
            Self::Blackhole => "blackhole",
            Self::Unreachable => "unreachable",
            Self::Prohibit => "prohibit",
        }
    }

    /// Returns the kind of the kernel's route.
    pub(crate) const fn kind(self) -> RouteKind {
        match self {
            Self::Blackhole => RouteKind::Blackhole,
            Self::Unreachable => RouteKind::Unreachable,
            Self::Prohibit => RouteKind::Prohibit,
        }
    }

    /// Returns the type of a route of this kind; `None`: it is another kind of route.
    pub(crate) fn of(kind: RouteKind) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.kind() == kind)
    }
}

/// A static route by which nothing is forwarded. It belongs to no interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypedRoute {
    /// Destination network.
    pub to: Prefix,
    /// Treatment of packets to it.
    pub kind: RouteType,
    /// Metric; 0: the kernel's default.
    pub metric: u32,
    /// Number of the table: [`crate::MAIN`], or that of a VRF.
    pub table: u32,
}

impl fmt::Display for TypedRoute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}{}", self.kind.name(), self.to, in_table(self.table))?;
        write_metric(out, self.metric)
    }
}
