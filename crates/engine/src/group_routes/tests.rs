use config::learned::{LearnedFate, LearnedGateway, LearnedGroup, LearnedHop, LearnedRoute, LearnedWay};
use proptest::prelude::*;
use router::Routes;

use super::*;

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";

/// A member of a group with these routes by the NIC `w`: networks in 10.0.0.0/8, and last octets of gateways.
fn member(routes: &[(u32, u8, u8)]) -> Router {
    let route = |(network, len, gateway): &(u32, u8, u8)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(*len)).unwrap_or(0);
        let network = Ipv4Addr::from_bits((0x0a00_0000 | network >> 8) & mask);
        format!("[[group.route]]\nto = '{network}/{len}'\nvia = '192.0.2.{gateway}'\n")
    };
    let mut unique: Vec<(u32, u8, u8)> = Vec::new();
    for (network, len, gateway) in routes {
        let place = |(network, len): (u32, u8)| ((0x0a00_0000 | network >> 8) >> (32 - len), len);
        if unique.iter().all(|other| place((other.0, other.1)) != place((*network, *len))) {
            unique.push((*network, *len, *gateway));
        }
    }
    let text = FILE.to_owned() + &unique.iter().map(route).collect::<String>();
    let plan = config::parse(&text, "group.toml").expect("a file");
    plan.routers.into_iter().next().expect("a member")
}

fn reader(group: &GroupRoutes) -> RouteTable {
    let file = group.memory().file().expect("a file").try_clone().expect("a descriptor");
    let memory = SharedMemory::adopt(file.into(), false).expect("mapped");
    RouteTable::view(Arc::new(memory)).expect("a table")
}

fn hop(table: &RouteTable, destination: [u8; 4]) -> Vec<NextHop> {
    table.choices(0, Ipv4Addr::from(destination).into(), 0)
}

#[test]
fn members_read_the_one_table_and_can_only_read_it() {
    let group = Arc::new(GroupRoutes::new(&member(&[(0x0001_0000, 24, 7)])).expect("a table"));
    let (one, other) = (reader(&group), reader(&group));
    let by =
        |gateway: u8| vec![NextHop::Gateway { nic: 0, gateway: u32::from_be_bytes([192, 0, 2, gateway]) }];
    for table in [&one, &other] {
        assert_eq!(hop(table, [10, 0, 1, 1]), by(7));
        assert_eq!(hop(table, [198, 51, 100, 9]), vec![NextHop::Connected { nic: 1 }]);
        assert_eq!(table.change(0, |_| ()), None, "it is not theirs");
    }
    let epoch = one.epoch();
    let edit = group.change_to(&member(&[(0x0001_0000, 24, 8)])).expect("room").expect("a change");
    assert_eq!((edit.counts(), one.epoch()), ((1, 0), epoch + 1));
    edit.keep();
    assert_eq!((hop(&one, [10, 0, 1, 1]), hop(&other, [10, 0, 1, 1])), (by(8), by(8)));
    let file = group.memory().file().expect("a file").try_clone().expect("a descriptor");
    assert!(SharedMemory::adopt(file.into(), true).is_err(), "it is sealed");
}

