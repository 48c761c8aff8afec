//! How a trace begins, ends, and keeps to its filter, its time and its share of the CPU.

use super::*;

#[test]
fn a_filter_is_kept_to() {
    let edge = edge();
    let filter = Filter {
        port: Some(9),
        destination: Some(TARGET.into()),
        protocol: Some(17),
        source: Some(SOURCE.into()),
    };
    let mut trace = begin(&edge.board, Order { filter, ..order("edge.wan", 1) });
    let sent = Sent::number(3);
    let frames = [1, 2, 9, 3].map(|port| Sent { port, ..sent }.octets());
    deliver(
        &edge.wan_rx,
        [vec![vec![0; 10], arp_between(arp::Operation::Request, SOURCE, TARGET)], frames.to_vec()].concat(),
    );
    deliver(&edge.lan_tx, vec![Sent { port: 9, ..sent }.forwarded(EDGE_LAN, HOST).octets()]);
    let round = trace.round(Arc::default);
    let end = round.end.clone().expect("the only one");
    assert_eq!((end.traced, end.filtered, end.not_looked_at), (1, 4, 1));
    assert!(only(round).headers.ends_with("UDP 9 > 53"));
    let other = Filter { source: Some(TARGET.into()), ..Filter::default() };
    assert!(!Head::copy(&Frame::new(ring::Bytes::from_slice(&mut sent.octets()))).fits(&other));
}

#[test]
fn a_flood_is_hardly_looked_at_and_what_was_not_is_told() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 10));
    let burst: Vec<_> = (0..64).map(|id| Sent::number(id).octets()).collect();
    for _ in 0..100 {
        deliver(&edge.wan_rx, burst.clone());
    }
    let seen = trace.follow.seen();
    assert_eq!((seen.passed, seen.looked), (6400, follow::SLOTS as u64));
    // This packet does not leave, while many others do: the search is given up.
    let other: Vec<_> = (0..64).map(|id| Sent { port: 1, ..Sent::number(id) }.octets()).collect();
    for _ in 0..LOOKS / 64 {
        assert!(!trace.follow.has_given_up());
        deliver(&edge.lan_tx, other.clone());
    }
    deliver(&edge.lan_tx, vec![Sent::number(0).forwarded(EDGE_LAN, HOST).octets()]);
    let round = trace.round(Arc::default);
    assert_eq!(round.packets.len(), follow::SLOTS);
    assert!(round.packets.iter().all(|packet| matches!(packet.fate, Fate::NotSeen { .. })));
    deliver(&edge.wan_rx, burst);
    assert_eq!(trace.follow.seen().looked, follow::SLOTS as u64, "it rests");
    assert!(trace.rest > trace.follow.age());
}

#[test]
fn a_filter_that_nothing_fits_does_not_make_it_look_at_everything() {
    let edge = edge();
    let filter = Filter { port: Some(1), ..Filter::default() };
    let mut trace = begin(&edge.board, Order { filter, ..order("edge.wan", 1) });
    let burst: Vec<_> = (0..64).map(|id| Sent::number(id).octets()).collect();
    for _ in 0..200 {
        deliver(&edge.wan_rx, burst.clone());
    }
    assert_eq!(trace.follow.seen(), follow::Seen { passed: 12_800, looked: 4096, filtered: 4096 });
    trace.round(Arc::default);
    deliver(&edge.wan_rx, burst);
    assert_eq!(trace.follow.seen().looked, 4096 + 64, "a new round, a new allowance");
}

#[test]
fn it_ends_by_time_and_tells_of_those_it_still_follows() {
    let edge = edge();
    let timeout = Duration::from_millis(20);
    let mut trace = begin(&edge.board, Order { timeout, ..order("edge.wan", 5) });
    deliver(&edge.wan_rx, vec![Sent::number(3).octets()]);
    trace.wait(timeout - Duration::from_nanos(1));
    assert!(trace.round(Arc::default).end.is_none());
    trace.wait(Duration::from_nanos(1));
    let round = trace.round(Arc::default);
    let end = round.end.clone().expect("its time is over");
    assert!(end.traced == 1 && end.ran_ns == timeout.as_nanos() as u64, "{end:?}");
    assert!(matches!(only(round).fate, Fate::NotSeen { .. }));
}

#[test]
fn nobody_looks_before_and_after() {
    let edge = edge();
    let looks = || edge.board.points().iter().filter(|(_, point)| point.is_enabled()).count();
    assert_eq!(looks(), 0);
    let trace = begin(&edge.board, order("edge.wan", 1));
    assert_eq!(looks(), 3);
    drop(trace);
    assert_eq!(looks(), 0);
}

#[test]
fn one_trace_at_a_time() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let refused = Trace::start(&edge.board, order("edge.wan", 1)).err().expect("one is under way");
    assert_eq!(
        refused.to_string(),
        "a trace is under way in this run already: wait until it ends, or end it"
    );
    deliver(&edge.wan_rx, vec![Sent::number(3).octets()]);
    deliver(&edge.lan_tx, vec![Sent::number(3).forwarded(EDGE_LAN, HOST).octets()]);
    assert!(matches!(only(trace.round(Arc::default)).fate, Fate::Left { .. }), "it goes on");
    drop(trace);
    assert!(Trace::start(&edge.board, order("edge.wan", 1)).is_ok());
    assert!(Trace::start(&edge.board, order("edge.none", 1)).is_err());
    assert!(Trace::start(&edge.board, order("edge.wan", 1)).is_ok(), "one that is refused leaves no trace");
}

#[test]
fn a_router_that_starts_meanwhile_is_looked_at() {
    let edge = edge();
    let mut trace = begin(&edge.board, order("edge.wan", 1));
    let again = edge.board.point(place("edge.wan", Spot::Rx, EDGE_WAN), Arc::new(Null::new()));
    drop(edge.wan_rx);
    trace.round(Arc::default);
    deliver(&again, vec![Sent::number(3).octets()]);
    deliver(&edge.lan_tx, vec![Sent::number(3).forwarded(EDGE_LAN, HOST).octets()]);
    assert!(matches!(only(trace.round(Arc::default)).fate, Fate::Left { .. }));
}

#[test]
fn what_cannot_be_traced_is_refused() {
    let edge = edge();
    let refused = |order: Order| Trace::start(&edge.board, order).err().expect("refused").to_string();
    let nothing = "it does not run, or receives nothing";
    assert_eq!(refused(order("edge.lan", 1)), format!("nothing arrives at edge.lan: {nothing}"));
    assert_eq!(refused(order("core.wan", 1)), format!("nothing arrives at core.wan: {nothing}"));
    assert_eq!(refused(order("edge.wan", 0)), "a trace follows 1 to 10000 packets");
    assert_eq!(refused(order("edge.wan", 10_001)), "a trace follows 1 to 10000 packets");
    let long = Order { timeout: Duration::from_secs(601), ..order("edge.wan", 1) };
    assert_eq!(refused(long), "a trace runs for 1 to 600000 ms, not 601000");
}
