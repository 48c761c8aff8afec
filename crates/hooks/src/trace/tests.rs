use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::record::{ARRIVED, DETAIL, ENDED, HEAD, LEN, NIC, NUMBER, STATE, TAIL, read, state};
use super::*;

/// Longer than any test runs.
const LONG: Option<u64> = Some(u64::MAX);

/// A frame with an IPv4 UDP packet.
fn frame(source: [u8; 4], destination: [u8; 4], ports: [u16; 2], identification: u16) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &[0x45, 0, 0, 46]].concat();
    frame.extend(identification.to_be_bytes());
    frame.extend([0, 0, 64, 17, 0, 0]);
    frame.extend(source.into_iter().chain(destination));
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    frame.resize(60, 0);
    frame
}

/// An address of the network 2001:db8:N::/48.
fn six(network: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, host)
}

/// A frame with an IPv6 packet, behind whose fixed header there are ports.
fn frame6(source: Ipv6Addr, protocol: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 7, 0, 8, protocol, 64];
    frame.extend(source.octets().into_iter().chain(six(2, 2).octets()));
    frame.extend([3, 232, 0, 53, 0, 8, 0, 0]);
    frame
}

fn usual() -> Vec<u8> {
    frame([192, 0, 2, 2], [198, 51, 100, 2], [1000, 53], 7)
}

/// A record of packet 5, which arrived at NIC 3 at time 1000 and ended at 1500.
fn record_of(state: i32, detail: u32, left: &[u8]) -> [u8; OCTETS] {
    let mut octets = [0; OCTETS];
    let mut put = |at: i16, value: &[u8]| octets[at as usize..][..value.len()].copy_from_slice(value);
    put(ARRIVED, &1000_u64.to_ne_bytes());
    put(ENDED, &1500_u64.to_ne_bytes());
    for (at, value) in [(NUMBER, 5), (NIC, 3), (STATE, state.cast_unsigned()), (DETAIL, detail), (LEN, 60)] {
        put(at, &value.to_ne_bytes());
    }
    put(HEAD, &usual());
    put(TAIL, &left[..32]);
    octets
}

fn end_of(state: i32, detail: u32, left: &[u8]) -> Option<PacketFate> {
    read(&record_of(state, detail, left), 5, 2000, LONG).map(|followed| followed.end)
}

#[test]
fn a_record_says_how_a_packet_ended() {
    let mut aged = usual();
    aged[5] = 9;
    aged[22] -= 1;
    let after_ns = 500;
    assert_eq!(
        end_of(state::LEFT, 4, &aged),
        Some(PacketFate::Left { nic: 4, head: aged[..32].to_vec(), after_ns })
    );
    assert_eq!(end_of(state::DROPPED, 88, &aged), Some(PacketFate::Dropped { reason: 88, after_ns }));
    assert_eq!(end_of(state::CONSUMED, 0, &aged), Some(PacketFate::Consumed { after_ns: Some(after_ns) }));
    assert_eq!(end_of(state::ARRIVED, 0, &aged), None);
    assert_eq!(end_of(state::NONE, 0, &aged), None);
    let followed = read(&record_of(state::DROPPED, 2, &aged), 5, 2000, LONG).expect("it has ended");
    assert_eq!((followed.number, followed.at_ns, followed.len, followed.nic), (6, 1000, 60, 3));
    assert_eq!(followed.head, usual());
}

#[test]
fn another_packet_in_the_same_memory_is_not_taken_for_it() {
    for other in [
        frame([192, 0, 2, 2], [198, 51, 100, 2], [1000, 53], 8),
        frame([192, 0, 2, 3], [198, 51, 100, 2], [1000, 53], 7),
        frame([192, 0, 2, 2], [203, 0, 113, 2], [1000, 53], 7),
        [&[2; 12][..], &[8, 6], &[0; 46]].concat(),
    ] {
        assert_eq!(
            end_of(state::LEFT, 4, &other),
            Some(PacketFate::Consumed { after_ns: None }),
            "{other:?}"
        );
    }
    assert_eq!(
        read(&record_of(state::LEFT, 4, &usual()), 5 + u64::from(ROOM), 2000, LONG),
        None,
        "an old record"
    );
}

