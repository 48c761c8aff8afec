//! Frame headers as a trace sees them, and the identity by which the same packet is recognised one router
//! further.
//!
//! A router changes a packet's Ethernet addresses, time to live and header checksum, and may fragment it.
//! Source and destination, protocol, identification and fragment offset stay, and so does the start of the
//! payload (ports, sequence numbers, and the checksum over all of it). Packets that agree in these cannot be
//! told apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::Filter;
use frame::{Mac, arp, ethernet, flow, icmp, ipv4, ipv6, tcp, vlan};
use port::Frame;

mod six;

pub(super) use six::{SHORT6, answered, fingerprint6, folded, is_ipv6};

/// Octets kept of a frame: Ethernet, the longest IPv4 header, ICMP with the longest quoted header and 8
/// octets of its payload.
const KEPT: usize = 14 + 60 + 8 + 60 + 8;
/// Octets of the tags of VLANs, which are kept beside them.
const TAGS: usize = vlan::MOST * vlan::TAG;
/// Octets of the payload that are compared.
const COMPARED: usize = 20;
/// Octets of an Ethernet header, an IPv4 header without options, and the 8 octets beyond it that ICMP errors
/// quote.
pub(super) const SHORT: usize = 14 + 20 + 8;

/// Start of a frame, copied once: its owner may change the frame at any time.
#[derive(Clone)]
pub(super) struct Head {
    /// Octets without tags: a router takes them off and puts others on.
    octets: [u8; KEPT],
    len: usize,
    tags: vlan::Tags,
    /// Length of the whole frame, in octets.
    pub(super) frame_len: u32,
}

/// Identity of a packet: the fields that routers do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Ip(IpIdentity),
    Arp(arp::Packet),
    /// Cannot be recognised elsewhere.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpIdentity {
    /// Addresses; an IPv4 one as its IPv4-mapped one.
    source: u128,
    destination: u128,
    protocol: u8,
    /// Identification of an IPv4 packet, flow label of an IPv6 packet.
    identification: u32,
    /// Fragment offset of an IPv4 packet, length of an IPv6 packet.
    offset: u16,
    /// Start of what follows the IPv4 header, or the fixed IPv6 header.
    start: [u8; COMPARED],
    /// Number of valid octets in `start`.
    start_len: usize,
    /// Offset of the transport header from there; `None`: in a later fragment there is none.
    transport: Option<usize>,
    /// Time to live, or hop limit.
    pub(super) ttl: u8,
}

/// Returns a hash of the first octets of a frame that is the same wherever the packet is seen, and never 0.
#[inline]
pub(super) fn fingerprint(head: &[u8; SHORT]) -> u64 {
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // Identification and offset; the flags beside the offset say whether fragments follow, which a router may
    // change.
    let piece = word(18) & 0xffff_1fff;
    let mut mixed = u64::from(word(26)) << 32 | u64::from(word(30));
    for next in [u64::from(piece) << 8 | u64::from(head[23]), u64::from(word(34)) << 32 | u64::from(word(38))]
    {
        // The multiplier of splitmix64: every octet affects the high bits, which are folded back.
        mixed = (mixed ^ next).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 29;
    }
    mixed | 1
}

/// Returns how many octets of tags a frame has: behind them lies what would lie there without them.
#[inline]
pub(super) fn octets_of_tags(head: &[u8; SHORT]) -> usize {
    if !vlan::is_tag(u16::from_be_bytes([head[12], head[13]])) {
        return 0;
    }
    vlan::Tags::parse(head).map_or(0, |tags| tags.header() - ethernet::HEADER)
}

impl Head {
    /// Copies the start of a frame.
    pub(super) fn copy(frame: &Frame<'_>) -> Self {
        let mut octets = [0; KEPT + TAGS];
        let mut len = 0;
        for octet in &mut octets {
            let Some([read]) = frame.octets().read::<1>(len) else { break };
            *octet = read;
            len += 1;
        }
        Self::of(&octets[..len], frame.len() as u32)
    }

