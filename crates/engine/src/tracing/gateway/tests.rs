use std::collections::BTreeSet;

use frame::{ethernet, ipv4, udp};

use super::*;
use crate::{GroupRoutes, routes};

const FILE: &str = "[[router]]\nname = 'a'\n\
    [[router.nic]]\nname = 'x'\nattach = 'null'\naddress = '192.0.2.1/24'\n\
    [[router.nic]]\nname = 'y'\nattach = 'null'\naddress = '198.51.100.1/24'\n\
    [[router.route]]\nto = '0.0.0.0/0'\nvia = ['192.0.2.2', '192.0.2.3', '198.51.100.2']\n\
    [[router.route]]\nto = '10.0.0.0/8'\nvia = '192.0.2.9'\n";

fn packet(destination: &str, port: u16) -> Head {
    let to: std::net::Ipv4Addr = destination.parse().expect("an address");
    let mut octets = vec![0; ethernet::HEADER + ipv4::HEADER + udp::HEADER + 30];
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let header = ethernet::Header { destination: mac, source: mac, ethertype: ethernet::IPV4 };
    header.write(&mut octets).expect("room");
    let header = ipv4::Header::new(ipv4::UDP, 0xc000_0209, to.to_bits(), (udp::HEADER + 30) as u16);
    header.write(&mut octets[ethernet::HEADER..]).expect("room");
    octets[34..36].copy_from_slice(&port.to_be_bytes());
    Head::of(&octets, octets.len() as u32)
}

/// Looks for the gateway of a packet that leaves by a NIC in these VLANs.
fn find_at(
    plan: &Router,
    table: &RouteTable,
    arrived: &Head,
    (nic, vlans): (&str, &[u16]),
) -> Option<String> {
    let link = link(plan, nic, vlans.iter().copied())?;
    way(plan, table, arrived, link)?.gateway.map(|gateway| gateway.to_string())
}

/// Looks for the way of a packet that leaves by a NIC or interface of this number.
fn way(plan: &Router, table: &RouteTable, arrived: &Head, link: usize) -> Option<Way> {
    find(table, &ask(plan, arrived, link)?)
}

#[test]
fn the_gateway_of_a_flow_is_one_behind_the_nic_by_which_it_left() {
    let plan = config::parse(FILE, "f.toml").expect("a good file").routers.remove(0);
    let table = routes::table(&plan).expect("memory");
    let found = |nic: &str| {
        let find = |port| find_at(&plan, &table, &packet("203.0.113.9", port), (nic, &[]));
        (0..200).filter_map(find).collect::<BTreeSet<String>>()
    };
    assert_eq!(found("x"), BTreeSet::from(["192.0.2.2", "192.0.2.3"].map(str::to_owned)));
    assert_eq!(found("y"), BTreeSet::from(["198.51.100.2".to_owned()]));
    assert!(found("z").is_empty());
    let first = || way(&plan, &table, &packet("203.0.113.9", 7), 0);
    assert_eq!(first(), first(), "a flow stays where it is");
}

#[test]
fn a_single_gateway_is_named_and_a_neighbour_is_not() {
    let plan = config::parse(FILE, "f.toml").expect("a good file").routers.remove(0);
    let table = routes::table(&plan).expect("memory");
    let found = |to: &str, nic: &str| find_at(&plan, &table, &packet(to, 1), (nic, &[]));
    assert_eq!(found("10.1.2.3", "x").as_deref(), Some("192.0.2.9"));
    assert_eq!(found("10.1.2.3", "y"), None, "it is behind another NIC");
    assert_eq!(found("192.0.2.77", "x"), None);
}

#[test]
fn the_longest_route_is_named_whether_it_has_a_gateway_or_not() {
    let plan = config::parse(FILE, "f.toml").expect("a good file").routers.remove(0);
    let table = routes::table(&plan).expect("memory");
    let found = |to: &str, link: usize| way(&plan, &table, &packet(to, 1), link);
    let name = |to: &str| found(to, 0).as_ref().and_then(named);
    assert_eq!(name("10.1.2.3").as_deref(), Some("10.0.0.0/8"));
    let connected = Way { route: Some(([192, 0, 2, 0].into(), 24)), gateway: None };
    assert_eq!(found("192.0.2.77", 0), Some(connected));
    assert_eq!(found("192.0.2.77", 1), None, "it is behind another NIC");
    let several = (0..2).filter_map(|link| found("203.0.113.9", link)).collect::<Vec<_>>();
    assert!(!several.is_empty() && several.iter().all(|way| named(way).as_deref() == Some("0.0.0.0/0")));
}

