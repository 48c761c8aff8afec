//! Arbitrary octets as headers: of frames with tags, of IPv6 with extension headers, of ICMPv6, neighbour discovery and MLD, and as orders
//! to a balancer.
//! Finds panics, walks without a bound, and values that change when they are written and read again.

use frame::nd::{self, Advert, PrefixInfo, RouterAdvert, Solicit};
use frame::order::{self, Order, Table};
use frame::{ethernet, icmpv6, ipv6, mld, vlan};

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    tags(input);
    orders(input);
    let Ok((_, packet)) = ethernet::Header::parse(input) else { return };
    let Ok(parsed) = ipv6::Packet::parse_quoted(packet) else { return };
    let header = parsed.header();
    let mut written = [0; ipv6::HEADER];
    header.write(&mut written).expect("40 octets do");
    assert_eq!(&written[..], &packet[..ipv6::HEADER]);
    let Ok(upper) = parsed.upper() else { return };
    assert!(upper.at <= parsed.octets().len() && upper.named_at < upper.at);
    if let Some(at) = upper.hop_by_hop {
        let options = ipv6::Options::new(packet, at).expect("the walk has passed it");
        assert!(options.count() <= ipv6::MOST_OPTIONS + 1);
    }
    if upper.protocol == ipv6::next::ICMP {
        let ends = (header.source, header.destination);
        let message = &parsed.octets()[upper.at..];
        let _ = icmpv6::Header::parse(message, ends);
        if let Ok((header, payload)) = icmpv6::Header::parse_quoted(message) {
            control(&header, payload);
        }
    }
}

fn tags(input: &[u8]) {
    let Ok(read) = vlan::Tags::parse(input) else { return };
    let mut frame = input.to_vec();
    for tag in read.tags() {
        assert_eq!(vlan::remove(&mut frame), Ok(*tag));
        frame.truncate(frame.len() - vlan::TAG);
    }
    for tag in read.tags().iter().rev() {
        frame.extend([0; vlan::TAG]);
        vlan::insert(&mut frame, *tag).expect("there is room");
    }
    assert_eq!(frame, input);
}

fn orders(input: &[u8]) {
    let (Some(read), mut table) = (Order::read(input), Table::EMPTY) else { return };
    let has_table = Order::read_table(input, &mut table);
    let mut octets = [0; order::LONGEST];
    let len = read.write(has_table.then_some(&table), &mut octets);
    assert_eq!(Order::read(&octets[..len]), Some(read));
    let mut again = Table::EMPTY;
    assert_eq!(Order::read_table(&octets[..len], &mut again), has_table);
    assert!(!has_table || again == table);
}

fn control(header: &icmpv6::Header, payload: &[u8]) {
    let mut octets = [0; 64];
    if let Ok(solicit) = Solicit::parse(payload) {
        let (len, _) = solicit.write(&mut octets).expect("there is room");
        assert_eq!(Solicit::parse(&octets[..len]), Ok(solicit));
    }
    if let Ok(advert) = Advert::parse(header, payload) {
        let (len, header) = advert.write(&mut octets).expect("there is room");
        assert_eq!(Advert::parse(&header, &octets[..len]), Ok(advert));
    }
    if let Ok((_, options)) = RouterAdvert::parse(header, payload) {
        let prefixes = options.filter_map(Result::ok).filter(|option| option.kind == nd::option::PREFIX);
        assert!(prefixes.filter(|option| PrefixInfo::parse(option.body).is_ok()).count() <= nd::MOST_OPTIONS);
    }
    let _ = mld::Query::parse(header, payload);
    assert!(mld::records(header, payload).count() <= mld::MOST_RECORDS);
}
