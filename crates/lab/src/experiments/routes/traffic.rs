//! Load through a router in a room, and at which of the room's TAPs it arrives.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use frame::Mac;
use uplink::{LinkCounters, PacketSender};

use crate::generator::{Settings, first_frames};
use crate::rig::Worker;
use crate::rig::router_run::ControlledRun;

/// Octets of each frame.
const FRAME: usize = 60;
/// Time between two readings of an interface's counters: the error of all times here.
const EVERY: Duration = Duration::from_micros(200);

/// Sends frames to these addresses in turn, into a TAP of the NIC with this Ethernet address, as fast as it takes them, until dropped.
pub(super) fn load(run: &ControlledRun, (tap, mac): (&str, [u8; 6]), to: &[IpAddr]) -> Result<Worker<()>> {
    let to = to.iter().filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(ip.to_bits()) } else { None });
    let destinations: Vec<u32> = to.collect();
    ensure!(!destinations.is_empty(), "the load has no destination");
    let flows = destinations.len() as u32;
    let settings =
        Settings { destination_mac: Mac(mac), destinations, flows, frame: FRAME, ..Settings::default() };
    let frames = first_frames(&settings, flows as usize)?;
    let wire = PacketSender::open(run.netns(), tap)?;
    Worker::start("load", move |stop| {
        for frame in frames.iter().cycle() {
            if stop.is_set() {
                break;
            }
            if wire.repeat(frame, 1) == 0 {
                yield_now();
            }
        }
        Ok(())
    })
}

/// What has arrived at an interface.
#[derive(Debug, Default)]
struct Seen {
    frames: u64,
    /// Time of the last reading that counts.
    last: Option<Instant>,
}

/// Watches what arrives at a TAP of the room, until dropped.
pub(super) struct Arrivals {
    seen: Arc<Mutex<Seen>>,
    _thread: Worker<()>,
}

impl Arrivals {
    /// Begins. A reading counts if it finds at least `few` frames: those of control planes are fewer.
    pub(super) fn at(run: &ControlledRun, tap: &'static str, few: u64) -> Result<Self> {
        let (seen, netns) = (Arc::<Mutex<Seen>>::default(), run.netns().clone());
        let noted = seen.clone();
        let thread = Worker::start(tap, move |stop| {
            netns.enter()?;
            let mut before = LinkCounters::here(tap)?.rx_frames;
            while !stop.wait(EVERY) {
                let now = LinkCounters::here(tap)?.rx_frames;
                let more = now - std::mem::replace(&mut before, now);
                let mut seen = lock(&noted);
                seen.frames += more;
                if more >= few {
                    seen.last = Some(Instant::now());
                }
            }
            Ok(())
        })?;
        Ok(Self { seen, _thread: thread })
    }

    /// Frames that have arrived.
    pub(super) fn frames(&self) -> u64 {
        lock(&self.seen).frames
    }

    /// Time of the last reading that counts.
    pub(super) fn last(&self) -> Option<Instant> {
        lock(&self.seen).last
    }

    /// Returns true if nothing that counts has arrived for so long.
    pub(super) fn is_quiet(&self, length: Duration) -> bool {
        self.last().is_none_or(|last| last.elapsed() >= length)
    }

    /// Forgets what has arrived.
    pub(super) fn forget(&self) {
        *lock(&self.seen) = Seen::default();
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
