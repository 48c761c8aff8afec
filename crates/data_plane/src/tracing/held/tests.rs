use api::Fate;

use super::*;

fn packet(number: u32) -> Packet {
    let (nic, next_hop) = ("edge.lan".to_owned(), "02:00:00:00:00:09".to_owned());
    let fate = Fate::Left { nic, next_hop, route: None, via: Some("192.0.2.9".to_owned()), after_ns: 7 };
    Packet { number, at_ns: 0, len: 60, headers: String::new(), hops: Vec::new(), fate }
}

fn of(number: u32, router: &str) -> TracedPacket {
    TracedPacket { trace: 3, number, router: router.to_owned() }
}

#[test]
fn a_packet_is_held_until_the_process_of_its_router_has_answered() {
    let (mut held, now) = (HeldPackets::default(), Instant::now());
    held.hold(packet(1), "edge".to_owned(), now);
    held.hold(packet(2), "edge".to_owned(), now);
    let way = Way { route: Some(([10, 0, 0, 0].into(), 8)), gateway: None };
    assert_eq!(held.release(&of(1, "core"), Some(way)), None, "another router knows nothing of it");
    assert_eq!(held.release(&of(3, "edge"), Some(way)), None, "it is not held");
    let told = held.release(&of(1, "edge"), Some(way)).expect("it is held");
    let Fate::Left { route, via, .. } = told.fate else { panic!("it has left") };
    assert_eq!((route.as_deref(), via), (Some("10.0.0.0/8"), None));
    assert_eq!(held.release(&of(1, "edge"), Some(way)), None, "it was told");
    assert_eq!(held.release(&of(2, "edge"), None), Some(packet(2)), "what is known of it stays");
    assert!(held.is_empty());
}

#[test]
fn a_process_that_does_not_answer_holds_no_packet_for_long() {
    let (mut held, now) = (HeldPackets::default(), Instant::now());
    held.hold(packet(1), "edge".to_owned(), now);
    held.hold(packet(2), "edge".to_owned(), now + LONGEST);
    assert!(held.overdue(now).is_empty());
    assert_eq!(held.overdue(now + LONGEST), [packet(1)]);
    assert!(!held.is_empty());
    assert_eq!(held.overdue(now + 2 * LONGEST), [packet(2)]);
    assert!(held.is_empty());
}