#[test]
fn routes_of_both_families_are_in_the_one_table_and_change_together() {
    let with = |gateways: [u8; 2]| {
        let [four, six] = gateways;
        let text = FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']")
            + &format!("[[group.route]]\nto = '10.0.1.0/24'\nvia = '192.0.2.{four}'\n")
            + &format!("[[group.route]]\nto = '2001:db8:9::/48'\nvia = '2001:db8::{six}'\n")
            + "[[group.route]]\nto = '10.0.2.0/24'\nvia = ['192.0.2.20', '192.0.2.21']\n";
        config::parse(&text, "group.toml").expect("a file").routers.remove(0)
    };
    let group = Arc::new(GroupRoutes::new(&with([7, 7])).expect("a table"));
    let (table, count) = (reader(&group), group.count());
    let hop6 = |ip: &str| table.choices(0, ip.parse().expect("an address"), 0);
    let by = |gateway: u128| vec![NextHop::Gateway6 { nic: 0, gateway: 0x2001_0db8 << 96 | gateway }];
    assert_eq!((hop6("2001:db8:9::1"), hop6("2001:db8::9")), (by(7), vec![NextHop::Connected { nic: 0 }]));
    let edit = group.change_to(&with([8, 9])).expect("room").expect("a change");
    assert_eq!((edit.counts(), hop6("2001:db8:9::1")), ((2, 0), by(9)));
    drop(edit);
    assert_eq!((hop6("2001:db8:9::1"), hop(&table, [10, 0, 1, 1]).len(), group.count()), (by(7), 1, count));
    group.set_down(silent(20));
    let other = NextHop::Gateway { nic: 0, gateway: u32::from_be_bytes([192, 0, 2, 21]) };
    assert_eq!((hop(&table, [10, 0, 2, 1])[0], hop6("2001:db8:9::1")), (other, by(7)));
    // A group that has no IPv6 has no table for it, and nothing of a change is made.
    let plain = Arc::new(GroupRoutes::new(&member(&[])).expect("a table"));
    assert!(plain.change_to(&with([7, 7])).is_err());
    assert_eq!(hop(&reader(&plain), [10, 0, 1, 1]), vec![]);
}

#[test]
fn a_change_that_is_not_kept_is_taken_back() {
    let before = member(&[(0x0001_0000, 24, 7), (0x0002_0000, 24, 7)]);
    let group = Arc::new(GroupRoutes::new(&before).expect("a table"));
    let (table, count) = (reader(&group), group.count());
    let after = member(&[(0x0001_0000, 24, 8), (0x0003_0000, 25, 9)]);
    let edit = group.change_to(&after).expect("room").expect("a change");
    assert_eq!((edit.counts(), hop(&table, [10, 0, 2, 1])), ((2, 1), vec![]));
    drop(edit);
    assert!(group.change_to(&before).expect("room").is_none(), "nothing differs");
    assert_eq!((group.count(), hop(&table, [10, 0, 2, 1]).len()), (count, 1));
}

#[test]
fn a_table_grows_within_its_room_and_refuses_what_is_beyond_it_as_a_whole() {
    let group = Arc::new(GroupRoutes::new(&member(&[])).expect("a table"));
    let (before, table) = (group.count(), reader(&group));
    let fresh = group.memory().resident();
    let mut large = member(&[]);
    let route = |number: u32| config::Route {
        to: config::Prefix::containing(Ipv4Addr::from_bits(0x0b00_0000 | number << 8), 24),
        via: None,
        nic: 0,
    };
    large.routes.extend((0..50_000).map(route));
    group.change_to(&large).expect("room").expect("a change").keep();
    assert_eq!((group.count(), hop(&table, [11, 0, 9, 1]).len()), (before + 50_000, 1));
    assert!(group.memory().resident() > fresh, "pages come with routes");
    let long = |number: u32| config::Route {
        to: config::Prefix::containing(Ipv4Addr::from_bits(number << 8), 25),
        ..route(0)
    };
    let mut excessive = large.clone();
    excessive.routes.extend((0x0030_0000..0x0030_0000 + 2 * excessive.long_routes()).map(long));
    let error = group.change_to(&excessive).expect_err("no room");
    let told = format!("{error:#}");
    let remedy = "write a larger number for long_routes";
    assert!(told.starts_with("route 48.") && told.ends_with(remedy), "{told}");
    assert_eq!(group.count(), before + 50_000);
    assert!(group.change_to(&large).expect("room").is_none(), "all is as it was");
    assert_eq!(hop(&table, [48, 0, 0, 1]), vec![]);
}

