use netlink_packet_route::AddressFamily;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteType};

use super::*;

fn link(index: u32, up: bool) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags.set(LinkFlags::Up, up);
    message.attributes = vec![LinkAttribute::IfName(format!("l{index}")), LinkAttribute::Mtu(1500)];
    message
}

#[test]
fn routes_are_asked_for_when_something_may_have_taken_them_along() {
    let mut tables = Tables::default();
    let mut told = |message| {
        let mut news = Vec::new();
        tables.routes_are_old = false;
        tables.take(message, false, &mut news);
        (news.len(), tables.routes_are_old)
    };
    assert_eq!(told(RouteNetlinkMessage::NewLink(link(1, true))), (1, false));
    assert_eq!(told(RouteNetlinkMessage::NewLink(link(1, true))), (0, false), "nothing new");
    assert_eq!(told(RouteNetlinkMessage::NewLink(link(1, false))), (1, true));
    assert_eq!(told(RouteNetlinkMessage::DelLink(link(1, false))), (1, true));
    assert_eq!(told(RouteNetlinkMessage::DelLink(link(1, false))), (0, false));
}

#[test]
fn an_address_takes_routes_of_ipv4_along() {
    let gone = |ip: std::net::IpAddr| {
        let prefix = crate::Prefix::new(ip, 24).expect("a prefix");
        News::Address(Change::Gone(Address { index: 3, prefix, usable: true, is_duplicate: false }))
    };
    assert!(takes_routes_along(&gone([192, 0, 2, 1].into())));
    assert!(!takes_routes_along(&gone(std::net::Ipv6Addr::LOCALHOST.into())), "its routes are reported");
}

#[test]
fn ports_of_bridges_are_no_links() {
    let mut tables = Tables::default();
    let mut port = link(1, true);
    port.header.interface_family = (libc::AF_BRIDGE as u8).into();
    let mut news = Vec::new();
    tables.take(RouteNetlinkMessage::DelLink(port), false, &mut news);
    assert!(news.is_empty() && tables.links.is_empty());
}

fn route(protocol: RouteProtocol) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = 8;
    message.header.protocol = protocol;
    message.header.kind = RouteType::Unicast;
    let to = std::net::Ipv4Addr::new(10, 0, 0, 0);
    message.attributes = vec![RouteAttribute::Destination(to.into()), RouteAttribute::Oif(3)];
    message
}

#[test]
fn routes_that_are_not_wanted_are_not_kept() {
    let kept = Kept { routes: |route| route.protocol != 186, ..Kept::default() };
    let mut tables = Tables { kept, ..Tables::default() };
    let mut told = |message, replaces| {
        let mut news = Vec::new();
        tables.take(message, replaces, &mut news);
        (news.len(), tables.routes.len())
    };
    let [own, bgp] = [route(RouteProtocol::Static), route(RouteProtocol::Bgp)];
    assert_eq!(told(RouteNetlinkMessage::NewRoute(bgp.clone()), false), (0, 0));
    assert_eq!(told(RouteNetlinkMessage::NewRoute(own.clone()), false), (1, 1));
    assert_eq!(told(RouteNetlinkMessage::DelRoute(bgp.clone()), false), (0, 1), "another one has gone");
    assert_eq!(told(RouteNetlinkMessage::NewRoute(bgp), true), (1, 0), "it takes the place of ours");
    assert_eq!(told(RouteNetlinkMessage::NewRoute(own), false), (1, 1));
}

#[test]
fn routes_of_ipv6_outlast_a_dump_of_those_of_ipv4() {
    let mut tables = Tables { routes_are_old: true, ..Tables::default() };
    let mut six = route(RouteProtocol::Static);
    six.header.address_family = AddressFamily::Inet6;
    let to = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
    six.attributes = vec![RouteAttribute::Destination(to.into()), RouteAttribute::Oif(3)];
    let mut news = Vec::new();
    for message in [six, route(RouteProtocol::Static)] {
        tables.take(RouteNetlinkMessage::NewRoute(message), false, &mut news);
    }
    assert_eq!((news.len(), tables.routes.len()), (2, 2));
    tables.take_ipv4_routes(Vec::new(), &mut news);
    assert!(matches!(&news[2..], [News::Route(Change::Gone(gone))] if gone.id.to.ip.is_ipv4()), "{news:?}");
    assert!(tables.routes.iter().all(|left| left.id.to.ip.is_ipv6()));
    assert_eq!((tables.routes.len(), tables.routes_are_old), (1, false));
}
