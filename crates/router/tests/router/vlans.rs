//! Interfaces for VLANs: frames come and go with their tags, also in QinQ.

use frame::offload::{Gso, Offload};
use frame::vlan::{self, Tag};
use frame::{Mac, arp, icmp, ipv4};
use ledger::Counter;

use crate::world::*;

const HOST: Mac = Mac([2, 0, 0, 0, 0x70, 1]);
/// Tags of the two interfaces, the outer one first.
pub(crate) const ONE: [Tag; 1] = [Tag::new(vlan::CUSTOMER, 100)];
pub(crate) const TWO: [Tag; 2] = [Tag::new(vlan::SERVICE, 200), Tag::new(vlan::CUSTOMER, 100)];

fn lab() -> Lab {
    let mut lab = Lab::wanted(table(), &Wanted { vlans: true, ..USUAL });
    // Each interface announces its address twice, those of VLANs with their tags.
    let announced = [0, 1, 2].map(|nic| lab.world.sent(nic));
    assert_eq!(announced.each_ref().map(Vec::len), [4, 4, 2]);
    assert_eq!(tags_of(&announced[0][1]), ONE);
    assert_eq!(tags_of(&announced[1][1]), TWO);
    lab
}

pub(crate) fn tags_of(frame: &[u8]) -> Vec<Tag> {
    vlan::Tags::parse(frame).unwrap().tags().to_vec()
}

/// Returns the frame with these tags.
pub(crate) fn tagged(frame: &[u8], tags: &[Tag]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for tag in tags.iter().rev() {
        frame.extend([0; vlan::TAG]);
        vlan::insert(&mut frame, *tag).unwrap();
    }
    frame
}

/// Returns the frame without its tags.
pub(crate) fn bare(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    while vlan::remove(&mut frame).is_ok() {
        frame.truncate(frame.len() - vlan::TAG);
    }
    frame
}

/// Makes a host known at each of the two interfaces.
fn greet(lab: &mut Lab) {
    for (nic, network, tags) in [(0_u8, 3, &ONE[..]), (1, 4, &TWO[..])] {
        let request = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: HOST,
            sender_ip: ip(10, 0, network, 9),
            target_mac: Mac::default(),
            target_ip: ip(10, 0, network, 1),
        };
        lab.push(usize::from(nic), tagged(&arp_frame(Mac::BROADCAST, &request), tags));
        let reply = lab.one_sent(usize::from(nic));
        assert_eq!(tags_of(&reply), tags);
        assert_eq!(read_arp(&bare(&reply)).1.sender_mac, own_mac(nic));
    }
}

#[test]
fn packets_go_between_vlans_and_nics() {
    let mut lab = lab();
    greet(&mut lab);
    slow_ones();
    for round in 0..3 {
        // From a NIC to a VLAN, from there to the other one, and to a NIC.
        lab.push(2, udp_frame(2, ip(10, 0, 3, 9), 18));
        let sent = lab.one_sent(0);
        assert_eq!((tags_of(&sent), read_ipv4(&bare(&sent)).0.destination), (ONE.to_vec(), HOST));
        let from = |to: u32| ipv4_frame(0, udp_header(ip(10, 0, 3, 9), to, 18), &datagram(18));
        lab.push(0, tagged(&from(ip(10, 0, 4, 9)), &ONE));
        let sent = lab.one_sent(1);
        assert_eq!((tags_of(&sent), read_ipv4(&bare(&sent)).1.header().ttl), (TWO.to_vec(), 63));
        lab.push(0, tagged(&from(ip(10, 0, 2, 2)), &ONE));
        assert!(tags_of(&lab.one_sent(2)).is_empty());
        // To a gateway at a VLAN.
        lab.push(2, udp_frame(2, ip(24, 1, 1, 1), 18));
        let sent = lab.one_sent(1);
        assert_eq!((tags_of(&sent), read_ipv4(&bare(&sent)).0.destination), (TWO.to_vec(), HOST));
        // Once everything is prepared, the slow path routes nothing.
        assert_eq!(slow_ones() == 0, round > 0);
    }
    assert_eq!(lab.counters.forwarded.get(), 12);
    lab.only_drop("", 0);
}

