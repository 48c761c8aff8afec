use proptest::prelude::*;

use super::*;

const NIC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const THROUGH: Through = Through { member: Member(3), nic: 1, number: 0x0102_0304 };

/// What a router makes of a frame: another hop.
fn forwarded(mut octets: [u8; LEN]) -> [u8; LEN] {
    let header = ethernet::Header { destination: BACK, source: NIC, ethertype: ethernet::IPV4 };
    header.write(&mut octets).expect("a whole frame");
    let words = octets[22..26].try_into().expect("four octets");
    octets[22..26].copy_from_slice(&ipv4::age(words));
    octets
}

#[test]
fn a_probe_that_was_forwarded_is_known() {
    let probes = Probes::new(77);
    let sent = probes.frame(THROUGH, SOURCE, 0, NIC);
    let (ethernet, packet) = ethernet::Header::parse(&sent).expect("a frame");
    assert_eq!((ethernet.destination, ethernet.source), (NIC, BACK));
    let packet = ipv4::Packet::parse(packet).expect("a packet");
    assert_eq!(packet.header().destination, u32::from_be_bytes([192, 0, 0, 1]), "out of the first NIC");
    assert!(!ipv4::is_martian(packet.header().destination) && !ipv4::is_martian(packet.header().source));
    assert_eq!(probes.read(&forwarded(sent)), Some(THROUGH));
}

#[test]
fn a_probe_comes_from_where_a_strict_filter_of_its_nic_lets_it_in() {
    let (probes, own) = (Probes::new(77), strict_source(THROUGH.nic));
    let sent = probes.frame(THROUGH, own, 0, NIC);
    let packet = ipv4::Packet::parse(&sent[AT_IP..]).expect("a packet");
    assert_eq!((packet.header().source, packet.header().destination), (own, destination(0)));
    assert_eq!(probes.read(&forwarded(sent)), Some(THROUGH));
    for foreign in [strict_source(THROUGH.nic + 1), SOURCE + 1, destination(0)] {
        assert_eq!(probes.read(&forwarded(probes.frame(THROUGH, foreign, 0, NIC))), None, "{foreign:x}");
    }
}

#[test]
fn what_was_not_forwarded_or_is_somebody_elses_is_no_probe() {
    let probes = Probes::new(77);
    let sent = probes.frame(THROUGH, SOURCE, 0, NIC);
    assert_eq!(probes.read(&sent), None, "it comes back as it went");
    let mut bridged = sent;
    bridged[..6].copy_from_slice(&BACK.0);
    assert_eq!(probes.read(&bridged), None, "no hop further");
    assert_eq!(Probes::new(78).read(&forwarded(sent)), None, "of another run");
    assert_eq!(probes.read(&[]), None);
}

#[test]
fn each_nic_is_left_by_the_one_before() {
    let through = |nics: &[u8]| ways(nics, |_| 0);
    assert_eq!(through(&[0, 1, 2]), [(0, 1), (1, 2), (2, 0)]);
    assert_eq!(through(&[0, 2]), [(0, 2), (2, 0)], "the cable of NIC 1 is out");
    assert_eq!((through(&[3]), through(&[])), (vec![(3, 3)], vec![]));
    // NICs 0, 2 and 4 in one VRF, 1 and 3 in another, 5 alone.
    let vrf = |nic: u8| if nic == 5 { 2 } else { usize::from(nic % 2) };
    assert_eq!(ways(&[0, 1, 2, 3, 4, 5], vrf), [(0, 2), (1, 3), (2, 4), (3, 1), (4, 0), (5, 5)]);
    assert_eq!(ways(&[1, 4, 5], vrf), [(1, 1), (4, 4), (5, 5)]);
}

#[test]
fn no_probe_is_for_an_address_that_is_in_use_elsewhere() {
    let last = |nic: u8| {
        let [a, b, c, last] = destination(nic).to_be_bytes();
        assert_eq!([a, b, c], [192, 0, 0]);
        last
    };
    let all: Vec<u8> = (0..MOST_NICS).map(last).collect();
    assert_eq!(all, (1..=8).chain(16..=39).collect::<Vec<_>>());
    assert_eq!((destination(SOURCE_NIC), SOURCE.to_be_bytes()), (SOURCE, [192, 0, 0, 8]));
    let sources: Vec<[u8; 4]> = (0..MOST_NICS).map(|nic| strict_source(nic).to_be_bytes()).collect();
    assert_eq!(sources, (64..=95).map(|last| [192, 0, 0, last]).collect::<Vec<_>>());
    let is_martian = |nic: u8| [destination(nic), strict_source(nic)].into_iter().any(ipv4::is_martian);
    assert!(!(0..MOST_NICS).any(is_martian));
}

#[test]
fn each_nic_has_a_neighbour_of_its_own() {
    let all: Vec<Option<u8>> = (0..MOST_NICS).map(|nic| nic_of(back(nic).0)).collect();
    assert_eq!(all, (0..MOST_NICS).map(Some).collect::<Vec<_>>());
    assert_eq!((back(0), nic_of(NIC.0)), (BACK, None));
    assert!((0..=u8::MAX).all(|nic| back(nic).is_station()));
}

proptest! {
    #[test]
    fn every_probe_is_read_as_it_was_made(
        key in any::<u64>(), member in any::<u16>(), (nic, out) in (0..MOST_NICS, 0..MOST_NICS),
        number in any::<u32>(), is_strict in any::<bool>(),
    ) {
        let (probes, through) = (Probes::new(key), Through { member: Member(member), nic, number });
        let source = if is_strict { strict_source(nic) } else { SOURCE };
        prop_assert_eq!(probes.read(&forwarded(probes.frame(through, source, out, NIC))), Some(through));
    }

    #[test]
    fn a_probe_with_one_wrong_bit_is_none(bit in 0..58 * 8_usize) {
        let (probes, at) = (Probes::new(77), bit / 8);
        let mut octets = forwarded(probes.frame(THROUGH, SOURCE, 0, NIC));
        octets[at] ^= 1 << (bit % 8);
        // Whoever sends it is not looked at.
        let expected = (6..12).contains(&at).then_some(THROUGH);
        prop_assert_eq!(probes.read(&octets), expected);
    }

    #[test]
    fn no_octets_are_too_few_or_too_strange(octets in prop::collection::vec(any::<u8>(), 0..80), cut in 0..LEN) {
        let probes = Probes::new(77);
        prop_assert_eq!(probes.read(&octets), None);
        let whole = forwarded(probes.frame(THROUGH, SOURCE, 0, NIC));
        let is_whole = cut >= 58;
        prop_assert_eq!(probes.read(&whole[..cut]), is_whole.then_some(THROUGH));
    }
}
