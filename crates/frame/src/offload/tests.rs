use proptest::prelude::*;

use super::*;

#[test]
fn nothing_is_nothing() {
    assert_eq!(Offload::from_virtio([0; VIRTIO]), Ok(Offload::NONE));
    assert_eq!(Offload::NONE.to_virtio(), [0; VIRTIO]);
    assert_eq!(Offload::NONE.needed(), Offloads::NONE);
    assert!(Offload::NONE.fits(0));
    assert_eq!(size_of::<Offload>(), 8);
}

#[test]
fn a_verified_checksum_is_told_and_leaves_nothing_to_do() {
    let header = [2, 0, 9, 9, 9, 9, 9, 9, 9, 9];
    let offload = Offload::from_virtio(header).unwrap();
    assert_eq!(offload, Offload::DATA_VALID);
    assert!(!offload.is_work() && offload.data_valid());
    assert_eq!(offload.to_virtio(), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_tcp_frame_of_the_kernel() {
    // NEEDS_CSUM, TCPV4 with ECN, 54 octets of headers, 1448 of payload in each, checksum at 34 + 16.
    let header = [1, 0x81, 66, 0, 0xa8, 0x05, 34, 0, 16, 0];
    let offload = Offload::from_virtio(header).unwrap();
    assert_eq!(offload.gso(), Some(Gso::Tcp4));
    assert!(offload.ecn() && offload.needs_csum() && offload.is_work());
    assert_eq!((offload.hdr_len(), offload.gso_size()), (66, 1448));
    assert_eq!((offload.csum_start(), offload.csum_offset()), (34, 16));
    assert_eq!(offload.needed(), Offloads::CSUM | Offloads::TSO4 | Offloads::ECN);
    assert_eq!(offload.to_virtio(), header);
    assert!(offload.fits(52) && !offload.fits(51));
}

#[test]
fn what_nobody_can_do_is_refused() {
    let refused = [
        ("UFO", [1, 3, 42, 0, 0, 5, 34, 0, 6, 0]),
        ("unknown", [1, 2, 42, 0, 0, 5, 34, 0, 6, 0]),
        ("no size", [1, 1, 54, 0, 0, 0, 34, 0, 16, 0]),
        ("no checksum", [0, 1, 54, 0, 0, 5, 34, 0, 16, 0]),
        ("ECN of UDP", [1, 0x85, 42, 0, 0, 5, 34, 0, 6, 0]),
        ("ECN of nothing", [1, 0x80, 42, 0, 0, 5, 34, 0, 6, 0]),
        ("an offset out of bounds", [1, 0, 0, 0, 0, 0, 34, 0, 0, 1]),
        ("a start out of bounds", [1, 0, 0, 0, 0, 0, 0, 8, 16, 0]),
    ];
    for (what, header) in refused {
        assert_eq!(Offload::from_virtio(header), Err(BadOffload), "{what}");
    }
}

#[test]
fn a_tag_moves_what_lies_behind_it() {
    let offload = Offload::checksum(34, 16).unwrap().with_gso(Gso::Tcp4, 1448, 54).with_ecn();
    let tagged = offload.moved(4).unwrap();
    assert_eq!((tagged.csum_start(), tagged.hdr_len(), tagged.csum_offset()), (38, 58, 16));
    assert_eq!(tagged.gso(), offload.gso());
    assert_eq!(tagged.moved(-4), Some(offload));
    assert_eq!(Offload::NONE.moved(4), Some(Offload::NONE));
    assert_eq!(Offload::checksum(2, 16).unwrap().moved(-4), None);
    assert_eq!(Offload::checksum(2047, 16).unwrap().moved(4), None);
    assert_eq!(
        Offload::checksum(34, 16).unwrap().moved(4).unwrap().hdr_len(),
        0,
        "not known stays not known"
    );
}

#[test]
fn sets_make_sense() {
    assert_eq!((Offloads::TSO4 | Offloads::USO).consistent(), Offloads::NONE);
    assert_eq!((Offloads::CSUM | Offloads::ECN).consistent(), Offloads::CSUM);
    assert_eq!(Offloads::ALL.consistent(), Offloads::ALL);
    assert_eq!(!Offloads::ALL, Offloads::NONE);
    assert!(!Offloads::CSUM.segments() && (Offloads::CSUM | Offloads::USO).segments());
    assert_eq!(Offloads::from_bits(0xff), Offloads::ALL);
}

/// Headers that are often valid.
fn headers() -> impl Strategy<Value = [u8; VIRTIO]> {
    let kinds = prop::sample::select(&[0_u8, 1, 3, 4, 5, 0x80, 0x81, 0x84, 0x85][..]);
    (0..4_u8, kinds, 0..200_u16, any::<u16>(), 0..2200_u16, 0..300_u16).prop_map(
        |(flags, kind, headers, size, start, offset)| {
            let [[a, b], [c, d], [e, f], [g, h]] = [headers, size, start, offset].map(u16::to_le_bytes);
            [flags, kind, a, b, c, d, e, f, g, h]
        },
    )
}

proptest! {
    /// Decoding and encoding a header preserves all meaningful fields.
    #[test]
    fn a_header_survives(header in headers()) {
        if let Ok(offload) = Offload::from_virtio(header) {
            prop_assert_eq!(Offload::from_virtio(offload.to_virtio()), Ok(offload));
            prop_assert_eq!(Offloads::from_bits(offload.bits() as u8), offload.needed());
            prop_assert_eq!(offload.bits() >> BITS, 0);
            if offload.is_work() {
                let size = if offload.gso().is_some() { [header[4], header[5]] } else { [0; 2] };
                let start = u16::from_le_bytes([header[6], header[7]]);
                let known = u16::from_le_bytes([header[2], header[3]]);
                let known = if (start..start + 64).contains(&known) && known != start { known } else { 0 };
                let expected = [&header[1..2], &known.to_le_bytes(), &size, &header[6..]].concat();
                prop_assert_eq!(&offload.to_virtio()[1..], &expected);
            }
        }
    }
}
