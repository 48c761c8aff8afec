//! Segmented packets, judged as a receiver would: by parsing the frames.

use super::model::textbook;
use super::*;

/// A large TCP packet: 14 + 20 + 32 octets of headers in IPv4, 14 + 40 + 32 in IPv6, as a driver leaves them.
pub(super) struct Large {
    pub(super) header: Vec<u8>,
    payload: Vec<u8>,
    pub(super) context: Context,
}

const SEQUENCE: u32 = 0xffff_f000;

pub(super) fn large(v4: bool, payload: usize, mss: u16) -> Large {
    let mut header = frame(1, 14);
    let ip = if v4 {
        header[12..14].copy_from_slice(&[0x08, 0x00]);
        [&[0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7][..]].concat()
    } else {
        header[12..14].copy_from_slice(&[0x86, 0xdd]);
        [&[0x60, 0, 0, 0, 0, 0, 6, 64][..], &[0x20; 16], &[0x30; 16]].concat()
    };
    let addresses = if v4 { ip[12..].to_vec() } else { ip[8..].to_vec() };
    // The sum of the pseudo header, without the length, which differs.
    let seed = !textbook(&[&addresses[..], &[0, 6]].concat());
    let mut tcp =
        [&[0x12, 0x34, 0, 80][..], &SEQUENCE.to_be_bytes(), &[0, 0, 0, 9, 0x80, 0x99, 1, 2]].concat();
    tcp.extend(seed.to_be_bytes());
    tcp.extend([0, 0, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    let tcp_start = (14 + ip.len()) as u8;
    header.extend(ip);
    header.extend(tcp);
    let context = Context {
        ip_start: 14,
        ip_offset: 24,
        ip_end: if v4 { 33 } else { 0 },
        tcp_start,
        tcp_offset: tcp_start + 16,
        payload: payload as u32,
        command: tx::TSE | tx::TCP | if v4 { tx::IP } else { 0 },
        header: header.len() as u8,
        mss,
        ..Context::default()
    };
    Large { header, payload: octets(9, payload), context }
}

impl Large {
    fn options(&self) -> u8 {
        tx::TXSM | if self.context.command & tx::IP != 0 { tx::IXSM } else { 0 }
    }

    /// Sends it with the payload in pieces of this length.
    pub(super) fn send(&self, guest: &mut Guest, piece: usize) -> Vec<Vec<u8>> {
        self.push(guest, piece);
        guest.frames()
    }

    /// Publishes it with the payload in pieces of this length, without draining.
    pub(super) fn push(&self, guest: &mut Guest, piece: usize) {
        guest.push(self.context);
        let whole = [&self.header[..], &self.payload].concat();
        let pieces: Vec<_> = whole.chunks(piece).collect();
        for (i, piece) in pieces.iter().enumerate() {
            let last = if i + 1 == pieces.len() { tx::EOP | tx::RS } else { 0 };
            guest.data(piece, tx::TSE | last, if i == 0 { self.options() } else { 0 });
        }
    }

    /// Checks the frames as a receiver.
    fn judge(&self, frames: &[Vec<u8>]) {
        let (v4, mss) = (self.context.command & tx::IP != 0, usize::from(self.context.mss));
        let (tcp, header) = (usize::from(self.context.tcp_start), self.header.len());
        let mut payload = Vec::new();
        assert_eq!(frames.len(), self.payload.len().div_ceil(mss));
        for (i, frame) in frames.iter().enumerate() {
            let last = i + 1 == frames.len();
            let ip_len = if v4 { be16(frame, 16) } else { be16(frame, 18) + 40 };
            let frame = &frame[..14 + ip_len];
            let data = &frame[header..];
            assert!(data.len() == mss || last, "segment {i}");
            let sequence = u32::from_be_bytes(frame[tcp + 4..tcp + 8].try_into().unwrap());
            assert_eq!(sequence, SEQUENCE.wrapping_add(payload.len() as u32));
            // The packet had CWR, ACK, PSH and FIN.
            let flags = 0x10 | if last { 0x09 } else { 0 } | if i == 0 { 0x80 } else { 0 };
            assert_eq!(frame[tcp + 13], flags, "segment {i}");
            let tcp_len = (frame.len() - tcp) as u16;
            let addresses = if v4 { &frame[26..34] } else { &frame[22..54] };
            let pseudo = [addresses, &[0, 6], &tcp_len.to_be_bytes(), &frame[tcp..]].concat();
            assert_eq!(textbook(&pseudo), 0, "TCP checksum of segment {i}");
            if v4 {
                assert_eq!(be16(frame, 18), (0xfffe + i) & 0xffff, "identification");
                assert_eq!(textbook(&frame[14..34]), 0, "IP checksum of segment {i}");
            }
            payload.extend_from_slice(data);
        }
        assert_eq!(payload, self.payload);
    }
}

fn be16(octets: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([octets[at], octets[at + 1]]))
}

/// Checks TSCTC and TSCTFC.
fn segmented(guest: &mut Guest, wholly: u32, not: u32) {
    assert_eq!([0x40f8, 0x40fc].map(|register| guest.registers.read(register)), [Some(wholly), Some(not)]);
}

#[test]
fn segments_make_up_what_was_given_and_each_is_right_by_itself() {
    for v4 in [true, false] {
        for (payload, mss) in
            [(1, 1448), (1448, 1448), (1449, 1448), (14_600, 1460), (65_483, 1428), (60_000, 536)]
        {
            for piece in [66, 4096, 1 << 19] {
                let mut guest = Guest::build(2048, SETTINGS, false, 0x10_0000);
                let large = large(v4, payload, mss.min(1514 - 86));
                let frames = large.send(&mut guest, piece);
                large.judge(&frames);
                segmented(&mut guest, 1, 0);
                assert_eq!(guest.ends.head(), guest.next);
            }
        }
    }
}

#[test]
fn the_longest_packet_by_the_smallest_segments_is_cut_in_bursts() {
    let mut guest = Guest::build(64, TxSettings { pad_short: false, ..SETTINGS }, false, 0x18_0000);
    let large = large(true, 65_000, 1);
    guest.push(large.context);
    guest.data(&[&large.header[..], &large.payload].concat(), tx::TSE | tx::EOP, large.options());
    guest.publish();
    let (mut frames, mut drains) = (Vec::new(), 0);
    while guest.queue.has_frames() {
        let (shown, drained) = guest.drain(64);
        assert!(shown.len() <= 64 && shown.len() == drained.frames);
        frames.extend(shown);
        drains += 1;
    }
    assert_eq!(drains, 65_000_usize.div_ceil(64));
    large.judge(&frames);
}

#[test]
fn what_the_guest_does_to_the_descriptor_meanwhile_changes_nothing() {
    let mut guest = Guest::with(64, TxSettings { pad_short: false, ..SETTINGS });
    let large = large(true, 1000, 10);
    guest.push(large.context);
    guest.data(&[&large.header[..], &large.payload].concat(), tx::TSE | tx::EOP | tx::RS, large.options());
    guest.publish();
    let mut frames = guest.drain(64).0;
    guest.place(1).write(0, [0xff; 16]);
    guest.place(0).write(0, [0xff; 16]);
    frames.extend(guest.frames());
    large.judge(&frames);
    assert!(guest.is_done(1));
}

#[test]
fn every_segment_gets_the_tag_of_the_first_descriptor() {
    let mut guest = Guest::new(64);
    let large = large(true, 3000, 1000);
    let whole = [&large.header[..], &large.payload].concat();
    let (a, b) = (guest.store(&whole[..100]), guest.store(&whole[100..]));
    guest.push(large.context);
    let (options, command) = (large.options(), tx::TSE | tx::VLE);
    guest.push(Data { address: a, length: 100, command, options, special: 0x2001, ..Data::default() });
    let length = whole.len() as u32 - 100;
    guest.push(Data { address: b, length, command: command | tx::EOP, special: 0x2002, ..Data::default() });
    let mut frames = guest.frames();
    for frame in &mut frames {
        assert_eq!(frame.drain(12..16).collect::<Vec<_>>(), [0x81, 0, 0x20, 1]);
    }
    large.judge(&frames);
}

#[test]
fn udp_gets_a_length_in_each_datagram() {
    let mut guest = Guest::new(64);
    let mut large = large(true, 2500, 1000);
    large.header.truncate(42);
    large.header[23] = 17;
    // Checksum at octet 6 of the UDP header; the length before it.
    let seed = !textbook(&[&large.header[26..34], &[0, 17]].concat());
    large.header[38..40].fill(0);
    large.header[40..42].copy_from_slice(&seed.to_be_bytes());
    large.context = Context { command: tx::TSE | tx::IP, header: 42, tcp_offset: 40, ..large.context };
    let frames = large.send(&mut guest, 5000);
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [1042, 1042, 542]);
    for frame in frames {
        assert_eq!((be16(&frame, 16), be16(&frame, 38)), (frame.len() - 14, frame.len() - 34));
        let pseudo = [&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]].concat();
        assert_eq!((textbook(&pseudo), textbook(&frame[14..34])), (0, 0));
    }
}

