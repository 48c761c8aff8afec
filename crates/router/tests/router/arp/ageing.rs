//! Neighbours that are not heard any more, moved, or went with their cable.

use frame::{Mac, arp};
use router::neighbours::{PROBES, REACHABLE};

use super::HOST;
use crate::world::*;

#[test]
fn a_neighbour_that_is_not_heard_is_probed_used_meanwhile_and_forgotten() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    lab.push(1, arp_reply(1, HOST, host));
    lab.wait(0);
    assert_eq!(lab.router.next_deadline(), Some(REACHABLE));
    lab.wait(REACHABLE - 1);
    lab.none_sent();
    for probe in 0..PROBES {
        lab.wait(if probe == 0 { 1 } else { 1000 });
        let (ethernet, question) = read_arp(&lab.one_sent(1));
        assert_eq!((ethernet.destination, question.target_ip), (HOST, host));
        lab.push(0, udp_frame(0, host, 18));
        assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, HOST);
    }
    lab.wait(1000);
    lab.none_sent();
    assert_eq!(lab.neighbours.find(1, host), None);
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_arp(&lab.one_sent(1)).0.destination, Mac::BROADCAST);
}

#[test]
fn a_neighbour_that_answers_a_probe_stays() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    lab.push(1, arp_reply(1, HOST, host));
    for _ in 0..3 {
        lab.wait(0);
        lab.wait(REACHABLE);
        read_arp(&lab.one_sent(1));
        lab.push(1, arp_reply(1, HOST, host));
    }
    lab.wait(2000);
    lab.none_sent();
    assert_eq!(lab.neighbours.find(1, host), Some(HOST));
}

/// Checks that a packet to a learned host causes a new ARP request.
fn asked_anew(lab: &mut Lab, nic: u8, host: u32) {
    lab.push(0, udp_frame(0, host, 18));
    let (ethernet, question) = read_arp(&lab.one_sent(usize::from(nic)));
    assert_eq!((ethernet.destination, question.target_ip), (Mac::BROADCAST, host));
}

/// Returns the address in the request sent because of a cable, which must be a broadcast.
fn doubted(lab: &mut Lab, nic: usize) -> u32 {
    let (ethernet, question) = read_arp(&lab.one_sent(nic));
    assert_eq!(ethernet.destination, Mac::BROADCAST);
    question.target_ip
}

#[test]
fn a_neighbour_behind_a_cable_that_is_plugged_anew_is_asked_for_at_once_and_used_meanwhile() {
    let mut lab = Lab::default();
    let (host, new) = (ip(10, 0, 1, 50), Mac([2, 0, 0, 0, 0x40, 9]));
    lab.push(1, arp_reply(1, HOST, host));
    lab.push(2, arp_reply(2, HOST, ip(10, 0, 2, 50)));
    lab.wait(10);
    lab.world.plugged[1] += 1;
    lab.wait(0);
    // Neither the static neighbour there nor the one behind another NIC.
    assert_eq!(doubted(&mut lab, 1), host);
    // If it is the same station, no packet is lost.
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, HOST);
    // If it is a different station, its reply is sufficient.
    lab.push(1, arp_reply(1, new, host));
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, new);
    // After its reply it is not probed until REACHABLE has passed.
    lab.wait(5000);
    lab.none_sent();
    lab.wait(REACHABLE - 5000);
    let [one, other] = [1, 2].map(|nic| lab.world.sent(nic).len());
    assert_eq!((one, other), (1, 1));
}

#[test]
fn a_neighbour_that_went_with_its_cable_is_forgotten_after_its_probes() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    lab.push(1, arp_reply(1, HOST, host));
    lab.world.plugged[1] = 7;
    for probe in 0..PROBES {
        lab.wait(if probe == 0 { 0 } else { 1 });
        assert_eq!(doubted(&mut lab, 1), host);
        // Other neighbours that appear do not advance the next probe.
        lab.push(2, arp_reply(2, HOST, ip(10, 0, 2, 60 + probe as u8)));
        lab.router.poll(&mut lab.world);
        lab.wait(0);
        lab.wait(999);
        lab.none_sent();
    }
    lab.wait(1);
    lab.none_sent();
    assert_eq!(lab.neighbours.find(1, host), None);
    asked_anew(&mut lab, 1, host);
}

