//! What the router asks of a route table.

/// Where packets of a route go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Nowhere: there is no route, or it says so.
    None,
    /// To the router itself.
    Local,
    /// To the destination itself, behind a NIC.
    Connected {
        /// Number of the NIC.
        nic: u8,
    },
    /// To a gateway behind a NIC.
    Gateway {
        /// Number of the NIC.
        nic: u8,
        /// The gateway's address, in host byte order.
        gateway: u32,
    },
}

/// A route table. The two steps of a lookup are apart so that a burst can have many memory reads under way at once.
pub trait Routes: Copy {
    /// Where the first step arrived.
    type Step: Copy + Default;

    /// Hints that `destination` will be looked up.
    fn prefetch(&self, destination: u32);

    /// First step; hints what the second one will read.
    fn first(&self, destination: u32) -> Self::Step;

    /// Second step: the number of the next hop.
    fn second(&self, step: Self::Step) -> u32;

    /// The next hop with this number.
    fn next_hop(&self, index: u32) -> NextHop;

    /// Moves when the meaning of a next hop's number has changed.
    fn epoch(&self) -> u32;

    /// Both steps.
    #[inline]
    fn lookup(&self, destination: u32) -> u32 {
        self.second(self.first(destination))
    }
}
