use control::Port;

use super::*;

fn key(net: u8) -> Key {
    Key { table: MAIN, to: Prefix::new([10, net, 0, 0], 16).expect("a prefix") }
}

fn hop(nic: u8, weight: u16) -> Hop {
    Hop { port: Port { nic, vlan: 0 }, gateway: Some([192, 0, 2, nic].into()), weight }
}

fn learned(nic: u8, weight: u8) -> LearnedHop {
    LearnedHop { link: nic, via: Some([192, 0, 2, nic].into()), weight }
}

const GROUP: GroupId = GroupId(7);

#[test]
fn routes_share_a_group_and_its_change_is_told_once() {
    let mut taught = Taught::default();
    taught.set_group(GROUP, Way::Hops(&[hop(1, 3), hop(2, 256)])).expect("room");
    (0..9).for_each(|net| taught.set_route(key(net), Fate::Group(GROUP)).expect("room"));
    let (groups, routes) = taught.take();
    let way = Some(LearnedWay::Hops(vec![learned(1, 3), learned(2, 255)]));
    assert_eq!(groups, [LearnedGroup { number: 1, way }]);
    assert_eq!(routes.len(), 9);
    assert!(routes.iter().all(|route| route.fate == Some(LearnedFate::Group(1))));
    taught.set_group(GROUP, Way::Hops(&[hop(2, 1)])).expect("room");
    let way = Some(LearnedWay::Hops(vec![learned(2, 1)]));
    assert_eq!(taught.take(), (vec![LearnedGroup { number: 1, way }], Vec::new()));
    taught.set_group(GROUP, Way::Hops(&[hop(2, 1)])).expect("room");
    assert!(taught.is_told(), "it is the same");
}

#[test]
fn a_number_of_zebra_that_comes_back_is_another_group_for_routes_that_still_follow_the_former_one() {
    let mut taught = Taught::default();
    taught.set_group(GROUP, Way::Blackhole).expect("room");
    taught.set_route(key(1), Fate::Group(GROUP)).expect("room");
    taught.take();
    taught.set_route(key(1), Fate::Local).expect("room");
    taught.remove_group(GROUP);
    taught.set_group(GROUP, Way::Hops(&[])).expect("room");
    taught.set_route(key(2), Fate::Group(GROUP)).expect("room");
    let (groups, routes) = taught.take();
    let new = LearnedGroup { number: 2, way: Some(LearnedWay::Hops(Vec::new())) };
    assert_eq!(groups, [new, LearnedGroup { number: 1, way: None }]);
    let fates: Vec<_> = routes.iter().map(|route| route.fate).collect();
    assert_eq!(fates, [Some(LearnedFate::Local), Some(LearnedFate::Group(2))]);
    assert!(taught.is_told());
}

#[test]
fn many_groups_are_told_before_the_first_route() {
    let mut taught = Taught::default();
    for number in 0..1001 {
        taught.set_group(GroupId(number), Way::Hops(&[hop(1, 1)])).expect("room");
    }
    taught.set_route(key(1), Fate::Group(GroupId(1000))).expect("room");
    let (groups, routes) = taught.take();
    assert_eq!((groups.len(), routes.len()), (1000, 0));
    let (groups, routes) = taught.take();
    assert_eq!((groups.len(), routes.len()), (1, 1));
    taught.tell_anew();
    assert_eq!(taught.take().0.len(), 1000);
}

#[test]
fn a_route_that_is_gone_is_told_and_other_tables_are_not() {
    let mut taught = Taught::default();
    taught.set_route(key(1), Fate::Prohibit).expect("room");
    let other = Key { table: 10, ..key(2) };
    taught.set_route(other, Fate::Local).expect("room");
    taught.remove_route(other);
    assert_eq!(taught.take().1.len(), 1);
    taught.remove_route(key(1));
    taught.remove_route(key(3));
    let (_, routes) = taught.take();
    assert_eq!((routes.len(), routes[0].fate), (1, None));
}
