//! IPv6, its extension headers and its control messages: written headers parse back, chains are bounded, checksums agree
//! with the definition.

use frame::ipv6::{self, Fragment, Options, next};
use frame::nd::{self, Advert, AdvertOptions, PrefixInfo, RouterAdvert, Solicit};
use frame::{Error, Mac, checksum, icmpv6, mld, udp, vlan};
use proptest::prelude::*;

fn header() -> impl Strategy<Value = ipv6::Header> {
    let words = (any::<u8>(), 0u32..0x10_0000, 0u16..300, any::<u8>(), any::<u8>());
    (words, any::<u128>(), any::<u128>()).prop_map(|(words, source, destination)| ipv6::Header {
        traffic_class: words.0,
        flow_label: words.1,
        payload_len: words.2,
        next_header: words.3,
        hop_limit: words.4,
        source,
        destination,
    })
}

/// Returns the checksum of a message over IPv6 by its definition.
fn defined(source: u128, destination: u128, protocol: u8, message: &[u8]) -> u16 {
    let mut octets = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    octets.extend((message.len() as u32).to_be_bytes());
    octets.extend([0, 0, 0, protocol]);
    octets.extend(message);
    checksum::of(&octets)
}

/// An extension header of a kind that a walk passes, and its length in units of 8 octets after the first.
fn extension() -> impl Strategy<Value = (u8, u8)> {
    prop_oneof![
        (Just(next::DESTINATION), 0u8..3),
        (Just(next::ROUTING), 0u8..3),
        (Just(next::AUTHENTICATION), (0u8..3).prop_map(|n| 2 * n)),
        (Just(next::FRAGMENT), Just(0u8)),
    ]
}

/// Returns a packet with these extension headers before a UDP header of zeros, and the offset of that.
fn chain(extensions: &[(u8, u8)]) -> (Vec<u8>, usize) {
    let mut rest = Vec::new();
    for (at, (kind, units)) in extensions.iter().enumerate() {
        let next = extensions.get(at + 1).map_or(next::UDP, |(kind, _)| *kind);
        let len = if *kind == next::AUTHENTICATION {
            (usize::from(*units) + 2) * 4
        } else {
            (usize::from(*units) + 1) * 8
        };
        let start = rest.len();
        rest.resize(start + len, 0);
        rest[start] = next;
        rest[start + 1] = *units;
    }
    let at = ipv6::HEADER + rest.len();
    rest.extend([0; 8]);
    let first = extensions.first().map_or(next::UDP, |(kind, _)| *kind);
    let mut packet = vec![0; ipv6::HEADER];
    ipv6::Header::new(first, 1 << 64, 2 << 64, rest.len() as u16).write(&mut packet).unwrap();
    packet.extend(rest);
    (packet, at)
}

