//! Members of a group: their neighbour table is written by another party, which they ask for what is not there.

use frame::{Mac, ethernet, icmp};
use router::neighbours::{Header, REACHABLE, shared_buckets, shared_len};
use router::{Bucket, Ip, Neighbour, Neighbours};

use crate::world::*;

const HOST: Mac = Mac([2, 0, 0, 0, 0x40, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0x40, 2]);
const WANTED: u32 = ip(10, 0, 1, 50);

/// Two members that read one table, and its writer.
fn members() -> ([Lab; 2], &'static Neighbours<'static>) {
    let header: &Header = Box::leak(Box::default());
    let count = shared_buckets(shared_len(NEIGHBOURS));
    let buckets: &[Bucket] = Vec::leak((0..count).map(|_| Bucket::new()).collect());
    let member = || {
        let table = Box::leak(Box::new(Neighbours::read_only(header, buckets)));
        let mut lab = Lab::wanted(table, &USUAL);
        (0..3).for_each(|nic| drop(lab.world.sent(nic)));
        lab
    };
    let members = [member(), member()];
    (members, Box::leak(Box::new(Neighbours::for_others(header, buckets))))
}

fn neighbour(mac: Mac) -> Neighbour {
    Neighbour { nic: 1, ip: Ip::v4(WANTED), mac }
}

fn packet() -> Vec<u8> {
    udp_frame(0, WANTED, 18)
}

/// Where the only frame that has left by NIC 1 goes.
fn sent_to(lab: &mut Lab) -> Mac {
    ethernet::Header::parse(&lab.one_sent(1)).expect("a frame").0.destination
}

#[test]
fn what_is_not_in_the_table_is_asked_of_its_writer_and_never_of_the_network() {
    let ([mut one, mut other], writer) = members();
    one.push(0, packet());
    one.push(0, packet());
    one.none_sent();
    assert_eq!(one.world.asked, [(1, WANTED)]);
    one.wait(1000);
    one.none_sent();
    assert_eq!(one.world.asked, [(1, WANTED); 2], "no answer has come");
    writer.learn(neighbour(HOST), true, 0);
    one.router.poll(&mut one.world);
    let sent = one.world.sent(1);
    assert_eq!(sent.len(), 2, "both packets have waited");
    one.balance();
    other.push(0, packet());
    assert_eq!((sent_to(&mut other), other.world.asked.len()), (HOST, 0), "it need not ask");
}

#[test]
fn an_address_that_changes_changes_for_all_members() {
    let (members, writer) = members();
    writer.learn(neighbour(HOST), true, 0);
    for mut lab in members {
        lab.push(0, packet());
        assert_eq!(sent_to(&mut lab), HOST);
        writer.learn(neighbour(OTHER), false, 0);
        lab.push(0, packet());
        assert_eq!(sent_to(&mut lab), OTHER);
        writer.learn(neighbour(HOST), false, 0);
    }
}

#[test]
fn what_a_member_hears_changes_nothing() {
    let ([mut one, _], writer) = members();
    writer.learn(neighbour(HOST), true, 0);
    one.push(1, arp_reply(1, OTHER, WANTED));
    one.push(1, arp_reply(1, OTHER, ip(10, 0, 1, 51)));
    assert_eq!((writer.find(1, Ip::v4(WANTED)), writer.count()), (Some(HOST), 1));
    // It keeps nothing fresh, and does not ask by itself when a cable is plugged in again.
    one.world.plugged[1] += 1;
    one.wait(REACHABLE + 10_000);
    one.wait(10_000);
    one.none_sent();
    assert!(one.world.asked.is_empty());
    one.push(0, packet());
    assert_eq!(sent_to(&mut one), HOST);
}

#[test]
fn who_gets_no_answer_gives_up_and_says_so() {
    let ([mut one, _], writer) = members();
    writer.learn(Neighbour { nic: 0, ip: Ip::v4(ip(10, 0, 0, 2)), mac: peer_mac(0) }, true, 0);
    one.push(0, packet());
    (0..2).for_each(|_| one.wait(1000));
    one.none_sent();
    one.wait(1000);
    assert_eq!(read_icmp(&one.one_sent(0)).1.code, icmp::unreachable::HOST);
    assert_eq!((one.world.asked.len(), one.counter("drop_no_neighbour")), (3, 1));
    one.balance();
}
