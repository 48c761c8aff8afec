//! ARP: replies, learning, requests, holding packets, giving up.

mod ageing;

use frame::{Mac, arp, icmp};

use crate::world::*;

const HOST: Mac = Mac([2, 0, 0, 0, 0x40, 1]);

fn request(nic: u8, from: u32, target: u32) -> Vec<u8> {
    let packet = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: HOST,
        sender_ip: from,
        target_mac: Mac::default(),
        target_ip: target,
    };
    assert!(nic < 3);
    arp_frame(Mac::BROADCAST, &packet)
}

/// ARP that each NIC has sent since the last call.
fn announced(lab: &mut Lab) -> [Vec<arp::Packet>; 3] {
    [0, 1, 2].map(|nic| {
        let frames = lab.world.sent(nic).into_iter().filter(|frame| frame[12..14] == [8, 6]);
        frames.map(|frame| read_arp(&frame).1).collect()
    })
}

#[test]
fn own_addresses_are_announced_twice() {
    let neighbours = table();
    let mut lab = Lab::wanted(neighbours, &Wanted { six: true, ..USUAL });
    let expected = [0, 1, 2].map(|nic| {
        let own = ip(10, 0, nic, 1);
        let (operation, target_mac) = (arp::Operation::Request, Mac::default());
        vec![arp::Packet { operation, sender_mac: own_mac(nic), sender_ip: own, target_mac, target_ip: own }]
    });
    assert_eq!(announced(&mut lab), expected);
    lab.wait(1999);
    assert!(announced(&mut lab).iter().all(Vec::is_empty));
    lab.wait(1);
    assert_eq!(announced(&mut lab), expected);
    lab.wait(60_000);
    assert!(announced(&mut lab).iter().all(Vec::is_empty));
    // The router of another vCPU is silent.
    Lab::new(neighbours, false).none_sent();
}

#[test]
fn a_request_for_an_own_address_is_answered_and_its_sender_learned() {
    let mut lab = Lab::default();
    lab.push(1, request(1, ip(10, 0, 1, 50), ip(10, 0, 1, 1)));
    let (ethernet, reply) = read_arp(&lab.one_sent(1));
    assert_eq!((ethernet.destination, ethernet.source), (HOST, own_mac(1)));
    let expected = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: own_mac(1),
        sender_ip: ip(10, 0, 1, 1),
        target_mac: HOST,
        target_ip: ip(10, 0, 1, 50),
    };
    assert_eq!(reply, expected);
    assert_eq!((lab.counters.consumed.get(), lab.counters.originated.get()), (1, 7));
    assert_eq!(lab.neighbours.find(1, ip(10, 0, 1, 50)), Some(HOST));
}

#[test]
fn probes_are_answered_but_teach_nothing() {
    let mut lab = Lab::default();
    lab.push(1, request(1, 0, ip(10, 0, 1, 1)));
    assert_eq!(read_arp(&lab.one_sent(1)).1.target_ip, 0);
    assert_eq!(lab.neighbours.find(1, ip(0, 0, 0, 0)), None);
}

#[test]
fn only_one_of_several_routers_answers() {
    let neighbours = table();
    let mut second = Lab::new(neighbours, false);
    second.push(1, request(1, ip(10, 0, 1, 50), ip(10, 0, 1, 1)));
    second.none_sent();
    assert_eq!(neighbours.find(1, ip(10, 0, 1, 50)), Some(HOST));
}

#[test]
fn addresses_of_other_nics_and_hosts_are_not_answered() {
    let mut lab = Lab::default();
    for target in [ip(10, 0, 0, 1), ip(10, 0, 1, 60), ip(10, 0, 1, 2)] {
        lab.push(1, request(1, ip(10, 0, 1, 50), target));
    }
    lab.none_sent();
    assert_eq!(lab.counters.consumed.get(), 3);
    assert_eq!(lab.neighbours.find(1, ip(10, 0, 1, 50)), None, "overheard, and so not learned");
}