#[test]
fn frames_of_a_vlan_are_counted_without_their_tags() {
    let mut lab = lab();
    greet(&mut lab);
    let count = |lab: &Lab, at: usize| {
        let own = &lab.vlan_counters[at];
        [&own.in_frames, &own.in_bytes, &own.out_frames, &own.out_bytes].map(Counter::get)
    };
    let before = [0, 1].map(|at| count(&lab, at));
    let frame = ipv4_frame(0, udp_header(ip(10, 0, 3, 9), ip(10, 0, 4, 9), 18), &datagram(18));
    let octets = frame.len() as u64;
    // The first one on the slow path.
    for _ in 0..3 {
        lab.push(0, tagged(&frame, &ONE));
        lab.one_sent(1);
    }
    lab.push(0, tagged(&frame, &TWO));
    let moved = [0, 1].map(|at: usize| {
        let now = count(&lab, at);
        [0, 1, 2, 3].map(|field: usize| now[field] - before[at][field])
    });
    assert_eq!(moved, [[3, 3 * octets, 0, 0], [0, 0, 3, 3 * octets]]);
}

#[test]
fn the_router_answers_at_a_vlan_and_errors_go_back_there() {
    let mut lab = lab();
    greet(&mut lab);
    let message = icmp_message(icmp::ECHO_REQUEST, 0, 7, b"x");
    let header = ipv4::Header::new(ipv4::ICMP, ip(10, 0, 3, 9), ip(10, 0, 3, 1), 9);
    lab.push(0, tagged(&ipv4_frame(0, header, &message), &ONE));
    let sent = lab.one_sent(0);
    assert_eq!((tags_of(&sent), read_icmp(&bare(&sent)).1.kind), (ONE.to_vec(), icmp::ECHO_REPLY));
    lab.push(
        0,
        tagged(&ipv4_frame(0, udp_header(ip(10, 0, 3, 9), ip(11, 1, 1, 1), 18), &datagram(18)), &ONE),
    );
    let sent = lab.one_sent(0);
    let bare = bare(&sent);
    let (header, message, _) = read_icmp(&bare);
    assert_eq!((header.source, message.kind), (ip(10, 0, 3, 1), icmp::UNREACHABLE));
}

#[test]
fn a_vlan_without_an_interface_is_not_spoken() {
    let mut lab = lab();
    let frame = |nic: u8| udp_frame(nic, ip(192, 168, 1, 1), 18);
    let wrong = Tag::new(vlan::CUSTOMER, 101);
    // Another number, the right number at another NIC, a tag too many, a tag too few.
    lab.push(0, tagged(&frame(0), &[wrong]));
    lab.push(2, tagged(&frame(2), &ONE));
    lab.push(0, tagged(&frame(0), &TWO));
    lab.push(1, tagged(&frame(1), &ONE));
    lab.none_sent();
    lab.only_drop("drop_protocol", 4);
}

#[test]
fn tags_that_only_have_a_priority_name_no_vlan() {
    let mut lab = lab();
    let priority = Tag { tpid: vlan::CUSTOMER, tci: 5 << 13 };
    for tags in [&[priority, ONE[0]][..], &[ONE[0], priority], &[priority, priority], &[priority]] {
        lab.push(0, tagged(&udp_frame(0, ip(192, 168, 1, 1), 18), tags));
        assert!(tags_of(&lab.one_sent(1)).is_empty(), "{tags:?}");
    }
    assert_eq!(lab.vlan_counters[0].in_frames.get(), 2);
    lab.only_drop("", 0);
}

