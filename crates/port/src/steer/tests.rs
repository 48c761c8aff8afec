use proptest::prelude::*;

use super::*;

/// Addresses, protocol and ports of a packet.
#[derive(Clone, Copy, Debug)]
struct Packet {
    source: (u32, u16),
    destination: (u32, u16),
    protocol: u8,
}

const UDP: Packet = Packet { source: (0xc612_0002, 1024), destination: (0xc612_0102, 2000), protocol: 17 };

impl Packet {
    fn back(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }

    /// Returns its frame of 64 octets, with this many words of options.
    fn frame(self, options: u8) -> Vec<u8> {
        let mut octets = vec![0; 64];
        octets[12..15].copy_from_slice(&[8, 0, 0x45 + options]);
        octets[23] = self.protocol;
        octets[26..30].copy_from_slice(&self.source.0.to_be_bytes());
        octets[30..34].copy_from_slice(&self.destination.0.to_be_bytes());
        let ports = 34 + usize::from(options) * 4;
        octets.resize(octets.len().max(ports + 8), 0);
        octets[ports..ports + 2].copy_from_slice(&self.source.1.to_be_bytes());
        octets[ports + 2..ports + 4].copy_from_slice(&self.destination.1.to_be_bytes());
        octets
    }
}

fn queue_of(octets: &[u8], queues: u64) -> u8 {
    queue(Bytes::from_slice(&mut octets.to_vec()), queues, Hash::Flow)
}

fn tagged(octets: &[u8], tags: &[[u8; 2]]) -> Vec<u8> {
    let words = tags.iter().flat_map(|tag| [tag[0], tag[1], 0x20, 0x07]);
    octets[..12].iter().copied().chain(words).chain(octets[12..].iter().copied()).collect()
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let end = || (any::<u32>(), any::<u16>());
    (end(), end(), prop_oneof![Just(17), Just(6), Just(132), any::<u8>()])
        .prop_map(|(source, destination, protocol)| Packet { source, destination, protocol })
}

proptest! {
    #[test]
    fn nothing_but_the_flow_decides(packet in any_packet(), queues in 1..=64_u64, other in any::<[u8; 64]>()) {
        let first = packet.frame(0);
        let mut later = other.to_vec();
        for range in [12..15, 23..24, 26..38] {
            later[range.clone()].copy_from_slice(&first[range]);
        }
        // Not a fragment.
        (later[20], later[21]) = (later[20] & 0xc0, 0);
        let chosen = queue_of(&first, queues);
        prop_assert!(u64::from(chosen) < queues);
        prop_assert_eq!(queue_of(&later, queues), chosen);
    }

    #[test]
    fn tags_and_options_change_nothing(packet in any_packet(), queues in 1..=64_u64, options in 0..=10_u8) {
        let chosen = queue_of(&packet.frame(0), queues);
        let frame = packet.frame(options);
        prop_assert_eq!(queue_of(&frame, queues), chosen);
        prop_assert_eq!(queue_of(&tagged(&frame, &[[0x81, 0]]), queues), chosen);
        prop_assert_eq!(queue_of(&tagged(&frame, &[[0x88, 0xa8], [0x81, 0]]), queues), chosen);
    }

    #[test]
    fn both_directions_meet_where_that_is_asked_for(packet in any_packet(), queues in 1..=64_u64) {
        let [mut there, mut back] = [packet.frame(0), packet.back().frame(0)];
        let chosen = [&mut there, &mut back]
            .map(|octets| queue(Bytes::from_slice(octets), queues, Hash::Symmetric));
        prop_assert_eq!(chosen[0], chosen[1]);
    }

    #[test]
    fn fragments_stay_together_though_only_the_first_has_ports(
        packet in any_packet(), data in any::<(u16, u16)>(), offset in 1..0x1fff_u16,
    ) {
        let mut first = packet.frame(0);
        first[20] = 0x20;
        let mut other = Packet {
            source: (packet.source.0, data.0), destination: (packet.destination.0, data.1), ..packet
        }.frame(0);
        other[20..22].copy_from_slice(&offset.to_be_bytes());
        prop_assert_eq!(queue_of(&first, 16), queue_of(&other, 16));
    }

    #[test]
    fn no_octets_are_too_few_or_too_strange(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        prop_assert!(queue_of(&octets, 16) < 16);
    }

    #[test]
    fn bursts_of_any_length_are_dealt_out_whole_and_in_order(
        flows in prop::collection::vec(0..40_u32, 0..200), queues in 1..=70_usize,
    ) {
        let mut octets: Vec<_> = flows
            .iter()
            .enumerate()
            .map(|(n, flow)| {
                let mut frame = Packet { source: (*flow, 7), ..UDP }.frame(0);
                frame[60..].copy_from_slice(&(n as u32).to_be_bytes());
                frame
            })
            .collect();
        let expected: Vec<_> = octets.iter().map(|octets| queue_of(octets, queues.min(MOST) as u64)).collect();
        let burst: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        let mut came = vec![Vec::new(); MOST];
        by_flow(&burst, queues, Hash::Flow, |queue, group| {
            came[queue].extend(group.iter().filter_map(|frame| frame.octets().read(60).map(u32::from_be_bytes)));
        });
        for (queue, numbers) in came.iter().enumerate() {
            let due: Vec<_> =
                (0..).zip(&expected).filter(|(_, due)| usize::from(**due) == queue).map(|(n, _)| n).collect();
            prop_assert_eq!(numbers, &due);
        }
    }
}

