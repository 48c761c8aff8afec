//! Layout of the generator's tag in a frame: Ethernet, IPv4 without options, UDP, then flow and sequence number. In an IPv6
//! frame everything behind the IP header is [`LONGER`] octets later.

use frame::{ethernet, ipv4, ipv6, udp};

/// Offset of the IPv4 header.
pub const IP: usize = ethernet::HEADER;
/// Offset of the UDP header.
pub const UDP: usize = IP + ipv4::HEADER;
/// Offset of the flow's index (u32, big endian).
pub const FLOW: usize = UDP + udp::HEADER;
/// Offset of the frame's sequence number within its flow (u32, big endian).
pub const SEQUENCE: usize = FLOW + 4;
/// Length of the generator's shortest frame, in octets.
pub const SHORTEST: usize = ethernet::SHORTEST;
/// Octets by which an IPv6 header is longer than an IPv4 one.
pub const LONGER: usize = ipv6::HEADER - ipv4::HEADER;
/// Length of the generator's shortest IPv6 frame, in octets.
pub const SHORTEST_SIX: usize = SEQUENCE + 4 + LONGER;
/// Length of the generator's longest frame, in octets: 9,000 octets of IPv4 behind an Ethernet header.
pub const LONGEST: usize = 9_000 + ethernet::HEADER;
