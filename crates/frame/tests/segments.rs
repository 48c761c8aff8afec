//! Large frames are segmented, and reassembled by code that is independent of the segmentation.

use frame::offload::{Gso, LARGEST, MOST_SEGMENTS, Offload, Segments};
use proptest::prelude::*;

/// Parameters of a frame.
#[derive(Clone, Debug)]
struct Made {
    tags: usize,
    gso: Gso,
    ipv6: bool,
    /// Octets of options: of IPv4, or an extension header of IPv6.
    ip_options: usize,
    tcp_options: usize,
    flags: u8,
    sequence: u32,
    identification: u16,
    payload: Vec<u8>,
    size: u16,
}

impl Made {
    fn transport(&self) -> usize {
        14 + 4 * self.tags + if self.ipv6 { 40 } else { 20 } + self.ip_options
    }

    fn offload(&self) -> Offload {
        let sum = if self.gso == Gso::Udp { 6 } else { 16 };
        let header = if self.gso == Gso::Udp { 8 } else { 20 + self.tcp_options };
        let start = self.transport();
        Offload::checksum(start as u16, sum).unwrap().with_gso(self.gso, self.size, (start + header) as u16)
    }

    /// Returns the large frame with lengths and checksums of zero, as a driver may leave them.
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in 0..self.tags {
            frame.extend(if tag == 0 && self.tags == 2 { [0x88, 0xa8, 0, 7] } else { [0x81, 0, 0x20, 5] });
        }
        let protocol = if self.gso == Gso::Udp { 17 } else { 6 };
        if self.ipv6 {
            frame.extend([
                0x86,
                0xdd,
                0x6b,
                1,
                2,
                3,
                0,
                0,
                if self.ip_options > 0 { 60 } else { protocol },
                64,
            ]);
            frame.extend((0..32).map(|i| i * 5 + 1));
            if self.ip_options > 0 {
                frame.extend([protocol, (self.ip_options / 8 - 1) as u8]);
                frame.extend(vec![1; self.ip_options - 2]);
            }
        } else {
            frame.extend([8, 0, 0x45 + (self.ip_options / 4) as u8, 3, 0, 0]);
            frame.extend(self.identification.to_be_bytes());
            frame.extend([0x40, 0, 61, protocol, 0, 0, 10, 1, 2, 3, 192, 168, 7, 9]);
            frame.extend(vec![1; self.ip_options]);
        }
        frame.extend([0x9c, 0x40, 0x14, 0x51]);
        if self.gso == Gso::Udp {
            frame.extend([0; 4]);
        } else {
            frame.extend(self.sequence.to_be_bytes());
            frame.extend([0, 0, 0, 9, (0x50 + self.tcp_options * 4) as u8, self.flags, 1, 0, 0, 0, 0, 0]);
            frame.extend(vec![1; self.tcp_options]);
        }
        frame.extend(&self.payload);
        frame
    }
}

