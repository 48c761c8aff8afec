use fpm_peer::{By, Stream};
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage as Written, RouteNextHop, RouteProtocol, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use proptest::prelude::*;

use super::*;

const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254));
const GATEWAY6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn prefix(ip: [u8; 4], len: u8) -> Prefix {
    Prefix::new(ip, len).expect("a prefix")
}

fn hop(via: IpAddr, index: u32, weight: u16) -> NextHop {
    NextHop { via: Some(via), index, weight }
}

/// A message as `netlink-packet-route` writes it.
fn octets(message: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    octets
}

fn written(to: Prefix, attributes: Vec<RouteAttribute>) -> Written {
    let mut message = Written::default();
    message.header.address_family = if to.ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = to.len;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Bgp;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Destination(to.ip.into())];
    message.attributes.extend(attributes);
    message
}

/// The only message in `octets`.
fn only(octets: &[u8]) -> Result<Message<'_>, Refused> {
    let mut all = messages(octets);
    let first = all.next().expect("a message").map(|(message, whole)| {
        assert_eq!(whole.len(), octets.len());
        message
    });
    assert_eq!(all.next(), None);
    first
}

fn route_in(octets: &[u8]) -> RouteMessage<'_> {
    match only(octets) {
        Ok(Message::Route(route)) => route,
        other => panic!("no route: {other:?}"),
    }
}

#[test]
fn a_route_to_one_gateway() {
    let to = prefix([10, 0, 0, 0], 8);
    let attributes = vec![
        RouteAttribute::Gateway(GATEWAY.into()),
        RouteAttribute::Oif(7),
        RouteAttribute::Priority(20),
        RouteAttribute::Table(1000),
    ];
    let octets = octets(RouteNetlinkMessage::NewRoute(written(to, attributes)));
    let route = route_in(&octets);
    assert_eq!((route.table, route.to, route.kind), (1000, to, RouteKind::Unicast));
    assert_eq!((route.protocol, route.metric, route.refused), (186, 20, None));
    assert_eq!(route.hops.iter().collect::<Vec<_>>(), [hop(GATEWAY, 7, 1)]);
}

#[test]
fn next_hops_of_two_families() {
    let [mut one, mut other] = [RouteNextHop::default(), RouteNextHop::default()];
    one.interface_index = 3;
    one.attributes = vec![RouteAttribute::Gateway(GATEWAY.into())];
    other.interface_index = 4;
    other.hops = 2;
    other.attributes = vec![RouteAttribute::Via(RouteVia::Inet6(Ipv6Addr::LOCALHOST))];
    let attributes = vec![RouteAttribute::MultiPath(vec![one, other])];
    let octets = octets(RouteNetlinkMessage::NewRoute(written(prefix([10, 0, 0, 0], 8), attributes)));
    let hops: Vec<_> = route_in(&octets).hops.iter().collect();
    assert_eq!(hops, [hop(GATEWAY, 3, 1), hop(GATEWAY6, 4, 3)]);
}

#[test]
fn a_route_by_an_object() {
    let to = Prefix::new(Ipv6Addr::UNSPECIFIED, 0).expect("a prefix");
    let octets = octets(RouteNetlinkMessage::DelRoute(written(to, vec![RouteAttribute::NhId(77)])));
    let Ok(Message::NoRoute(route)) = only(&octets) else { panic!("no deleted route") };
    assert_eq!((route.to, route.group, route.hops), (to, Some(77), Hops::None));
}

#[test]
fn bits_after_the_length_are_cleared() {
    let octets = octets(RouteNetlinkMessage::NewRoute(written(prefix([10, 1, 2, 3], 9), vec![])));
    assert_eq!(route_in(&octets).to, prefix([10, 0, 0, 0], 9));
    assert_eq!(masked(GATEWAY, 0), Some(prefix([0; 4], 0)));
    assert_eq!(masked(GATEWAY, 32), Some(prefix([192, 0, 2, 254], 32)));
    assert_eq!(masked(GATEWAY, 33), None);
    assert_eq!(masked(GATEWAY6, 128), Prefix::new(Ipv6Addr::LOCALHOST, 128));
}

#[test]
fn what_cannot_be_forwarded_is_refused_with_its_reason() {
    let raw = |name: u16, value: &[u8]| {
        let mut octets = octets(RouteNetlinkMessage::NewRoute(written(prefix([10, 0, 0, 0], 8), vec![])));
        octets.extend(((4 + value.len()) as u16).to_ne_bytes());
        octets.extend(name.to_ne_bytes());
        octets.extend(value);
        let len = octets.len() as u32;
        octets[..4].copy_from_slice(&len.to_ne_bytes());
        route_in(&octets).refused
    };
    assert_eq!(raw(route::ENCAP, &[0; 8]), Some(Refused::Encapsulation));
    assert_eq!(raw(route::NEWDST, &[0; 4]), Some(Refused::Encapsulation));
    assert_eq!(raw(route::SRC, &[0; 16]), Some(Refused::Source));
    assert_eq!(raw(99, &[0; 4]), None, "attributes of newer kernels are skipped");
    let encapsulating_hop =
        [20u16.to_ne_bytes().to_vec(), vec![0, 0, 3, 0, 0, 0], vec![12, 0, 22, 0], vec![0; 8]].concat();
    assert_eq!(raw(route::MULTIPATH, &encapsulating_hop), Some(Refused::Encapsulation));
    let hops: Vec<u8> = (0..257).flat_map(|_| [8, 0, 0, 0, 1, 0, 0, 0]).collect();
    assert_eq!(raw(route::MULTIPATH, &hops), Some(Refused::Hops));
}