    /// Wraps the first octets of a frame of this length, which were copied elsewhere.
    pub(super) fn of(start: &[u8], frame_len: u32) -> Self {
        let tags = vlan::Tags::parse(start).unwrap_or_default();
        let (stations, rest) = start.split_at(start.len().min(vlan::AT));
        let rest = rest.get(tags.header() - ethernet::HEADER..).unwrap_or_default();
        let (mut octets, mut len) = ([0; KEPT], 0);
        for (octet, read) in octets.iter_mut().zip(stations.iter().chain(rest)) {
            *octet = *read;
            len += 1;
        }
        Self { octets, len, tags, frame_len }
    }

    /// Returns the numbers of its VLANs, the outer one first.
    pub(super) fn vlans(&self) -> impl Iterator<Item = u16> + '_ {
        self.tags.tags().iter().map(|tag| tag.id())
    }

    /// Returns the station to which the frame is sent, with its VLAN, for reports.
    pub(super) fn station(&self) -> String {
        let vlans: Vec<String> = self.vlans().map(|id| id.to_string()).collect();
        match vlans.as_slice() {
            [] => self.destination().to_string(),
            vlans => format!("{} in VLAN {}", self.destination(), vlans.join(".")),
        }
    }

    fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    /// Returns the [`fingerprint`], if the frame is long enough.
    pub(super) fn fingerprint(&self) -> Option<u64> {
        let head = self.octets().first_chunk::<SHORT>()?;
        if is_ipv6(head) {
            return self.octets().first_chunk::<SHORT6>().map(fingerprint6);
        }
        Some(fingerprint(head))
    }

    /// Returns the destination MAC address of the frame.
    pub(super) fn destination(&self) -> Mac {
        ethernet::Header::parse(self.octets()).map_or(Mac([0; 6]), |(header, _)| header.destination)
    }

    /// Returns the destination of the IP packet, if it is one.
    pub(super) fn ip_destination(&self) -> Option<IpAddr> {
        match self.identity() {
            Identity::Ip(ip) => Some(Ipv6Addr::from_bits(ip.destination).to_canonical()),
            _ => None,
        }
    }

    /// Returns the hash of its flow in a router with this seed.
    pub(super) fn flow(&self, seed: u64) -> u32 {
        self.octets.first_chunk().map_or(0, |head| flow::hash(head, seed))
    }

    /// Returns the identity of the packet.
    pub(super) fn identity(&self) -> Identity {
        let Ok((header, rest)) = ethernet::Header::parse(self.octets()) else { return Identity::Other };
        match header.ethertype {
            ethernet::IPV4 => ip_identity(rest).map_or(Identity::Other, Identity::Ip),
            ethernet::IPV6 => six::identity(rest).map_or(Identity::Other, Identity::Ip),
            ethernet::ARP => arp::Packet::parse(rest).map_or(Identity::Other, Identity::Arp),
            _ => Identity::Other,
        }
    }

    /// Returns true if the trace's filter matches.
    pub(super) fn fits(&self, filter: &Filter) -> bool {
        let wanted = |wanted: Option<IpAddr>, is: u128| wanted.is_none_or(|wanted| number(wanted) == is);
        match self.identity() {
            _ if *filter == Filter::default() => true,
            Identity::Ip(ip) => {
                wanted(filter.source, ip.source)
                    && wanted(filter.destination, ip.destination)
                    && filter.protocol.is_none_or(|protocol| protocol == ip.protocol)
                    && filter.port.is_none_or(|port| ip.ports().is_some_and(|ports| ports.contains(&port)))
            }
            Identity::Arp(arp) => {
                wanted(filter.source, mapped(arp.sender_ip))
                    && wanted(filter.destination, mapped(arp.target_ip))
                    && filter.protocol.is_none()
                    && filter.port.is_none()
            }
            Identity::Other => false,
        }
    }

    /// Returns true if this frame, sent by a router, is its answer to `asked` instead of the packet itself.
    pub(super) fn answers(&self, asked: &Identity) -> bool {
        match (self.identity(), asked) {
            (Identity::Arp(reply), Identity::Arp(request)) => {
                reply.operation == arp::Operation::Reply
                    && request.operation == arp::Operation::Request
                    && (reply.sender_ip, reply.target_ip) == (request.target_ip, request.sender_ip)
            }
            (Identity::Ip(answer), Identity::Ip(asked)) => {
                answer.destination == asked.source
                    && match answer.protocol {
                        ipv4::ICMP => self.icmp_answers(asked),
                        ipv6::next::ICMP => {
                            self.octets().get(ethernet::HEADER..).is_some_and(|ip| six::answers(ip, asked))
                        }
                        _ => false,
                    }
            }
            _ => false,
        }
    }

    fn icmp_answers(&self, asked: &IpIdentity) -> bool {
        let Some((header, message)) = self.octets().get(ethernet::HEADER..).and_then(icmp_message) else {
            return false;
        };
        if header.is_error() {
            return ip_identity(message).is_some_and(|quoted| quoted.is_same(asked));
        }
        let request = icmp::Header::parse_quoted(&asked.start[..asked.start_len]);
        header.kind == icmp::ECHO_REPLY
            && asked.protocol == ipv4::ICMP
            && request
                .is_ok_and(|(request, _)| request.kind == icmp::ECHO_REQUEST && request.rest == header.rest)
    }
}