/// Returns the ones' complement sum, computed octet by octet.
fn sum(octets: &[u8]) -> u32 {
    let sum = octets.iter().enumerate().map(|(i, &octet)| u32::from(octet) << (8 * (1 - i % 2))).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

/// Header fields of a segment.
struct Read {
    identification: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

/// Parses a segment like a receiver that trusts no field.
fn read(made: &Made, segment: &[u8]) -> Read {
    let network = 14 + 4 * made.tags;
    let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let (packet, transport) = (&segment[network..], made.transport());
    let mut pseudo = Vec::new();
    if made.ipv6 {
        assert_eq!(usize::from(word(network + 4)), packet.len() - 40, "payload length");
        pseudo.extend(&packet[8..40]);
    } else {
        assert_eq!(usize::from(word(network + 2)), packet.len(), "total length");
        assert_eq!(sum(&packet[..20 + made.ip_options]), 0xffff, "checksum of the IPv4 header");
        pseudo.extend(&packet[12..20]);
    }
    let data = &segment[transport..];
    let protocol = if made.gso == Gso::Udp { 17 } else { 6 };
    pseudo.extend((data.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    assert_eq!(sum(&[&pseudo, data].concat()), 0xffff, "transport checksum");
    let identification = if made.ipv6 { 0 } else { word(network + 4) };
    if made.gso == Gso::Udp {
        assert_eq!(usize::from(word(transport + 4)), data.len(), "UDP length");
        assert_ne!(word(transport + 6), 0, "zero says that there is no checksum");
        return Read { identification, sequence: 0, flags: 0, payload: data[8..].to_vec() };
    }
    let sequence = u32::from_be_bytes(data[4..8].try_into().unwrap());
    let header = usize::from(data[12] >> 4) * 4;
    assert_eq!(header, 20 + made.tcp_options);
    Read { identification, sequence, flags: data[13], payload: data[header..].to_vec() }
}

/// Returns all segments in the form for a plain wire.
fn cut(made: &Made) -> Vec<Vec<u8>> {
    let frame = made.frame();
    let segments = Segments::new(made.offload(), frame.len(), &frame).unwrap();
    let one = |number| {
        let payload = &frame[segments.payload(number)];
        let mut segment = vec![0xee; segments.headers() + payload.len()];
        segment[segments.headers()..].copy_from_slice(payload);
        let left = segments.write(number, &mut segment);
        assert!(left.complete(&mut segment) && segment.len() <= segments.longest());
        segment
    };
    (0..segments.count()).map(one).collect()
}

fn made() -> impl Strategy<Value = Made> {
    let kind = prop_oneof![
        Just((Gso::Tcp4, false)),
        Just((Gso::Tcp6, true)),
        Just((Gso::Udp, false)),
        Just((Gso::Udp, true))
    ];
    let sizes = prop_oneof![1..60_usize, 60..9_000_usize, 60_000..65_300_usize];
    let ip = (0..=2_usize, 0..=2_usize, any::<u16>());
    let tcp = (0..=10_usize, any::<u8>(), any::<u32>());
    (kind, sizes, ip, tcp, 64..9_000_u16, any::<u8>()).prop_map(|((gso, ipv6), len, ip, tcp, size, seed)| {
        Made {
            tags: ip.0,
            gso,
            ipv6,
            ip_options: 8 * ip.1,
            tcp_options: if gso == Gso::Udp { 0 } else { 4 * tcp.0 },
            flags: tcp.1,
            sequence: tcp.2,
            identification: ip.2,
            payload: (0..len).map(|i| (i * 31) as u8 ^ seed ^ (i >> 8) as u8).collect(),
            size,
        }
    })
}

proptest! {
    #[test]
    fn what_was_cut_is_put_together_again(made in made()) {
        let segments: Vec<Read> = cut(&made).iter().map(|segment| read(&made, segment)).collect();
        let (last, size) = (segments.len() - 1, usize::from(made.size));
        let mut together = vec![0; made.payload.len()];
        let mut seen = 0;
        for (i, segment) in segments.iter().enumerate() {
            if !made.ipv6 {
                prop_assert_eq!(segment.identification, made.identification.wrapping_add(i as u16));
            }
            let at = if made.gso == Gso::Udp { seen } else { segment.sequence.wrapping_sub(made.sequence) as usize };
            prop_assert_eq!(at, seen, "in order, without a hole");
            together[at..at + segment.payload.len()].copy_from_slice(&segment.payload);
            seen += segment.payload.len();
            prop_assert_eq!(segment.payload.len(), if i < last { size } else { made.payload.len() - i * size });
            if made.gso != Gso::Udp {
                let mut flags = made.flags;
                flags &= if i < last { !0x09 } else { 0xff };
                flags &= if i > 0 { !0x80 } else { 0xff };
                prop_assert_eq!(segment.flags, flags, "FIN and PSH in the last one, CWR in the first");
            }
        }
        prop_assert_eq!(together, made.payload);
    }

    /// Arbitrary octets and arbitrary offload metadata.
    #[test]
    fn nonsense_does_no_harm(
        mut made in made(),
        holes in prop::collection::vec((0..90_usize, any::<u8>()), 0..6),
        start in prop_oneof![Just(None), (0..2048_u16).prop_map(Some)],
    ) {
        let mut offload = made.offload();
        if let Some(start) = start {
            offload = Offload::checksum(start, 16).unwrap().with_gso(made.gso, made.size, 0);
        }
        made.payload.truncate(2000);
        let mut frame = made.frame();
        for (at, octet) in holes {
            if let Some(place) = frame.get_mut(at) {
                *place = octet;
            }
        }
        if let Ok(segments) = Segments::new(offload, frame.len(), &frame) {
            let mut seen = segments.headers();
            for number in 0..segments.count() {
                let payload = segments.payload(number);
                prop_assert_eq!(payload.start, seen);
                seen = payload.end;
                let mut segment = vec![0; segments.headers() + payload.len()];
                prop_assert!(segments.write(number, &mut segment).complete(&mut segment));
            }
            prop_assert_eq!(seen, frame.len());
        }
    }
}

fn plain() -> Made {
    Made {
        tags: 0,
        gso: Gso::Tcp4,
        ipv6: false,
        ip_options: 0,
        tcp_options: 12,
        flags: 0x18,
        sequence: u32::MAX - 99,
        identification: 0xffff,
        payload: vec![7; 3000],
        size: 1448,
    }
}

#[test]
fn what_is_not_as_ordered_is_refused() {
    let good = plain();
    let (offload, frame) = (good.offload(), good.frame());
    let refused = |offload: Offload, frame: &[u8]| Segments::new(offload, frame.len(), frame).is_err();
    assert!(!refused(offload, &frame));
    let other = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = frame.clone();
        change(&mut frame);
        frame
    };
    assert!(refused(offload, &other(&|frame| frame[12] = 9)), "no IP");
    assert!(refused(offload, &other(&|frame| frame[14] = 0x44)), "an IPv4 header that is too short");
    assert!(refused(offload, &other(&|frame| frame[14] = 0x46)), "another place than ordered");
    assert!(refused(offload, &other(&|frame| frame[20] |= 0x20)), "a fragment");
    assert!(refused(offload, &other(&|frame| frame[23] = 17)), "UDP");
    assert!(refused(offload, &other(&|frame| frame[46] = 0x40)), "a TCP header that is too short");
    assert!(refused(offload, &other(&|frame| frame.truncate(66))), "no payload");
    assert!(refused(offload, &other(&|frame| frame.truncate(40))), "half a header");
    assert!(refused(offload.with_gso(Gso::Tcp6, 1448, 66), &frame), "not IPv6");
    assert!(refused(offload.with_gso(Gso::Udp, 1448, 66), &frame), "not UDP");
    assert!(
        refused(Offload::checksum(34, 6).unwrap().with_gso(Gso::Tcp4, 1448, 66), &frame),
        "another checksum"
    );
    assert!(refused(offload.with_gso(Gso::Tcp4, 2, 66), &frame), "3000 octets in more than {MOST_SEGMENTS}");
    assert!(refused(offload.with_gso(Gso::Tcp4, 1448, 66), &vec![0; LARGEST + 1]), "too large");
}

#[test]
fn one_segment_is_the_frame_itself_with_its_checksums() {
    let made = Made { size: 3000, ..plain() };
    let segments = cut(&made);
    assert_eq!(segments.len(), 1);
    let only = read(&made, &segments[0]);
    assert_eq!((only.payload, only.flags, only.sequence), (made.payload, 0x18, made.sequence));
}
