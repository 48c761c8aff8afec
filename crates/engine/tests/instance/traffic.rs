//! Numbered frames through a router, at a rate at which none may be lost.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use attach::HandedOver;
use engine::{Change, HostServices, Instance, Plugs};
use frame::{checksum, ipv4};
use port::pair::{PairPort, pair};
use port::{Frame, Sink, Source};
use ring::Bytes;

/// Time limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Frames sent at a time, and the pause of the sender in between: some 5,000 frames per second.
const BURST: u64 = 5;
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of frames in flight, less than any ring on the path holds: if one of the threads gets no
/// CPU for a while, the others do not run into a full ring.
const WINDOW: u64 = 512;
/// After this time without any arrival the frames in flight may have been lost, and more are sent.
const PROBE: Duration = Duration::from_millis(300);
/// Capacity of a wire in frames.
const WIRE: u32 = 8192;

/// Serialises tests: each needs the CPUs for itself.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if this host has KVM; otherwise prints why not.
pub(crate) fn kvm() -> bool {
    match vmm::open_kvm() {
        Ok(_) => true,
        Err(error) => {
            println!("SKIPPED: {error:#}");
            false
        }
    }
}

/// Router number `n`, as part of a file: frames that enter at `10.n.0.1` leave by `10.n.1.1`, where
/// `10.n.1.2` is a static neighbour. `more` are further keys.
pub(crate) fn router(name: &str, n: u8, more: &str) -> String {
    format!(
        "[[router]]\nname = '{name}'\n{more}\n\
         [[router.nic]]\nname = 'in'\nattach = 'null'\nmac = '02:00:00:00:{n:02}:00'\naddress = '10.{n}.0.1/24'\n\
         [[router.nic]]\nname = 'out'\nattach = 'null'\naddress = '10.{n}.1.1/24'\n\
         [[router.neighbour]]\naddress = '10.{n}.1.2'\nmac = '02:00:00:00:{n:02}:09'\n\
         [[router.neighbour]]\naddress = '10.{n}.1.3'\nmac = '02:00:00:00:{n:02}:0a'\n"
    )
}

/// A capture file, as the process that opened it hands it over.
pub(crate) fn capture(file: File) -> HandedOver {
    HandedOver { what: serde_json::json!([false, false]), descriptors: vec![file.into()] }
}

/// Changes one setting of a router, as the owner of the plan does.
///
/// # Errors
/// A file could not contain this setting, or it cannot be applied.
pub(crate) fn set(
    instance: &mut Instance,
    router: &str,
    key: &str,
    value: &str,
) -> anyhow::Result<Option<Change>> {
    let plan = instance.plan().with(router, key, value)?;
    Ok(instance.apply(&plan, Plugs::new())?.pop())
}

/// Parses a plan.
pub(crate) fn plan(text: &str) -> config::Plan {
    config::parse(text, "file.toml").expect("a good file")
}

/// Starts a file whose NICs are plugged into these.
pub(crate) fn start(text: &str, plugs: Plugs) -> Instance {
    Instance::start(&plan(text), HostServices { plugs, ..HostServices::default() }).expect("it starts")
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns all counters of an instance, by name.
pub(crate) fn counters(instance: &Instance) -> HashMap<String, u64> {
    let mut all = HashMap::new();
    instance.each_group(&mut |prefix, group| {
        group.each(&mut |name, value| {
            all.insert(format!("{prefix}.{name}"), value);
        });
    });
    all
}

/// A sender before a router, and a receiver behind it.
pub(crate) struct Stream {
    go: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

/// Frames sent and received.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) sent: AtomicU64,
    pub(crate) arrived: AtomicU64,
    /// The expected next number.
    next: AtomicU64,
    /// Numbers that were skipped.
    pub(crate) missing: AtomicU64,
    /// Frames by the last octet of the destination MAC address.
    pub(crate) by_station: [AtomicU64; 16],
}

impl Tally {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::SeqCst)
    }

    pub(crate) fn missing(&self) -> u64 {
        self.missing.load(Ordering::SeqCst)
    }

    /// Returns the frames received for station `02:00:00:00:xx:0s`.
    pub(crate) fn at(&self, station: usize) -> u64 {
        self.by_station[station].load(Ordering::SeqCst)
    }
}

impl Stream {
    /// Creates a stream through router `name`, which is number `n`, to the address `to`. Its ends are added
    /// to the plugs.
    pub(crate) fn through(name: &str, n: u8, to: [u8; 4], plugs: &mut Plugs) -> Self {
        Self::between((name, "in"), (name, "out"), n, to, plugs)
    }

