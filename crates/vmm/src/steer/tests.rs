use ring::Bytes;

use super::*;

/// An IPv4 frame of this protocol between these ports.
fn packet(source: u32, destination: u32, protocol: u8, ports: (u16, u16)) -> Vec<u8> {
    let mut octets = vec![0; 64];
    octets[12..15].copy_from_slice(&[8, 0, 0x45]);
    octets[23] = protocol;
    octets[26..30].copy_from_slice(&source.to_be_bytes());
    octets[30..34].copy_from_slice(&destination.to_be_bytes());
    octets[34..36].copy_from_slice(&ports.0.to_be_bytes());
    octets[36..38].copy_from_slice(&ports.1.to_be_bytes());
    octets
}

fn udp(source: u32, destination: u32, port: u16) -> Vec<u8> {
    packet(source, destination, 17, (port, 2000))
}

fn pair_of(octets: &[u8], pairs: usize) -> usize {
    pair(&Frame::new(Bytes::from_slice(&mut octets.to_vec())), pairs)
}

#[test]
fn the_frames_of_a_flow_go_to_one_pair_whatever_else_is_in_them() {
    for pairs in 1..=8 {
        for flow in 0..100 {
            let first = udp(flow, 7, 1024 + flow as u16);
            let mut later = first.clone();
            // Length, identification, time to live, checksum, data.
            for at in (16..20).chain([22, 24, 25]).chain(38..64) {
                later[at] = 0xaa;
            }
            assert_eq!(pair_of(&first, pairs), pair_of(&later, pairs));
        }
    }
}

#[test]
fn flows_are_spread_evenly_whatever_they_differ_in() {
    const FLOWS: usize = 8000;
    let kinds: [fn(u32) -> Vec<u8>; 3] = [
        |n| udp(0xc612_0002, 0xc612_0102, 1024 + n as u16),
        |n| udp(0xc612_0002 + n, 0xc612_0102, 1024),
        |n| udp(0xc612_0002, 0x0a00_0000 + (n << 8), 1024),
    ];
    for kind in kinds {
        for pairs in [2, 3, 4, 8] {
            let mut count = vec![0_usize; pairs];
            (0..FLOWS as u32).for_each(|n| count[pair_of(&kind(n), pairs)] += 1);
            let fair = FLOWS / pairs;
            assert!(count.iter().all(|n| n.abs_diff(fair) < fair / 4), "{count:?}");
        }
    }
}

#[test]
fn what_has_no_flow_goes_to_pair_0() {
    let mut arp = udp(1, 2, 3);
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut options = udp(1, 2, 3);
    options[14] = 0x46;
    for octets in [arp, options, udp(1, 2, 3)[..37].to_vec(), Vec::new()] {
        assert_eq!(pair_of(&octets, 8), 0);
    }
}

#[test]
fn fragments_of_a_packet_stay_together_though_only_the_first_has_ports() {
    for flow in 0..100 {
        let mut first = udp(flow, 7, 1024);
        first[20] = 0x20;
        let mut second = udp(flow, 7, 0xdead);
        second[20..22].copy_from_slice(&[0, 185]);
        assert_eq!(pair_of(&first, 8), pair_of(&second, 8));
    }
}

#[test]
fn protocols_without_ports_go_by_addresses() {
    let chosen: Vec<_> = [0, 99].iter().map(|port| pair_of(&packet(1, 2, 1, (*port, 5)), 8)).collect();
    assert_eq!(chosen[0], chosen[1]);
}

#[test]
fn a_burst_is_dealt_out_whole_and_in_order() {
    let mut octets: Vec<_> = (0..BURST as u32).map(|n| udp(n % 10, 2, 3)).collect();
    for (n, octets) in octets.iter_mut().enumerate() {
        octets[63] = n as u8;
    }
    let burst: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    let mut came = Vec::new();
    by_flow(&burst, 4, |pair, group| {
        let numbers: Vec<_> =
            group.iter().map(|frame| frame.octets().read::<1>(63).expect("64 octets")[0]).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "pair {pair} gets {numbers:?}");
        came.extend(numbers);
    });
    came.sort_unstable();
    assert!(came.iter().copied().eq(0..BURST as u8));
}