#[test]
fn with_neither_protocol_the_header_is_the_same_in_each_frame() {
    let mut guest = Guest::new(64);
    let (header, payload) = (frame(4, 30), octets(5, 250));
    guest.push(Context { command: tx::TSE, payload: 250, header: 30, mss: 100, ..Context::default() });
    guest.data(&[&header[..], &payload].concat(), tx::TSE | tx::EOP, 0);
    let expected: Vec<_> = payload.chunks(100).map(|chunk| [&header[..], chunk].concat()).collect();
    assert_eq!(guest.frames(), expected);
}

#[test]
fn a_frame_by_its_length_tells_the_length_of_each_segment() {
    let mut guest = Guest::new(64);
    let mut header = frame(4, 22);
    header[12..14].copy_from_slice(&[0, 99]);
    guest.push(Context { command: tx::TSE, payload: 250, header: 22, mss: 100, ..Context::default() });
    guest.data(&[&header[..], &octets(5, 250)].concat(), tx::TSE | tx::EOP, 0);
    let lengths: Vec<_> = guest.frames().iter().map(|frame| be16(frame, 12)).collect();
    assert_eq!(lengths, [108, 108, 58]);
}

#[test]
fn more_or_less_than_payload_promises_is_sent_as_far_as_it_goes_and_told() {
    for (promised, given, sent) in
        [(2000, 2500, 2000), (2000, 1500, 1500), (2000, 2000, 2000), (1 << 19, 999, 999)]
    {
        let mut guest = Guest::new(64);
        let mut large = large(true, given, 1000);
        large.context.payload = promised;
        let frames = large.send(&mut guest, 700);
        large.payload.truncate(sent);
        large.judge(&frames);
        let wholly = u32::from(promised as usize == given);
        segmented(&mut guest, wholly, 1 - wholly);
    }
}

