//! Checksums and tags of frames that are not segmented.

use super::model::textbook;
use super::*;

/// Returns a UDP datagram in IPv4 with a pseudo header's sum in its checksum field, as a driver leaves it; and its
/// expected form on the wire.
fn datagram(payload: usize) -> (Vec<u8>, Vec<u8>) {
    let mut given = frame(3, 42 + payload);
    given[12..14].copy_from_slice(&[8, 0]);
    let (ip_len, udp_len) = ((28 + payload) as u16, (8 + payload) as u16);
    given[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17]);
    given[16..18].copy_from_slice(&ip_len.to_be_bytes());
    given[24..26].fill(0);
    given[26..34].copy_from_slice(&[192, 0, 2, 1, 198, 51, 100, 7]);
    given[38..40].copy_from_slice(&udp_len.to_be_bytes());
    given[40..42].fill(0);
    let pseudo = [&given[26..34], &[0, 17], &udp_len.to_be_bytes()].concat();
    let mut wire = given.clone();
    let udp = textbook(&[&pseudo[..], &wire[34..]].concat());
    wire[40..42].copy_from_slice(&udp.to_be_bytes());
    let ip = textbook(&wire[14..34]);
    wire[24..26].copy_from_slice(&ip.to_be_bytes());
    given[40..42].copy_from_slice(&(!textbook(&pseudo)).to_be_bytes());
    (given, wire)
}

/// Context with the offsets of such a datagram.
const UDP: Context = Context {
    ip_start: 14,
    ip_offset: 24,
    ip_end: 33,
    tcp_start: 34,
    tcp_offset: 40,
    tcp_end: 0,
    payload: 0,
    command: 0,
    status: 0,
    header: 0,
    mss: 0,
};

#[test]
fn each_checksum_is_inserted_if_it_is_asked_for() {
    for options in 0..4 {
        for payload in [0, 1, 100, 1001, 1472] {
            let mut guest = Guest::new(64);
            let (given, wire) = datagram(payload);
            guest.push(UDP);
            guest.data(&given, tx::EOP, options);
            let mut expected = given.clone();
            if options & tx::IXSM != 0 {
                expected[24..26].copy_from_slice(&wire[24..26]);
            }
            if options & tx::TXSM != 0 {
                expected[40..42].copy_from_slice(&wire[40..42]);
            }
            expected.resize(expected.len().max(60), 0);
            assert_eq!(guest.frames(), [expected], "{options} {payload}");
        }
    }
}

#[test]
fn the_guest_s_buffer_stays_as_it_was() {
    let mut guest = Guest::new(64);
    let (given, wire) = datagram(100);
    guest.push(UDP);
    let address = guest.free;
    guest.data(&given, tx::EOP, tx::IXSM | tx::TXSM);
    assert_eq!(guest.frames(), [wire]);
    let mut left = vec![0; given.len()];
    guest.region.bytes(address, given.len() as u32).unwrap().copy_to_slice(&mut left);
    assert_eq!(left, given);
}

#[test]
fn options_count_in_the_first_data_descriptor_of_a_packet_alone() {
    for (first, second, inserted) in [(tx::IXSM | tx::TXSM, 0, true), (0, tx::IXSM | tx::TXSM, false)] {
        let mut guest = Guest::new(64);
        let (given, wire) = datagram(100);
        guest.push(UDP);
        guest.data(&given[..30], 0, first);
        guest.data(&given[30..], tx::EOP, second);
        assert_eq!(guest.frames(), [if inserted { wire } else { given }]);
    }
}

#[test]
fn a_context_stays_until_the_next_one_and_comes_too_late_within_a_packet() {
    let mut guest = Guest::new(64);
    let (given, wire) = datagram(100);
    guest.push(UDP);
    for _ in 0..2 {
        guest.data(&given[..20], 0, tx::IXSM | tx::TXSM);
        guest.push(Context::default());
        guest.data(&given[20..], tx::EOP, 0);
        guest.push(UDP);
        // The context for segmentation is separate.
        guest.push(Context { command: tx::TSE, ..Context::default() });
    }
    assert_eq!(guest.frames(), [wire.clone(), wire]);
}

