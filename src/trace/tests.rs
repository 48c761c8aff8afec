use api::Hop;
use clap::Parser;
use support::schema::check_lines;

use super::*;

fn packet(fate: Fate) -> Packet {
    let hop =
        |place: &str, after_ns, seen: &str| Hop { place: place.to_owned(), after_ns, seen: seen.to_owned() };
    Packet {
        number: 3,
        at_ns: 1_500_000_000,
        len: 98,
        headers: "a > b IPv4".to_owned(),
        hops: vec![hop("edge.wan.rx", 0, "to b"), hop("edge.lan.tx", 12_340, "ttl 63 to c")],
        fate,
    }
}

#[test]
fn a_packet_is_shown_place_by_place() {
    let (nic, next_hop, via) = ("edge.lan".to_owned(), "c".to_owned(), Some("192.0.2.9".to_owned()));
    let route = Some("203.0.113.0/24".to_owned());
    let fate = Fate::Left { nic, next_hop, route, via, after_ns: 12_340 };
    let wanted = "\
#3 at 1.500000 s, 98 octets: a > b IPv4\n      \
      0.0 µs  edge.wan.rx          to b\n     \
      12.3 µs  edge.lan.tx          ttl 63 to c\n  \
  left by edge.lan on route 203.0.113.0/24 via 192.0.2.9 to c after 12.3 µs\n";
    assert_eq!(text(&packet(fate)), wanted);
}

#[test]
fn how_it_ended_is_said_in_one_line() {
    let counters = || -> BTreeMap<String, u64> {
        [("edge.vcpu0.consumed", 2), ("edge.vcpu0.drop_ttl", 1)]
            .map(|(name, by)| (name.to_owned(), by))
            .into()
    };
    let place = || "edge.wan.rx".to_owned();
    for (ending, wanted) in [
        (
            Fate::NotSeen { last: place(), counters: counters() },
            "not seen again after edge.wan.rx; moved meanwhile: edge.vcpu0.consumed 2, edge.vcpu0.drop_ttl 1",
        ),
        (
            Fate::NotSeen { last: place(), counters: BTreeMap::new() },
            "not seen again after edge.wan.rx; no counter of drops has moved",
        ),
        (
            Fate::Dropped { reason: "ip_innoroutes".to_owned(), after_ns: 1500 },
            "dropped by the kernel after 1.5 µs: ip_innoroutes",
        ),
        (Fate::Kept { after_ns: Some(1500) }, "kept by the router itself after 1.5 µs"),
        (Fate::Kept { after_ns: None }, "kept by the router itself"),
        (
            Fate::NotPlaced { place: place(), counters: BTreeMap::new() },
            "dropped: edge.wan.rx did not take it",
        ),
        (
            Fate::Answered {
                nic: "edge.wan".to_owned(),
                answer: "x".to_owned(),
                after_ns: 1000,
                counters: BTreeMap::new(),
            },
            "answered by edge.wan after 1.0 µs: x",
        ),
    ] {
        assert_eq!(fate(&ending), wanted);
    }
}

#[test]
fn protocols_have_names_and_numbers() {
    assert_eq!(["icmp", "icmp6", "tcp", "udp", "89"].map(protocol), [Ok(1), Ok(58), Ok(6), Ok(17), Ok(89)]);
    assert_eq!(protocol("igmpp"), Err("write icmp, icmp6, tcp, udp or a number up to 255".to_owned()));
    assert!(protocol("256").is_err());
}

#[test]
fn an_object_for_each_packet_and_one_for_the_end() {
    let (word, counters) =
        (|| "edge.lan".to_owned(), BTreeMap::from([("edge.vcpu0.drop_ttl".to_owned(), 1)]));
    for fate in [
        Fate::Left { nic: word(), next_hop: word(), route: Some(word()), via: Some(word()), after_ns: 1 },
        Fate::Left { nic: word(), next_hop: word(), route: None, via: None, after_ns: 1 },
        Fate::Answered { nic: word(), answer: word(), after_ns: 1, counters: counters.clone() },
        Fate::Dropped { reason: word(), after_ns: 1 },
        Fate::Kept { after_ns: Some(1) },
        Fate::Kept { after_ns: None },
        Fate::NotPlaced { place: word(), counters: counters.clone() },
        Fate::NotSeen { last: word(), counters },
    ] {
        check_lines("trace", &line(&packet(fate)));
    }
    check_lines("trace traced", &last_line(&TraceEnd { traced: 4, ..TraceEnd::default() }));
}

#[test]
fn a_time_that_no_clock_reaches_is_refused() {
    let read = |seconds: &str| {
        let words = ["ringroad", "trace", "edge.wan", "--seconds", seconds];
        crate::Command::try_parse_from(words).map(|command| command.verb)
    };
    assert!(matches!(read("0.5"), Ok(crate::Verb::Trace(options)) if options.seconds.as_millis() == 500));
    for seconds in ["1e19", "inf", "nan", "-1", "soon"] {
        assert!(read(seconds).is_err(), "{seconds}");
    }
}
