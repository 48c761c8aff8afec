//! Receive filters (82540EM manual, "Packet Address Filtering", "802.1q VLAN Support").

use super::super::super::statistics::Registers;
use super::*;

const BROADCAST: [u8; 6] = [0xff; 6];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 0x12];
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 8];

fn to(destination: [u8; 6]) -> Vec<u8> {
    let mut frame = frame(1, 64);
    frame[..6].copy_from_slice(&destination);
    frame
}

/// Returns a frame with a VLAN tag.
fn tagged(tag: u16, len: usize) -> Vec<u8> {
    let frame = frame(3, len);
    [&frame[..12], &[0x81, 0x00], &tag.to_be_bytes(), &frame[12..]].concat()
}

fn with(change: impl FnOnce(&mut Filters)) -> RxSettings {
    let mut filters = (*plain().filters).clone();
    change(&mut filters);
    RxSettings { filters: Arc::new(filters), ..plain() }
}

/// Delivers a burst; returns the frames that arrive, and the status of each.
fn arrive(settings: &RxSettings, block: bool, frames: &[Vec<u8>]) -> Vec<(Vec<u8>, u8)> {
    let mut guest = Guest::new(64, block);
    let mut queue = guest.queue(settings.clone());
    let ledger = NicDirection::default();
    guest.post(63);
    assert_eq!(fill(&mut queue, &ledger, frames).taken, frames.len());
    let back: Vec<_> = guest.back().into_iter().map(|(octets, received)| (octets, received.status)).collect();
    assert_eq!(ledger.frames.get(), back.len() as u64);
    assert_eq!(ledger.drop_filtered.get(), (frames.len() - back.len()) as u64);
    back
}

#[test]
fn only_what_a_filter_lets_pass_arrives() {
    let frames = [STRANGER, OWN, BROADCAST, GROUP, OWN, STRANGER].map(to);
    let cases = [
        (plain(), [0, 1, 0, 0, 1, 0]),
        (with(|filters| filters.broadcast = true), [0, 1, 1, 0, 1, 0]),
        (with(|filters| filters.multicast = true), [0, 1, 1, 1, 1, 0]),
        (with(|filters| filters.unicast = true), [1, 1, 0, 0, 1, 1]),
        (with(|filters| filters.addresses[3] = Some(STRANGER)), [1, 1, 0, 0, 1, 1]),
        (with(|filters| filters.addresses[0] = None), [0; 6]),
        (with(|filters| (filters.unicast, filters.multicast) = (true, true)), [1; 6]),
    ];
    for (settings, passes) in cases {
        for block in [false, true] {
            let expected: Vec<_> = frames
                .iter()
                .zip(passes)
                .filter(|(_, passes)| *passes == 1)
                .map(|(frame, _)| frame.clone())
                .collect();
            let back: Vec<_> =
                arrive(&settings, block, &frames).into_iter().map(|(octets, _)| octets).collect();
            assert_eq!(back, expected, "{:?}, block {block}", settings.filters);
        }
    }
}

#[test]
fn a_multicast_hash_lets_pass_and_says_that_software_has_to_look() {
    // With MO 0: the highest 12 bits of the address, 0x120.
    let settings = with(|filters| filters.hashes[0x120 >> 5] = 1 << (0x120 & 31));
    for block in [false, true] {
        let back = arrive(&settings, block, &[to(GROUP), to(BROADCAST), to(OWN)]);
        assert_eq!(back.len(), 2);
        assert_eq!((back[0].1 & rx::PIF, back[1].1 & rx::PIF), (rx::PIF, 0));
    }
}

#[test]
fn a_vlan_filter_looks_at_tags_alone() {
    let settings = with(|filters| {
        let mut vlans = Box::new([0; 128]);
        vlans[100 >> 5] = 1 << (100 & 31);
        filters.vlans = Some(vlans);
    });
    for block in [false, true] {
        let frames = [frame(1, 64), tagged(100, 64), tagged(101, 64), tagged(0x6000 | 100, 64)];
        let back: Vec<_> = arrive(&settings, block, &frames).into_iter().map(|(octets, _)| octets).collect();
        assert_eq!(back, [&frames[0], &frames[1], &frames[3]].map(Clone::clone));
    }
}