#[test]
fn a_packet_of_ipv6_is_known_again_by_what_a_router_does_not_change() {
    let came = frame6(six(1, 2), 17);
    let end = |left: &[u8]| {
        let mut octets = record_of(state::LEFT, 4, left);
        octets[HEAD as usize..][..60].copy_from_slice(&came[..60]);
        read(&octets, 5, 2000, LONG).map(|followed| followed.end)
    };
    let mut aged = came.clone();
    (aged[5], aged[21]) = (9, 63);
    assert!(matches!(end(&aged), Some(PacketFate::Left { nic: 4, .. })));
    for other in [frame6(six(3, 2), 17), frame6(six(1, 2), 6), usual()] {
        assert_eq!(end(&other), Some(PacketFate::Consumed { after_ns: None }), "{other:?}");
    }
}

#[test]
fn who_waits_too_long_is_given_up() {
    let record = record_of(state::ARRIVED, 0, &usual());
    let end = |now, patience| read(&record, 5, now, patience).map(|followed| followed.end);
    assert_eq!(end(1600, Some(600)), None);
    assert_eq!(end(1601, Some(600)), Some(PacketFate::Unseen));
    assert_eq!(end(0, None), Some(PacketFate::Unseen), "nobody asks again");
}

proptest! {
    /// Any content of a record is decoded without a panic.
    #[test]
    fn any_record_can_be_read(octets in proptest::collection::vec(any::<u8>(), OCTETS), now in any::<u64>(), state in 0_i32..6) {
        let mut octets: [u8; OCTETS] = octets.try_into().expect("as many");
        octets[STATE as usize..][..4].copy_from_slice(&state.to_ne_bytes());
        octets[NUMBER as usize..][..4].copy_from_slice(&7_u32.to_ne_bytes());
        if let Some(followed) = read(&octets, 7, now, Some(5)) {
            prop_assert!(followed.head.len() <= 64);
        }
    }
}

#[test]
fn a_count_that_is_none_is_refused() {
    for count in [0, MOST + 1] {
        let order = TraceSpec { nic: 0, count, filter: Filter::default() };
        assert!(matches!(PacketTracer::start(order), Err(Error::Range { .. })));
    }
}

/// A tracer, and its loaded ingress program. A frame on which the kernel test-runs the program becomes an `sk_buff`, which is
/// freed afterwards.
fn following(count: u32, filter: Filter) -> Option<(PacketTracer, OwnedFd)> {
    let follower = crate::granted(PacketTracer::start(TraceSpec { nic: 3, count, filter }))?;
    let program = follower.load(Purpose::TrafficControl, Point::In(3)).expect("the kernel takes it");
    follower.load(Purpose::TrafficControl, Point::Out(4)).expect("the kernel takes it");
    Some((follower, program))
}

fn come(program: &OwnedFd, frame: &[u8]) {
    assert_eq!(bpf::run(program.as_fd(), frame).expect("it runs"), u32::MAX, "whoever comes next decides");
}

#[test]
fn a_packet_is_followed_to_its_end() {
    let Some((mut follower, program)) = following(2, Filter::default()) else { return };
    come(&program, &usual());
    let found = follower.harvest(false).expect("it is told");
    let [followed] = &found[..] else { panic!("one came, and has ended: {found:?}") };
    assert_eq!((followed.number, followed.len, followed.nic), (1, 60, 3));
    assert_eq!(followed.head, usual());
    assert!(
        matches!(followed.end, PacketFate::Dropped { .. } | PacketFate::Consumed { after_ns: Some(_) }),
        "{followed:?}"
    );
    assert!(!follower.is_done() && follower.harvest(true).expect("it is told").is_empty());
    for _ in 0..3 {
        come(&program, &usual());
    }
    assert_eq!(follower.harvest(false).expect("it is told").len(), 1);
    assert!(follower.is_done());
    assert_eq!(
        follower.tally().expect("it is told"),
        TraceCounts { taken: 2, not_examined: 2, not_matched: 0 }
    );
}

