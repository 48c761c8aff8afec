//! Tells which frames are urgent, exactly as the kernel's program for copies of them does (`program::urgent_alone`).

/// Octets of a frame that are looked at, at most: an Ethernet header, the longest IPv4 header, and two ports.
pub(crate) const LOOKED_AT: usize = 14 + 60 + 4;

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// First ethertype that is no length (IEEE 802.3).
const FIRST_ETHERTYPE: u16 = 0x0600;
/// Service access point of IS-IS (ISO 10589).
const ISIS: u8 = 0xfe;

/// Protocols of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const OSPF: u8 = 89;
const VRRP: u8 = 112;

/// Ports of BGP and LDP, on either side.
const TCP_PORTS: [u16; 2] = [179, 646];
/// Destination ports of BFD over one hop and over several, of RIP, RIPng and LDP.
const UDP_PORTS: [u16; 5] = [3784, 4784, 520, 521, 646];

/// Returns true if a frame is urgent, and has no VLAN tag; given are its first octets.
pub(crate) fn is_urgent(frame: &[u8]) -> bool {
    told(frame).unwrap_or(false)
}

/// `None`: the frame is too short for what would tell.
fn told(frame: &[u8]) -> Option<bool> {
    match short(frame, 12)? {
        ARP => Some(true),
        IPV4 => of_four(frame),
        IPV6 => of_six(frame),
        FIRST_ETHERTYPE.. => Some(false),
        _ => Some(*frame.get(14)? == ISIS),
    }
}

fn of_four(frame: &[u8]) -> Option<bool> {
    let is_later_fragment = short(frame, 20)? & 0x1fff != 0;
    let header = usize::from(*frame.get(14)? & 15) * 4;
    match *frame.get(23)? {
        OSPF | VRRP => Some(true),
        _ if is_later_fragment => Some(false),
        protocol => of_ports(frame, protocol, 14 + header),
    }
}

fn of_six(frame: &[u8]) -> Option<bool> {
    const PAYLOAD: usize = 14 + 40;
    match *frame.get(20)? {
        OSPF | VRRP => Some(true),
        // Neighbour discovery (RFC 4861).
        ICMPV6 => Some((133..=137).contains(frame.get(PAYLOAD)?)),
        protocol => of_ports(frame, protocol, PAYLOAD),
    }
}

/// By the ports at this offset, if the protocol has any.
fn of_ports(frame: &[u8], protocol: u8, at: usize) -> Option<bool> {
    match protocol {
        TCP => Some(TCP_PORTS.contains(&short(frame, at)?) || TCP_PORTS.contains(&short(frame, at + 2)?)),
        UDP => Some(UDP_PORTS.contains(&short(frame, at + 2)?)),
        _ => Some(false),
    }
}

fn short(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}