#[test]
fn labels_of_mpls_are_no_routes_of_ours() {
    let mut message = written(prefix([10, 0, 0, 0], 8), vec![]);
    message.header.address_family = AddressFamily::Mpls;
    message.attributes.clear();
    assert_eq!(only(&octets(RouteNetlinkMessage::NewRoute(message))), Err(Refused::Family));
}

#[test]
fn next_hop_objects() {
    let mut stream = Stream::default();
    stream.hop(5, hop(GATEWAY, 3, 1)).group(6, &[(5, 1), (7, 256)]).delete_group(5);
    let mut frames = crate::Frames::default();
    frames.push(stream.octets());
    let payload = frames.take().expect("sound").expect("whole").to_vec();
    let expected = GroupMessage { id: 5, content: GroupContent::Hop(hop(GATEWAY, 3, 1)), refused: None };
    assert_eq!(only(&payload), Ok(Message::Group(expected)));
    let payload = frames.take().expect("sound").expect("whole").to_vec();
    let Ok(Message::Group(group)) = only(&payload) else { panic!("no group") };
    assert_eq!(group.content.members().collect::<Vec<_>>(), [(5, 1), (7, 256)]);
    let payload = frames.take().expect("sound").expect("whole").to_vec();
    assert_eq!(only(&payload), Ok(Message::NoGroup(5)));
}

#[test]
fn a_wrong_length_ends_a_frame_and_a_wrong_attribute_a_message() {
    let good = octets(RouteNetlinkMessage::NewRoute(written(prefix([10, 0, 0, 0], 8), vec![])));
    for len in [0u32, 15, 2 * good.len() as u32 + 1, u32::MAX] {
        let mut bad = good.clone();
        bad[..4].copy_from_slice(&len.to_ne_bytes());
        let both = [bad.as_slice(), &good].concat();
        assert_eq!(messages(&both).collect::<Vec<_>>(), [Err(Refused::Malformed)], "{len}");
    }
    let mut bad = good.clone();
    bad[28..30].copy_from_slice(&99u16.to_ne_bytes());
    let both = [bad, good].concat();
    let read: Vec<bool> = messages(&both).map(|message| message.is_ok()).collect();
    assert_eq!(read, [false, true]);
}

fn any_hop() -> impl Strategy<Value = NextHop> {
    (proptest::option::of(any::<IpAddr>()), 1u32..9, 1u16..=256).prop_map(|(via, index, weight)| NextHop {
        via,
        index,
        weight,
    })
}

proptest! {
    #[test]
    fn arbitrary_octets_do_no_harm(payload in prop::collection::vec(any::<u8>(), 0..300)) {
        for message in messages(&payload).flatten() {
            if let (Message::Route(route) | Message::NoRoute(route), _) = message {
                prop_assert!(route.hops.iter().count() <= 300);
            }
        }
    }

    #[test]
    fn a_damaged_message_is_read_or_refused(at in 0usize..200, octet: u8) {
        let hops = [hop(GATEWAY, 3, 1), hop(GATEWAY6, 4, 3)];
        let mut stream = Stream::default();
        stream.add(prefix([10, 0, 0, 0], 8), By::Hops(&hops));
        let mut payload = stream.octets()[crate::frames::HEADER..].to_vec();
        let at = at % payload.len();
        payload[at] = octet;
        prop_assert!(messages(&payload).count() <= payload.len());
    }

    #[test]
    fn routes_are_read_as_they_were_written(
        ip: IpAddr, len in 0u8..=128, hops in prop::collection::vec(any_hop(), 1..5), id in 1u32..,
    ) {
        let len = if ip.is_ipv4() { len.min(32) } else { len };
        let to = masked(ip, len).expect("a prefix");
        let only_hop = NextHop { weight: 1, ..hops[0] };
        for (by, group, expected) in [
            (By::Hops(&hops), None, hops.clone()),
            (By::Hop(only_hop), None, vec![only_hop]),
            (By::Group(id), Some(id), vec![]),
        ] {
            let mut stream = Stream::default();
            stream.add(to, by);
            let route = route_in(&stream.octets()[crate::frames::HEADER..]);
            prop_assert_eq!((route.to, route.group, route.table), (to, group, 254));
            prop_assert_eq!(route.hops.iter().collect::<Vec<_>>(), expected);
        }
    }
}