/// What its members read has no list of routes: the writer of the table has it.
#[test]
fn the_route_of_a_member_of_a_group_is_found_where_its_table_is_written() {
    let file = "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n\
        route = [{ to = '10.0.0.0/8', via = '192.0.2.9' }]\n\
        [[group.nic]]\nname = 'lan'\nattach = 'tap:rr-lan'\naddress = '192.0.2.1/24'\n";
    let plan = config::parse(file, "f.toml").expect("a good file");
    let member = &plan.routers[0];
    let group = GroupRoutes::new(member).expect("memory");
    let view = RouteTable::view(group.memory().clone()).expect("a table");
    let asked = ask(member, &packet("10.1.2.3", 1), 0).expect("it is an IP packet");
    let gateway = Some([192, 0, 2, 9].into());
    assert!(view.is_view());
    assert_eq!(find(&view, &asked), Some(Way { route: None, gateway }));
    let whole = Way { route: Some(([10, 0, 0, 0].into(), 8)), gateway };
    assert_eq!(group.find_way(&asked), Some(whole));
    assert_eq!(group.find_way(&WayQuestion { link: 1, ..asked }), None, "it is behind another NIC");
    assert_eq!(group.find_way(&WayQuestion { table: 1, ..asked }), None, "there is no such table");
}

#[test]
fn a_way_that_was_found_elsewhere_is_added_to_the_report() {
    let (nic, next_hop) = ("edge.lan".to_owned(), "02:00:00:00:00:09".to_owned());
    let fate = Fate::Left { nic, next_hop, route: None, via: None, after_ns: 7 };
    let mut packet = Packet { number: 1, at_ns: 0, len: 60, headers: String::new(), hops: Vec::new(), fate };
    let gateway = Some([192, 0, 2, 9].into());
    add_way(&mut packet, &Way { route: Some(([10, 0, 0, 0].into(), 8)), gateway });
    let Fate::Left { route, via, .. } = packet.fate else { panic!("it has left") };
    assert_eq!((route.as_deref(), via.as_deref()), (Some("10.0.0.0/8"), Some("192.0.2.9")));
}

#[test]
fn each_vrf_has_its_own_gateways() {
    let file = "[[router]]\nname = 'a'\n\
        [[router.nic]]\nname = 'x'\nattach = 'null'\naddress = '192.0.2.1/24'\n\
        [[router.nic]]\nname = 'y'\nattach = 'null'\naddress = '192.0.2.1/24'\nvrf = 'red'\n\
        [[router.route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.2'\n\
        [[router.route]]\nto = '0.0.0.0/0'\nvia = ['192.0.2.3']\nvrf = 'red'\n\
        [[router.route]]\nto = '10.0.0.0/8'\ntype = 'blackhole'\nvrf = 'red'\n";
    let plan = config::parse(file, "f.toml").expect("a good file").routers.remove(0);
    let table = routes::table(&plan).expect("memory");
    let found = |to: &str, nic: &str| find_at(&plan, &table, &packet(to, 1), (nic, &[]));
    assert_eq!(found("203.0.113.9", "x").as_deref(), Some("192.0.2.2"));
    assert_eq!(found("203.0.113.9", "y").as_deref(), Some("192.0.2.3"));
    assert_eq!(found("10.1.2.3", "x").as_deref(), Some("192.0.2.2"));
    assert_eq!(found("10.1.2.3", "y"), None);
}

#[test]
fn a_vlan_has_the_gateways_of_its_vrf() {
    let file = "[[router]]\nname = 'a'\n\
        [[router.nic]]\nname = 'x'\nattach = 'null'\naddress = '192.0.2.1/24'\n\
        [[router.interface]]\nname = 'v'\nnic = 'x'\nvlan = 7\naddress = '192.0.2.1/24'\nvrf = 'red'\n\
        [[router.interface]]\nname = 'q'\nnic = 'x'\nouter = 9\nvlan = 7\naddress = '10.0.0.1/24'\n\
        [[router.route]]\nto = '0.0.0.0/0'\nvia = ['192.0.2.2', '10.0.0.2']\n\
        [[router.route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.3'\nvrf = 'red'\n";
    let plan = config::parse(file, "f.toml").expect("a good file").routers.remove(0);
    let table = routes::table(&plan).expect("memory");
    let found = |vlans: &[u16]| {
        let find = |port| find_at(&plan, &table, &packet("203.0.113.9", port), ("x", vlans));
        (0..200).filter_map(find).collect::<BTreeSet<String>>()
    };
    assert_eq!(found(&[]), BTreeSet::from(["192.0.2.2".to_owned()]));
    assert_eq!(found(&[7]), BTreeSet::from(["192.0.2.3".to_owned()]));
    assert_eq!(found(&[9, 7]), BTreeSet::from(["10.0.0.2".to_owned()]));
    assert!(found(&[9]).is_empty() && found(&[7, 9]).is_empty());
}
