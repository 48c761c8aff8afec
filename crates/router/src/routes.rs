//! Interface of the router to its route tables.

use crate::ip::Ip;

/// Way in which a route refuses packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are dropped, and nobody is told (blackhole).
    Silent,
    /// Their sender is told that there is no way (unreachable).
    Unreachable,
    /// Their sender is told that it is prohibited (prohibit).
    Prohibited,
}

impl Refusal {
    /// Returns the number of this way, for tables.
    pub const fn number(self) -> u32 {
        match self {
            Self::Silent => 1,
            Self::Unreachable => 2,
            Self::Prohibited => 3,
        }
    }

    /// Returns the way with this number.
    pub const fn numbered(number: u32) -> Self {
        match number {
            2 => Self::Unreachable,
            3 => Self::Prohibited,
            _ => Self::Silent,
        }
    }
}

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// None: there is no route.
    None,
    /// None, as the route says.
    Refused(Refusal),
    /// The router itself.
    Local,
    /// The destination itself, behind a NIC.
    Connected {
        /// Number of the NIC.
        nic: u8,
    },
    /// A gateway behind a NIC.
    Gateway {
        /// Number of the NIC.
        nic: u8,
        /// The gateway's address, in host byte order.
        gateway: u32,
    },
    /// A gateway behind a NIC that is known by its IPv6 address, also for IPv4 packets (RFC 8950).
    Gateway6 {
        /// Number of the NIC.
        nic: u8,
        /// The gateway's address, in host byte order.
        gateway: u128,
    },
    /// One of several, which the flow of a packet selects: see [`Routes::members`].
    Group,
}

/// Maximum number of next hops among which a flow can be moved when some of them are down.
pub const CHOICES: usize = 4;

impl NextHop {
    /// Returns the NIC and the neighbour to which a packet to `destination` is sent; `None` if it is not sent on.
    pub const fn neighbour(self, destination: Ip) -> Option<(u8, Ip)> {
        match self {
            Self::None | Self::Local | Self::Refused(_) | Self::Group => None,
            Self::Connected { nic } => Some((nic, destination)),
            Self::Gateway { nic, gateway } => Some((nic, Ip::v4(gateway))),
            Self::Gateway6 { nic, gateway } => Some((nic, Ip::v6(gateway))),
        }
    }
}

impl NextHop {
    /// Returns true if packets are sent on by it.
    pub const fn leads_on(self) -> bool {
        !matches!(self, Self::None | Self::Local | Self::Refused(_))
    }

    /// Returns true if packets are sent on by this NIC, whatever their destination. A group is none of them.
    pub const fn is_behind(self, nic: u8) -> bool {
        matches!(self.neighbour(Ip::v4(0)), Some((out, _)) if out == nic)
    }
}

/// An IPv4 route table, and the IPv6 table that goes with it. A lookup has two separate steps, so that a burst can have
/// many memory reads in flight at once.
pub trait Routes: Copy {
    /// State after the first step.
    type Step: Copy + Default;
    /// The IPv6 route table; [`NoRoutes6`] if there is none.
    type Six: Routes6;

    /// Returns the IPv6 route table.
    fn six(&self) -> Self::Six;

    /// Prefetches memory for a lookup of `destination`.
    fn prefetch(&self, destination: u32);

    /// First step; prefetches the memory that the second one will read.
    fn first(&self, destination: u32) -> Self::Step;

    /// Second step; returns the number of the next hop.
    fn second(&self, step: Self::Step) -> u32;

    /// Returns the next hop with this number.
    fn next_hop(&self, index: u32) -> NextHop;

    /// Returns the next hops that a flow with this hash has in the group with this number: the preferred one first, and
    /// without those that are down, unless all are. Zeros follow. The number of a next hop yields itself.
    fn members(&self, index: u32, _hash: u32) -> [u32; CHOICES] {
        alone(index)
    }

    /// Returns the first of those.
    #[inline(always)]
    fn member(&self, index: u32, hash: u32) -> u32 {
        self.members(index, hash)[0]
    }

    /// Returns true if the next hop with this number, or one of the group with this number, is behind a NIC.
    fn leads_by(&self, index: u32, nic: u8) -> bool {
        self.next_hop(index).is_behind(nic)
    }

