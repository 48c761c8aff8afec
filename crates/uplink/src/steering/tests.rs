use std::os::fd::{AsFd, OwnedFd};

use bpf::{Kind, Map, Purpose};
use port::Frame;
use port::steer::{Hash, by_flow};
use punt::class_of;
use punt::urgent::{self, ETHERTYPES, FIRST_ETHERTYPE, ICMPV6_TYPES, PROTOCOLS, TCP_PORTS, UDP_PORTS};
use ring::Bytes;

use super::{LOOKED_AT, is_urgent, program};

/// Loads the program into the kernel, if this host permits it.
fn loaded(queues: usize, hash: Hash) -> Option<OwnedFd> {
    load(&program::assemble(queues as u32, hash))
}

fn load(instructions: &[u64]) -> Option<OwnedFd> {
    match bpf::load(Purpose::SocketFilter, instructions) {
        Ok(program) => Some(program),
        Err(why) if why.raw_os_error() == Some(libc::EPERM) => {
            println!("SKIPPED: needs the right to load a program into the kernel");
            None
        }
        Err(why) => panic!("the kernel refuses the program: {why}"),
    }
}

fn ours(frame: &[u8], queues: usize, hash: Hash) -> usize {
    let (mut octets, mut chosen) = (frame.to_vec(), None);
    by_flow(&[Frame::new(Bytes::from_slice(&mut octets))], queues, hash, |queue, _| chosen = Some(queue));
    chosen.expect("one queue")
}

/// Returns the kernel's choice: in a test run it removes an Ethernet header before it runs the program.
fn kernels(program: &OwnedFd, frame: &[u8]) -> usize {
    bpf::run(program.as_fd(), &[&[0; 14][..], frame].concat()).expect("run") as usize
}

/// Pseudo-random numbers, always the same.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 24
    }
}

/// A frame of some flow: of any protocol, with and without tags, options and fragmentation, and truncated
/// anywhere.
fn some_frame(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..12).map(|_| next() as u8).collect();
    for _ in 0..next() % 4 {
        let tag = if next().is_multiple_of(2) { [0x81, 0] } else { [0x88, 0xa8] };
        frame.extend([tag[0], tag[1], next() as u8, next() as u8]);
    }
    let protocol = [6, 17, 132, 1, next() as u8][(next() % 5) as usize];
    if next().is_multiple_of(3) {
        let version = if next().is_multiple_of(8) { next() as u8 } else { 0x60 };
        frame.extend([0x86, 0xdd, version, next() as u8, 0, 0, 0, 60, protocol, 64]);
    } else {
        let options = if next().is_multiple_of(2) { 0 } else { next() % 11 };
        let version = if next().is_multiple_of(8) { next() as u8 } else { 0x45 + options as u8 };
        let fragment = if next().is_multiple_of(4) { (next() as u16).to_be_bytes() } else { [0x40, 0] };
        frame.extend([8, 0, version, 0, 0, 60, 1, 2, fragment[0], fragment[1], 64, protocol, 0, 0]);
    }
    frame.extend((0..80).map(|_| next() as u8));
    if next().is_multiple_of(4) {
        frame.truncate(14 + (next() as usize) % (frame.len() - 14));
    }
    frame
}

#[test]
fn the_kernel_chooses_as_we_do() {
    for (queues, hash) in [(2, Hash::Flow), (3, Hash::Symmetric), (16, Hash::Flow), (16, Hash::Symmetric)] {
        let Some(program) = loaded(queues, hash) else { return };
        let mut next = numbers(queues as u64);
        let mut seen = vec![0; queues];
        for _ in 0..4000 {
            let frame = some_frame(&mut next);
            let chosen = ours(&frame, queues, hash);
            seen[chosen] += 1;
            assert_eq!(kernels(&program, &frame), chosen, "{queues} queues, {hash:?}: {frame:02x?}");
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }
}

#[test]
fn frames_are_dealt_out_one_by_one() {
    for queues in [2_usize, 3, 16] {
        let Ok(turns) = Map::new(Kind::Array, 8, 1) else {
            return println!("SKIPPED: needs the right to make a map in the kernel");
        };
        let program = bpf::load(Purpose::SocketFilter, &program::in_turn(queues as u32, turns.as_fd()));
        let program = program.expect("whoever may make a map may load a program");
        // The program holds the map.
        drop(turns);
        let mut next = numbers(1);
        for turn in 0..3 * queues {
            assert_eq!(kernels(&program, &some_frame(&mut next)), turn % queues);
        }
    }
}

#[test]
fn both_directions_have_one_queue() {
    let Some(program) = loaded(16, Hash::Symmetric) else { return };
    let mut next = numbers(5);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let ends: Vec<u8> = (0..12).map(|_| next() as u8).collect();
        let (s, d, sp, dp) = (&ends[..4], &ends[4..8], &ends[8..10], &ends[10..]);
        let frame = |source: &[u8], to: &[u8], sp: &[u8], dp: &[u8]| {
            [&[0; 12][..], &[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0], source, to, sp, dp, &[0; 22]]
                .concat()
        };
        let chosen = kernels(&program, &frame(s, d, sp, dp));
        assert_eq!(kernels(&program, &frame(d, s, dp, sp)), chosen);
        seen.insert(chosen);
    }
    assert_eq!(seen.len(), 16);
}

