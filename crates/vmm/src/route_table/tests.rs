use fib::Way;
use fib::six::Table;

use super::*;

const NET: u128 = 0x2001_0db8 << 96;

#[test]
fn both_tables_lie_behind_each_other_and_share_their_epoch() {
    let table = RouteTable::with_six(16, Some(Room6 { nodes: 64, ranges: 1000 })).expect("memory");
    let hop = NextHop::Gateway6 { nic: 1, gateway: NET | 1 };
    let first = table.routes().publish();
    let added = table.change_six(0, |routes| routes.add(NET, 32, hop).is_ok());
    assert_eq!(added, Some(true));
    assert_eq!(table.routes().epoch(), first + 1);
    // As a guest finds it.
    let base = table.memory().as_ptr();
    // SAFETY: the header of a table that was just created.
    let header = unsafe { &*base.cast::<Header>() };
    let at = header.six_at.load(std::sync::atomic::Ordering::Relaxed) as usize;
    assert!(at >= layout::len(16) && at.is_multiple_of(PAGE));
    // SAFETY: the table was created there, with this room.
    let parts = unsafe { six_parts(base.add(at), Room6 { nodes: 64, ranges: 1000 }) };
    assert!(parts.header.is_valid());
    let six = Table::new(parts);
    assert_eq!((six.next_hop(six.lookup(NET | 9)), six.epoch()), (hop, first + 1));
    // What is removed stays until the reader has the next epoch, also one of the other table.
    table.change_six(0, |routes| routes.remove(NET, 32).expect("it is there"));
    table.reclaim_for([first + 1]);
    let retired = || table.change_six(0, |routes| routes.retired()).expect("a table");
    assert!(retired() > 0);
    let epoch = table.routes().epoch();
    table.reclaim_for([epoch]);
    assert_eq!(retired(), 0);
}

#[test]
fn without_ipv6_there_is_no_second_table() {
    let table = RouteTable::new(16).expect("memory");
    assert_eq!(table.change_six(0, |_| ()), None);
    assert_eq!(table.memory().len(), layout::len(16).next_multiple_of(PAGE));
}

#[test]
fn the_route_of_an_address_is_told_for_both_families_where_the_list_is() {
    let table = RouteTable::with_six(16, Some(Room6 { nodes: 64, ranges: 1000 })).expect("memory");
    table.change(0, |routes| routes.add(0xc633_6400, 24, NextHop::Local).expect("room"));
    table.change_six(0, |routes| routes.add(NET, 32, NextHop::Local).expect("room"));
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(table.route_of(0, ip("198.51.100.9")), Some((ip("198.51.100.0"), 24)));
    assert_eq!(table.route_of(0, ip("2001:db8::9")), Some((ip("2001:db8::"), 32)));
    assert_eq!([ip("198.51.101.9"), ip("2001:db9::9")].map(|ip| table.route_of(0, ip)), [None, None]);
    assert_eq!(table.route_of(1, ip("198.51.100.9")), None, "there is no such table");
    let view = RouteTable::view(table.memory().clone()).expect("tables");
    assert_eq!(view.route_of(0, ip("198.51.100.9")), None);
}

#[test]
fn the_next_hops_of_flows_are_told_for_both_families() {
    let table = RouteTable::with_six(16, Some(Room6 { nodes: 64, ranges: 1000 })).expect("memory");
    let four = [1, 2].map(|gateway| NextHop::Gateway { nic: 0, gateway });
    let six = [1, 2].map(|gateway| NextHop::Gateway6 { nic: 0, gateway: NET | gateway });
    let ways = |hops: [NextHop; 2]| hops.map(|next_hop| Way { next_hop, weight: 1 });
    table.change(0, |routes| routes.add_ways(0, 0, &ways(four)).expect("room"));
    table.change_six(0, |routes| routes.add_ways(0, 0, &ways(six)).expect("room"));
    let destinations = ["198.51.100.1", "2001:db8::9"].map(|ip| ip.parse::<IpAddr>().expect("an address"));
    for (destination, hops) in destinations.into_iter().zip([four, six]) {
        let first: Vec<NextHop> = (0..64).map(|flow| table.choices(0, destination, flow << 26)[0]).collect();
        assert!(hops.iter().all(|hop| first.contains(hop)), "{first:?}");
        assert!(table.choices(0, destination, 0).iter().all(|hop| hops.contains(hop)));
    }
    assert_eq!(table.set_down(|_, is_six, _, hop| is_six && hop == six[0]), 1);
    assert!((0..64).all(|flow| table.choices(0, destinations[1], flow << 26)[0] == six[1]));
    let while_changing = table.change(0, |_| table.try_set_down(|_, _, _, _| false));
    assert_eq!(while_changing, Some(false), "it does not wait");
    assert!((0..64).all(|flow| table.choices(0, destinations[1], flow << 26)[0] == six[1]));
    assert!(table.try_set_down(|_, _, _, _| false));
    assert!((0..64).any(|flow| table.choices(0, destinations[1], flow << 26)[0] == six[0]));
    assert!(RouteTable::new(16).expect("memory").choices(0, destinations[1], 0).is_empty());
}

