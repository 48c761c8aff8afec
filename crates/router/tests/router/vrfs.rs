//! Routers of several VRFs on one platform: each serves its own NICs only.

use frame::offload::Offload;
use frame::vlan::{self, Tag};
use frame::{Mac, arp};
use router::{Burst, Platform, Trunks, Vlan};

use crate::vlans::{ONE, TWO, tagged, tags_of};
use crate::world::*;

#[test]
fn a_router_takes_frames_from_its_own_nics_only() {
    let mut lab = Lab::default();
    for nic in [0, 1] {
        lab.world.rx[usize::from(nic)].push_back(udp_frame(nic, ip(10, 0, 2, 2), 100));
    }
    assert_eq!(lab.router.poll_some(&mut lab.world, 0b101), 1);
    assert_eq!(lab.world.sent(2).len(), 1);
    assert_eq!(lab.router.poll_some(&mut lab.world, 0b101), 0, "the other frame is not for it");
    assert_eq!(lab.router.poll_some(&mut lab.world, 0), 0);
    assert_eq!(lab.router.poll_some(&mut lab.world, 0b010), 1);
    assert_eq!(lab.world.sent(2).len(), 1);
    lab.only_drop("", 0);
}

#[test]
fn a_pass_over_some_nics_keeps_the_time() {
    let mut lab = Lab::default();
    lab.world.rx[0].push_back(udp_frame(0, ip(10, 0, 1, 77), 100));
    lab.router.poll_some(&mut lab.world, 1);
    assert_eq!(lab.world.sent(1).len(), 1, "a request for the neighbour");
    assert!(lab.router.next_deadline().is_some() && lab.router.held() == 1);
}

#[test]
fn frames_of_a_trunk_are_for_the_router_of_their_tags() {
    let mut trunks = Trunks::new();
    trunks.add(Vlan { nic: 0, outer: None, id: 100 }, 1, 0);
    trunks.add(Vlan { nic: 0, outer: Some(200), id: 100 }, 2, 0);
    trunks.add(Vlan { nic: 1, outer: None, id: 100 }, 0, 0);
    assert_eq!(trunks.nics(), 1, "all VLANs of the other NIC are with it");
    let of = |nic: u8, tags: &[Tag]| {
        let frame = tagged(&udp_frame(nic, ip(10, 0, 2, 2), 18), tags);
        trunks.router_of(&mut Octets::new(&frame, Offload::NONE), nic)
    };
    assert_eq!([of(0, &ONE), of(0, &TWO), of(1, &ONE)], [Some(1), Some(2), Some(0)]);
    // Without tags, of no VLAN, with a priority only, of a VLAN of the other NIC, with one tag too many.
    assert_eq!([of(0, &[]), of(0, &TWO[..1]), of(1, &TWO)], [None; 3]);
    let priority = Tag { tpid: vlan::CUSTOMER, tci: 5 << 13 };
    assert_eq!([of(0, &[priority]), of(0, &[priority, ONE[0]])], [None, Some(1)]);
    assert_eq!(of(0, &[TWO[0], TWO[1], ONE[0]]), None);
}

#[test]
fn a_router_takes_the_frames_that_were_sorted_out_for_it() {
    let mut lab = Lab::wanted(table(), &Wanted { vlans: true, ..USUAL });
    (0..3).for_each(|nic| drop(lab.world.sent(nic)));
    let host = Mac([2, 0, 0, 0, 0x70, 1]);
    let request = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: host,
        sender_ip: ip(10, 0, 3, 9),
        target_mac: Mac::default(),
        target_ip: ip(10, 0, 3, 1),
    };
    lab.world.rx[0].push_back(tagged(&arp_frame(Mac::BROADCAST, &request), &ONE));
    lab.world.rx[0].push_back(udp_frame(0, ip(10, 0, 2, 2), 18));
    let mut burst = Burst::new();
    lab.world.receive(0, &mut burst);
    lab.router.take(&mut lab.world, 0, &mut burst);
    assert!(burst.is_empty());
    lab.balance();
    assert_eq!(lab.world.sent(0).iter().map(|frame| tags_of(frame)).collect::<Vec<_>>(), [ONE.to_vec()]);
    assert_eq!(lab.world.sent(2).len(), 1);
}
