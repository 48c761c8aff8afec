//! AF_XDP on a veth pair: the conformance suite that every port passes, with a packet socket at the other
//! end, and the behaviour when the interface is in use, goes down, or is deleted.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conformance::{check_sink, check_source};
use frame::ethernet::SHORTEST;
use port::{Bell, Frame, Sink, Source, pump};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uplink::xdp::{XdpPorts, XdpSource};
use uplink::{Links, Netns, Xdp, XdpConfig};

use crate::far_end::{Bench, KERNEL, OURS, PacketSocket};
use crate::support::{
    Way, collect, datagram, deliver, devices, drained, frames_at, losses, number, wait_for,
    wait_until_running,
};

/// Out of our port.
const WAY: Way =
    Way { from: (OURS, Ipv4Addr::new(198, 18, 0, 1)), to: (KERNEL, Ipv4Addr::new(198, 18, 0, 2)) };
/// Into our port.
const BACK: Way = Way { from: WAY.to, to: WAY.from };

/// A namespace with a veth pair: `near` is ours, `far` the peer's.
struct Pair {
    netns: Netns,
    links: Links,
}

impl Pair {
    fn new(queues: u32) -> Self {
        let netns = Netns::new().expect("namespace");
        let links = netns.settle(false).expect("settle");
        let pair = Self { netns, links };
        pair.make(queues);
        pair
    }

    fn make(&self, queues: u32) {
        let n = queues.to_string();
        let sides = ["numrxqueues", &n, "numtxqueues", &n];
        let mut add = vec!["link", "add", "near"];
        add.extend(sides);
        add.extend(["type", "veth", "peer", "name", "far"]);
        add.extend(sides);
        ip(&self.netns, &add);
        for name in ["near", "far"] {
            self.links.set_up(name, true).expect("up");
        }
        ["near", "far"].iter().for_each(|name| wait_until_running(&self.netns, name));
    }

    /// Creates both ends again, and opens ours.
    fn again(&self, queues: u32) -> (Xdp, PacketSocket) {
        self.make(queues);
        (self.open(), self.peer())
    }

    fn config(&self) -> XdpConfig<'_> {
        XdpConfig { queue_len: 4096, netns: Some(&self.netns), ..XdpConfig::default() }
    }

    fn open(&self) -> Xdp {
        Xdp::open("near", &self.config()).expect("AF_XDP")
    }

    fn peer(&self) -> PacketSocket {
        self.netns.run(|| PacketSocket::open("far")).expect("enter").expect("packet socket")
    }

    /// Returns true if there is a program at the interface, according to iproute2.
    fn has_program(&self) -> bool {
        ip(&self.netns, &["link", "show", "near"]).contains("xdp")
    }
}

