use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Arrivals, Flow};
use crate::Namespace;

/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn each_number_is_counted_once() {
    let (mut arrivals, now) = (Arrivals::default(), Instant::now());
    for (number, at) in [(0, 0), (2, 1), (1, 2), (2, 9), (200, 10)] {
        arrivals.count(number, now + Duration::from_millis(at));
    }
    assert_eq!((arrivals.received, arrivals.repeated, arrivals.late), (4, 1, 1));
    assert_eq!((arrivals.highest, arrivals.longest_gap), (Some(200), Duration::from_millis(7)));
}

/// Two namespaces, joined by a veth pair.
fn pair() -> (Namespace, Namespace, SocketAddr) {
    let (one, other) = (Namespace::add("flow-a").expect("added"), Namespace::add("flow-b").expect("added"));
    let peer = ["link", "add", "flow", "type", "veth", "peer", "flow", "netns", other.name()];
    one.ip(&peer).expect("a link");
    for (namespace, address) in [(&one, "192.0.2.1/24"), (&other, "192.0.2.2/24")] {
        namespace.ip(&["address", "add", address, "dev", "flow"]).expect("an address");
        namespace.ip(&["link", "set", "flow", "up"]).expect("up");
    }
    (one, other, SocketAddr::from(([192, 0, 2, 2], 7000)))
}

#[test]
fn all_that_is_sent_arrives_and_what_is_lost_is_seen() {
    crate::needs!(Root, Program("ip"));
    let (one, other, address) = pair();
    let flow = Flow::start(&one, &other, address, 2000).expect("it flows");
    assert!(flow.resumes(PATIENCE).is_some());
    flow.reaches(301, PATIENCE).expect("it flows");
    let tally = flow.stop().expect("it stops");
    assert!(tally.sent > 300 && tally.lost() == 0 && tally.repeated == 0, "{tally:?}");

    let flow = Flow::start(&one, &other, address, 2000).expect("it flows");
    assert!(flow.resumes(PATIENCE).is_some());
    other.ip(&["link", "set", "flow", "down"]).expect("down");
    assert!(flow.resumes(Duration::from_millis(300)).is_none());
    // The number not sent in that time depends on the host.
    let (gone, end) = (|| flow.so_far().lost() + flow.so_far().refused, Instant::now() + PATIENCE);
    while gone() <= 300 {
        assert!(Instant::now() < end, "only {} are gone", gone());
        std::thread::sleep(Duration::from_millis(10));
    }
    other.ip(&["link", "set", "flow", "up"]).expect("up");
    let pause = flow.resumes(PATIENCE).expect("it goes on");
    let tally = flow.stop().expect("it stops");
    assert!(tally.lost() + tally.refused > 300, "{tally:?} {pause:?}");
    assert!(tally.longest_gap > Duration::from_millis(250), "{tally:?}");
}