proptest! {
    #[test]
    fn a_header_survives(header in header()) {
        let mut octets = [0xa5; 400];
        header.write(&mut octets).unwrap();
        let packet = ipv6::Packet::parse(&octets).unwrap();
        prop_assert_eq!(packet.header(), &header);
        prop_assert_eq!(packet.payload().len(), usize::from(header.payload_len));
        prop_assert!(ipv6::Packet::parse(&octets[..header.total_len() - 1]).is_err());
        octets[0] ^= 0x10;
        prop_assert!(matches!(ipv6::Packet::parse(&octets), Err(Error::Kind)));
    }

    #[test]
    fn a_chain_is_walked_to_its_end_or_refused(extensions in prop::collection::vec(extension(), 0..12)) {
        let (packet, at) = chain(&extensions);
        let walked = ipv6::walk(&packet);
        if extensions.len() > ipv6::MOST_HEADERS {
            prop_assert_eq!(walked, Err(Error::Kind));
            return Ok(());
        }
        let upper = walked.unwrap();
        prop_assert_eq!((upper.protocol, upper.at), (next::UDP, at));
        prop_assert_eq!(packet[upper.named_at], next::UDP);
        let has = |kind: u8| extensions.iter().any(|(other, _)| *other == kind);
        prop_assert_eq!(upper.fragment.is_some(), has(next::FRAGMENT));
        prop_assert_eq!(upper.routing.is_some(), has(next::ROUTING));
        // A chain that is cut off is refused.
        for end in ipv6::HEADER..at {
            prop_assert_eq!(ipv6::walk(&packet[..end]), Err(Error::Short));
        }
    }

    #[test]
    fn a_fragment_header_survives(offset in 0u16..0x2000, more: bool, identification: u32) {
        let fragment = Fragment { offset, more, identification };
        let (mut packet, _) = chain(&[(next::FRAGMENT, 0), (next::DESTINATION, 0)]);
        packet[40..48].copy_from_slice(&fragment.octets(next::DESTINATION));
        let upper = ipv6::walk(&packet).unwrap();
        prop_assert_eq!(upper.fragment, Some((fragment, 40)));
        // What follows in a later fragment is data.
        let expected = if offset == 0 { (next::UDP, 56) } else { (next::DESTINATION, 48) };
        prop_assert_eq!((upper.protocol, upper.at), expected);
        prop_assert_eq!(upper.is_later_fragment(), offset != 0);
    }

    #[test]
    fn options_are_read_without_padding(data in prop::collection::vec((2u8..=255, 0usize..6), 0..5), pads in 0usize..4) {
        let mut header = vec![next::UDP, 0];
        for (kind, len) in &data {
            header.extend(std::iter::repeat_n(0, pads));
            header.extend([*kind, *len as u8]);
            header.extend(vec![7; *len]);
        }
        while header.len() % 8 != 0 {
            header.push(0);
        }
        header[1] = (header.len() / 8 - 1) as u8;
        let read: Vec<_> = Options::new(&header, 0).unwrap().map_while(Result::ok).map(|o| (o.kind, o.data.len())).collect();
        let all = data.len() + pads * data.len() + 7;
        if all <= ipv6::MOST_OPTIONS {
            prop_assert_eq!(read, data);
        } else {
            prop_assert!(data.starts_with(&read));
        }
    }

    #[test]
    fn icmpv6_survives_and_its_checksum_is_the_defined_one(kind: u8, code: u8, rest: u32, ends: (u128, u128), payload: [u8; 13]) {
        let header = icmpv6::Header { kind, code, rest };
        let mut octets = [0; 21];
        octets[8..].copy_from_slice(&payload);
        header.write(&mut octets, ends).unwrap();
        prop_assert_eq!(icmpv6::Header::parse(&octets, ends), Ok((header, &payload[..])));
        let mut damaged = octets;
        damaged[20] ^= 4;
        prop_assert_eq!(icmpv6::Header::parse(&damaged, ends), Err(Error::Checksum));
        let stored = [octets[2], octets[3]];
        octets[2..4].fill(0);
        prop_assert_eq!(stored, defined(ends.0, ends.1, next::ICMP, &octets).to_be_bytes());
    }

    #[test]
    fn a_udp_checksum_is_the_defined_one(source: u128, destination: u128, payload: [u8; 9]) {
        let mut octets = [0; 17];
        octets[8..].copy_from_slice(&payload);
        udp::Header { source: 1, destination: 2, len: 17, checksum: 0 }.write(&mut octets).unwrap();
        let expected = match defined(source, destination, next::UDP, &octets) {
            0 => 0xffff,
            sum => sum,
        };
        prop_assert_eq!(udp::checksum6(source, destination, &octets), expected);
    }

    #[test]
    fn neighbour_messages_survive(target: u128, mac: Option<[u8; 6]>, flags: [bool; 3]) {
        let mut octets = [0xee; 64];
        let solicit = Solicit { target, source_mac: mac.map(Mac) };
        let (len, header) = solicit.write(&mut octets).unwrap();
        prop_assert_eq!(header.kind, nd::SOLICIT);
        prop_assert!(len <= Solicit::LONGEST);
        prop_assert_eq!(Solicit::parse(&octets[..len]), Ok(solicit));
        let [router, solicited, overrides] = flags;
        let advert = Advert { target, target_mac: mac.map(Mac), router, solicited, overrides };
        let (len, header) = advert.write(&mut octets).unwrap();
        prop_assert_eq!(Advert::parse(&header, &octets[..len]), Ok(advert));
    }

    #[test]
    fn a_router_advertisement_survives(
        words: (u8, bool, bool, u16, u32, u32), mac: [u8; 6], mtu: Option<u32>,
        prefixes in prop::collection::vec((any::<u128>(), 0u8..=128, any::<bool>(), any::<u32>()), 0..4),
        servers in prop::collection::vec(any::<u128>(), 0..3),
    ) {
        let (hop_limit, managed, other, lifetime, reachable, retransmit) = words;
        let advert = RouterAdvert { hop_limit, managed, other, lifetime, reachable, retransmit };
        let prefixes: Vec<_> = prefixes.into_iter().map(|(prefix, len, on_link, valid)| PrefixInfo {
            prefix, len, on_link, autonomous: !on_link, valid, preferred: valid / 2,
        }).collect();
        let options = AdvertOptions { mac: Mac(mac), mtu, prefixes: &prefixes, dns: (&servers[..], 600) };
        let mut octets = [0; 512];
        let (len, header) = advert.write(&options, &mut octets).unwrap();
        let (read, options) = RouterAdvert::parse(&header, &octets[..len]).unwrap();
        prop_assert_eq!(read, advert);
        let options: Vec<_> = options.map(Result::unwrap).collect();
        prop_assert_eq!(options[0].mac(nd::option::SOURCE_MAC), Some(Mac(mac)));
        let read: Vec<_> = options.iter().filter(|o| o.kind == nd::option::PREFIX)
            .map(|option| PrefixInfo::parse(option.body).unwrap()).collect();
        prop_assert_eq!(read, prefixes);
        let dns = options.iter().find(|o| o.kind == nd::option::DNS).map_or(0, |option| (option.body.len() - 6) / 16);
        prop_assert_eq!(dns, servers.len());
        prop_assert_eq!(options.iter().any(|o| o.kind == nd::option::MTU), mtu.is_some());
    }

    #[test]
    fn reports_survive(groups in prop::collection::vec(any::<u128>(), 0..8)) {
        let mut octets = [0; 512];
        let (len, header) = mld::write_report(mld::Record::Joins, groups.iter().copied(), &mut octets).unwrap();
        let read: Vec<_> = mld::records(&header, &octets[..len]).map(Result::unwrap).collect();
        let expected: Vec<_> = groups.iter().map(|group| (4, *group)).collect();
        prop_assert_eq!(read, expected);
        if len > 0 {
            prop_assert!(mld::records(&header, &octets[..len - 1]).any(|record| record.is_err()));
        }
    }

    #[test]
    fn tags_come_off_as_they_went_on(frame in prop::collection::vec(any::<u8>(), 16..80), tcis: (u16, u16)) {
        let mut frame = frame;
        frame[12..14].copy_from_slice(&[8, 0]);
        let plain = frame.clone();
        let (inner, outer) = (vlan::Tag { tpid: vlan::CUSTOMER, tci: tcis.0 }, vlan::Tag { tpid: vlan::SERVICE, tci: tcis.1 });
        for tag in [inner, outer] {
            frame.extend([0; vlan::TAG]);
            vlan::insert(&mut frame, tag).unwrap();
        }
        let tags = vlan::Tags::parse(&frame).unwrap();
        prop_assert_eq!((tags.tags(), tags.ethertype, tags.header()), (&[outer, inner][..], 0x0800, 22));
        prop_assert_eq!(outer.id(), tcis.1 % 4096);
        for tag in [outer, inner] {
            prop_assert_eq!(vlan::remove(&mut frame), Ok(tag));
            frame.truncate(frame.len() - vlan::TAG);
        }
        prop_assert_eq!(&frame, &plain);
        prop_assert_eq!(vlan::remove(&mut frame), Err(Error::Kind));
    }

    #[test]
    fn any_octets_are_refused_or_read(octets in prop::collection::vec(any::<u8>(), 0..200), ends: (u128, u128)) {
        read_all(&octets, ends);
    }
}

