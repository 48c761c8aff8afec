use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254));

fn prefix(ip: [u8; 4], len: u8) -> Prefix {
    Prefix::new(ip, len).expect("a prefix")
}

fn read(message: RouteMessage) -> Option<(bool, Route)> {
    Route::read(RouteNetlinkMessage::NewRoute(message))
}

fn hop(via: IpAddr, index: u32, weight: u16) -> NextHop {
    NextHop { via: Some(via), index, weight }
}

#[test]
fn a_route_to_one_gateway() {
    let mut message = to_network(prefix([10, 0, 0, 0], 8));
    message.attributes.extend([
        RouteAttribute::Gateway(GATEWAY.into()),
        RouteAttribute::Oif(7),
        RouteAttribute::Priority(20),
        RouteAttribute::Table(1000),
    ]);
    let (is_there, route) = read(message).expect("a route");
    assert!(is_there);
    let id = RouteId { table: 1000, to: prefix([10, 0, 0, 0], 8), tos: 0, metric: 20 };
    let next_hops = vec![hop(GATEWAY, 7, 1)];
    assert_eq!(route, Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: 3 });
}

#[test]
fn the_default_route_has_no_destination() {
    let mut message = to_network(prefix([0; 4], 0));
    message.attributes = vec![RouteAttribute::Gateway(GATEWAY.into()), RouteAttribute::Oif(7)];
    let (_, route) = read(message).expect("a route");
    assert_eq!(route.id, RouteId { table: 254, to: prefix([0; 4], 0), tos: 0, metric: 0 });
}

#[test]
fn several_next_hops_of_two_families() {
    let mut message = to_network(prefix([10, 0, 0, 0], 8));
    let [mut one, mut other] = [RouteNextHop::default(), RouteNextHop::default()];
    one.interface_index = 3;
    one.attributes = vec![RouteAttribute::Gateway(GATEWAY.into())];
    other.interface_index = 4;
    other.hops = 2;
    other.attributes = vec![RouteAttribute::Via(RouteVia::Inet6(Ipv6Addr::LOCALHOST))];
    message.attributes.push(RouteAttribute::MultiPath(vec![one, other]));
    let (_, route) = read(message).expect("a route");
    assert_eq!(route.next_hops, [hop(GATEWAY, 3, 1), hop(Ipv6Addr::LOCALHOST.into(), 4, 3)]);
}

#[test]
fn fates_need_no_next_hop() {
    let mut message = to_network(prefix([10, 0, 0, 0], 8));
    message.header.kind = RouteType::BlackHole;
    let (_, route) = read(message).expect("a route");
    assert_eq!((route.kind, route.next_hops), (RouteKind::Blackhole, vec![]));
}

#[test]
fn what_is_no_route_of_ours_is_left_out() {
    let mut multicast = RouteMessage::default();
    multicast.header.address_family = AddressFamily::from(128);
    assert_eq!(read(multicast), None);
    let mut too_long = to_network(prefix([10, 0, 0, 0], 8));
    too_long.header.destination_prefix_length = 33;
    assert_eq!(read(too_long), None);
}

#[test]
fn next_hops_of_a_route_go_one_by_one() {
    let id = RouteId { table: 254, to: prefix([10, 0, 0, 0], 8), tos: 0, metric: 0 };
    let of = |next_hops| Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: 3 };
    let hops = [hop(GATEWAY, 1, 1), hop(GATEWAY, 2, 1), hop(GATEWAY, 3, 1)];
    let whole = of(hops.to_vec());
    assert_eq!(whole.without(&of(vec![hops[1]])), Some(of(vec![hops[0], hops[2]])));
    assert_eq!(whole.without(&whole), None, "then it is gone");
    assert_eq!(whole.without(&of(vec![hop(GATEWAY, 9, 1)])), None, "it never had that one");
}

#[test]
fn what_is_inserted_is_what_is_read() {
    let id = RouteId { table: 1000, to: prefix([10, 0, 0, 0], 8), tos: 0, metric: 20 };
    let to = |via, kind| {
        let next_hops = vec![NextHop { via, index: 7, weight: 1 }];
        Route { id, kind, next_hops, group: None, protocol: 114 }
    };
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for via in [None, Some(GATEWAY), Some(v6)] {
        let route = to(via, RouteKind::Unicast);
        let message = route.message();
        let scope = if via.is_none() { RouteScope::Link } else { RouteScope::Universe };
        assert_eq!(message.header.scope, scope);
        assert_eq!(read(message), Some((true, route)));
    }
    let nowhere = Route { next_hops: Vec::new(), ..to(None, RouteKind::Blackhole) };
    assert_eq!(read(nowhere.message()), Some((true, nowhere)));
    let hops = vec![hop(GATEWAY, 1, 1), hop(v6, 2, 256), NextHop { via: None, index: 3, weight: 2 }];
    let several = Route { next_hops: hops, ..to(None, RouteKind::Unicast) };
    let by_object = Route { group: Some(9), ..several.clone() };
    assert_eq!(read(several.message()), Some((true, several)));
    assert_eq!(read(by_object.message()), Some((true, Route { next_hops: Vec::new(), ..by_object })));
}

fn six(network: u16) -> Route {
    let to = Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, 0), 48).expect("a prefix");
    let id = RouteId { table: 254, to, tos: 0, metric: 1024 };
    Route { id, kind: RouteKind::Unicast, next_hops: vec![hop(GATEWAY, 7, 1)], group: None, protocol: 3 }
}

#[test]
fn what_a_dump_lacks_is_in_another_one() {
    let of = |networks: &[u16]| networks.iter().map(|network| six(*network)).collect::<Vec<_>>();
    let mut dumps = [of(&[1, 3]), of(&[1, 2, 3]), of(&[2, 3])].into_iter();
    let all = gathered(&mut || Ok(dumps.next().expect("not more than needed"))).expect("an answer");
    assert_eq!(all, of(&[1, 2, 3]));
    let mut dumps = [Vec::new(), of(&[1]), of(&[1])].into_iter();
    let all = gathered(&mut || Ok(dumps.next().expect("not more than needed"))).expect("an answer");
    assert_eq!(all, of(&[1]), "an empty one says no more than others");
    assert!(gathered(&mut || Err(io::Error::other("no"))).is_err());
}

#[test]
fn a_table_that_grows_all_the_time_is_not_dumped_for_ever() {
    let mut network = 0;
    let all = gathered(&mut || {
        network += 1;
        Ok(vec![six(network)])
    });
    assert_eq!((all.expect("an answer").len(), usize::from(network)), (DUMPS, DUMPS));
}