#[test]
fn the_file_says_how_much_room_there_is_for_long_prefixes() {
    let with_room = |long_routes: u32, routes: &[(u32, u8, u8)]| {
        let mut member = member(routes);
        member.forwarding.long_routes = Some(long_routes);
        member
    };
    // Each in a /24 of its own; a table that ends with a page of 2 MiB has room for 500 or so in any case.
    let routes: Vec<(u32, u8, u8)> = (0..600).map(|number| (number << 16, 25, 7)).collect();
    let small = Arc::new(GroupRoutes::new(&with_room(0, &[])).expect("a table"));
    let error = small.change_to(&with_room(0, &routes)).expect_err("no room");
    assert!(format!("{error:#}").ends_with("write a larger number for long_routes"), "{error:#}");
    let large = Arc::new(GroupRoutes::new(&with_room(600, &[])).expect("a table"));
    large.change_to(&with_room(600, &routes)).expect("room").expect("a change").keep();
    assert_eq!(hop(&reader(&large), [10, 2, 87, 1]).len(), 1, "the last one");
    assert!(large.memory().len() > small.memory().len());
}

/// A member of a group with these routes, each by two gateways behind the NIC `w`.
fn with_ways(routes: &[(&str, [u8; 2])]) -> Router {
    let route = |(to, [one, other]): &(&str, [u8; 2])| {
        format!("[[group.route]]\nto = '{to}'\nvia = ['192.0.2.{one}', '192.0.2.{other}']\n")
    };
    let text = FILE.to_owned() + &routes.iter().map(route).collect::<String>();
    let plan = config::parse(&text, "group.toml").expect("a file");
    plan.routers.into_iter().next().expect("a member")
}

/// The gateways that some flows take, by their last octets.
fn taken(table: &RouteTable, to: [u8; 4]) -> BTreeSet<u8> {
    let flows = (0..64_u32).map(|number| number.wrapping_mul(0x9e37_79b9));
    let first = flows.map(|flow| table.choices(0, Ipv4Addr::from(to).into(), flow)[0]);
    let octet = |hop: NextHop| match hop {
        NextHop::Gateway { gateway, .. } => gateway as u8,
        other => panic!("{other:?}"),
    };
    first.map(octet).collect()
}

/// A gateway that does not answer, by its last octet.
fn silent(gateway: u8) -> BTreeSet<Gateway> {
    BTreeSet::from([(0, Ipv4Addr::new(192, 0, 2, gateway).into())])
}

#[test]
fn flows_avoid_gateways_that_do_not_answer_also_on_routes_that_come_later() {
    let group = Arc::new(GroupRoutes::new(&with_ways(&[("10.1.0.0/16", [7, 8])])).expect("a table"));
    let table = reader(&group);
    let taken = |to| taken(&table, to);
    assert_eq!(taken([10, 1, 0, 1]), BTreeSet::from([7, 8]));
    assert_eq!(group.set_down(silent(7)), BTreeSet::new());
    assert_eq!(taken([10, 1, 0, 1]), BTreeSet::from([8]));
    assert_eq!(group.set_down(silent(9)), silent(7));
    assert_eq!(taken([10, 1, 0, 1]), BTreeSet::from([7, 8]));
    let more = with_ways(&[("10.1.0.0/16", [7, 8]), ("10.2.0.0/16", [8, 9])]);
    let edit = group.change_to(&more).expect("room").expect("a change");
    assert_eq!((edit.counts(), taken([10, 2, 0, 1])), ((1, 0), BTreeSet::from([8])));
    let octet = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(_) => panic!("{ip}"),
    };
    let last = |ways: BTreeSet<Gateway>| -> Vec<u8> { ways.iter().map(|(_, ip)| octet(ip)).collect() };
    assert_eq!(last(group.ways()), [7, 8, 9]);
    drop(edit);
    assert_eq!(last(group.ways()), [7, 8]);
    assert_eq!(hop(&table, [10, 2, 0, 1]), vec![], "it was taken back");
    // Another gateway in place of one is a change of the route.
    group.change_to(&with_ways(&[("10.1.0.0/16", [8, 9])])).expect("room").expect("a change").keep();
    assert_eq!(taken([10, 1, 0, 1]), BTreeSet::from([8]));
    let other = GroupRoutes::new(&with_ways(&[("10.1.0.0/16", [8, 9])])).expect("a table");
    other.avoid_as(&group);
    assert_eq!(other.set_down(BTreeSet::new()), silent(9));
    group.set_down(BTreeSet::new());
    assert_eq!(taken([10, 1, 0, 1]), BTreeSet::from([8, 9]));
}

