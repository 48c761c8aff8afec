//! Static neighbours that a router is given while it runs.

use frame::Mac;
use router::neighbours::State;
use router::{Ip, Neighbour};

use crate::world::*;

const GIVEN: Mac = Mac([2, 0, 0, 0, 9, 9]);

/// Gives the router these addresses behind NIC 1 with this Ethernet address.
fn give(lab: &mut Lab, hosts: &[u32], mac: Mac) {
    let given = hosts.iter().map(|host| Neighbour { nic: 1, ip: Ip::v4(*host), mac });
    lab.world.given = Some(given.collect());
    lab.world.given_version += 2;
    lab.wait(0);
}

#[test]
fn packets_go_to_a_neighbour_that_is_given_without_a_question() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    give(&mut lab, &[host], GIVEN);
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, GIVEN);
    let other = Mac([2, 0, 0, 0, 9, 8]);
    give(&mut lab, &[host], other);
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, other);
    give(&mut lab, &[], GIVEN);
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_arp(&lab.one_sent(1)).0.destination, Mac::BROADCAST, "it is asked for again");
}

#[test]
fn a_packet_that_waits_leaves_when_its_neighbour_is_given() {
    let mut lab = Lab::default();
    let host = ip(10, 0, 1, 50);
    lab.push(0, udp_frame(0, host, 18));
    assert_eq!(read_arp(&lab.one_sent(1)).0.destination, Mac::BROADCAST);
    give(&mut lab, &[host], GIVEN);
    lab.router.poll(&mut lab.world);
    assert_eq!(read_ipv4(&lab.one_sent(1)).0.destination, GIVEN);
}

#[test]
fn others_stay_when_one_goes_and_a_list_that_is_being_changed_is_read_later() {
    let mut lab = Lab::default();
    let hosts = [50, 51].map(|host| ip(10, 0, 1, host));
    give(&mut lab, &hosts, GIVEN);
    lab.world.given = None;
    lab.world.given_version += 1;
    lab.wait(0);
    let states = |lab: &Lab| hosts.map(|host| lab.neighbours.state(1, host));
    assert_eq!(states(&lab), [State::Static; 2]);
    lab.world.given_version += 1;
    give(&mut lab, &hosts[1..], GIVEN);
    assert_eq!(states(&lab), [State::Empty, State::Static]);
    assert_eq!(lab.neighbours.find(1, ip(10, 0, 1, 2)), Some(peer_mac(1)), "one of the file");
}
