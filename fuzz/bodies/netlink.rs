//! Arbitrary octets in place of the kernel's messages about interfaces, addresses, neighbours, routes and rules. Finds panics,
//! and tables that differ from those of a listener that was only told the changes.

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    netlink::fuzz::take_datagram(input);
}