#[test]
fn flows_avoid_ipv6_gateways_of_the_plan_that_do_not_answer() {
    let route = "[[group.route]]\nto = '2001:db8:9::/48'\nvia = ['2001:db8::7', '2001:db8::8']\n";
    let text = FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']") + route;
    let plan = config::parse(&text, "group.toml").expect("a file");
    let group = GroupRoutes::new(&plan.routers[0]).expect("a table");
    let table = reader(&group);
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let taken = || -> BTreeSet<u8> {
        let flows = (0..64_u32).map(|number| number.wrapping_mul(0x9e37_79b9));
        let first = flows.map(|flow| table.choices(0, ip("2001:db8:9::1"), flow)[0]);
        let octet = |hop: NextHop| match hop {
            NextHop::Gateway6 { nic: 0, gateway } => gateway as u8,
            other => panic!("{other:?}"),
        };
        first.map(octet).collect()
    };
    assert_eq!(taken(), BTreeSet::from([7, 8]));
    assert_eq!(group.ways(), BTreeSet::from([(0, ip("2001:db8::7")), (0, ip("2001:db8::8"))]));
    group.set_down(BTreeSet::from([(0, ip("2001:db8::8"))]));
    assert_eq!(taken(), BTreeSet::from([7]));
}

#[test]
fn gateways_are_told_without_waiting_for_a_change_which_has_flows_avoid_them_when_it_is_made() {
    let group = GroupRoutes::new(&with_ways(&[("10.1.0.0/16", [7, 8])])).expect("a table");
    let table = reader(&group);
    // While the table is being changed.
    assert_eq!(group.table.change(0, |_| group.set_down(silent(7))), Some(BTreeSet::new()));
    assert_eq!(taken(&table, [10, 1, 0, 1]), BTreeSet::from([7, 8]));
    group.change(&Delta::new()).expect("room");
    assert_eq!(taken(&table, [10, 1, 0, 1]), BTreeSet::from([8]));
}

#[test]
fn what_was_removed_is_used_again_when_the_last_member_has_gone_on() {
    let group = Arc::new(GroupRoutes::new(&member(&[(0x0001_0000, 25, 7)])).expect("a table"));
    let retired = || group.retired();
    let old = group.table.epoch();
    group.change_to(&member(&[])).expect("room").expect("a change").keep();
    assert!(retired() > 0);
    group.reclaim([old, old + 1, fib::OFFLINE]);
    assert!(retired() > 0, "one still reads the old epoch");
    group.reclaim([old + 1, fib::OFFLINE]);
    assert_eq!(retired(), 0);
}

/// A lesson that a network of this number goes by gateways behind the NIC `w`, given by their last octets; none: it has no route.
fn lesson((network, len): (u32, u8), gateways: &[u8]) -> Lesson {
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    let to = Ipv4Addr::from_bits((0x0a00_0000 | network >> 8) & mask).into();
    let number = gateways.iter().fold(1, |number, gateway| number << 8 | u64::from(*gateway));
    let hop = |gateway: &u8| LearnedHop { link: 0, via: Some([192, 0, 2, *gateway].into()), weight: 1 };
    let way = LearnedWay::Hops(gateways.iter().map(hop).collect());
    let fate = (!gateways.is_empty()).then_some(LearnedFate::Group(number));
    let groups = fate.map(|_| LearnedGroup { number, way: Some(way) }).into_iter().collect();
    Lesson { groups, routes: vec![LearnedRoute { to, len, fate }], ..Lesson::default() }
}