#[test]
fn a_checksum_of_zero_is_sent_as_all_ones() {
    let mut guest = Guest::new(64);
    let (mut given, _) = datagram(100);
    // Chooses the payload so that the sum is all ones: the complement of the rest.
    given[42..44].fill(0);
    let rest = textbook(&given[34..]);
    given[42..44].copy_from_slice(&rest.to_be_bytes());
    guest.push(UDP);
    guest.data(&given, tx::EOP, tx::TXSM);
    assert_eq!(guest.frames()[0][40..42], [0xff, 0xff]);
}

#[test]
fn a_legacy_descriptor_inserts_one_checksum() {
    for (css, cso) in [(14, 24), (34, 40), (0, 0), (99, 40), (100, 40), (14, 98), (14, 99), (255, 255)] {
        for ic in [0, tx::IC] {
            let mut guest = Guest::new(64);
            let given = frame(5, 100);
            let address = guest.store(&given);
            guest.push(Legacy { address, length: 100, cso, command: tx::EOP | ic, css, ..Legacy::default() });
            let mut expected = given.clone();
            if ic != 0 && usize::from(css) < 100 && usize::from(cso) < 99 {
                let sum = textbook(&given[usize::from(css)..]);
                expected[usize::from(cso)..usize::from(cso) + 2].copy_from_slice(&sum.to_be_bytes());
            }
            assert_eq!(guest.frames(), [expected], "{css} {cso}");
        }
    }
}

#[test]
fn insertion_by_a_legacy_descriptor_counts_at_the_end_of_the_packet_alone() {
    let given = frame(5, 100);
    for (first, last, inserted) in [(tx::IC, 0, false), (0, tx::IC, true)] {
        let mut guest = Guest::new(64);
        let (a, b) = (guest.store(&given[..50]), guest.store(&given[50..]));
        let both = Legacy { length: 50, cso: 24, css: 14, ..Legacy::default() };
        guest.push(Legacy { address: a, command: first, ..both });
        guest.push(Legacy { address: b, command: tx::EOP | last, ..both });
        let mut expected = given.clone();
        if inserted {
            expected[24..26].copy_from_slice(&textbook(&given[14..]).to_be_bytes());
        }
        assert_eq!(guest.frames(), [expected]);
    }
}

#[test]
fn tags_are_inserted_where_descriptor_and_device_say_so() {
    for (vlan, vle, inserted) in [(true, true, true), (false, true, false), (true, false, false)] {
        let mut guest = Guest::with(64, TxSettings { vlan, vlan_type: 0x88a8, ..SETTINGS });
        let given = frame(7, 100);
        let command = tx::EOP | if vle { tx::VLE } else { 0 };
        let mut expected = given.clone();
        if inserted {
            expected.splice(12..12, [0x88, 0xa8, 0x60, 0x12]);
        }
        let address = guest.store(&given);
        guest.push(Legacy { address, length: 100, command, special: 0x6012, ..Legacy::default() });
        guest.push(Data { address, length: 100, command, special: 0x6012, ..Data::default() });
        assert_eq!(guest.frames(), [expected.clone(), expected]);
    }
}

#[test]
fn the_tag_of_the_last_descriptor_counts_and_no_checksum_covers_it() {
    let mut guest = Guest::new(64);
    let (given, mut wire) = datagram(100);
    let (a, b) = (guest.store(&given[..30]), guest.store(&given[30..]));
    let options = tx::IXSM | tx::TXSM;
    guest.push(UDP);
    guest.push(Data { address: a, length: 30, command: tx::VLE, options, special: 1, ..Data::default() });
    let length = given.len() as u32 - 30;
    guest.push(Data {
        address: b,
        length,
        command: tx::EOP | tx::VLE,
        options,
        special: 2,
        ..Data::default()
    });
    wire.splice(12..12, [0x81, 0, 0, 2]);
    assert_eq!(guest.frames(), [wire]);
}

#[test]
fn a_tag_may_make_a_frame_longer_than_the_mtu_and_padding_counts_it() {
    let mut guest = Guest::new(64);
    for len in [14, 55, 56, 1514, 1515] {
        let address = guest.store(&frame(len, len));
        guest.push(Legacy { address, length: len as u16, command: tx::EOP | tx::VLE, ..Legacy::default() });
    }
    assert_eq!(guest.frames().iter().map(Vec::len).collect::<Vec<_>>(), [60, 60, 60, 1518]);
    assert_eq!(guest.ledger.drop_too_long.get(), 1);
}