#[test]
fn nonsense_is_dropped_and_counted_up_to_the_packet_s_end() {
    let good = large(true, 2000, 1000);
    let context = good.context;
    let nonsense = [
        Context { header: 0, ..context },
        Context { header: 53, ..context },
        Context { mss: 0, ..context },
        Context { payload: 0, ..context },
        Context { tcp_start: 250, ..context },
        Context { ip_start: 250, ..context },
    ];
    for context in nonsense {
        let mut guest = Guest::new(64);
        guest.push(context);
        for command in [0, 0, tx::EOP | tx::RS] {
            guest.data(&good.payload[..500], tx::TSE | command, good.options());
        }
        assert!(good.send(&mut guest, 5000).len() == 2, "{context:?}");
        assert!(guest.is_done(3));
        assert_eq!((guest.ledger.drop_bad_offload.get(), guest.ledger.frames.get()), (1, 2));
        segmented(&mut guest, 1, 1);
    }
    let mut guest = Guest::new(64);
    guest.push(Context { mss: 1500, payload: 1500, ..context });
    guest.data(&good.payload, tx::TSE | tx::EOP, 0);
    assert_eq!(guest.frames(), Vec::<Vec<u8>>::new());
    assert_eq!(guest.ledger.drop_too_long.get(), 1);
    segmented(&mut guest, 0, 1);
}

#[test]
fn a_packet_without_its_header_or_without_payload_is_dropped() {
    let good = large(true, 2000, 1000);
    for (len, short, offload) in [(0, 1, 0), (65, 1, 0), (66, 0, 1), (67, 0, 0)] {
        let mut guest = Guest::new(64);
        guest.push(good.context);
        guest.data(&[&good.header[..], &[1]].concat()[..len], tx::TSE | tx::EOP, 0);
        guest.frames();
        let ledger = &guest.ledger;
        assert_eq!((ledger.drop_too_short.get(), ledger.drop_bad_offload.get()), (short, offload), "{len}");
        segmented(&mut guest, 0, 1);
    }
}