#[test]
fn an_interface_for_a_vlan_is_a_link_after_the_nics() {
    let vlan = "[[group.interface]]\nname = 'v'\nnic = 'w'\nvlan = 100\naddress = '10.50.0.1/24'\n";
    let route = "[[group.route]]\nto = '10.1.0.0/16'\nvia = ['10.50.0.7', '10.50.0.8']\n";
    let plan = config::parse(&format!("{FILE}{vlan}{route}"), "group.toml").expect("a file");
    let group = GroupRoutes::new(&plan.routers[0]).expect("a table");
    let table = reader(&group);
    assert_eq!(hop(&table, [10, 50, 0, 9]), vec![NextHop::Connected { nic: 2 }]);
    assert_eq!(taken(&table, [10, 1, 0, 1]), BTreeSet::from([7, 8]));
    let in_vlan =
        |last: u8| -> BTreeSet<Gateway> { BTreeSet::from([(2, Ipv4Addr::new(10, 50, 0, last).into())]) };
    assert_eq!(group.ways(), &in_vlan(7) | &in_vlan(8));
    group.set_down(in_vlan(7));
    assert_eq!(taken(&table, [10, 1, 0, 1]), BTreeSet::from([8]));
    let by = |link: u8| {
        let mut lesson = lesson((0x0001_0000, 24), &[9]);
        let via = Some([10, 50, 0, 9].into());
        lesson.groups[0].way = Some(LearnedWay::Hops(vec![LearnedHop { link, via, weight: 1 }]));
        lesson
    };
    group.learn(&by(2));
    let gateway = u32::from_be_bytes([10, 50, 0, 9]);
    assert_eq!(hop(&table, [10, 0, 1, 1]), vec![NextHop::Gateway { nic: 2, gateway }]);
    group.learn(&by(3));
    assert!(!matches!(hop(&table, [10, 0, 1, 1])[..], [NextHop::Gateway { .. }]), "there is no such link");
}

/// Everything is told anew from here on, or was.
fn bound(begins: bool) -> Lesson {
    Lesson { begins, ends: !begins, ..Lesson::default() }
}

#[test]
fn a_learned_route_counts_before_that_of_the_plan_which_is_not_taken_when_it_goes() {
    let ten = (0x0001_0000, 24);
    let group = Arc::new(GroupRoutes::new(&member(&[(ten.0, ten.1, 7)])).expect("a table"));
    let (table, count) = (reader(&group), group.count());
    let to = [10, 0, 1, 1];
    let first = || taken(&table, to);
    assert_eq!((group.learn(&lesson(ten, &[9])), first(), group.count()), (0, BTreeSet::from([9]), count));
    let edit = group.change_to(&member(&[(ten.0, ten.1, 8)])).expect("room").expect("a change");
    assert_eq!((edit.counts(), first()), ((1, 0), BTreeSet::from([9])), "it is not seen");
    edit.keep();
    // Its link may have no carrier.
    group.learn(&lesson(ten, &[]));
    assert_eq!((hop(&table, to), group.count()), (vec![], count - 1));
    let edit = group.change_to(&member(&[(ten.0, ten.1, 7)])).expect("room").expect("a change");
    assert_eq!((first(), group.count()), (BTreeSet::from([7]), count), "the plan says something else");
    drop(edit);
    assert_eq!((first(), group.count()), (BTreeSet::from([8]), count), "it was taken back");
    // Learned, and gone from the plan: nothing is left when it is gone as well.
    group.learn(&lesson(ten, &[9]));
    group.change_to(&member(&[])).expect("room").expect("a change").keep();
    assert_eq!((first(), group.count()), (BTreeSet::from([9]), count));
    group.learn(&lesson(ten, &[]));
    assert_eq!((hop(&table, to), group.count()), (vec![], count - 1));
}

#[test]
fn an_own_address_stays_one_whatever_was_learned_of_it() {
    let group = GroupRoutes::new(&member(&[])).expect("a table");
    let own = |fate| {
        let to = [192, 0, 2, 1].into();
        Lesson { routes: vec![LearnedRoute { to, len: 32, fate }], ..Lesson::default() }
    };
    let found = || {
        let table = group.table.routes().reader();
        table.next_hop(table.members(table.lookup(u32::from_be_bytes([192, 0, 2, 1])), 0)[0])
    };
    assert_eq!(found(), NextHop::Local);
    group.learn(&own(Some(LearnedFate::Blackhole)));
    assert_ne!(found(), NextHop::Local);
    group.learn(&own(None));
    assert_eq!(found(), NextHop::Local);
}

