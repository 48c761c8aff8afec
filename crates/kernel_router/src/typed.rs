//! Routes by which nothing is forwarded.

use std::fmt;

use netlink::{Prefix, RouteKind};

use crate::config::{in_table, write_metric};

/// A static route by which nothing is forwarded. It belongs to no interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypedRoute {
    /// Destination network.
    pub to: Prefix,
    /// Treatment of packets to it: [`RouteKind::Blackhole`], [`RouteKind::Unreachable`] or [`RouteKind::Prohibit`].
    pub kind: RouteKind,
    /// Metric; 0: the kernel's default.
    pub metric: u32,
    /// Number of the table: [`crate::MAIN`], or that of a VRF.
    pub table: u32,
}

impl fmt::Display for TypedRoute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}{}", name(self.kind).unwrap_or("other"), self.to, in_table(self.table))?;
        write_metric(out, self.metric)
    }
}

/// Name in iproute2 of a kind of route by which nothing is forwarded; `None`: it is another kind.
pub(crate) const fn name(kind: RouteKind) -> Option<&'static str> {
    match kind {
        RouteKind::Blackhole => Some("blackhole"),
        RouteKind::Unreachable => Some("unreachable"),
        RouteKind::Prohibit => Some("prohibit"),
        RouteKind::Unicast | RouteKind::Local | RouteKind::Throw | RouteKind::Other(_) => None,
    }
}
