//! Probes: packets that find out whether a member forwards.
//!
//! A probe enters a NIC of a member as any frame does. The host has given the member a route for it, out of the next NIC, and a static
//! neighbour, so that a member that forwards sends it there, and knows nothing of it: firmware, namespaces and containers are probed
//! alike. The thread that takes frames from the member knows a probe by the neighbour's address ([`BACK`]) and keeps it. With one through
//! each NIC all rings of a member are probed; a NIC whose cable is out is left out.
//!
//! ```text
//!  NIC 0 in --> [ route 192.0.0.2/32 -> NIC 1, neighbour 02:70:72:6f:62:65 ] --> NIC 1 out
//!  NIC 1 in --> [ route 192.0.0.1/32 -> NIC 0, the same neighbour           ] --> NIC 0 out
//!  errors   --> [ route 192.0.0.8/32 -> NIC 0, the same neighbour           ] --> NIC 0 out
//! ```
//!
//! Nothing leads from one VRF to another: a probe leaves by a NIC of the VRF that it enters, and each has a route for errors.
//!
//! The addresses are of 192.0.0.0/29 and 192.0.0.8 (RFC 7335, RFC 7600), which no link outside of a host has; for NICs after the eighth
//! 192.0.0.16 and those after it, which are part of a block for assignments and assigned to nothing (RFC 6890, section 2.2.2). A probe that
//! enters a NIC with a strict reverse-path filter has a source of 192.0.0.64/27, of that block as well, to which a route leads back by that
//! NIC alone; all others come from 192.0.0.8.
//!
//! The key is one of the run, which is not visible outside, so that no other station can answer for a member. A member sees it: one that
//! lies is alive, and its frames are lost; what it forwards is counted elsewhere.

use frame::{Mac, ethernet, ipv4, udp};

use crate::member::Member;

/// Octets of a probe.
pub const LEN: usize = 60;
/// The neighbour that probes are for: where a frame for it leaves a member it is kept.
pub const BACK: Mac = Mac([0x02, b'p', b'r', b'o', b'b', b'e']);
/// Most NICs of a member that can be probed.
pub const MOST_NICS: u8 = 32;

/// Of NIC 0; those of the next ones follow.
const FIRST: u32 = u32::from_be_bytes([192, 0, 0, 1]);
/// The source of probes, but of those that enter a NIC with a strict reverse-path filter, in host byte order: what a member says of a
/// probe that it cannot forward goes [`BACK`] as well, and is no probe.
pub const SOURCE: u32 = u32::from_be_bytes([192, 0, 0, 8]);
/// The NIC whose probes are for the address that others come from.
pub const SOURCE_NIC: u8 = (SOURCE - FIRST) as u8;
/// Of the NIC after that: the addresses between are those of services (RFC 7723, RFC 8155), or not far from them.
const MORE: u32 = u32::from_be_bytes([192, 0, 0, 16]);
/// The source of probes that enter NIC 0 if that has a strict filter; those of the next ones follow.
const FIRST_STRICT: u32 = u32::from_be_bytes([192, 0, 0, 64]);
/// The discard service (RFC 863), for whoever captures one.
const PORT: u16 = 9;
/// What a probe enters with.
const TTL: u8 = 64;
const AT_IP: usize = ethernet::HEADER;
const AT_UDP: usize = AT_IP + ipv4::HEADER;
const AT_KEY: usize = AT_UDP + udp::HEADER;
/// Octets of key, member, NIC and number.
const PAYLOAD: usize = 16;
const DATAGRAM: usize = udp::HEADER + PAYLOAD;
const _: () = assert!(AT_KEY + PAYLOAD <= LEN);

/// The destination of probes that are to leave by a NIC, in host byte order: a route of its own leads there.
pub const fn destination(nic: u8) -> u32 {
    let nic = nic % MOST_NICS;
    if nic <= SOURCE_NIC { FIRST + nic as u32 } else { MORE + (nic - SOURCE_NIC - 1) as u32 }
}

/// The source of probes that enter a NIC with a strict reverse-path filter, in host byte order: a route of its own leads back by that NIC.
pub const fn strict_source(nic: u8) -> u32 {
    FIRST_STRICT + (nic % MOST_NICS) as u32
}

/// The neighbour that probes are for at a NIC, where what is between members and the host learns where addresses are: at NIC 0 it is
/// [`BACK`]. There a probe that enters by a NIC comes from that NIC's, so that what is for it finds its way back.
pub const fn back(nic: u8) -> Mac {
    let Mac([a, b, c, d, e, f]) = BACK;
    Mac([a, b, c, d, e, f + nic % MOST_NICS])
}