#[test]
fn both_directions_of_ipv6_have_one_queue() {
    let Some(program) = loaded(16, Hash::Symmetric) else { return };
    let mut next = numbers(6);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let ends: Vec<u8> = (0..36).map(|_| next() as u8).collect();
        let (s, d, sp, dp) = (&ends[..16], &ends[16..32], &ends[32..34], &ends[34..]);
        let frame = |source: &[u8], to: &[u8], sp: &[u8], dp: &[u8]| {
            let header = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64];
            [&[0; 12][..], &header, source, to, sp, dp, &[0; 16]].concat()
        };
        let chosen = kernels(&program, &frame(s, d, sp, dp));
        assert_eq!(kernels(&program, &frame(d, s, dp, sp)), chosen);
        seen.insert(chosen);
    }
    assert_eq!(seen.len(), 16);
}

/// A frame with an IPv4 packet of this protocol, and these octets behind its header.
fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = [0x45, 0, 0, 60, 0, 0, 0x40, 0, 255, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&[2; 12][..], &[8, 0], &header, payload, &[0; 40]].concat()
}

/// An IPv6 frame with this protocol and payload, and 40 octets behind it.
fn packet_six(protocol: u8, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 44, protocol, 255], &[1; 32], payload, &[0; 40]].concat()
}

fn ports(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes()].concat()
}

/// Returns true if a frame ends before the ports of its packet.
fn is_cut(frame: &[u8]) -> bool {
    let at = if frame.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    let header = match frame.get(at - 2..at) {
        Some([8, 0]) => frame.get(at).map_or(0, |octet| 4 * usize::from(octet & 15)),
        Some([0x86, 0xdd]) if frame.get(at + 6) == Some(&0) => 40 + 8,
        Some([0x86, 0xdd]) => 40,
        _ => 0,
    };
    frame.len() < at + header + 4
}

fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat()
}

/// Urgent frames of each kind.
fn urgent_frames() -> Vec<Vec<u8>> {
    let mut first_fragment = packet(17, &ports(49_152, 3784));
    first_fragment[20] = 0x20;
    vec![
        packet(17, &ports(49_152, 3784)),
        packet(17, &ports(49_152, 4784)),
        packet(17, &ports(520, 520)),
        packet(6, &ports(40_000, 179)),
        packet(6, &ports(179, 40_000)),
        packet(89, &[2, 1]),
        packet(112, &[0x31]),
        packet(2, &[0x16]),
        packet(88, &[2, 5]),
        packet(103, &[0x20]),
        packet_six(89, &[3, 1]),
        packet_six(17, &ports(49_152, 3784)),
        packet_six(58, &[135, 0]),
        // A report of MLD, behind a router alert.
        packet_six(0, &[58, 0, 5, 2, 0, 0, 1, 0, 143, 0]),
        [&[0xff; 12][..], &[8, 6], &[0; 46]].concat(),
        // IS-IS: a length, and LLC.
        [&[1; 12][..], &[0, 46, 0xfe, 0xfe, 3], &[0; 43]].concat(),
        first_fragment,
    ]
}

/// Frames that resemble them.
fn other_frames() -> Vec<Vec<u8>> {
    let mut later_fragment = packet(17, &ports(49_152, 3784));
    (later_fragment[20], later_fragment[21]) = (0x20, 9);
    // From behind a router.
    let mut far = [packet(17, &ports(49_152, 3784)), packet(112, &[0x31])];
    far.iter_mut().for_each(|frame| frame[22] = 254);
    let [far_bfd, far_vrrp] = far;
    vec![
        far_bfd,
        far_vrrp,
        packet(17, &ports(3784, 4000)),
        packet(6, &ports(1790, 80)),
        packet(1, &[8, 0]),
        packet_six(58, &[128, 0]),
        packet_six(6, &ports(80, 443)),
        later_fragment,
        [&[1; 12][..], &[0x88, 0xcc], &[0; 46]].concat(),
        vec![0; 14],
    ]
}

#[test]
fn copies_are_made_of_the_frames_that_are_told_as_urgent_here() {
    let Some(program) = load(&program::urgent_alone()) else { return };
    let is_copied = |frame: &[u8]| kernels(&program, frame) != 0;
    assert!(urgent_frames().iter().all(|frame| is_urgent(frame) && !is_urgent(&tagged(frame))));
    assert!(!other_frames().iter().any(|frame| is_urgent(frame)));
    let mut next = numbers(7);
    let some = (0..2000).map(|_| some_frame(&mut next)).collect::<Vec<_>>();
    let tagged = urgent_frames().iter().map(|frame| tagged(frame)).collect::<Vec<_>>();
    for frame in some.iter().chain(&tagged) {
        assert_eq!(is_copied(frame), is_urgent(frame), "{frame:02x?}");
    }
    // However much of one there is, and however little of that is looked at.
    for frame in urgent_frames().iter().chain(&other_frames()) {
        for cut in (14..=frame.len()).map(|len| &frame[..len]) {
            let looked_at = &cut[..cut.len().min(LOOKED_AT)];
            assert_eq!(is_copied(cut), is_urgent(looked_at), "{cut:02x?}");
            assert_eq!(is_copied(cut), class_of(cut).is_urgent(), "{cut:02x?}");
        }
    }
}

