//! Tracing packets to where they leave or are dropped.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::Value;

use super::{FILE, PATIENCE, RATE, SOCKET, World, assert_whole, json_lines, ringroad, said};

/// Returns the packets of a trace, and its last line.
fn trace(words: &[&str]) -> (Vec<Value>, Value) {
    let mut lines = json_lines(&said(&[&["trace"], words, &["--json", "--seconds", "50"]].concat()));
    let end = lines.pop().expect("a last line")["traced"].clone();
    (lines, end)
}

fn places(packet: &Value) -> Vec<&str> {
    let hops = packet["hops"].as_array().expect("hops");
    hops.iter().map(|hop| hop["place"].as_str().expect("a place")).collect()
}

const THROUGH: [&str; 5] =
    ["t14-west.lan.rx", "t14-west.core.tx", "t14-east.core.queue", "t14-east.core.rx", "t14-east.lan.tx"];

#[test]
fn a_packet_is_followed_to_its_end() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    followed_to_its_end(FILE, &THROUGH);
}

fn followed_to_its_end(file: &str, through: &[&str]) {
    let world = World::start_with(file);
    let east = world.east.ip(&["-o", "link", "show", "t14-east"]).expect("the link");
    let echo = ["--protocol", "icmp", "--to"];

    let pings = world.pinging("198.51.100.2", &[]);
    let (packets, end) = trace(&[&["t14-west.lan", "--count", "3"], &echo[..], &["198.51.100.2"]].concat());
    drop(pings);
    assert_eq!((packets.len(), &end["traced"]), (3, &Value::from(3)));
    for packet in &packets {
        assert_eq!(places(packet), through, "{packet}");
        let left = &packet["fate"]["left"];
        assert_eq!(left["nic"], "t14-east.lan");
        assert!(east.contains(left["next_hop"].as_str().expect("an address")), "{left} is not in {east}");
        let after: Vec<u64> = packet["hops"]
            .as_array()
            .expect("hops")
            .iter()
            .map(|hop| hop["after_ns"].as_u64().expect("ns"))
            .collect();
        assert!(after.is_sorted() && after.last() > Some(&0), "{after:?}");
        assert!(packet["headers"].as_str().expect("text").contains("ICMP echo request"), "{packet}");
    }

    let far = through.len() - 1;
    for (hops, address, way, router, answer, counter) in [
        ("1", "198.51.100.2", 1, "t14-west.lan", "ICMP time exceeded", "drop_ttl"),
        ("2", "198.51.100.2", far, "t14-east.core", "ICMP time exceeded", "drop_ttl"),
        ("64", "203.0.114.9", far, "t14-east.core", "ICMP network unreachable", "drop_no_route"),
        ("64", "192.0.2.1", 1, "t14-west.lan", "ICMP echo reply", "consumed"),
    ] {
        let _pings = world.pinging(address, &["-t", hops]);
        let (packets, _) = trace(&[&["t14-west.lan", "--count", "1"], &echo[..], &[address]].concat());
        let packet = &packets[0];
        assert_eq!(places(packet), through[..way], "{packet}");
        let answered = &packet["fate"]["answered"];
        assert_eq!(answered["nic"], router, "{packet}");
        assert!(answered["answer"].as_str().expect("text").contains(answer), "{packet}");
        let counters = answered["counters"].as_object().expect("counters");
        assert!(
            counters.iter().any(|(name, by)| name.ends_with(counter) && by.as_u64() > Some(0)),
            "{packet}"
        );
    }

    // A reply is never answered: an unsolicited echo reply is dropped silently.
    let pings = world.pinging("224.0.0.9", &["-I", "192.0.2.2"]);
    let text = said(&["trace", "t14-west.lan", "--count", "1", "--to", "224.0.0.9"]);
    assert!(text.contains("not seen again after t14-west.lan.rx; moved meanwhile: t14-west.vcpu"), "{text}");

    // Frames of it would keep the ledgers from coming to rest.
    drop(pings);
    world.finish();
}

/// Waits until a condition holds.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
    }
}

mod all {
    use super::*;

    #[test]
    fn a_packet_is_followed_through_processes() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        let file = FILE.replace("\n[[router]]\n", "\n[[router]]\nengine = \"process\"\n");
        followed_to_its_end(&file, &THROUGH);
    }

    #[test]
    fn a_packet_is_followed_through_several_queues_and_into_a_ring_by_its_sender() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let file = FILE
            .replace("\n[[router]]\n", "\n[[router]]\nvcpus = 2\nvhost = \"per-queue\"\n")
            .replace("\n[[router.nic]]\n", "\n[[router.nic]]\nqueues = 2\n")
            .replace(
                "attach = \"switch:backbone\"\n",
                "attach = \"switch:backbone\"\ndeliver = \"direct\"\n",
            );
        let without_queue: Vec<_> = THROUGH.into_iter().filter(|place| !place.ends_with(".queue")).collect();
        followed_to_its_end(&file, &without_queue);
    }

    #[test]
    fn a_trace_costs_no_packet_and_ends_with_its_client() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let world = World::start();
        let flow = world.flow();
        let (packets, end) =
            trace(&["t14-west.lan", "--count", "200", "--protocol", "udp", "--port", "7014"]);
        assert_eq!(packets.len(), 200);
        let through = packets.iter().filter(|packet| places(packet) == THROUGH).count();
        assert!(through >= 198, "{through} of 200 were seen everywhere");
        assert!(
            end["not_looked_at"].as_u64().expect("a number") > 0,
            "{RATE} a second are too many for all: {end}"
        );

        // No packet ever matches: the trace would run for a long time.
        let mut endless = UnixStream::connect(SOCKET).expect("it connects");
        let order = r#"{"router":"t14-west","nic":"lan","count":1,"timeout_ms":500000,"filter":{"port":9}}"#;
        writeln!(endless, "{{\"version\":1,\"request\":{{\"trace\":{order}}}}}").expect("it is sent");
        let another = || ringroad(&["trace", "t14-west.lan", "--count", "1"]);
        until("it has begun", || another().stderr.contains("a trace is under way in this run already"));
        drop(endless);
        until("it is forgotten with its client", || another().status.success());

        assert_whole(flow);
        world.finish();
    }
}
