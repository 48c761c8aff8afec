//! The hash of flows: what it depends on, and what it does not.

use frame::flow::{LOOK, hash, seed, symmetric};
use frame::{ethernet, ipv4, ipv6};
use proptest::prelude::*;

/// Ends and protocol of a flow over IPv4.
type Flow = ((u32, u16), (u32, u16), u8);

fn frame4((source, destination, protocol): Flow, rest: u8) -> [u8; LOOK] {
    let mut head = [rest; LOOK];
    head[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
    let header = ipv4::Header { ttl: rest, ..ipv4::Header::new(protocol, source.0, destination.0, 8) };
    header.write(&mut head[14..]).unwrap();
    head[34..36].copy_from_slice(&source.1.to_be_bytes());
    head[36..38].copy_from_slice(&destination.1.to_be_bytes());
    head
}

fn frame6(ends: (u128, u128), protocol: u8, label: u32, ports: [u8; 4]) -> [u8; LOOK] {
    let mut head = [0; LOOK];
    head[12..14].copy_from_slice(&ethernet::IPV6.to_be_bytes());
    let header = ipv6::Header { flow_label: label, ..ipv6::Header::new(protocol, ends.0, ends.1, 8) };
    header.write(&mut head[14..]).unwrap();
    head[54..58].copy_from_slice(&ports);
    head
}

proptest! {
    #[test]
    fn nothing_but_the_flow_and_the_seed_decide(
        source: (u32, u16), destination: (u32, u16), seed: u64, rest: (u8, u8),
    ) {
        let flow = (source, destination, ipv4::UDP);
        prop_assert_eq!(hash(&frame4(flow, rest.0), seed), hash(&frame4(flow, rest.1), seed));
        let other = (source, (destination.0, destination.1 ^ 1), ipv4::UDP);
        prop_assert_ne!(hash(&frame4(flow, rest.0), seed), hash(&frame4(other, rest.0), seed));
    }

    #[test]
    fn both_directions_of_a_flow_have_one_symmetric_hash(source: (u32, u16), destination: (u32, u16), rest: (u8, u8)) {
        let there = symmetric(&frame4((source, destination, ipv4::UDP), rest.0));
        prop_assert_eq!(there, symmetric(&frame4((destination, source, ipv4::UDP), rest.1)));
        let other = (source, (destination.0, destination.1 ^ 1), ipv4::UDP);
        prop_assert_ne!(there, symmetric(&frame4(other, rest.0)));
    }

    #[test]
    fn both_directions_of_an_ipv6_flow_have_one_symmetric_hash(
        ends: (u128, u128), ports in any::<[u8; 4]>(), labels in (0u32..0x10_0000, 0u32..0x10_0000),
    ) {
        let [a, b, c, d] = ports;
        let there = symmetric(&frame6(ends, ipv6::next::UDP, labels.0, ports));
        prop_assert_eq!(there, symmetric(&frame6((ends.1, ends.0), ipv6::next::UDP, labels.1, [c, d, a, b])));
        prop_assert_ne!(there, symmetric(&frame6(ends, ipv6::next::UDP, labels.0, [a, b, c, d ^ 1])));
    }

    #[test]
    fn fragments_stay_together(source: (u32, u16), destination: (u32, u16), offset in 1u16..0x2000, ports: (u16, u16)) {
        let mut first = frame4((source, destination, ipv4::TCP), 0);
        first[20] |= 0x20;
        let mut later = frame4(((source.0, ports.0), (destination.0, ports.1), ipv4::TCP), 0);
        later[20..22].copy_from_slice(&offset.to_be_bytes());
        prop_assert_eq!(hash(&first, 7), hash(&later, 7));
    }

    #[test]
    fn ipv6_counts_ports_or_the_label(ends: (u128, u128), labels in (0u32..0x10_0000, 0u32..0x10_0000), ports: [u8; 4]) {
        prop_assume!(ports != [0; 4]);
        let tcp = |label| hash(&frame6(ends, ipv6::next::TCP, label, ports), 1);
        prop_assert_eq!(tcp(labels.0), tcp(labels.1));
        let fragment = |label, ports| hash(&frame6(ends, ipv6::next::FRAGMENT, label, ports), 1);
        prop_assert_eq!(fragment(labels.0, ports), fragment(labels.0, [0; 4]));
        prop_assert_eq!(fragment(labels.0, ports) == fragment(labels.1, ports), labels.0 == labels.1);
    }

    #[test]
    fn any_octets_have_a_hash(head in prop::collection::vec(any::<u8>(), LOOK), seed: u64) {
        let head: [u8; LOOK] = head.try_into().unwrap();
        hash(&head, seed);
        symmetric(&head);
    }
}

#[test]
fn flows_are_spread_evenly_and_seeds_are_independent() {
    let mut counts = [[0_u32; 4]; 4];
    for n in 0..16_384_u32 {
        let head = frame4(((0x0a00_0000 | n >> 8, 1024), (0xc0a8_0001, n as u16), ipv4::UDP), 0);
        let [one, other] = [5, 6].map(|seed| (hash(&head, seed) >> 30) as usize);
        counts[one][other] += 1;
    }
    assert!(counts.iter().flatten().all(|count| (900..1150).contains(count)), "{counts:?}");
}

#[test]
fn routers_with_other_addresses_or_another_order_of_them_have_other_seeds() {
    let [one, other] = [1, 2].map(|last| frame::Mac([2, 0, 0, 0, 0, last]));
    let all = [vec![], vec![one], vec![other], vec![one, other], vec![other, one], vec![one, one]];
    let mut seeds = all.map(seed).to_vec();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 6);
}