/// Reads octets as everything that they might be.
fn read_all(octets: &[u8], ends: (u128, u128)) {
    let _ = ipv6::walk(octets);
    if let Ok(options) = Options::new(octets, 0) {
        assert!(options.count() <= ipv6::MOST_OPTIONS + 1);
    }
    assert!(nd::Options::new(octets).count() <= nd::MOST_OPTIONS + 1);
    let _ = (Solicit::parse(octets), vlan::Tags::parse(octets), PrefixInfo::parse(octets));
    let _ = icmpv6::Header::parse(octets, ends);
    if let Ok((header, payload)) = icmpv6::Header::parse_quoted(octets) {
        let _ = (Advert::parse(&header, payload), mld::Query::parse(&header, payload));
        let _ = RouterAdvert::parse(&header, payload).map(|(_, options)| options.count());
        assert!(mld::records(&header, payload).count() <= mld::MOST_RECORDS);
    }
}

#[test]
fn known_addresses() {
    let mac = Mac([0x00, 0x1b, 0x21, 0x3c, 0x9d, 0xf8]);
    let own = ipv6::link_local(mac);
    assert_eq!(std::net::Ipv6Addr::from(own).to_string(), "fe80::21b:21ff:fe3c:9df8");
    let group = ipv6::solicited_node(own);
    assert_eq!(std::net::Ipv6Addr::from(group).to_string(), "ff02::1:ff3c:9df8");
    assert_eq!(ipv6::group_mac(group), Mac([0x33, 0x33, 0xff, 0x3c, 0x9d, 0xf8]));
    assert!(ipv6::is_link_local(own) && ipv6::is_multicast(group));
    assert_eq!(
        [ipv6::scope(own), ipv6::scope(group), ipv6::scope(0xff05 << 112), ipv6::scope(0x2001 << 112)],
        [2, 2, 5, 14]
    );
}