#[test]
fn a_neighbour_behind_a_lost_carrier_is_probed_at_once_and_anew_when_the_carrier_is_back() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    lab.push(1, arp_reply(1, HOST, host));
    lab.wait(10);
    // The carrier is lost, so that nobody hears this.
    lab.world.plugged[1] += 1;
    lab.wait(0);
    assert_eq!(doubted(&mut lab, 1), host);
    lab.wait(1000);
    assert_eq!(doubted(&mut lab, 1), host);
    // It is back before the last probe: the host has as many as ever.
    lab.world.plugged[1] += 1;
    for probe in 0..PROBES {
        lab.wait(if probe == 0 { 0 } else { 1000 });
        assert_eq!(doubted(&mut lab, 1), host);
        assert_eq!(lab.neighbours.find(1, host), Some(HOST), "it is used meanwhile");
    }
    lab.wait(1000);
    lab.none_sent();
    assert_eq!(lab.neighbours.find(1, host), None);
    // With the carrier lost for good it is forgotten too, and asked for by the next packet.
    asked_anew(&mut lab, 1, host);
}

#[test]
fn the_keeper_asks_for_the_neighbours_of_all_and_nobody_else() {
    let neighbours = table();
    let (mut keeper, mut second) = (Lab::new(neighbours, true), Lab::new(neighbours, false));
    second.push(1, arp_reply(1, HOST, ip(10, 0, 1, 50)));
    for lab in [&mut second, &mut keeper] {
        lab.world.plugged[1] = 1;
        lab.wait(0);
    }
    second.none_sent();
    assert_eq!(doubted(&mut keeper, 1), ip(10, 0, 1, 50));
}

#[test]
fn a_neighbour_with_another_mac_is_followed_as_soon_as_it_says_anything() {
    let mut lab = Lab::default();
    let (host, new) = (ip(10, 0, 1, 50), Mac([2, 0, 0, 0, 0x40, 9]));
    let gratuitous = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: new,
        sender_ip: host,
        target_mac: Mac::default(),
        target_ip: host,
    };
    let announced = arp_frame(Mac::BROADCAST, &gratuitous);
    let answered = arp_frame(Mac::BROADCAST, &arp::Packet { operation: arp::Operation::Reply, ..gratuitous });
    for said in [announced, answered, arp_reply(1, new, host)] {
        lab.push(1, arp_reply(1, HOST, host));
        lab.push(0, udp_frame(0, host, 18));
        assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, HOST);
        lab.push(1, said);
        lab.push(0, udp_frame(0, host, 18));
        assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, new);
    }
}

#[test]
fn a_neighbour_that_went_silently_is_asked_for_within_half_a_minute_and_its_probes() {
    let mut lab = Lab::default();
    let (host, new) = (ip(10, 0, 1, 50), Mac([2, 0, 0, 0, 0x40, 9]));
    lab.push(1, arp_reply(1, HOST, host));
    lab.wait(0);
    let start = lab.world.now;
    while lab.neighbours.find(1, host).is_some() {
        let wait = lab.router.next_deadline().expect("it ages");
        lab.wait(wait);
        lab.world.sent(1);
    }
    assert_eq!(lab.world.now - start, 30_000 + u64::from(PROBES) * 1000);
    asked_anew(&mut lab, 1, host);
    lab.push(1, arp_reply(1, new, host));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, new);
}

#[test]
fn the_keeper_keeps_what_another_router_learned() {
    let neighbours = table();
    let (mut keeper, mut second) = (Lab::new(neighbours, true), Lab::new(neighbours, false));
    second.push(1, arp_reply(1, HOST, ip(10, 0, 1, 50)));
    assert_eq!((keeper.router.next_deadline(), second.router.next_deadline()), (None, None));
    keeper.router.poll(&mut keeper.world);
    keeper.wait(0);
    assert_eq!(keeper.router.next_deadline(), Some(REACHABLE));
    second.wait(2 * REACHABLE);
    second.none_sent();
    keeper.wait(REACHABLE);
    read_arp(&keeper.one_sent(1));
}