    /// Returns a number that changes whenever the meaning of a next hop's number has changed.
    fn epoch(&self) -> u32;

    /// Performs both steps.
    #[inline]
    fn lookup(&self, destination: u32) -> u32 {
        self.second(self.first(destination))
    }
}

/// An IPv6 route table. A lookup has a bounded number of steps, each with at most one memory read, so that a burst can have
/// many in flight at once. A lookup that has found its result stays where it is.
pub trait Routes6: Copy {
    /// State between two steps.
    type Step: Copy + Default;

    /// Number of calls of [`Routes6::next`] after which each lookup is done.
    const STEPS: usize;

    /// Begins a lookup of `destination`; prefetches the memory that the next step will read.
    fn first(&self, destination: u128) -> Self::Step;

    /// Returns true if the result is known, or only [`Routes6::found`] is left to be called: further steps change nothing.
    fn is_done(&self, step: Self::Step) -> bool;

    /// Makes one more step; prefetches the memory that the next one will read.
    fn next(&self, step: Self::Step) -> Self::Step;

    /// Returns the number of the next hop, after all steps.
    fn found(&self, step: Self::Step) -> u32;

    /// Returns the next hop with this number.
    fn next_hop(&self, index: u32) -> NextHop;

    /// Returns the next hops of a flow, as [`Routes::members`] does.
    fn members(&self, index: u32, _hash: u32) -> [u32; CHOICES] {
        alone(index)
    }

    /// Returns the first of those.
    #[inline(always)]
    fn member(&self, index: u32, hash: u32) -> u32 {
        self.members(index, hash)[0]
    }

    /// Returns true if the next hop with this number, or one of the group with this number, is behind a NIC.
    fn leads_by(&self, index: u32, nic: u8) -> bool {
        self.next_hop(index).is_behind(nic)
    }

    /// Returns a number that changes whenever the meaning of a next hop's number has changed.
    fn epoch(&self) -> u32;

    /// Performs all steps.
    #[inline]
    fn lookup(&self, destination: u128) -> u32 {
        self.found((0..Self::STEPS).fold(self.first(destination), |step, _| self.next(step)))
    }
}

/// Returns the choices of a next hop that is in no group.
const fn alone(index: u32) -> [u32; CHOICES] {
    [index, 0, 0, 0]
}

/// A table without routes, for routers without IPv6.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoutes6;

impl Routes6 for NoRoutes6 {
    type Step = ();

    const STEPS: usize = 0;

    fn first(&self, _: u128) {}

    fn is_done(&self, (): ()) -> bool {
        true
    }

    fn next(&self, (): ()) {}

    fn found(&self, (): ()) -> u32 {
        0
    }

    fn next_hop(&self, _: u32) -> NextHop {
        NextHop::None
    }

    fn epoch(&self) -> u32 {
        0
    }
}

/// An IPv4 table together with an IPv6 table.
#[derive(Clone, Copy, Debug)]
pub struct Both<R, S> {
    /// IPv4 routes.
    pub four: R,
    /// IPv6 routes.
    pub six: S,
}

impl<R: Routes, S: Routes6> Routes for Both<R, S> {
    type Step = R::Step;
    type Six = S;

    #[inline(always)]
    fn six(&self) -> S {
        self.six
    }

    #[inline(always)]
    fn prefetch(&self, destination: u32) {
        self.four.prefetch(destination);
    }

    #[inline(always)]
    fn first(&self, destination: u32) -> R::Step {
        self.four.first(destination)
    }

    #[inline(always)]
    fn second(&self, step: R::Step) -> u32 {
        self.four.second(step)
    }

    fn next_hop(&self, index: u32) -> NextHop {
        self.four.next_hop(index)
    }

    fn members(&self, index: u32, hash: u32) -> [u32; CHOICES] {
        self.four.members(index, hash)
    }

    #[inline(always)]
    fn member(&self, index: u32, hash: u32) -> u32 {
        self.four.member(index, hash)
    }

    fn leads_by(&self, index: u32, nic: u8) -> bool {
        self.four.leads_by(index, nic)
    }

    #[inline(always)]
    fn epoch(&self) -> u32 {
        self.four.epoch()
    }
}