#[test]
fn what_is_forwarded_and_what_is_not() {
    let at = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
    for text in ["2001:db8::1", "fec0::1", "fd00::1", "::2", "64:ff9b::1"] {
        assert!(ipv6::is_forwardable(at(text)), "{text}");
    }
    for text in ["::", "::1", "fe80::1", "febf::1", "ff02::1", "ff0e::1", "::ffff:10.0.0.1"] {
        assert!(!ipv6::is_forwardable(at(text)), "{text}");
    }
    assert_eq!([ipv6::mask(0), ipv6::mask(1), ipv6::mask(128)], [0, 1 << 127, u128::MAX]);
}

#[test]
fn hop_by_hop_options_come_first_or_the_packet_is_refused() {
    let (mut packet, _) = chain(&[(next::DESTINATION, 0), (next::DESTINATION, 0)]);
    packet[40] = next::HOP_BY_HOP;
    assert_eq!((ipv6::walk(&packet), ipv6::misplaced(&packet)), (Err(Error::Length), Some(40)));
    packet[6] = next::HOP_BY_HOP;
    packet[40] = next::DESTINATION;
    assert_eq!(ipv6::walk(&packet).unwrap().hop_by_hop, Some(40));
    assert_eq!(ipv6::misplaced(&packet), None);
}

#[test]
fn a_first_fragment_contains_all_headers_or_is_cut() {
    let is_cut = |(offset, more): (u16, bool), protocol: u8, rest: &[u8]| {
        let mut packet = vec![0; ipv6::HEADER];
        ipv6::Header::new(next::FRAGMENT, 1, 2, 0).write(&mut packet).unwrap();
        packet.extend(Fragment { offset, more, identification: 7 }.octets(protocol));
        packet.extend(rest);
        ipv6::is_cut_in_headers(&packet)
    };
    let options = [next::UDP, 1, 1, 4, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 0];
    let (first, datagram) = ((0, true), [&options[..], &[0; 8]].concat());
    for (protocol, rest) in [(next::TCP, &[0; 16][..]), (next::UDP, &[][..]), (253, &[][..])] {
        assert!(is_cut(first, protocol, rest), "{protocol}");
    }
    assert!([8, 16].iter().all(|len| is_cut(first, next::DESTINATION, &datagram[..*len])));
    let complete = [(next::TCP, &[0; 24][..]), (253, &[0; 8][..]), (next::DESTINATION, &datagram[..])];
    for (protocol, rest) in complete {
        assert!(!is_cut(first, protocol, rest), "{protocol}");
    }
    // A later fragment, and one that is the whole packet.
    assert!([(8, true), (0, false)].iter().all(|place| !is_cut(*place, next::TCP, &[0; 16])));
}

#[test]
fn the_header_of_mld_has_a_router_alert() {
    let option = Options::new(&mld::HOP_BY_HOP, 0).unwrap().next().unwrap().unwrap();
    assert_eq!((option.kind, option.data), (ipv6::Opt::ROUTER_ALERT, &[0, 0][..]));
}

#[test]
fn queries_of_both_versions() {
    let header = icmpv6::Header { kind: mld::QUERY, code: 0, rest: 0x8001_0000 };
    for (octets, within, is_v1) in [(16, 0x8001, true), (20, 0x1001 << 3, false)] {
        let expected = mld::Query { within, group: 0, is_v1 };
        assert_eq!(mld::Query::parse(&header, &vec![0; octets]).unwrap(), expected);
    }
    assert!(mld::Query::parse(&header, &[0; 15]).is_err());
}