#[test]
fn what_is_overheard_updates_what_is_known() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    lab.push(1, arp_reply(1, Mac([2, 0, 0, 0, 0x40, 7]), host));
    lab.push(1, request(1, host, ip(10, 0, 1, 60)));
    assert_eq!(lab.neighbours.find(1, host), Some(HOST));
}

#[test]
fn another_station_that_claims_an_own_address_is_noticed() {
    let mut lab = Lab::default();
    let announced = |nic: u8, mac: Mac, from: u32| {
        let packet = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: mac,
            sender_ip: from,
            target_mac: Mac::default(),
            target_ip: from,
        };
        (nic, arp_frame(Mac::BROADCAST, &packet))
    };
    let own = ip(10, 0, 1, 1);
    // Our own announcement, received by another NIC in the same network; a probe; another station's own
    // address.
    for (nic, frame) in [announced(2, own_mac(1), own), announced(1, HOST, 0), announced(1, HOST, own + 49)] {
        lab.push(nic.into(), frame);
    }
    assert_eq!((lab.counters.arp_conflicts.get(), lab.world.claims.len()), (0, 0));
    let (nic, frame) = announced(1, HOST, own);
    lab.push(nic.into(), frame);
    assert_eq!(lab.counters.arp_conflicts.get(), 1);
    assert_eq!(lab.world.claims, [(1, own, HOST)]);
    assert_eq!(lab.neighbours.find(1, own), None);
}

#[test]
fn nobody_takes_over_what_is_not_theirs() {
    let mut lab = Lab::default();
    // A static neighbour, our own address, a group address, an address outside the network.
    lab.push(1, arp_reply(1, HOST, ip(10, 0, 1, 2)));
    lab.push(1, arp_reply(1, HOST, ip(10, 0, 1, 1)));
    lab.push(1, arp_reply(1, HOST, ip(10, 0, 0, 1)));
    lab.push(1, arp_reply(1, HOST, ip(10, 0, 1, 255)));
    lab.push(1, arp_reply(1, HOST, ip(10, 9, 9, 9)));
    assert_eq!(lab.neighbours.find(1, ip(10, 0, 1, 2)), Some(peer_mac(1)));
    for other in [ip(10, 0, 1, 1), ip(10, 0, 0, 1), ip(10, 0, 1, 255), ip(10, 9, 9, 9)] {
        assert_eq!(lab.neighbours.find(1, other), None);
    }
    let mut group = arp_reply(1, HOST, ip(10, 0, 1, 70));
    group[22] |= 1;
    lab.push(1, group);
    assert_eq!(lab.neighbours.find(1, ip(10, 0, 1, 70)), None);
}

#[test]
fn broken_arp_is_dropped() {
    let mut lab = Lab::default();
    let good = arp_reply(1, HOST, ip(10, 0, 1, 50));
    for (at, octet) in [(15, 6), (16, 0x86), (18, 8), (19, 16), (21, 3)] {
        let mut frame = good.clone();
        frame[at] = octet;
        lab.push(1, frame);
    }
    lab.push(1, good[..41].to_vec());
    lab.only_drop("drop_protocol", 6);
    lab.none_sent();
}

#[test]
fn packets_wait_for_their_neighbour_and_leave_in_order() {
    let mut lab = Lab::default();
    for n in 0..3 {
        lab.push(0, udp_frame(0, ip(198, 51, 100, n), 18));
    }
    assert_eq!(lab.router.held(), 3);
    let (ethernet, question) = read_arp(&lab.one_sent(1));
    assert_eq!(ethernet.destination, Mac::BROADCAST);
    assert_eq!((question.sender_ip, question.target_ip), (ip(10, 0, 1, 1), SILENT));
    lab.push(1, arp_reply(1, HOST, SILENT));
    let sent = lab.world.sent(1);
    let seen: Vec<_> = sent.iter().map(|frame| read_ipv4(frame).1.header().destination & 0xff).collect();
    assert_eq!(seen, [0, 1, 2]);
    assert!(sent.iter().all(|frame| read_ipv4(frame).0.destination == HOST));
    assert_eq!((lab.counters.forwarded.get(), lab.router.held()), (3, 0));
}

