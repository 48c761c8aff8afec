//! Routers of several VRFs on one platform: each serves its own NICs only.

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