/// The NIC whose [`back`] an address is.
pub fn nic_of(station: [u8; 6]) -> Option<u8> {
    (0..MOST_NICS).find(|nic| back(*nic).0 == station)
}

/// The ways through a member of which these NICs can be used: in by each of them, and out by the next one of its VRF, of which `vrf`
/// tells the number; by itself if there is no other.
pub fn ways(nics: &[u8], vrf: impl Fn(u8) -> usize) -> Vec<(u8, u8)> {
    let way = |at: usize| {
        let (before, after) = nics.split_at(at + 1);
        let is_near = |other: &&u8| vrf(**other) == vrf(nics[at]);
        let out = after.iter().chain(before).find(is_near).copied();
        (nics[at], out.unwrap_or(nics[at]))
    };
    (0..nics.len()).map(way).collect()
}

/// Which probe one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Through {
    /// The member that it goes through.
    pub member: Member,
    /// The NIC that it enters.
    pub nic: u8,
    /// Its number.
    pub number: u32,
}

/// Makes and knows the probes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    key: [u8; 8],
}

impl Probes {
    /// Probes with this key, which nobody can guess.
    pub const fn new(key: u64) -> Self {
        Self { key: key.to_be_bytes() }
    }

    /// The frame of a probe from one address ([`SOURCE`], or that of [`strict_source`]) that is to leave by NIC `out`, for a NIC with this
    /// address.
    pub fn frame(&self, through: Through, source: u32, out: u8, to: Mac) -> [u8; LEN] {
        let mut octets = [0; LEN];
        // All headers fit; a frame of zeros would be nobody's.
        if self.fill(&mut octets, through, (source, destination(out)), to).is_err() {
            octets = [0; LEN];
        }
        octets
    }

    fn fill(
        &self,
        octets: &mut [u8; LEN],
        Through { member, nic, number }: Through,
        (from, destination): (u32, u32),
        to: Mac,
    ) -> Result<(), frame::Error> {
        let datagram = &mut octets[AT_UDP..AT_UDP + DATAGRAM];
        let ports = udp::Header { source: PORT, destination: PORT, len: DATAGRAM as u16, checksum: 0 };
        ports.write(datagram)?;
        let payload = &mut datagram[udp::HEADER..];
        payload[..8].copy_from_slice(&self.key);
        payload[8..10].copy_from_slice(&member.0.to_be_bytes());
        payload[10] = nic;
        payload[12..].copy_from_slice(&number.to_be_bytes());
        let checksum = udp::checksum(from, destination, datagram);
        udp::Header { checksum, ..ports }.write(datagram)?;
        let header =
            ipv4::Header { ttl: TTL, ..ipv4::Header::new(ipv4::UDP, from, destination, DATAGRAM as u16) };
        header.write(&mut octets[AT_IP..])?;
        ethernet::Header { destination: to, source: BACK, ethertype: ethernet::IPV4 }.write(octets)
    }

    /// Which probe a frame is that a member sends; none: it is none of ours, or was not forwarded.
    pub fn read(&self, frame: &[u8]) -> Option<Through> {
        let (ethernet, rest) = ethernet::Header::parse(frame).ok()?;
        if ethernet.destination != BACK || ethernet.ethertype != ethernet::IPV4 {
            return None;
        }
        let packet = ipv4::Packet::parse(rest).ok()?;
        let header = packet.header();
        let is_forwarded = header.ttl < TTL && !header.is_fragment();
        if !is_forwarded || header.protocol != ipv4::UDP {
            return None;
        }
        let datagram: [u8; DATAGRAM] = packet.payload().try_into().ok()?;
        let through = self.payload((header.source, header.destination), datagram)?;
        let is_source = header.source == SOURCE || header.source == strict_source(through.nic);
        is_source.then_some(through)
    }

    fn payload(&self, (source, destination): (u32, u32), mut datagram: [u8; DATAGRAM]) -> Option<Through> {
        let (ports, _) = udp::Header::parse(&datagram).ok()?;
        datagram[6..8].fill(0);
        if ports.checksum != udp::checksum(source, destination, &datagram) {
            return None;
        }
        let (key, rest) = datagram[udp::HEADER..].split_first_chunk::<8>()?;
        let [m0, m1, nic, _, n0, n1, n2, n3] = *rest.first_chunk::<8>()?;
        let through = Through {
            member: Member(u16::from_be_bytes([m0, m1])),
            nic,
            number: u32::from_be_bytes([n0, n1, n2, n3]),
        };
        (*key == self.key).then_some(through)
    }
}

#[cfg(test)]
mod tests;
