//! IPv6 packets at interfaces for VLANs.

use router::{Ip, Neighbour};

use super::*;
use crate::vlans::{ONE, TWO, bare, tagged, tags_of};

/// Creates a router with VLANs, whose addresses are confirmed; a host `::9` is known at each.
fn lab() -> Lab {
    let neighbours = table();
    for nic in [3, 4] {
        let ip = Ip::v6(ip6(nic, 9));
        assert!(neighbours.add_static(Neighbour { nic, ip, mac: HOST }));
    }
    let mut lab = Lab::wanted(neighbours, &Wanted { six: true, vlans: true, ..USUAL });
    lab.wait(1000);
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    lab
}

/// Returns a datagram from the host at VLAN 100 of NIC 0.
fn from_host(destination: u128) -> Vec<u8> {
    let payload = datagram6(ip6(3, 9), destination, 18);
    let header = ipv6::Header::new(next::UDP, ip6(3, 9), destination, 0);
    tagged(&frame6_from((own_mac(0), HOST), header, &payload), &ONE)
}

#[test]
fn packets_go_between_vlans_and_nics() {
    let mut lab = lab();
    slow_ones();
    for round in 0..3 {
        lab.push(2, udp6(2, ip6(3, 9), 18));
        let sent = lab.one_sent(0);
        assert_eq!((tags_of(&sent), read6(&bare(&sent)).0.destination), (ONE.to_vec(), HOST));
        // To a host and to a gateway at the other VLAN.
        for destination in [ip6(4, 9), 0x2001_0db8_0015 << 80 | 7] {
            lab.push(0, from_host(destination));
            let sent = bare(&lab.one_sent(1));
            let (ethernet, packet) = read6(&sent);
            let header = packet.header();
            assert_eq!((ethernet.destination, header.destination, header.hop_limit), (HOST, destination, 63));
        }
        lab.push(0, from_host(ip6(4, 9)));
        assert_eq!(tags_of(&lab.one_sent(1)), TWO);
        lab.push(0, from_host(BEYOND[0]));
        assert!(tags_of(&lab.one_sent(1)).is_empty());
        assert_eq!(slow_ones() == 0, round > 0);
    }
    assert_eq!(lab.counters.forwarded.get(), 15);
    lab.only_drop("", 0);
}

#[test]
fn a_nic_without_ipv6_takes_none_beside_the_frames_of_a_vlan() {
    let wanted = Wanted { six: true, without_six: Some(0), vlans: true, ..USUAL };
    let mut lab = Lab::wanted(table(), &wanted);
    lab.wait(1000);
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    for round in 1..3 {
        // A tag leads the NIC to the path of both families, on which the way is prepared.
        lab.push(0, from_host(BEYOND[0]));
        assert_eq!(read6(&lab.one_sent(1)).1.header().hop_limit, 63);
        lab.push(0, udp6(0, BEYOND[0], 18));
        lab.none_sent();
        lab.only_drop("drop_protocol", round);
    }
}

#[test]
fn errors_go_back_to_the_vlan() {
    let mut lab = lab();
    lab.push(0, from_host(0x3fff << 112 | 1));
    let sent = lab.one_sent(0);
    assert_eq!(tags_of(&sent), ONE);
    let bare = bare(&sent);
    let (header, message, _) = read_icmp6(&bare);
    assert_eq!((header.source, header.destination), (ip6(3, 1), ip6(3, 9)));
    assert_eq!(message.kind, 1, "destination unreachable");
}