/// Returns the number of an address, an IPv4 one as its IPv4-mapped one.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn mapped(ip: u32) -> u128 {
    Ipv4Addr::from_bits(ip).to_ipv6_mapped().to_bits()
}

/// Returns the ICMP message of an IPv4 packet.
fn icmp_message(packet: &[u8]) -> Option<(icmp::Header, &[u8])> {
    let packet = ipv4::Packet::parse_quoted(packet).ok()?;
    icmp::Header::parse_quoted(packet.payload()).ok()
}

fn ip_identity(octets: &[u8]) -> Option<IpIdentity> {
    let packet = ipv4::Packet::parse_quoted(octets).ok()?;
    let header = packet.header();
    let payload = packet.payload();
    let mut start = [0; COMPARED];
    let start_len = payload.len().min(COMPARED);
    start[..start_len].copy_from_slice(&payload[..start_len]);
    Some(IpIdentity {
        source: mapped(header.source),
        destination: mapped(header.destination),
        protocol: header.protocol,
        identification: header.identification.into(),
        offset: header.fragment_offset,
        start,
        start_len,
        transport: (header.fragment_offset == 0).then_some(0),
        ttl: header.ttl,
    })
}

impl IpIdentity {
    /// Returns true if both are the same packet, as far as both copies go.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let key = |ip: &Self| (ip.source, ip.destination, ip.protocol, ip.identification, ip.offset);
        let shown = self.start_len.min(other.start_len);
        key(self) == key(other) && self.start[..shown] == other.start[..shown]
    }

    /// Returns the number by which its sender is looked for: an IPv4 address, or a folded IPv6 address.
    pub(super) fn sender(&self) -> u32 {
        match Ipv6Addr::from_bits(self.source).to_ipv4_mapped() {
            Some(ip) => ip.to_bits(),
            None => folded(self.source),
        }
    }

    fn ports(&self) -> Option<[u16; 2]> {
        let [a, b, c, d] = *self.start[..self.start_len].get(self.transport?..)?.first_chunk::<4>()?;
        let has_ports = matches!(self.protocol, ipv4::TCP | ipv4::UDP);
        has_ports.then_some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok((header, rest)) = ethernet::Header::parse(self.octets()) else {
            return f.write_str("no Ethernet header");
        };
        write!(f, "{} > {} ", header.source, self.station())?;
        match header.ethertype {
            ethernet::IPV4 => show_ip(f, rest),
            ethernet::ARP => show_arp(f, rest),
            ethernet::IPV6 => six::show(f, rest),
            other => write!(f, "ethertype {other:04x}"),
        }
    }
}