/// Packets with this protocol, time to live and payload: of IPv4, of IPv6, and of IPv6 behind a router alert.
fn packets(protocol: u8, ttl: u8, payload: &[u8]) -> [Vec<u8>; 3] {
    let behind = [&[protocol, 0, 5, 2, 0, 0, 1, 0][..], payload].concat();
    let (mut four, mut six) =
        (packet(protocol, payload), [packet_six(protocol, payload), packet_six(0, &behind)]);
    four[22] = ttl;
    six.iter_mut().for_each(|frame| frame[21] = ttl);
    let [plain, behind] = six;
    [four, plain, behind]
}

/// The numbers that are urgent, and their neighbours.
fn around(kinds: &[urgent::Kind]) -> Vec<u16> {
    kinds.iter().flat_map(|kind| kind.numbers.start() - 1..=kind.numbers.end() + 1).collect()
}

/// Frames of each kind, urgent or not, by each number that tells.
fn frames_of_each_kind() -> Vec<Vec<u8>> {
    let of_type = |kind: u16, octet: u8| [&[1; 12][..], &kind.to_be_bytes(), &[octet], &[0; 60]].concat();
    let mut frames: Vec<_> = (0..=255).map(|point| of_type(46, point)).collect();
    let other_types = [FIRST_ETHERTYPE - 1, FIRST_ETHERTYPE, 0x0800, 0x86dd, 0x88a8, 0x88cc];
    frames.extend(around(ETHERTYPES).into_iter().chain(other_types).map(|kind| of_type(kind, 0)));
    let all_ports = [around(TCP_PORTS), around(UDP_PORTS)].concat();
    for ttl in [1, 254, 255] {
        for number in 0..=255 {
            frames.extend(packets(number, ttl, &[]));
            frames.extend(packets(58, ttl, &[number, 0]));
        }
        for (port, protocol) in all_ports.iter().flat_map(|port| [(*port, 6), (*port, 17)]) {
            frames.extend(packets(protocol, ttl, &ports(port, 9)));
            frames.extend(packets(protocol, ttl, &ports(9, port)));
        }
    }
    frames
}

#[test]
fn frames_of_what_is_listed_are_played() {
    let urgent = frames_of_each_kind().iter().filter(|frame| class_of(frame).is_urgent()).count();
    // With each time to live, or that of a neighbour.
    let count = |kind: &urgent::Kind| kind.numbers.clone().count() * if kind.is_near { 1 } else { 3 };
    let kinds = [PROTOCOLS, ICMPV6_TYPES, UDP_PORTS, TCP_PORTS, TCP_PORTS];
    let listed = kinds.into_iter().flatten().map(count).sum::<usize>();
    assert!(urgent > 3 * listed, "{urgent} of {listed}, and each in three packets");
}

#[test]
fn frames_are_as_urgent_here_as_to_a_control_plane() {
    for frame in frames_of_each_kind().iter().chain(&urgent_frames()).chain(&other_frames()) {
        assert_eq!(is_urgent(frame), class_of(frame).is_urgent(), "{frame:02x?}");
    }
}

#[test]
fn frames_are_as_urgent_to_the_kernels_programs_as_to_a_control_plane() {
    let Some(alone) = load(&program::urgent_alone()) else { return };
    let Some(with_others) = load(&program::with_urgent(1, Hash::Flow)) else { return };
    for frame in frames_of_each_kind() {
        let is_urgent = class_of(&frame).is_urgent();
        assert_eq!(kernels(&alone, &frame) != 0, is_urgent, "{frame:02x?}");
        assert_eq!(kernels(&with_others, &frame) == 1, is_urgent, "{frame:02x?}");
        assert_eq!(kernels(&with_others, &tagged(&frame)) == 1, is_urgent, "tagged: {frame:02x?}");
    }
}

#[test]
fn urgent_frames_get_the_queue_behind_the_others() {
    for queues in [1, 3] {
        let Some(program) = load(&program::with_urgent(queues as u32, Hash::Flow)) else { return };
        for frame in &urgent_frames() {
            assert_eq!(kernels(&program, frame), queues, "{frame:02x?}");
            assert_eq!(kernels(&program, &tagged(frame)), queues, "tagged: {frame:02x?}");
        }
        for frame in &other_frames() {
            assert_eq!(kernels(&program, frame), ours(frame, queues, Hash::Flow), "{frame:02x?}");
        }
        let mut next = numbers(queues as u64);
        for _ in 0..2000 {
            let frame = some_frame(&mut next);
            let chosen = kernels(&program, &frame);
            // A program that reads behind the end of a frame ends, and has selected the first queue.
            let first = is_cut(&frame) && chosen == 0;
            assert!(first || chosen == queues || chosen == ours(&frame, queues, Hash::Flow), "{frame:02x?}");
        }
    }
}