#[test]
fn queues_are_ranges_of_buckets() {
    for port in 0..2000 {
        let mut frame = Packet { source: (0xc612_0002, port), ..UDP }.frame(0);
        for queues in [2, 4, 16, 64] {
            let place = bucket(Bytes::from_slice(&mut frame), Hash::Flow);
            assert_eq!(u64::from(place) * queues / 256, u64::from(queue_of(&frame, queues)));
        }
    }
}

#[test]
fn a_burst_is_dealt_out_as_somebody_has_chosen() {
    let mut octets: Vec<Vec<u8>> = (0..5).map(|n| vec![n; 20]).collect();
    let burst: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    let mut choices = [0; BURST];
    choices[..5].copy_from_slice(&[63, 0, 63, 7, 0]);
    let mut came = Vec::new();
    by_choice(&burst, &choices, |receiver, group| {
        let marks: Vec<_> = group.iter().filter_map(|frame| frame.octets().read::<1>(0)).flatten().collect();
        came.push((receiver, marks));
    });
    assert_eq!(came, [(0, vec![1, 4]), (7, vec![3]), (63, vec![0, 2])]);
}

#[test]
fn frames_of_one_flow_are_dealt_out_one_by_one() {
    let mut octets: Vec<Vec<u8>> = (0..100).map(|n| vec![n; 20]).collect();
    let frames: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    let mut came = vec![Vec::new(); 3];
    one_by_one(&frames, 3, 7, |queue, group| {
        came[queue].extend(group.iter().filter_map(|frame| frame.octets().read::<1>(0)).flatten());
    });
    let due = |queue: u8| (0..100_u8).filter(|n| (n + 1) % 3 == queue).collect::<Vec<_>>();
    assert_eq!(came, [due(0), due(1), due(2)]);
    one_by_one(&frames[..1], 0, 5, |queue, group| assert_eq!((queue, group.len()), (0, 1)));
}

#[test]
fn what_has_no_flow_goes_to_queue_0() {
    let frame = UDP.frame(0);
    let mut strange = vec![frame[..33].to_vec(), Vec::new(), tagged(&frame, &[[0x81, 0]; 3])];
    for (at, octet) in [(12, 0x86), (13, 6), (14, 0x44), (14, 0x60)] {
        strange.push(frame.clone());
        strange.last_mut().expect("just pushed")[at] = octet;
    }
    for octets in strange {
        assert_eq!(queue_of(&octets, 64), 0, "{octets:x?}");
    }
}