fn show_arp(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let Ok(packet) = arp::Packet::parse(octets) else { return f.write_str("ARP, not understood") };
    let (sender, target) = (Ipv4Addr::from(packet.sender_ip), Ipv4Addr::from(packet.target_ip));
    match packet.operation {
        arp::Operation::Request => write!(f, "ARP who has {target}, tell {sender}"),
        arp::Operation::Reply => write!(f, "ARP {sender} is at {}", packet.sender_mac),
    }
}

fn show_ip(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let packet = match ipv4::Packet::parse_quoted(octets) {
        Ok(packet) => packet,
        Err(error) => return write!(f, "IPv4, {error}"),
    };
    let header = packet.header();
    let (source, destination) = (Ipv4Addr::from(header.source), Ipv4Addr::from(header.destination));
    write!(f, "IPv4 {source} > {destination} ttl {} id {}", header.ttl, header.identification)?;
    if header.dont_fragment {
        f.write_str(" DF")?;
    }
    if header.fragment_offset != 0 {
        return write!(f, ", fragment at {}", u32::from(header.fragment_offset) * 8);
    }
    if header.more_fragments {
        f.write_str(", first fragment")?;
    }
    match header.protocol {
        ipv4::ICMP => show_icmp(f, packet.payload()),
        ipv4::TCP => show_tcp(f, packet.payload()),
        ipv4::UDP => show_udp(f, packet.payload()),
        other => write!(f, ", protocol {other}"),
    }
}

fn show_icmp(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let Ok((header, _)) = icmp::Header::parse_quoted(octets) else { return f.write_str(", ICMP, cut off") };
    let (high, low) = (header.rest >> 16, header.rest & 0xffff);
    match (header.kind, header.code) {
        (icmp::ECHO_REQUEST, _) => write!(f, ", ICMP echo request id {high} seq {low}"),
        (icmp::ECHO_REPLY, _) => write!(f, ", ICMP echo reply id {high} seq {low}"),
        (icmp::TIME_EXCEEDED, _) => f.write_str(", ICMP time exceeded"),
        (icmp::UNREACHABLE, icmp::unreachable::NET) => f.write_str(", ICMP network unreachable"),
        (icmp::UNREACHABLE, icmp::unreachable::HOST) => f.write_str(", ICMP host unreachable"),
        (icmp::UNREACHABLE, icmp::unreachable::PROTOCOL) => f.write_str(", ICMP protocol unreachable"),
        (icmp::UNREACHABLE, icmp::unreachable::PORT) => f.write_str(", ICMP port unreachable"),
        (icmp::UNREACHABLE, icmp::unreachable::FRAGMENTATION_NEEDED) => {
            write!(f, ", ICMP fragmentation needed, MTU {low}")
        }
        (kind, code) => write!(f, ", ICMP type {kind} code {code}"),
    }
}

fn show_tcp(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    let Ok(header) = tcp::Header::parse(octets) else { return f.write_str(", TCP, cut off") };
    write!(f, ", TCP {} > {}", header.source, header.destination)?;
    let flags = [(tcp::SYN, "SYN"), (tcp::FIN, "FIN"), (tcp::RST, "RST"), (tcp::ACK, "ACK")];
    flags
        .into_iter()
        .filter(|(flag, _)| header.flags & flag != 0)
        .try_for_each(|(_, name)| write!(f, " {name}"))
}

fn show_udp(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    // The rest of the datagram is not kept, so the UDP length cannot be checked here.
    let ports = octets
        .first_chunk::<4>()
        .map(|[a, b, c, d]| [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])]);
    match ports {
        Some([from, to]) => write!(f, ", UDP {from} > {to}"),
        None => f.write_str(", UDP, cut off"),
    }
}
