//! The part of the program that tells which frames are urgent, by the list of these ([`punt::urgent`]). It looks at headers alone, as
//! the classes of a control plane do; a limit for each class comes later. Of VLAN tags it looks behind one; of the extension headers
//! of IPv6 behind one as messages of MLD have it, because routing protocols send none.

use frame::ethernet::{IPV4, IPV6};
use frame::{ipv4, ipv6, vlan};
use punt::urgent::{
    ETHERTYPES, FIRST_ETHERTYPE, ICMPV6_TYPES, Kind, NEIGHBOUR, PROTOCOLS, SERVICE_POINTS, TCP_PORTS,
    UDP_PORTS,
};

use super::*;

/// Goes on at [`Place::Urgent`] or at [`Place::Plain`]. The context is in r6.
pub(super) fn select(code: &mut Assembler) {
    network(code);
    version_four(code);
    version_six(code);
    of_protocol(code);
    code.here(Place::Near);
    code.jump(IF_EQUAL, R9, NEIGHBOUR.into(), Place::Urgent);
    code.go(Place::Plain);
}

/// Goes on at [`Place::Urgent`] if r0 is a number of these kinds; if only neighbours send it, at [`Place::Near`], with the time to
/// live in r9.
fn find(code: &mut Assembler, kinds: &[Kind]) {
    for kind in kinds {
        let place = if kind.is_near { Place::Near } else { Place::Urgent };
        kind.numbers.clone().for_each(|number| code.jump(IF_EQUAL, R0, number.into(), place));
    }
}

/// r7: where the network's header starts, behind at most one VLAN tag.
fn network(code: &mut Assembler) {
    code.by(MOVE, R7, 12);
    code.read(Size::Half, 0);
    code.jump(IF_EQUAL, R0, vlan::CUSTOMER.into(), Place::UrgentTag);
    code.go(Place::NoTag);
    code.here(Place::UrgentTag);
    code.by(ADD, R7, 4);
    code.read(Size::Half, 0);
    code.here(Place::NoTag);
    code.by(ADD, R7, 2);
    code.jump(IF_EQUAL, R0, IPV6.into(), Place::Six);
    code.jump(IF_EQUAL, R0, IPV4.into(), Place::Four);
    find(code, ETHERTYPES);
    code.jump(IF_ABOVE, R0, i32::from(FIRST_ETHERTYPE) - 1, Place::Plain);
    code.read(Size::Octet, 0);
    find(code, SERVICE_POINTS);
    code.go(Place::Plain);
}

/// r0: protocol, r7: where the payload starts, r8: 0 unless this is a later fragment, r9: time to live.
fn version_four(code: &mut Assembler) {
    code.here(Place::Four);
    code.read(Size::Octet, 0);
    code.jump(IF_BELOW, R0, 0x45, Place::Plain);
    code.jump(IF_ABOVE, R0, 0x4f, Place::Plain);
    code.read(Size::Half, 6);
    code.by(AND, R0, 0x1fff);
    code.with(MOVE, R8, R0);
    code.read(Size::Octet, 8);
    code.with(MOVE, R9, R0);
    code.read(Size::Octet, 9);
    code.keep(PROTOCOL, R0);
    // A header that was cut short ends the program here.
    code.read(Size::Octet, ipv4::HEADER as i32 - 1);
    code.read(Size::Octet, 0);
    code.by(AND, R0, 15);
    code.by(SHIFT_LEFT, R0, 2);
    code.with(ADD, R7, R0);
    code.recall(R0, PROTOCOL);
    code.go(Place::Payload);
}

/// As [`version_four`].
fn version_six(code: &mut Assembler) {
    code.here(Place::Six);
    code.read(Size::Octet, 0);
    code.by(SHIFT_RIGHT, R0, 4);
    code.jump(IF_OTHER, R0, 6, Place::Plain);
    code.by(MOVE, R8, 0);
    code.read(Size::Octet, 7);
    code.with(MOVE, R9, R0);
    code.read(Size::Octet, ipv6::HEADER as i32 - 1);
    code.read(Size::Octet, 6);
    code.by(ADD, R7, ipv6::HEADER as i32);
    code.jump(IF_OTHER, R0, ipv6::next::HOP_BY_HOP.into(), Place::Payload);
    // One of eight octets, which has room for a router alert.
    code.read(Size::Octet, 1);
    code.jump(IF_OTHER, R0, 0, Place::Plain);
    code.read(Size::Octet, 0);
    code.by(ADD, R7, 8);
}

/// By the protocol in r0, and the payload at r7.
fn of_protocol(code: &mut Assembler) {
    code.here(Place::Payload);
    find(code, PROTOCOLS);
    // A later fragment has no ports.
    code.jump(IF_OTHER, R8, 0, Place::Plain);
    let (tcp, udp, icmp) = (ipv4::TCP, ipv4::UDP, ipv6::next::ICMP);
    for protocol in [tcp, udp, icmp] {
        code.jump(IF_EQUAL, R0, protocol.into(), Place::PayloadOf(protocol));
    }
    code.go(Place::Plain);
    let inside: [(u8, Size, &[i32], &[Kind]); 3] = [
        (tcp, Size::Half, &[0, 2], TCP_PORTS),
        (udp, Size::Half, &[2], UDP_PORTS),
        (icmp, Size::Octet, &[0], ICMPV6_TYPES),
    ];
    for (protocol, size, offsets, kinds) in inside {
        code.here(Place::PayloadOf(protocol));
        for offset in offsets {
            code.read(size, *offset);
            find(code, kinds);
        }
        code.go(Place::Plain);
    }
}