/// Addresses, protocol and ports of an IPv6 packet.
#[derive(Clone, Copy, Debug)]
struct Packet6 {
    source: (u128, u16),
    destination: (u128, u16),
    protocol: u8,
}

const UDP6: Packet6 = Packet6 {
    source: (0x2001_0db8 << 96 | 2, 1024),
    destination: (0x2001_0db8_0001 << 80 | 2, 2000),
    protocol: 17,
};

impl Packet6 {
    fn back(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }

    /// Returns its frame of 64 octets.
    fn frame(self) -> Vec<u8> {
        let mut octets = vec![0; 64];
        octets[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        octets[20] = self.protocol;
        octets[22..38].copy_from_slice(&self.source.0.to_be_bytes());
        octets[38..54].copy_from_slice(&self.destination.0.to_be_bytes());
        octets[54..56].copy_from_slice(&self.source.1.to_be_bytes());
        octets[56..58].copy_from_slice(&self.destination.1.to_be_bytes());
        octets
    }
}

proptest! {
    #[test]
    fn both_directions_of_ipv6_meet_and_tags_change_nothing(
        source: (u128, u16), destination: (u128, u16), queues in 1..=64_u64, label in any::<[u8; 3]>(),
        protocol in prop_oneof![Just(17), Just(6), any::<u8>()],
    ) {
        let packet = Packet6 { source, destination, protocol };
        let mut there = packet.frame();
        // Neither the flow label nor the hop limit belongs to the flow.
        (there[15], there[16], there[17], there[21]) = (label[0], label[1], label[2], label[0]);
        let chosen = |octets: &[u8]| queue(Bytes::from_slice(&mut octets.to_vec()), queues, Hash::Symmetric);
        prop_assert!(u64::from(chosen(&there)) < queues);
        prop_assert_eq!(chosen(&there), chosen(&packet.back().frame()));
        prop_assert_eq!(chosen(&there), chosen(&tagged(&there, &[[0x88, 0xa8], [0x81, 0]])));
        prop_assert_eq!(queue_of(&there, queues), queue_of(&packet.frame(), queues));
    }
}

#[test]
fn ipv6_flows_are_spread_over_all_queues() {
    let flows: [fn(u16) -> Packet6; 4] = [
        |n| Packet6 { source: (UDP6.source.0, n), ..UDP6 },
        |n| Packet6 { source: (UDP6.source.0 + u128::from(n), 1024), ..UDP6 },
        |n| Packet6 { destination: (UDP6.destination.0 + (u128::from(n) << 64), 443), ..UDP6 },
        |n| Packet6 { source: (UDP6.source.0 + u128::from(n), n), protocol: 6, ..UDP6 },
    ];
    for (what, flow) in flows.into_iter().enumerate() {
        for hash in [Hash::Flow, Hash::Symmetric] {
            let mut counts = [0_u32; 8];
            for n in 0..4096 {
                let mut octets = flow(n).frame();
                counts[usize::from(queue(Bytes::from_slice(&mut octets), 8, hash))] += 1;
            }
            assert!(counts.iter().all(|count| (256..1024).contains(count)), "{what}, {hash:?}: {counts:?}");
        }
    }
}

#[test]
fn ipv6_packets_with_extension_headers_go_by_their_addresses() {
    let fragment = Packet6 { protocol: 44, ..UDP6 };
    let later = Packet6 { source: (UDP6.source.0, 7), destination: (UDP6.destination.0, 9), ..fragment };
    assert_eq!(queue_of(&fragment.frame(), 64), queue_of(&later.frame(), 64));
    // Too short for ports, and for addresses; and of another version than its ethertype says.
    let without = Packet6 { source: (UDP6.source.0, 0), destination: (UDP6.destination.0, 0), ..UDP6 };
    assert_eq!(queue_of(&UDP6.frame()[..57], 64), queue_of(&without.frame(), 64));
    assert_eq!(queue_of(&UDP6.frame()[..53], 64), 0);
    let mut strange = UDP6.frame();
    strange[14] = 0x45;
    assert_eq!(queue_of(&strange, 64), 0);
}

#[test]
fn a_packet_too_short_for_its_ports_goes_by_its_addresses() {
    let frame = UDP.frame(0);
    let without = Packet { source: (UDP.source.0, 0), destination: (UDP.destination.0, 0), ..UDP }.frame(0);
    assert_eq!(queue_of(&frame[..36], 64), queue_of(&without, 64));
}

/// Returns Pearson's chi-squared statistic of the distribution of flows over queues.
fn chi_square(flows: &[Packet], queues: u64, hash: Hash) -> f64 {
    let mut counts = vec![0.0; queues as usize];
    for flow in flows {
        counts[usize::from(queue(Bytes::from_slice(&mut flow.frame(0)), queues, hash))] += 1.0;
    }
    let fair = flows.len() as f64 / queues as f64;
    counts.iter().map(|count| (count - fair) * (count - fair) / fair).sum()
}

/// Sets of flows that differ as typical networks' flows do.
fn typical_flows() -> Vec<(&'static str, Vec<Packet>)> {
    const FLOWS: u32 = 8192;
    let flows = |make: fn(u32) -> Packet| (0..FLOWS).map(make).collect();
    vec![
        ("source ports in a row", flows(|n| Packet { source: (0x0a00_0001, 1024 + n as u16), ..UDP })),
        ("every second source port", flows(|n| Packet { source: (0x0a00_0001, (2 * n) as u16), ..UDP })),
        ("every 16th source port, two addresses", {
            flows(|n| Packet { source: (0x0a00_0001 + n / 4096, (16 * n) as u16), ..UDP })
        }),
        ("destination ports in a row", flows(|n| Packet { destination: (0x0a00_0001, n as u16), ..UDP })),
        ("source addresses in a row", flows(|n| Packet { source: (0x0a00_0000 + n, 5000), ..UDP })),
        ("destination addresses in a row", flows(|n| Packet { destination: (0x0a00_0000 + n, 80), ..UDP })),
        ("a network of each /24", flows(|n| Packet { destination: (0x0a00_0001 + (n << 8), 80), ..UDP })),
        ("a network of each /19", flows(|n| Packet { destination: ((n << 19) + 1, 80), ..UDP })),
        ("address and port together", {
            flows(|n| Packet { source: (0x0a00_0000 + n, 1024 + n as u16), ..UDP })
        }),
        ("both addresses together", {
            flows(|n| Packet { source: (0x0a00_0000 + n, 1), destination: (0x0b00_0000 + n, 1), protocol: 6 })
        }),
        ("clients by servers", {
            flows(|n| Packet {
                source: (0x0a00_0000 + n % 128, 4000),
                destination: (0x0b00_0000 + n / 128, 443),
                protocol: 6,
            })
        }),
        ("protocols without ports", {
            flows(|n| Packet { source: (0x0a00_0000 + n, 0), destination: (0x0b00_0000, 0), protocol: 50 })
        }),
    ]
}

#[test]
fn typical_flows_are_spread_as_evenly_as_chance_would() {
    for (what, flows) in typical_flows() {
        for queues in 2..=16_u64 {
            for hash in [Hash::Flow, Hash::Symmetric] {
                let statistic = chi_square(&flows, queues, hash);
                // With this many degrees of freedom, chance exceeds mean + 5 deviations in less than one of 1000 cases.
                let freedom = (queues - 1) as f64;
                let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
                assert!(statistic < bound, "{what}, {queues} queues, {hash:?}: {statistic:.1} of {bound:.1}");
            }
        }
    }
}