/// Returns a TCP packet of more octets than a buffer has.
fn large(source: u32, destination: u32) -> (ipv4::Header, Vec<u8>) {
    let mut segment = vec![7; 5020];
    segment[12] = 5 << 4;
    (ipv4::Header::new(ipv4::TCP, source, destination, segment.len() as u16), segment)
}

#[test]
fn large_frames_stay_whole_and_their_offload_follows() {
    let mut lab = lab();
    greet(&mut lab);
    let order = Offload::checksum(34, 16).unwrap().with_gso(Gso::Tcp4, 1448, 54);
    let (out, back) = (large(ip(10, 0, 2, 2), ip(10, 0, 3, 9)), large(ip(10, 0, 3, 9), ip(192, 168, 1, 1)));
    slow_ones();
    for round in 0..2 {
        lab.world.order = order;
        lab.push(2, ipv4_frame(2, out.0, &out.1));
        assert_eq!(lab.world.left, [order.moved(4).unwrap()]);
        let sent = lab.one_sent(0);
        assert_eq!((tags_of(&sent), read_ipv4(&bare(&sent)).1.payload()), (ONE.to_vec(), &out.1[..]));

        lab.world.order = order.moved(4).unwrap();
        lab.push(0, tagged(&ipv4_frame(0, back.0, &back.1), &ONE));
        assert_eq!(lab.world.left, [order]);
        let sent = lab.one_sent(1);
        assert_eq!((tags_of(&sent), read_ipv4(&sent).1.payload()), (vec![], &back.1[..]));
        assert_eq!(slow_ones() == 0, round > 0);
    }
    assert_eq!(lab.counters.forwarded.get(), 4);
    lab.only_drop("", 0);
}

#[test]
fn a_tag_that_has_no_room_is_a_loss_with_a_name() {
    let mut lab = lab();
    greet(&mut lab);
    lab.push(2, udp_frame(2, ip(10, 0, 3, 9), 18));
    lab.one_sent(0);
    lab.world.cramped = true;
    lab.push(2, udp_frame(2, ip(10, 0, 3, 9), 18));
    lab.none_sent();
    lab.only_drop("drop_tag", 1);
}

#[test]
fn bursts_with_and_without_tags_leave_in_order() {
    let mut lab = lab();
    greet(&mut lab);
    lab.warm_up();
    // The first burst leads the NIC to the path of mixed bursts, which the second one takes.
    for _ in 0..2 {
        for n in 0..64_u8 {
            let header = udp_header(ip(10, 0, 0, 2), ip(192, 168, 1, n), 18);
            let frame = ipv4_frame(0, header, &datagram(18));
            // Without tags, with a priority only, and with those of a VLAN; some with options, which take the slow path.
            lab.world.rx[0].push_back(match n % 4 {
                0 => frame,
                1 => tagged(&frame, &[Tag { tpid: vlan::CUSTOMER, tci: 5 << 13 }]),
                2 => tagged(&frame, &ONE),
                _ => {
                    let header = ipv4::Header { header_len: 24, total_len: header.total_len + 4, ..header };
                    tagged(&ipv4_frame(0, header, &datagram(18)), &ONE)
                }
            });
        }
        assert_eq!(lab.router.poll(&mut lab.world), 64);
        lab.balance();
        let last: Vec<u8> = lab.world.sent(1).iter().map(|frame| frame[33]).collect();
        assert_eq!(last, (0..64).collect::<Vec<_>>());
    }
    lab.only_drop("", 0);
}

#[test]
fn neighbours_of_a_vlan_are_doubted_with_the_cable_of_its_nic() {
    let mut lab = lab();
    greet(&mut lab);
    lab.wait(0);
    lab.world.plugged[1] = 1;
    lab.wait(0);
    let sent = lab.one_sent(1);
    assert_eq!((tags_of(&sent), read_arp(&bare(&sent)).1.target_ip), (TWO.to_vec(), ip(10, 0, 4, 9)));
}