#[test]
fn what_does_not_come_again_is_gone_and_what_was_never_learned_stays() {
    let (one, two) = ((0x0001_0000, 24), (0x0002_0000, 24));
    let plan = [(one.0, one.1, 7), (0x0003_0000, 24, 7)];
    let group = GroupRoutes::new(&member(&plan)).expect("a table");
    let table = reader(&group);
    group.learn(&lesson(one, &[9]));
    group.learn(&lesson(two, &[9]));
    group.learn(&bound(true));
    assert_eq!(taken(&table, [10, 0, 1, 1]), BTreeSet::from([9]), "what may come again stays");
    group.learn(&bound(false));
    assert_eq!((hop(&table, [10, 0, 1, 1]), hop(&table, [10, 0, 2, 1])), (vec![], vec![]));
    assert_eq!(taken(&table, [10, 0, 3, 1]), BTreeSet::from([7]));
}

#[test]
fn a_table_that_replaces_another_one_has_what_was_learned() {
    let ten = (0x0001_0000, 24);
    let first = GroupRoutes::new(&member(&[])).expect("a table");
    first.learn(&lesson(ten, &[7, 8]));
    let down = LearnedGateway { link: 0, ip: [192, 0, 2, 7].into() };
    first.learn(&Lesson { down: Some(vec![down]), ..Lesson::default() });
    let second = GroupRoutes::new(&member(&[(ten.0, ten.1, 9)])).expect("a table");
    let table = reader(&second);
    assert_eq!(taken(&table, [10, 0, 1, 1]), BTreeSet::from([9]));
    second.learn_as(&first);
    assert_eq!(taken(&table, [10, 0, 1, 1]), BTreeSet::from([8]), "BFD does not hear the other gateway");
    assert_eq!((second.ways(), second.ways().len()), (first.ways(), 2));
    second.learn(&lesson(ten, &[]));
    assert_eq!(hop(&table, [10, 0, 1, 1]), vec![]);
    let third = GroupRoutes::new(&member(&[(ten.0, ten.1, 9)])).expect("a table");
    third.learn_as(&second);
    assert_eq!(hop(&reader(&third), [10, 0, 1, 1]), vec![], "nor is there what went");
}

#[test]
fn a_gateway_is_avoided_that_does_not_answer_or_that_bfd_does_not_hear() {
    let ten = (0x0001_0000, 24);
    let group = GroupRoutes::new(&member(&[])).expect("a table");
    let table = reader(&group);
    let first = || taken(&table, [10, 0, 1, 1]);
    let unheard = |gateways: &[u8]| {
        let of = |gateway: &u8| LearnedGateway { link: 0, ip: [192, 0, 2, *gateway].into() };
        let down = Some(gateways.iter().map(of).collect());
        group.learn(&Lesson { down, ..Lesson::default() });
    };
    unheard(&[7]);
    group.learn(&lesson(ten, &[7, 8, 9]));
    assert_eq!(first(), BTreeSet::from([8, 9]), "also if the route comes later");
    group.set_down(silent(8));
    assert_eq!(first(), BTreeSet::from([9]));
    unheard(&[]);
    assert_eq!(first(), BTreeSet::from([7, 9]));
    group.set_down(BTreeSet::new());
    assert_eq!(first(), BTreeSet::from([7, 8, 9]));
}

#[test]
fn what_has_no_room_is_late_and_comes_when_there_is_some() {
    let with_room = |routes: &[(u32, u8, u8)]| {
        let mut member = member(routes);
        member.forwarding.long_routes = Some(0);
        member
    };
    let group = Arc::new(GroupRoutes::new(&with_room(&[])).expect("a table"));
    // Each in a /24 of its own: more than a table has room for that ends with a page of 2 MiB.
    let long = |number: u32| lesson((number << 16, 25), &[7]);
    let routes = (0..4000).flat_map(|number| long(number).routes).collect();
    assert!(group.learn(&Lesson { routes, ..long(0) }) > 0);
    let error = group.change_to(&with_room(&[(0xffff_ff00, 25, 7)])).expect_err("no room");
    assert!(format!("{error:#}").ends_with("write a larger number for long_routes"), "{error:#}");
    group.learn(&bound(true));
    assert_eq!(group.learn(&bound(false)), 0, "all have gone, and nothing waits");
    group.reclaim([fib::OFFLINE]);
    group.change_to(&with_room(&[(0xffff_ff00, 25, 7)])).expect("room").expect("a change").keep();
}

