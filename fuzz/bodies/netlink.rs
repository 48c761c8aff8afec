//! Any octets in the place of what the kernel tells of its interfaces, addresses, neighbours, routes and rules. Found: whatever
//! panics, and tables that are not what somebody has who was told their changes.

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    netlink::fuzz::take_datagram(input);
}
