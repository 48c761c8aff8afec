//! A TAP with a tuned queue, in the conformance suite that every port passes: with a queue that is long
//! enough, too short, and shortened during the test. The kernel drops and counts frames that find no room.
//! Another TAP in its bridge is the other side.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use conformance::{Pattern, SourceBench, check_source};
use port::{ClockHandle, Frames};
use ring::{BURST, Bytes};
use uplink::{Netns, Tap, TapConfig, TapSink, TapSource};

use super::*;

/// Time limit of every wait, even on a busy host. Each wait ends as soon as its condition holds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Entries of the router's ring.
const RING: u32 = 256;

/// Returns true if this host permits namespaces and TAPs; otherwise prints why not.
fn devices() -> bool {
    let root = rustix::process::geteuid().is_root();
    let able = root && std::path::Path::new("/dev/net/tun").exists() && Netns::new().is_ok();
    if !able {
        println!("SKIPPED: needs root, /dev/net/tun and network namespaces");
    }
    able
}

fn ip(netns: &Netns, words: &str) {
    let done = netns.command("ip").args(words.split(' ')).output().expect("ip");
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Waits until the bridge forwards frames to one of its devices.
fn wait_until_forwarding(netns: &Netns, name: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = netns.command("ip").args(["-d", "-o", "link", "show", name]).output().expect("ip").stdout;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        if shown.contains("bridge_slave state forwarding") && !shown.contains(" qdisc noop ") {
            return;
        }
        assert!(Instant::now() < end, "{name} does not forward: {shown}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A router whose ring is always full, and accepts no frame.
struct Full;

impl Sink for Full {
    fn deliver(&self, _frames: &[Frame<'_>]) -> usize {
        0
    }

    fn room(&self) -> usize {
        0
    }
}

/// Frames refused in all benches of a test.
type Refused = Rc<Cell<u64>>;

struct Bench {
    source: EarlyDrop<TapSource>,
    other: Arc<TapSink>,
    hand: ClockHandle,
    /// Time that passes at each visit to the source.
    step: Duration,
    refused: Refused,
    netns: Netns,
    /// The handle of the process that opened it.
    tap: Tap,
}

impl Bench {
    /// Carries out the last request.
    fn fulfil(&self) {
        if let Some(frames) = self.tap.last_request() {
            self.tap.set_queue_len(frames).expect("the kernel takes it");
        }
    }

    /// Creates a queue of this length.
    fn new(first: u32, step: Duration, refused: &Refused) -> Self {
        let netns = Netns::new().expect("a namespace");
        let _ = netns.settle(false).expect("settled");
        ip(&netns, "link add br0 type bridge mcast_snooping 0");
        ip(&netns, "link set br0 up");
        let config =
            TapConfig { bridge: Some("br0"), offload: false, netns: Some(&netns), ..TapConfig::default() };
        let tap = Tap::open("ours", &config).and_then(Tap::with_requests).expect("a TAP");
        let (_, other) = Tap::open("other", &config).expect("a TAP").split();
        ["ours", "other"].iter().for_each(|name| wait_until_forwarding(&netns, name));
        let wishes = tap.requests().expect("it has some").try_clone_to_owned().expect("a descriptor");
        let (clock, hand) = Clock::by_hand();
        let (source, _) = tap.try_clone().expect("descriptors").split();
        let mut source = EarlyDrop::new(clock, (source, Arc::new(Full)), QueueLimit(wishes), RING, first);
        // Discard what the bridge may have sent at the start.
        while source.drain(BURST, &mut |_| {}) > 0 {}
        let bench = Self { source, other, hand, step, refused: refused.clone(), netns, tap };
        bench.fulfil();
        bench
    }

    /// Returns the frames that the kernel has dropped because our queue was full.
    fn drops(&self) -> u64 {
        self.netns.counters("ours").expect("it is there").tx_drops
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        self.hand.advance(self.step);
        self.fulfil();
        &mut self.source
    }

    /// The kernel delivers a frame to the other queue, or drops it, within the write.
    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        self.fulfil();
        let before = self.drops();
        let mut octets = frames.to_vec();
        for burst in octets.chunks_mut(BURST) {
            let shown: Frames<'_> = burst.iter_mut().map(|o| Frame::new(Bytes::from_slice(o))).collect();
            assert_eq!(self.other.deliver(&shown), shown.len(), "the kernel takes what is written");
        }
        let refused = self.drops() - before;
        self.refused.set(self.refused.get() + refused);
        frames.len() - refused as usize
    }

    fn pattern(&self) -> Pattern {
        Pattern { shortest: 60, ..Pattern::default() }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Runs the suite; returns the frames that the kernel has dropped.
fn refused(first: u32, step: Duration) -> u64 {
    let refused = Refused::default();
    check_source(|| Bench::new(first, step, &refused));
    refused.get()
}

#[test]
fn a_queue_that_is_long_enough_loses_nothing() {
    if devices() {
        assert_eq!(refused(2000, Duration::ZERO), 0);
    }
}

#[test]
fn what_a_short_queue_has_no_room_for_is_counted() {
    if devices() {
        assert!(refused(100, Duration::ZERO) > 0, "the queue was never full");
    }
}

#[test]
fn a_queue_that_is_judged_at_each_visit_is_a_source() {
    if devices() {
        assert!(refused(500, PERIOD) > 0, "the queue was never full");
    }
}

/// Feeds this many frames to a queue of 500 that is judged at each visit, and drains them one at a time;
/// returns how many arrived, and the final length of the queue.
fn taken_out_while_it_is_cut(count: u32) -> (usize, u32) {
    let mut bench = Bench::new(500, PERIOD, &Refused::default());
    let pattern = SourceBench::pattern(&bench);
    let frames: Vec<_> = (0..count).map(|number| pattern.octets(1, number, 60)).collect();
    assert_eq!(bench.feed(&frames), frames.len(), "all of them have room");
    let mut came = 0;
    while bench.source().drain(1, &mut |_| {}) > 0 {
        came += 1;
    }
    let shown = bench.netns.command("ip").args(["-o", "link", "show", "ours"]).output().expect("ip").stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let len = shown
        .split("qlen ")
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    (came, len.expect("a queue length"))
}

#[test]
fn a_cut_of_places_that_are_free_loses_nothing() {
    if devices() {
        let (came, len) = taken_out_while_it_is_cut(100);
        assert!(len < 500, "it was cut");
        assert_eq!(came, 100);
    }
}
