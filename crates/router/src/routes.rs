//! Interface of the router to a route table.

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// None: there is no route, or the route is marked as unreachable.
    None,
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
}

/// A route table. A lookup has two separate steps, so that a burst can have many memory reads in flight at once.
pub trait Routes: Copy {
    /// State after the first step.
    type Step: Copy + Default;

    /// Prefetches memory for a lookup of `destination`.
    fn prefetch(&self, destination: u32);

    /// First step; prefetches the memory that the second one will read.
    fn first(&self, destination: u32) -> Self::Step;

    /// Second step; returns the number of the next hop.
    fn second(&self, step: Self::Step) -> u32;

    /// Returns the next hop with this number.
    fn next_hop(&self, index: u32) -> NextHop;

    /// Returns a number that changes whenever the meaning of a next hop's number has changed.
    fn epoch(&self) -> u32;

    /// Performs both steps.
    #[inline]
    fn lookup(&self, destination: u32) -> u32 {
        self.second(self.first(destination))
    }
}