#[test]
fn a_gateway_outside_our_networks_is_learned_when_it_was_asked_for() {
    let mut lab = Lab::default();
    lab.push(1, arp_reply(1, HOST, OFF_LINK));
    assert_eq!(lab.neighbours.find(1, OFF_LINK), None);
    lab.push(0, udp_frame(0, ip(198, 18, 0, 1), 18));
    assert_eq!(read_arp(&lab.one_sent(1)).1.target_ip, OFF_LINK);
    lab.push(1, arp_reply(1, HOST, OFF_LINK));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, HOST);
}

#[test]
fn the_oldest_packet_gives_way() {
    let mut lab = Lab::default();
    for n in 0..6 {
        lab.push(0, udp_frame(0, ip(198, 51, 100, n), 18));
    }
    lab.only_drop("drop_no_neighbour", 2);
    assert_eq!(lab.router.held(), 4);
    lab.world.sent(1);
    lab.push(1, arp_reply(1, HOST, SILENT));
    let sent = lab.world.sent(1);
    let seen: Vec<_> = sent.iter().map(|frame| read_ipv4(frame).1.header().destination & 0xff).collect();
    assert_eq!(seen, [2, 3, 4, 5]);
}

#[test]
fn a_neighbour_learned_by_another_router_releases_what_waits() {
    let neighbours = table();
    let (mut first, mut second) = (Lab::new(neighbours, true), Lab::new(neighbours, false));
    second.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
    assert_eq!(read_arp(&second.one_sent(1)).1.target_ip, SILENT);
    // The reply arrives at the other router. It sent no request, but the neighbour is on its link.
    first.push(1, arp_reply(1, HOST, SILENT));
    second.router.poll(&mut second.world);
    second.balance();
    assert_eq!(read_ipv4(&second.one_sent(1)).0.destination, HOST);
}

#[test]
fn a_silent_neighbour_is_asked_three_times_and_then_given_up() {
    let mut lab = Lab::default();
    lab.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
    lab.one_sent(1);
    for _ in 0..2 {
        assert_eq!(lab.router.next_deadline(), Some(1000));
        lab.wait(999);
        lab.none_sent();
        lab.wait(1);
        read_arp(&lab.one_sent(1));
    }
    lab.wait(1000);
    let (header, message, quoted) = owned(&lab.one_sent(0));
    assert_eq!((header.source, header.destination), (ip(10, 0, 0, 1), ip(10, 0, 0, 2)));
    assert_eq!((message.kind, message.code), (icmp::UNREACHABLE, icmp::unreachable::HOST));
    assert_eq!(quoted, udp_frame(0, ip(198, 51, 100, 1), 18)[14..]);
    lab.only_drop("drop_no_neighbour", 1);
    // For some time no request is sent for it.
    lab.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
    let (_, message, _) = owned(&lab.one_sent(0));
    assert_eq!(message.code, icmp::unreachable::HOST);
    lab.only_drop("drop_no_neighbour", 2);
    lab.wait(3000);
    assert_eq!(lab.router.next_deadline(), None);
    lab.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
    read_arp(&lab.one_sent(1));
    assert_eq!(lab.router.held(), 1);
}

#[test]
fn an_answer_that_waits_is_heard_before_a_late_end_of_the_requests() {
    for answers in [true, false] {
        let mut lab = Lab::default();
        lab.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
        (0..2).for_each(|_| lab.wait(1000));
        assert_eq!(lab.world.sent(1).len(), 3);
        if answers {
            lab.world.rx[1].push_back(arp_reply(1, HOST, SILENT));
        }
        lab.wait(5000);
        lab.none_sent();
        assert_eq!((lab.router.held(), lab.router.next_deadline()), (1, Some(0)), "it looks at once");
        lab.router.poll(&mut lab.world);
        lab.wait(0);
        if answers {
            assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, HOST);
        } else {
            assert_eq!(owned(&lab.one_sent(0)).1.code, icmp::unreachable::HOST);
        }
        lab.only_drop("drop_no_neighbour", u64::from(!answers));
    }
}