/// More packets than there are records: a packet that arrives while all records wait to be reported is not examined.
#[test]
fn records_are_used_again() {
    let Some((mut follower, program)) = following(2 * ROOM, Filter::default()) else { return };
    let mut numbers = Vec::new();
    for _ in 0..3 {
        for _ in 0..ROOM + 10 {
            come(&program, &usual());
        }
        numbers
            .extend(follower.harvest(false).expect("it is told").into_iter().map(|followed| followed.number));
    }
    assert_eq!(numbers, (1..=u64::from(2 * ROOM)).collect::<Vec<_>>());
    assert!(follower.is_done());
    let tally = follower.tally().expect("it is told");
    assert_eq!((tally.taken, tally.not_examined), ((2 * ROOM).into(), (ROOM + 30).into()));
}

#[test]
fn only_what_fits_is_followed() {
    let at = |octets: [u8; 4]| Some(IpAddr::from(octets));
    let whole = Filter {
        source: at([192, 0, 2, 2]),
        destination: at([198, 51, 100, 2]),
        protocol: Some(17),
        port: Some(53),
    };
    let none = Filter::default();
    let cases = [
        (whole.clone(), true),
        (Filter { source: at([192, 0, 2, 3]), ..whole.clone() }, false),
        (Filter { destination: at([198, 51, 100, 3]), ..whole.clone() }, false),
        (Filter { protocol: Some(6), ..whole.clone() }, false),
        (Filter { port: Some(54), ..whole }, false),
        (Filter { port: Some(1000), ..none.clone() }, true),
        (Filter { source: at([192, 0, 2, 2]), ..none.clone() }, true),
        (Filter { protocol: Some(17), ..none.clone() }, true),
        (Filter { source: Some(six(1, 2).into()), ..none }, false),
    ];
    fit(cases, &usual());
}

/// Checks which of these filters a frame fits.
fn fit(cases: impl IntoIterator<Item = (Filter, bool)>, frame: &[u8]) {
    for (filter, fits) in cases {
        let Some((mut follower, program)) = following(10, filter.clone()) else { return };
        come(&program, frame);
        assert_eq!(follower.harvest(true).expect("it is told").len(), usize::from(fits), "{filter:?}");
        assert_eq!(follower.tally().expect("it is told").not_matched, u64::from(!fits), "{filter:?}");
    }
}

#[test]
fn only_what_fits_is_followed_of_ipv6() {
    let at = |network, host| Some(IpAddr::from(six(network, host)));
    let whole = Filter { source: at(1, 2), destination: at(2, 2), protocol: Some(17), port: Some(53) };
    let none = Filter::default();
    let cases = [
        (whole.clone(), true),
        (Filter { source: at(1, 3), ..whole.clone() }, false),
        (Filter { source: at(2, 2), ..whole.clone() }, false),
        (Filter { destination: at(2, 3), ..whole.clone() }, false),
        (Filter { destination: at(1, 2), ..whole.clone() }, false),
        (Filter { destination: Some([198, 51, 100, 2].into()), ..whole.clone() }, false),
        (Filter { protocol: Some(6), ..whole.clone() }, false),
        (Filter { port: Some(54), ..whole.clone() }, false),
        (Filter { port: Some(1000), ..none.clone() }, true),
        (Filter { source: at(1, 2), ..none.clone() }, true),
        (Filter { protocol: Some(17), ..none }, true),
    ];
    fit(cases, &frame6(six(1, 2), 17));
    // An extension header, in whose place there are no ports.
    fit([(whole, false)], &frame6(six(1, 2), 0));
}

#[test]
fn what_has_no_such_port_does_not_fit() {
    let Some((follower, program)) = following(10, Filter { port: Some(53), ..Filter::default() }) else {
        return;
    };
    let with = |change: fn(&mut Vec<u8>)| {
        let mut frame = usual();
        change(&mut frame);
        frame
    };
    for frame in [
        with(|frame| frame[23] = 1),
        with(|frame| frame[21] = 1),
        with(|frame| frame[14] = 0x4f),
        with(|frame| (frame[12], frame[13]) = (8, 6)),
    ] {
        come(&program, &frame);
    }
    assert_eq!(
        follower.tally().expect("it is told"),
        TraceCounts { taken: 0, not_examined: 0, not_matched: 4 }
    );
    // IPv4 options in front of the ports.
    come(&program, &[&with(|frame| frame[14] = 0x46)[..34], &[0; 4], &[3, 232, 0, 53], &[0; 18]].concat());
    assert_eq!(follower.tally().expect("it is told").taken, 1);
}