#[test]
fn both_tables_are_seen_by_whoever_cannot_change_them() {
    let table = RouteTable::with_six(16, Some(Room6 { nodes: 64, ranges: 1000 })).expect("memory");
    let (four, six) =
        (NextHop::Gateway { nic: 0, gateway: 1 }, NextHop::Gateway6 { nic: 1, gateway: NET | 1 });
    table.change(0, |routes| routes.add(10 << 24, 8, four).expect("room"));
    table.change_six(0, |routes| routes.add(NET, 32, six).expect("room"));
    let view = RouteTable::view(table.memory().clone()).expect("tables");
    let hop = |ip: &str| view.choices(0, ip.parse().expect("an address"), 0);
    assert_eq!((hop("10.1.2.3"), hop("2001:db8::9"), hop("2001:db9::9")), (vec![four], vec![six], vec![]));
    assert_eq!((view.epoch(), view.change_six(0, |_| ())), (table.epoch(), None));
    let plain = RouteTable::new(16).expect("memory");
    let view = RouteTable::view(plain.memory().clone()).expect("a table");
    assert!(view.choices(0, "2001:db8::9".parse().expect("an address"), 0).is_empty());
}

#[test]
fn tables_of_vrfs_have_routes_of_their_own_and_one_epoch() {
    let room = Some(Room6 { nodes: 64, ranges: 1000 });
    let table = RouteTable::with_tables(3, 16, room).expect("memory");
    let each = table.memory().len() / 3;
    assert!(each.is_multiple_of(PAGE) && each * 3 == table.memory().len());
    let gateway = |last: u32| NextHop::Gateway { nic: last as u8, gateway: last };
    for number in 0..3 {
        table.change(number, |routes| routes.add(10 << 24, 8, gateway(number as u32)).expect("room"));
    }
    let to = |text: &str| text.parse::<IpAddr>().expect("an address");
    for number in 0..3 {
        assert_eq!(table.choices(number, to("10.1.2.3"), 0), [gateway(number as u32)]);
    }
    table
        .change_six(2, |routes| routes.add(NET, 32, NextHop::Gateway6 { nic: 1, gateway: NET | 1 }))
        .expect("a table")
        .expect("room");
    let found = (0..3).map(|number| table.choices(number, to("2001:db8::9"), 0).len());
    assert_eq!(found.collect::<Vec<_>>(), [0, 0, 1]);
    assert!(table.change(3, |_| ()).is_none() && table.choices(3, to("10.1.2.3"), 0).is_empty());
    // As the guests find them.
    let epochs = (0..3).map(|number| {
        // SAFETY: the header of a table that was just created.
        let header = unsafe { &*table.memory().as_ptr().add(number * each).cast::<Header>() };
        assert!(header.is_valid());
        header.epoch.load(std::sync::atomic::Ordering::Relaxed)
    });
    assert_eq!(epochs.collect::<Vec<_>>(), [4; 3]);
}

#[test]
fn what_a_vrf_has_lost_is_reclaimed_when_the_readers_have_left_it() {
    let table = RouteTable::with_tables(2, 16, None).expect("memory");
    let retired = || table.change(1, |routes| routes.retired()).expect("a table");
    table.change(1, |routes| routes.add(10 << 24, 8, NextHop::Connected { nic: 1 }).expect("room"));
    let used = table.routes().epoch();
    table.change(1, |routes| routes.remove(10 << 24, 8).expect("it is there"));
    table.reclaim_for([used]);
    assert_eq!(retired(), 1);
    let epoch = table.routes().epoch();
    table.reclaim_for([epoch]);
    assert_eq!(retired(), 0);
}
