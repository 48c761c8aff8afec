use std::collections::BTreeMap;

use super::*;

const FILE: &str = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"veth:rr-lan\"\naddress = \"198.51.100.1/24\"\n";

fn wish(nic: &str, count: u32, timeout_ms: u64) -> Result<TraceRequest> {
    let plan = config::parse(FILE, "f.toml").expect("a good file");
    let filter = Filter { port: Some(53), ..Filter::default() };
    TraceRequest::of(&plan.routers[0], nic, (count, timeout_ms), Some(filter))
}

/// A frame with a UDP packet, to this station.
fn frame(to: u8, ttl: u8) -> Vec<u8> {
    let mut frame =
        vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 46, 0, 7, 0, 0, ttl, 17, 0, 0];
    frame.extend([192, 0, 2, 2, 198, 51, 100, 2, 19, 136, 0, 53, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn followed(end: PacketFate) -> TracedPacket {
    TracedPacket { number: 3, at_ns: 1500, len: 60, nic: 0, head: frame(1, 64), end }
}

fn told(end: PacketFate) -> Packet {
    packet(&wish("wan", 1, 1).expect("a wish"), &Reasons::default(), 1000, &followed(end))
}

#[test]
fn a_wish_names_a_nic_and_a_time() {
    let good = wish("lan", 5, 600_000).expect("a wish");
    assert_eq!((good.order.nic, good.order.count, good.order.filter.port), (1, 5, Some(53)));
    assert_eq!(
        (good.name(0), good.name(1), good.name(9)),
        ("edge.wan".into(), "edge.lan".into(), "edge.?".into())
    );
    let refused = |nic: &str, timeout| wish(nic, 1, timeout).expect_err("it cannot be").to_string();
    assert_eq!(refused("dmz", 1), "router edge has no NIC \"dmz\"; NICs: wan, lan");
    for timeout in [0, 600_001] {
        assert_eq!(refused("wan", timeout), format!("a trace runs for 1 to 600000 ms, not {timeout}"));
    }
}

#[test]
fn packets_are_selected_by_addresses_of_both_families() {
    let plan = config::parse(FILE, "f.toml").expect("a good file");
    let [source, destination] = ["192.0.2.2", "2001:db8::2"].map(|ip| ip.parse().ok());
    for filter in [Filter { source, ..Filter::default() }, Filter { destination, ..Filter::default() }] {
        let wish = TraceRequest::of(&plan.routers[0], "wan", (1, 1), Some(filter.clone())).expect("a wish");
        let known = wish.order.filter;
        assert_eq!((known.source, known.destination), (filter.source, filter.destination));
    }
}

#[test]
fn a_packet_that_leaves_is_told_with_both_places() {
    let packet = told(PacketFate::Left { nic: 1, head: frame(0x22, 63)[..32].to_vec(), after_ns: 700 });
    assert_eq!((packet.number, packet.at_ns, packet.len), (3, 500, 60));
    assert!(
        packet.headers.ends_with("IPv4 192.0.2.2 > 198.51.100.2 ttl 64 id 7, UDP 5000 > 53"),
        "{}",
        packet.headers
    );
    let hops: Vec<_> =
        packet.hops.iter().map(|hop| (hop.place.as_str(), hop.after_ns, hop.seen.as_str())).collect();
    let wanted =
        [("edge.wan.rx", 0, "to 02:00:00:00:00:01"), ("edge.lan.tx", 700, "ttl 63 to 02:00:00:00:00:22")];
    assert_eq!(hops, wanted);
    let left = Fate::Left {
        nic: "edge.lan".into(),
        next_hop: "02:00:00:00:00:22".into(),
        route: None,
        via: None,
        after_ns: 700,
    };
    assert_eq!(packet.fate, left);
}

#[test]
fn other_ends_are_told_as_they_are() {
    for (end, fate) in [
        (
            PacketFate::Dropped { reason: 88, after_ns: 7 },
            Fate::Dropped { reason: "reason_88".into(), after_ns: 7 },
        ),
        (PacketFate::Consumed { after_ns: None }, Fate::Kept { after_ns: None }),
        (PacketFate::Unseen, Fate::NotSeen { last: "edge.wan.rx".into(), counters: BTreeMap::new() }),
    ] {
        let packet = told(end);
        assert_eq!((packet.fate, packet.hops.len()), (fate, 1));
    }
}

#[test]
fn frames_that_are_no_packets_have_no_time_to_live() {
    let mut arp = frame(1, 64);
    arp[13] = 6;
    let mut six = frame(1, 64);
    six[12..14].copy_from_slice(&[0x86, 0xdd]);
    six[21] = 63;
    assert_eq!(time_to_live(&six), Some(63));
    assert_eq!(
        (time_to_live(&arp), time_to_live(&frame(1, 9)), time_to_live(&[0; 10])),
        (None, Some(9), None)
    );
    assert_eq!(destination(&[1, 2]), "00:00:00:00:00:00");
}

#[test]
fn so_many_and_no_more() {
    assert!(may_begin(MOST - 1).is_ok() && may_begin(MOST).is_err());
}
