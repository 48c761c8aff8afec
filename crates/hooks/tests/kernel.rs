//! Limits, traces and drop counters of a kernel router between two hosts, against a real kernel.

use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hooks::{
    DropCounters, Error, Filter, Interface, Limiter, PacketFate, PacketTracer, Reasons, TraceSpec,
    TracedPacket,
};
use netlink::Netlink;
use support::Namespace;

/// Longer than any wait takes.
const LONG: Duration = Duration::from_secs(60);
const LEFT: u32 = 0;
const RIGHT: u32 = 1;

/// A router between two hosts, with a veth pair to each.
struct World {
    west: Namespace,
    router: Namespace,
    _east: Namespace,
}

impl World {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let [west, router, east] = ["west", "router", "east"]
            .map(|name| Namespace::add(&format!("hooks{number}-{name}")).expect("a namespace"));
        router.set("net.ipv4.ip_forward", "1").expect("a sysctl");
        for (side, host, net) in [("left", &west, "192.0.2"), ("right", &east, "198.51.100")] {
            let ip = |at: &Namespace, words: &str| {
                at.ip(&words.split(' ').collect::<Vec<_>>()).expect("ip does that");
            };
            ip(&router, &format!("link add {side} type veth peer name eth0 netns {}", host.name()));
            ip(&router, &format!("address add {net}.1/24 dev {side}"));
            ip(&router, &format!("link set {side} up"));
            ip(host, &format!("address add {net}.2/24 dev eth0"));
            ip(host, "link set eth0 up");
            ip(host, &format!("route add default via {net}.1"));
        }
        Self { west, router, _east: east }
    }

    /// Index of one of the router's interfaces.
    fn index(&self, name: &str) -> u32 {
        let ask = || Netlink::open().and_then(|kernel| kernel.link(name)).expect("a link").index;
        self.router.inside(ask).expect("the namespace")
    }

    /// Sends a datagram from the west host.
    fn send(&self, to: &str, ttl: u32) {
        let send = || {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.set_ttl(ttl).expect("an option");
            // An ICMP error for an earlier datagram shows as an error of the next send.
            let _ = socket.send_to(b"somebody there?", to);
        };
        self.west.inside(send).expect("the namespace");
    }
}

/// Returns the value. If the kernel lacks the feature, prints that the test is skipped and returns `None`.
fn granted<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(granted) => Some(granted),
        Err(lacks @ (Error::NoTcx | Error::NoTypes { .. })) => {
            println!("SKIPPED: {lacks}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Waits until there is a result.
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it never comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn packets_are_followed_to_where_they_leave_or_why_they_end() {
    support::needs!(Root, Program("ip"));
    let world = World::new();
    let filter = Filter { source: Some([192, 0, 2, 2].into()), protocol: Some(17), ..Filter::default() };
    let Some(mut follower) = granted(PacketTracer::start(TraceSpec { nic: LEFT, count: 100, filter })) else {
        return;
    };
    for (nic, name) in [(RIGHT, "right"), (LEFT, "left")] {
        let index = world.index(name);
        let watched = world.router.inside(|| follower.watch(nic, index)).expect("the namespace");
        let Some(()) = granted(watched) else { return };
    }
    let reasons = Reasons::of_kernel().expect("it told of them");
    let mut next = |to: &str, ttl: u32| -> TracedPacket {
        world.send(to, ttl);
        wait(|| follower.harvest(false).expect("it is told").pop())
    };
    let dropped = |followed: &TracedPacket| match &followed.end {
        PacketFate::Dropped { reason, .. } => reasons.name(*reason),
        other => panic!("{other:?}"),
    };
    let left = next("198.51.100.2:9", 64);
    assert!(matches!(left.end, PacketFate::Left { nic: RIGHT, .. }), "{left:?}");
    let PacketFate::Left { head, .. } = &left.end else { return };
    assert_eq!((left.head[22], head[22]), (64, 63), "time to live");
    assert_ne!(left.head[..12], head[..12], "Ethernet addresses");
    assert_eq!(dropped(&next("192.0.2.1:9", 64)), "no_socket");
    let aged = dropped(&next("198.51.100.2:9", 1));
    assert!(["ip_inhdr", "not_specified"].contains(&aged.as_str()), "{aged}");
    let lost = dropped(&next("203.0.113.9:9", 64));
    assert!(["ip_innoroutes", "ip_outnoroutes", "not_specified"].contains(&lost.as_str()), "{lost}");
    // No host answers for this address.
    let waits = next("198.51.100.77:9", 64);
    assert!(matches!(waits.end, PacketFate::Dropped { .. } | PacketFate::Unseen), "{waits:?}");
}

#[test]
fn what_enters_a_router_is_capped_and_counted() {
    support::needs!(Root, Program("ip"));
    let world = World::new();
    let mut limiter = Limiter::new(2).expect("root may");
    for (nic, name) in [(LEFT, "left"), (RIGHT, "right")] {
        let index = world.index(name);
        let guarded = world.router.inside(|| limiter.attach(nic, index)).expect("the namespace");
        let Some(()) = granted(guarded) else { return };
    }
    limiter.set(Some(1)).expect("root may");
    (0..200).for_each(|_| world.send("198.51.100.2:9", 64));
    let counted = wait(|| limiter.counted(LEFT).ok().filter(|counted| counted.in_frames >= 200));
    assert_eq!(counted.passed + counted.drop_limit, counted.in_frames);
    assert!(counted.drop_limit > 0 && counted.passed >= 1, "{counted:?}");
    limiter.set(None).expect("root may");
    let before = limiter.counted(LEFT).expect("it is told");
    world.send("198.51.100.2:9", 64);
    assert_eq!(limiter.counted(LEFT).expect("it is told"), before, "without a limit nothing is counted");
}

#[test]
fn what_the_kernel_drops_is_counted_for_the_interface_that_it_came_by() {
    support::needs!(Root, Program("ip"));
    let world = World::new();
    let Some(mut drops) = granted(DropCounters::start(8)) else { return };
    let inode = std::fs::metadata(format!("/run/netns/{}", world.router.name())).expect("its file").ino();
    let interface = |name: &str| Interface { namespace: inode as u32, index: world.index(name) };
    let (left, right) = (interface("left"), interface("right"));
    [left, right].into_iter().for_each(|interface| drops.watch(interface).expect("there is room"));
    (0..5).for_each(|_| world.send("192.0.2.1:9", 64));
    let of = |interface| drops.counted(interface).expect("it is told").expect("it is watched");
    let counted =
        wait(|| Some(of(left)).filter(|counted| counted.get("no_socket").is_some_and(|count| *count >= 5)));
    assert_eq!(counted.get("no_socket"), Some(&5), "{counted:?}");
    assert_eq!(of(right).get("no_socket"), None);
}
