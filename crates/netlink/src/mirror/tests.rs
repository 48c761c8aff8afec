use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

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
fn ports_of_bridges_are_no_links() {
    let mut tables = Tables::default();
    let mut port = link(1, true);
    port.header.interface_family = (libc::AF_BRIDGE as u8).into();
    let mut news = Vec::new();
    tables.take(RouteNetlinkMessage::DelLink(port), false, &mut news);
    assert!(news.is_empty() && tables.links.is_empty());
}