proptest! {
    #[test]
    fn learned_routes_lie_over_those_of_the_plan_in_whatever_order_both_change(
        steps in proptest::collection::vec((any::<bool>(), any::<bool>(), 0..6_u32, 0..=9_u8), 1..12),
    ) {
        let (mut plan, mut learned) = (BTreeMap::new(), BTreeMap::new());
        // Networks of which the plan's word does not count, as a learned route went.
        let mut withdrawn = BTreeSet::new();
        let of = |plan: &BTreeMap<u32, u8>| {
            let routes: Vec<_> = plan.iter().map(|(net, gateway)| (net << 16, 24, *gateway)).collect();
            member(&routes)
        };
        let group = Arc::new(GroupRoutes::new(&of(&plan)).expect("a table"));
        let (table, others) = (reader(&group), group.count());
        for (is_learned, is_kept, net, gateway) in steps {
            // Two and more are gateways, others say that there is no route.
            let wanted = (gateway > 1).then_some(gateway);
            let side = if is_learned { &mut learned } else { &mut plan };
            let before = match wanted {
                Some(gateway) => side.insert(net, gateway),
                None => side.remove(&net),
            };
            if is_learned {
                let gateways: Vec<u8> = wanted.into_iter().collect();
                prop_assert_eq!(group.learn(&lesson((net << 16, 24), &gateways)), 0);
                if wanted.is_some() {
                    withdrawn.remove(&net);
                } else if before.is_some() && plan.contains_key(&net) {
                    withdrawn.insert(net);
                }
            } else if let Some(edit) = group.change_to(&of(&plan)).expect("room") {
                withdrawn.remove(&net);
                if is_kept {
                    edit.keep();
                } else {
                    match before {
                        Some(gateway) => plan.insert(net, gateway),
                        None => plan.remove(&net),
                    };
                }
            }
            for net in 0..6 {
                let below = || plan.get(&net).filter(|_| !withdrawn.contains(&net));
                let expected = learned.get(&net).or_else(below);
                let way = |gateway: &u8| {
                    vec![NextHop::Gateway { nic: 0, gateway: u32::from_be_bytes([192, 0, 2, *gateway]) }]
                };
                let destination = [10, 0, net as u8, 1];
                prop_assert_eq!(hop(&table, destination), expected.map_or_else(Vec::new, way));
            }
            let all: BTreeSet<u32> = plan.keys().chain(learned.keys()).copied().collect();
            prop_assert_eq!(group.count(), others + all.len() - withdrawn.len());
        }
    }

    #[test]
    fn whatever_follows_what_the_table_is_that_of_the_last_plan(
        plans in proptest::collection::vec(proptest::collection::vec((any::<u32>(), 8..=32_u8, 2..=9_u8), 0..12), 1..6),
        kept: [bool; 6],
    ) {
        let mut current = member(&[]);
        let group = Arc::new(GroupRoutes::new(&current).expect("a table"));
        for (routes, keep) in plans.iter().zip(kept) {
            let next = member(routes);
            let edit = group.change_to(&next).expect("room");
            if keep {
                edit.into_iter().for_each(RouteEdit::keep);
                current = next;
            }
        }
        prop_assert!(group.change_to(&current).expect("room").is_none());
        let fresh = GroupRoutes::new(&current).expect("a table");
        let (one, other) = (reader(&group), reader(&fresh));
        for (network, ..) in plans.iter().flatten() {
            let destination = (0x0a00_0000 | network >> 8).to_be_bytes();
            prop_assert_eq!(hop(&one, destination), hop(&other, destination));
        }
    }
}