fn ip(netns: &Netns, arguments: &[&str]) -> String {
    let output = netns.command("ip").args(arguments).stdin(Stdio::null()).output().expect("iproute2");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns true if this host has AF_XDP and veth pairs; prints once per test if not.
fn able() -> bool {
    if !devices() {
        return false;
    }
    let netns = Netns::new().expect("namespace");
    let add = ["link", "add", "near", "type", "veth", "peer", "name", "far"];
    let made = netns.command("ip").args(add).output().is_ok_and(|output| output.status.success());
    let config = XdpConfig { netns: Some(&netns), ..XdpConfig::default() };
    let able = made && !matches!(Xdp::open("near", &config), Err(uplink::Error::NoXdp));
    if !able {
        println!("SKIPPED: needs AF_XDP, veth pairs and iproute2");
    }
    able
}

/// The port of `near` with these queues, and a packet socket at `far`.
fn bench(queues: u32) -> Bench {
    let pair = Pair::new(queues);
    let (xdp, socket) = (pair.open(), pair.peer());
    let mut ports = xdp.ports(1).expect("rings");
    let (source, sink) = (Box::new(ports.sources.remove(0)), ports.sinks.remove(0));
    let counters = sink.counters();
    let held = Box::new((ports.health, xdp, pair));
    Bench { socket, source, sink, counters, shortest: SHORTEST, _held: held }
}

#[test]
fn an_interface_is_a_sink() {
    if able() {
        check_sink(|| bench(1));
    }
}

#[test]
fn an_interface_is_a_source() {
    if able() {
        check_source(|| bench(1));
    }
}

#[test]
fn a_short_frame_is_padded_with_zeros() {
    if !able() {
        return;
    }
    let pair = Pair::new(1);
    let config = XdpConfig { queue_len: 256, ..pair.config() };
    let (xdp, peer) = (Xdp::open("near", &config).expect("AF_XDP"), pair.peer());
    let ports = xdp.ports(1).expect("rings");
    // Longer frames before, so that the memory of each chunk has other octets.
    let mut long = datagram(WAY, 100, 1);
    long[SHORTEST - 10..].fill(0xff);
    let mut burst = vec![long; 64];
    for _ in 0..8 {
        deliver(&*ports.sinks[0], &mut burst);
        drop(frames_at(&peer.0));
    }
    // A frame of 60 octets without its VLAN tag.
    let short = datagram(WAY, 56, 2);
    let mut came = Vec::new();
    wait_for("the short frame at the other end", || {
        if came.is_empty() {
            deliver(&*ports.sinks[0], &mut [short.clone()]);
        }
        came.extend(frames_at(&peer.0).into_iter().filter(|frame| number(frame) == 2));
        !came.is_empty()
    });
    let mut expected = short;
    expected.resize(SHORTEST, 0);
    assert_eq!(came[0], expected);
}

#[test]
fn frames_of_several_pages_come_and_go_whole() {
    if !able() {
        return;
    }
    let pair = Pair::new(1);
    for name in ["near", "far"] {
        ip(&pair.netns, &["link", "set", name, "mtu", "9216"]);
    }
    let config = XdpConfig { mtu: 9216, queue_len: 256, ..pair.config() };
    let xdp = match Xdp::open("near", &config) {
        Err(error) if error.to_string().contains("Linux 6.6") => return println!("SKIPPED: {error}"),
        opened => opened.expect("AF_XDP"),
    };
    let (peer, mut ports) = (pair.peer(), xdp.ports(1).expect("rings"));
    // Around the borders of what the kernel puts into a page, and of what we do.
    for len in [60, 1514, 3840, 3841, 4096, 4097, 7680, 7681, 8192, 8193, 9230] {
        let frame = |way| {
            let mut frame = datagram(way, len, len as u32);
            frame[46..].iter_mut().zip((0..=250).cycle()).for_each(|(octet, n)| *octet = n);
            frame
        };
        assert_eq!(rustix::io::write(&peer.0, &frame(BACK)), Ok(len));
        assert!(collect(&mut ports.sources[0], 1) == [frame(BACK)], "received: {len}");
        assert_eq!(deliver(&*ports.sinks[0], &mut [frame(WAY)]), 1);
        let mut came = Vec::new();
        wait_for("it at the other end", || {
            came.extend(frames_at(&peer.0));
            !came.is_empty()
        });
        assert!(came == [frame(WAY)], "sent: {len}");
    }
    // More of them than are copied together at a time, with small ones between them.
    let len = |n: u32| if n.is_multiple_of(4) { 60 } else { 9000 };
    let all: Vec<_> = (0..40).map(|n| datagram(BACK, len(n), n)).collect();
    for frame in &all {
        wait_for("room at the other end", || rustix::io::write(&peer.0, frame).is_ok());
    }
    assert!(collect(&mut ports.sources[0], all.len()) == all, "in order, and none is missing");
    let (read, written) = (ports.sources[0].counters(), ports.sinks[0].counters());
    assert_eq!((losses(&*read), losses(&*written)), (0, 0), "{read:?} {written:?}");
}

#[test]
fn several_queues_are_one_source() {
    if able() {
        check_source(|| bench(2));
        check_sink(|| bench(2));
    }
}

#[test]
fn a_program_goes_with_its_port_and_another_one_is_told_of() {
    if !able() {
        return;
    }
    let pair = Pair::new(1);
    let xdp = pair.open();
    assert!(pair.has_program());
    let second = Xdp::open("near", &pair.config()).expect_err("one program at a time").to_string();
    assert!(second.contains("has an XDP program already"), "{second}");
    assert_eq!(xdp.parts().way(), "copy mode, in the driver, 1 queues");
    drop(xdp);
    // A program being started by another test inherits our descriptors until exec.
    wait_for("nothing to be left", || !pair.has_program());
    let again = Instant::now();
    while let Err(error) = Xdp::open("near", &pair.config()) {
        assert!(again.elapsed() < Duration::from_secs(60), "{error}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn frames_come_again_after_the_sockets_were_renewed() {
    if !able() {
        return;
    }
    let pair = Pair::new(1);
    let (mut xdp, peer) = (pair.open(), pair.peer());
    let first = xdp.ports(1).expect("rings");
    drop(first);
    xdp.release();
    let since = Instant::now();
    while let Err(error) = xdp.renew() {
        assert!(since.elapsed() < Duration::from_secs(60), "{error}");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut ports = xdp.ports(1).expect("rings");
    assert_eq!(rustix::io::write(&peer.0, &datagram(BACK, 60, 7)), Ok(60));
    let came = collect(&mut ports.sources[0], 1);
    assert_eq!(came.iter().map(|frame| number(frame)).collect::<Vec<_>>(), [7]);
    drop(ports);
    ip(&pair.netns, &["link", "del", "near"]);
    xdp.release();
    xdp.renew().expect("an interface that is not there");
    assert!(!xdp.is_there());
    let mut ports = xdp.ports(1).expect("no rings");
    assert_eq!(deliver(&*ports.sinks[0], &mut [datagram(WAY, 60, 1)]), 0);
    assert_eq!(ports.sinks[0].counters().drop_gone.get(), 1);
    assert_eq!(ports.sources[0].drain(64, &mut |_| {}), 0);
    assert!(!is_ringing(&ports.sources[0]));
    // The interface is created again.
    let (xdp, peer) = pair.again(1);
    is_taken_again(&mut ports, &xdp, &peer);
}

#[test]
fn an_interface_that_is_down_loses_frames_by_name_and_comes_back() {
    if !able() {
        return;
    }
    let pair = Pair::new(1);
    let (xdp, peer) = (pair.open(), pair.peer());
    let ports = xdp.ports(1).expect("rings");
    let sink = &ports.sinks[0];
    pair.links.set_up("near", false).expect("down");
    let mut frames = [datagram(WAY, 60, 1), datagram(WAY, 60, 2)];
    deliver(&**sink, &mut frames);
    deliver(&**sink, &mut frames);
    assert!(sink.counters().drop_down.get() >= 2, "{:?}", sink.counters());
    assert_eq!(sink.room(), usize::MAX, "what is lost needs no room");
    pair.links.set_up("near", true).expect("up");
    let since = Instant::now();
    let mut octets = [0; 2048];
    while rustix::io::read(&peer.0, &mut octets).is_err() {
        deliver(&**sink, &mut frames);
        assert!(since.elapsed() < Duration::from_secs(60), "nothing is sent any more");
    }
}

#[test]
fn an_interface_that_was_deleted_is_told_of_once() {
    if !able() {
        return;
    }
    let pair = Pair::new(1);
    let xdp = pair.open();
    let mut ports = xdp.ports(1).expect("rings");
    ip(&pair.netns, &["link", "del", "near"]);
    let since = Instant::now();
    let told = loop {
        ports.health.look();
        if let Some(told) = ports.health.take_trouble() {
            break told;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "nobody noticed");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(told.contains("`near` was deleted"), "{told}");
    assert_eq!(ports.health.take_trouble(), None);
    assert!(!is_ringing(&ports.sources[0]), "it would ring for ever");
    assert_eq!(ports.sources[0].drain(64, &mut |_| {}), 0);
    assert_eq!(deliver(&*ports.sinks[0], &mut [datagram(WAY, 60, 1)]), 0);
    assert_eq!(ports.sinks[0].counters().drop_gone.get(), 1);
}

fn is_ringing(source: &XdpSource) -> bool {
    let (Bell::Event(bell) | Bell::Readable(bell)) = source.bell() else { return false };
    let mut look = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut look, Some(&now)).expect("poll") > 0
}

/// Replaces a deleted interface: the ports continue with the new one.
fn is_taken_again(ports: &mut XdpPorts, xdp: &Xdp, peer: &PacketSocket) {
    let lost = losses(&*ports.sinks[0].counters());
    ports.revival.replace(xdp).expect("rings");
    assert!(ports.sources.iter().all(is_ringing), "who sleeps at the old one is woken");
    for source in &mut ports.sources {
        assert!(source.arm(), "who is about to sleep does not");
        assert_eq!(source.drain(64, &mut |_| {}), 0, "the new queues are taken up");
    }
    assert_eq!(rustix::io::write(&peer.0, &datagram(BACK, 60, 7)), Ok(60));
    let came = collect(&mut ports.sources[0], 1);
    assert_eq!(came.iter().map(|frame| number(frame)).collect::<Vec<_>>(), [7]);
    assert_eq!(deliver(&*ports.sinks[0], &mut [datagram(WAY, 60, 8)]), 1);
    assert_eq!(losses(&*ports.sinks[0].counters()), lost);
    let mut numbers = Vec::new();
    wait_for("it at the other end", || {
        numbers.extend(frames_at(&peer.0).iter().map(|frame| number(frame)));
        !numbers.is_empty()
    });
    assert_eq!(numbers, [8]);
}

#[test]
fn an_interface_that_was_made_again_is_served_again_and_again() {
    if !able() {
        return;
    }
    let pair = Pair::new(2);
    let xdp = pair.open();
    let mut ports = xdp.ports(1).expect("rings");
    assert!(xdp.is_there());
    // With the same number of queues, with fewer, and with more.
    for queues in [2, 1, 3] {
        ip(&pair.netns, &["link", "del", "near"]);
        let lost = ports.sinks[0].counters().drop_gone.get();
        let since = Instant::now();
        // The kernel deletes the interface under a call in progress.
        while ports.sinks[0].counters().drop_gone.get() == lost {
            deliver(&*ports.sinks[0], &mut [datagram(WAY, 60, 1)]);
            assert!(since.elapsed() < Duration::from_secs(60), "frames go to nowhere uncounted");
        }
        assert!(!is_ringing(&ports.sources[0]));
        let (xdp, peer) = pair.again(queues);
        is_taken_again(&mut ports, &xdp, &peer);
        ports.health.look();
        assert_eq!(ports.health.take_trouble(), None);
    }
    assert!(!xdp.is_there(), "the first one is gone");
}

#[test]
fn what_nobody_takes_is_lost_in_the_kernel_and_counted() {
    if !able() {
        return;
    }
    const SENT: u64 = 1000;
    let pair = Pair::new(1);
    let config = XdpConfig { queue_len: 256, ..pair.config() };
    let (xdp, peer) = (Xdp::open("near", &config).expect("AF_XDP"), pair.peer());
    let mut ports = xdp.ports(1).expect("rings");
    for n in 0..SENT {
        assert_eq!(rustix::io::write(&peer.0, &datagram(BACK, 60, n as u32)), Ok(60));
    }
    let mut came = 0;
    wait_for("each frame to come or to be counted", || {
        came += drained(&mut ports.sources[0]).len() as u64;
        ports.health.look();
        came + losses(&*ports.health.counters()) >= SENT
    });
    assert!((256..SENT).contains(&came), "{came} of {SENT}");
    assert_eq!(came + losses(&*ports.health.counters()), SENT, "{:?}", ports.health.counters());
}

/// A sink without room, which counts the frames that come without it.
#[derive(Default)]
struct Full(AtomicUsize);

impl Sink for Full {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.fetch_add(frames.len(), Ordering::Relaxed);
        0
    }

    fn room(&self) -> usize {
        0
    }
}

#[test]
fn a_queue_that_fills_up_is_read_without_room() {
    if !able() {
        return;
    }
    const SENT: usize = 200;
    let pair = Pair::new(1);
    let config = XdpConfig { queue_len: 256, ..pair.config() };
    let (xdp, peer) = (Xdp::open("near", &config).expect("AF_XDP"), pair.peer());
    let mut ports = xdp.ports(1).expect("rings");
    let full = Full::default();
    for n in 0..SENT {
        assert_eq!(rustix::io::write(&peer.0, &datagram(BACK, 60, n as u32)), Ok(60));
    }
    wait_for("frames", || ports.sources[0].arm());
    assert_eq!(pump(&mut ports.sources[0], &full), 0, "they wait");
    ports.overflow(true);
    wait_for("all but half of a ring", || {
        pump(&mut ports.sources[0], &full);
        full.0.load(Ordering::Relaxed) > SENT - 128
    });
    while pump(&mut ports.sources[0], &full) > 0 {}
    assert!(ports.sources[0].waits(), "the rest waits");
    assert!(full.0.load(Ordering::Relaxed) < SENT, "and is there");
}