    /// Creates a stream from a NIC of one router to a NIC of another; the first is number `n`.
    pub(crate) fn between(
        from: (&str, &str),
        until: (&str, &str),
        n: u8,
        to: [u8; 4],
        plugs: &mut Plugs,
    ) -> Self {
        let (near, entry) = pair(WIRE).expect("a wire");
        let (exit, far) = pair(WIRE).expect("a wire");
        let port = |end: PairPort| attach::port(Box::new(end.source), end.sink);
        plugs.insert(format!("{}.{}", from.0, from.1), port(entry));
        plugs.insert(format!("{}.{}", until.0, until.1), port(exit));
        let (go, stop) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let tally = Arc::<Tally>::default();
        let threads = vec![
            {
                let (go, stop, tally) = (go.clone(), stop.clone(), tally.clone());
                std::thread::spawn(move || {
                    while !go.load(Ordering::SeqCst) && !stop.load(Ordering::SeqCst) {
                        std::thread::sleep(PAUSE);
                    }
                    send(&near, n, to, &stop, &tally);
                })
            },
            {
                let (stop, tally) = (stop.clone(), tally.clone());
                std::thread::spawn(move || receive(far, &stop, &tally))
            },
        ];
        Self { go, stop, tally, threads }
    }

    /// Begins to send, whether anything arrives or not.
    pub(crate) fn begins(&self) {
        self.go.store(true, Ordering::SeqCst);
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Begins to send, unless it does already, and waits until so many more frames have arrived.
    #[track_caller]
    pub(crate) fn flows(&self, more: u64) {
        self.begins();
        let wanted = self.tally.arrived() + more;
        wait_for("frames to arrive", || self.tally.arrived() >= wanted);
    }

    /// Ends the stream; no frame of it may be lost.
    #[track_caller]
    pub(crate) fn ends_whole(mut self) {
        let tally = self.tally.clone();
        self.end(|| tally.arrived() == tally.sent());
        assert_eq!((tally.arrived(), tally.missing()), (tally.sent(), 0), "frames were lost");
    }

    /// Stops sending, waits for the frames in flight, and stops.
    #[track_caller]
    fn end(&mut self, done: impl Fn() -> bool) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.remove(0).join().expect("the sender ends");
        let start = Instant::now();
        while !done() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn send(near: &PairPort, n: u8, to: [u8; 4], stop: &AtomicBool, tally: &Tally) {
    let (mut number, mut seen, mut probe) = (0_u64, 0, Instant::now());
    while !stop.load(Ordering::SeqCst) {
        let next = tally.next.load(Ordering::SeqCst);
        if next != seen {
            (seen, probe) = (next, Instant::now());
        }
        if number - next >= WINDOW && probe.elapsed() < PROBE {
            std::thread::sleep(PAUSE);
            continue;
        }
        probe = if number - next >= WINDOW { Instant::now() } else { probe };
        for _ in 0..BURST {
            let mut octets = frame(n, to, number);
            // A full wire keeps its frames: the router is not there to take them, and the number is retried.
            if near.sink.room() == 0 {
                break;
            }
            assert_eq!(near.sink.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]), 1);
            number += 1;
            tally.sent.store(number, Ordering::SeqCst);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Sends a few frames into a wire that leads to router number `n`.
pub(crate) fn offer(near: &PairPort, n: u8, to: [u8; 4], count: u64) {
    for number in 0..count {
        let mut octets = frame(n, to, number);
        assert_eq!(near.sink.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]), 1);
    }
}

fn receive(mut far: PairPort, stop: &AtomicBool, tally: &Tally) {
    let (mut next, mut idle) = (0_u64, None);
    while !stop.load(Ordering::SeqCst) || idle.is_none_or(|since: Instant| since.elapsed() < PATIENCE / 4) {
        let came = far.source.drain(64, &mut |frames| {
            for frame in frames {
                note(frame, &mut next, tally);
            }
        });
        idle = if came > 0 { None } else { idle.or_else(|| Some(Instant::now())) };
        if came == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Offset of the number: behind Ethernet, IPv4 and UDP.
const NUMBER_AT: usize = 14 + 20 + 8;

fn note(frame: &Frame<'_>, next: &mut u64, tally: &Tally) {
    let octets = frame.octets();
    let (Some(station), Some([8, 0])) = (octets.read::<6>(0), octets.read::<2>(12)) else { return };
    let Some(number) = octets.read::<8>(NUMBER_AT).map(u64::from_be_bytes) else { return };
    tally.missing.fetch_add(number.saturating_sub(*next), Ordering::SeqCst);
    *next = number + 1;
    tally.next.store(*next, Ordering::SeqCst);
    tally.by_station[usize::from(station[5] & 15)].fetch_add(1, Ordering::SeqCst);
    tally.arrived.fetch_add(1, Ordering::SeqCst);
}

/// A UDP datagram for router number `n`.
fn frame(n: u8, to: [u8; 4], number: u64) -> [u8; 60] {
    let mut octets = [0; 60];
    octets[..6].copy_from_slice(&[2, 0, 0, 0, n, 0]);
    octets[6..12].copy_from_slice(&[2, 0, 0, 0, n, 7]);
    octets[12..14].copy_from_slice(&[8, 0]);
    let ip = &mut octets[14..34];
    ip[0] = 0x45;
    ip[3] = 46;
    ip[8] = 64;
    ip[9] = ipv4::UDP;
    ip[12..16].copy_from_slice(&[10, n, 0, 2]);
    ip[16..20].copy_from_slice(&to);
    let sum = checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    octets[34..38].copy_from_slice(&[0x30, 0x39, 0, 9]);
    octets[39] = 26;
    octets[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&number.to_be_bytes());
    octets
}
