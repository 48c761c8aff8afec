//! The part of the program that tells which frames are urgent: those of routing protocols, and of what these rest on. It looks at
//! headers alone, as the classes of a control plane do; a limit for each class comes later.

use super::*;

const ARP: i32 = 0x0806;
const IPV4: i32 = 0x0800;
const IPV6: i32 = 0x86dd;
const TAG: i32 = 0x8100;
/// First ethertype that is no length (IEEE 802.3).
const FIRST_ETHERTYPE: i32 = 0x0600;
/// Service access point of IS-IS (ISO 10589).
const ISIS: i32 = 0xfe;

/// Protocols of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const OSPF: u8 = 89;
const VRRP: u8 = 112;

/// Ports of BGP and LDP, on either side.
const TCP_PORTS: [i32; 2] = [179, 646];
/// Destination ports of BFD over one hop and over several, of RIP, RIPng and LDP.
const UDP_PORTS: [i32; 5] = [3784, 4784, 520, 521, 646];

/// Goes on at [`Place::Urgent`] or at [`Place::Plain`]. The context is in r6.
pub(super) fn select(code: &mut Assembler) {
    network(code);
    version_four(code);
    version_six(code);
    of_ports(code);
}

/// r7: where the network's header starts, behind at most one VLAN tag.
fn network(code: &mut Assembler) {
    code.by(MOVE, R7, 12);
    code.read(Size::Half, 0);
    code.jump(IF_EQUAL, R0, TAG, Place::UrgentTag);
    code.go(Place::NoTag);
    code.here(Place::UrgentTag);
    code.by(ADD, R7, 4);
    code.read(Size::Half, 0);
    code.here(Place::NoTag);
    code.by(ADD, R7, 2);
    code.jump(IF_EQUAL, R0, ARP, Place::Urgent);
    code.jump(IF_EQUAL, R0, IPV6, Place::Six);
    code.jump(IF_EQUAL, R0, IPV4, Place::Four);
    code.jump(IF_ABOVE, R0, FIRST_ETHERTYPE - 1, Place::Plain);
    code.read(Size::Octet, 0);
    code.jump(IF_EQUAL, R0, ISIS, Place::Urgent);
    code.go(Place::Plain);
}

/// r7: where the payload starts, if its ports matter.
fn version_four(code: &mut Assembler) {
    code.here(Place::Four);
    code.read(Size::Half, 6);
    code.by(AND, R0, 0x1fff);
    code.with(MOVE, R8, R0);
    code.read(Size::Octet, 0);
    code.by(AND, R0, 15);
    code.by(SHIFT_LEFT, R0, 2);
    code.with(MOVE, R9, R0);
    code.read(Size::Octet, 9);
    code.jump(IF_EQUAL, R0, OSPF.into(), Place::Urgent);
    code.jump(IF_EQUAL, R0, VRRP.into(), Place::Urgent);
    // A later fragment has no ports.
    code.jump(IF_OTHER, R8, 0, Place::Plain);
    code.with(ADD, R7, R9);
    code.go(Place::Payload);
}

/// Without extension headers: routing protocols send none.
fn version_six(code: &mut Assembler) {
    const HEADER: i32 = 40;
    let (first, last) = (133, 137);
    code.here(Place::Six);
    code.read(Size::Octet, 6);
    code.by(ADD, R7, HEADER);
    code.jump(IF_EQUAL, R0, OSPF.into(), Place::Urgent);
    code.jump(IF_EQUAL, R0, VRRP.into(), Place::Urgent);
    code.jump(IF_OTHER, R0, ICMPV6.into(), Place::Payload);
    // Neighbour discovery (RFC 4861).
    code.read(Size::Octet, 0);
    code.jump(IF_BELOW, R0, first, Place::Plain);
    code.jump(IF_ABOVE, R0, last, Place::Plain);
    code.go(Place::Urgent);
}

/// By the protocol in r0, and the ports at r7.
fn of_ports(code: &mut Assembler) {
    code.here(Place::Payload);
    code.jump(IF_EQUAL, R0, TCP.into(), Place::PortsOf(TCP));
    code.jump(IF_EQUAL, R0, UDP.into(), Place::PortsOf(UDP));
    code.go(Place::Plain);
    code.here(Place::PortsOf(TCP));
    for offset in [0, 2] {
        code.read(Size::Half, offset);
        TCP_PORTS.into_iter().for_each(|port| code.jump(IF_EQUAL, R0, port, Place::Urgent));
    }
    code.go(Place::Plain);
    code.here(Place::PortsOf(UDP));
    code.read(Size::Half, 2);
    UDP_PORTS.into_iter().for_each(|port| code.jump(IF_EQUAL, R0, port, Place::Urgent));
    code.go(Place::Plain);
}