#[test]
fn a_tag_moves_into_the_descriptor() {
    let mut guest = Guest::new(64, false);
    let mut queue = guest.queue(RxSettings { vlan: true, ..plain() });
    let ledger = NicDirection::default();
    guest.post(8);
    assert_eq!(fill(&mut queue, &ledger, &[tagged(0x2064, 100), frame(1, 64), tagged(5, 14)]).taken, 3);
    let back = guest.back();
    assert_eq!((&back[0].0, back[0].1.special), (&frame(3, 100), 0x2064));
    assert_eq!(back[0].1.status & rx::VP, rx::VP);
    assert_eq!((&back[1].0, back[1].1.special, back[1].1.status & rx::VP), (&frame(1, 64), 0, 0));
    // 60 octets on the wire, less the tag.
    let mut short = frame(3, 14);
    short.resize(56, 0);
    assert_eq!((&back[2].0, back[2].1.special), (&short, 5));
    assert_eq!(ledger.bytes.get(), 104 + 64 + 18);
}

#[test]
fn a_tag_stays_where_it_is_unless_it_is_asked_for() {
    let frames = [tagged(0x2064, 100)];
    let back = arrive(&plain(), false, &frames);
    assert_eq!((&back[0].0, back[0].1 & rx::VP), (&frames[0], 0));
    // A frame of another type has no tag.
    let back = arrive(&RxSettings { vlan: true, vlan_type: 0x88a8, ..plain() }, true, &frames);
    assert_eq!((&back[0].0, back[0].1 & rx::VP), (&frames[0], 0));
}

#[test]
fn a_tag_of_a_long_frame_is_told_in_its_last_descriptor() {
    let mut guest = Guest::new(64, false);
    let mut queue = guest.queue(RxSettings { vlan: true, buffer_len: 256, ..plain() });
    let ledger = NicDirection::default();
    guest.post(8);
    assert_eq!(fill(&mut queue, &ledger, &[tagged(9, 600)]).taken, 1);
    let back = guest.back();
    let told: Vec<_> = back.iter().map(|(_, r)| (r.length, r.special, r.status & rx::VP)).collect();
    assert_eq!(told, [(256, 0, 0), (256, 0, 0), (88, 9, rx::VP)]);
    assert_eq!(back.into_iter().flat_map(|(octets, _)| octets).collect::<Vec<_>>(), frame(3, 600));
}

#[test]
fn the_statistics_registers_tell_what_came() {
    let mut registers = Registers::new();
    let settings = RxSettings { longest: 1518, ..with(|filters| filters.multicast = true) };
    let mut guest = Guest::new(16, false);
    let mut queue = guest.queue_with(settings, &registers.counted());
    guest.post(5);
    let ending = |mut frame: Vec<u8>, len| {
        frame.resize(len, 7);
        frame
    };
    let frames = [
        to(OWN),
        ending(to(OWN), 123),
        ending(to(BROADCAST), 300),
        ending(to(GROUP), 1514),
        to(STRANGER),
        ending(to(OWN), 1519),
        to(OWN)[..60].to_vec(),
        to(OWN),
        to(OWN),
    ];
    assert_eq!(fill(&mut queue, &NicDirection::default(), &frames).taken, 7);
    let mut read = |offset| registers.read(offset).unwrap();
    // GPRC, MPRC, BPRC, ROC, MPC, RNBC.
    assert_eq!([0x4074, 0x407c, 0x4078, 0x40ac, 0x4010, 0x40a0].map(&mut read), [5, 1, 1, 1, 2, 2]);
    // PRC64 to PRC1522, and GORCL, which counts the FCS.
    assert_eq!([0x405c, 0x4060, 0x4064, 0x4068, 0x406c, 0x4070].map(&mut read), [1, 2, 0, 1, 0, 1]);
    assert_eq!(read(0x4088), 64 + 123 + 300 + 1514 + 60 + 5 * 4);
}