#[test]
fn what_changed_during_a_sleep_is_seen_before_what_is_due_then() {
    let neighbours = table();
    let (mut other, mut lab) = (Lab::new(neighbours, true), Lab::new(neighbours, false));
    let (host, old, new) = (ip(10, 0, 0, 50), Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    lab.push(0, arp_reply(0, old, host));
    // The header for that host is prepared, and a packet from it waits for a neighbour that will not answer.
    lab.push(1, udp_frame(1, host, 18));
    assert_eq!(read_ipv4(&lab.one_sent(0)).0.destination, old);
    lab.push(0, ipv4_frame(0, udp_header(host, ip(198, 51, 100, 1), 18), &datagram(18)));
    for _ in 0..3 {
        read_arp(&lab.one_sent(1));
        // The router sleeps; meanwhile another vCPU learns the host's new address.
        other.push(0, arp_reply(0, new, host));
        lab.wait(1000);
    }
    assert_eq!(read_ipv4(&lab.one_sent(0)).0.destination, new, "the error that the tick sends");
}

/// Parses an ICMP message into owned parts.
fn owned(frame: &[u8]) -> (frame::ipv4::Header, icmp::Header, Vec<u8>) {
    let (header, message, quoted) = read_icmp(frame);
    (header, message, quoted.to_vec())
}

/// Returns a packet from `source` to host `n` of a network whose hosts are all unknown.
fn scan(source: u32, n: u16) -> Vec<u8> {
    let [c, d] = n.to_be_bytes();
    ipv4_frame(0, udp_header(source, ip(20, 1, c, d), 18), &datagram(18))
}

#[test]
fn a_scan_is_paced_and_its_packets_are_all_that_is_lost() {
    let mut lab = Lab::default();
    for n in 0..1000 {
        lab.push(0, scan(ip(10, 0, 0, 66), n));
    }
    let asked = lab.world.sent(1).len();
    assert!((250..=300).contains(&asked), "{asked} requests at once");
    assert_eq!(lab.counter("drop_neighbour_paced"), 1000 - asked as u64);
    assert_eq!(lab.router.held(), 128);
    // Another source has its own share, and its packets displace those of the scan.
    let host = ip(10, 0, 1, 50);
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_arp(&lab.one_sent(1)).1.target_ip, host);
    lab.push(1, arp_reply(1, HOST, host));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, HOST);
    assert_eq!(lab.neighbours.find(1, ip(10, 0, 1, 2)), Some(peer_mac(1)));
}

#[test]
fn a_host_that_is_scanned_for_all_the_time_is_found_by_others() {
    let mut lab = Lab::default();
    let (mut found, mut n) = (0, 0);
    for round in 0..50_u8 {
        for _ in 0..80 {
            n += 1;
            lab.push(0, scan(ip(10, 0, 0, 66), n));
        }
        lab.world.sent(1);
        let host = ip(10, 0, 1, 100 + round);
        lab.push(0, udp_frame(0, host, 18));
        let asked = lab.world.sent(1).iter().any(|frame| read_arp(frame).1.target_ip == host);
        lab.push(1, arp_reply(1, HOST, host));
        let answered = lab.world.sent(1).iter().any(|frame| frame[12..14] == [8, 0]);
        found += u32::from(asked && answered);
        lab.wait(10);
        lab.world.sent(0);
        lab.world.sent(1);
    }
    assert_eq!(found, 50);
    // 2000 requests a second for those that exceed their share, and their repetitions.
    assert!(lab.counter("neighbour_requests") < 2500, "{}", lab.counter("neighbour_requests"));
}

#[test]
fn without_a_buffer_nothing_is_asked_and_the_loss_is_counted() {
    let mut lab = Lab::default();
    lab.world.free = 0;
    lab.push(0, udp_frame(0, ip(198, 51, 100, 1), 18));
    lab.none_sent();
    assert_eq!(lab.counters.originated_lost.get(), 1);
    lab.world.free = 1;
    lab.wait(1000);
    read_arp(&lab.one_sent(1));
}
