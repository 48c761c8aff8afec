//! Where the generator's mark lies in a frame: Ethernet, IPv4 without options, UDP, then flow and sequence number.

use frame::{ethernet, ipv4, udp};

/// Where the IPv4 header starts.
pub const IP: usize = ethernet::HEADER;
/// Where the UDP header starts.
pub const UDP: usize = IP + ipv4::HEADER;
/// Where the flow's index (u32, big endian) lies.
pub const FLOW: usize = UDP + udp::HEADER;
/// Where the frame's number within its flow (u32, big endian) lies.
pub const SEQUENCE: usize = FLOW + 4;
/// Octets of the shortest frame that the generator makes.
pub const SHORTEST: usize = ethernet::SHORTEST;
/// Octets of the longest frame that the generator makes: 9,000 octets of IPv4 behind an Ethernet header.
pub const LONGEST: usize = 9_000 + ethernet::HEADER;
