//! IPv4 packets built octet by octet, valid or not, with code independent of the router's.

use std::net::Ipv4Addr;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Frame with an IPv4 packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Ethernet destination.
    pub to: Mac,
    /// Ethernet source.
    pub from: Mac,
    /// IP source.
    pub source: Ipv4Addr,
    /// IP destination.
    pub destination: Ipv4Addr,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Flags (DF is 0x4000, MF 0x2000) and fragment offset in units of 8 octets.
    pub fragment: u16,
    /// Options, a multiple of 4 octets, at most 40.
    pub options: Vec<u8>,
    /// Protocol.
    pub protocol: u8,
    /// Octets that follow the IP header.
    pub payload: Vec<u8>,
}

impl Packet {
    /// Builds the frame, with a right IP checksum.
    pub fn frame(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut ip = vec![0; header];
        ip[0] = 0x40 | (header / 4) as u8;
        ip[1] = self.tos;
        ip[2..4].copy_from_slice(&((header + self.payload.len()) as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&self.id.to_be_bytes());
        ip[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        ip[8] = self.ttl;
        ip[9] = self.protocol;
        ip[12..16].copy_from_slice(&self.source.octets());
        ip[16..20].copy_from_slice(&self.destination.octets());
        ip[20..].copy_from_slice(&self.options);
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&self.to[..], &self.from, &[8, 0], &ip, &self.payload].concat()
    }
}

/// Builds a UDP header with a right checksum, followed by its data.
pub fn udp(source: Ipv4Addr, destination: Ipv4Addr, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len()) as u16;
    let mut header = [ports.0, ports.1, length, 0].map(u16::to_be_bytes).concat();
    let pseudo = [&source.octets()[..], &destination.octets(), &[0, 17], &length.to_be_bytes()].concat();
    let sum = match checksum(&[&pseudo, &header, data]) {
        // 0 would mean no checksum (RFC 768).
        0 => u16::MAX,
        sum => sum,
    };
    header[6..].copy_from_slice(&sum.to_be_bytes());
    [&header, data].concat()
}

/// Internet checksum (RFC 1071) over these parts; all but the last have an even length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
    let mut sum: u32 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
