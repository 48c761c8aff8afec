//! Frames that a bridge floods to its ports, all of it in softirqs of one CPU.
//!
//! How much those took is not asked of who is to be judged. A thread on that CPU does nothing but count. It counts the slower the
//! more is taken from its time without its leave; how fast it counts while nothing is, but the other CPU is as busy (with
//! frames that go elsewhere), is measured before and after. Entry to and return from interrupts are in that as well, and in no
//! column of softirqs: frames come in bursts, so that there are few.

use std::fs;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sched::account::Thread;
use uplink::{Netns, Wire};

use super::{Burn, Seated};
use crate::experiments::control::accounting::PART;
use crate::experiments::room::{ip, steer};

/// Ports to which each frame goes.
const PORTS: usize = 8;
/// Frames sent at once. With their copies they are no more than the kernel takes in one go (`netdev_budget`, 300).
const BURST: usize = 32;
/// To everybody, of a type that nobody knows.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let head = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 8, 8, 0x88, 0xb5];
    let mut at = 0;
    while at < head.len() {
        frame[at] = head[at];
        at += 1;
    }
    frame
};

/// Frames a second at first; tries to find the rate, and the time of each.
const FIRST: f64 = 30e3;
const TRIES: usize = 4;
const TRY: Duration = Duration::from_millis(600);
/// Time in which the thread counts while nothing is taken from it.
const PLAIN: Duration = Duration::from_secs(1);
/// The bridge forwards long before this.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// See the head of this file.
pub(in super::super) struct Softirqs {
    /// To the bridge, whose frames the kernel takes in on the CPU.
    burning: Wire,
    /// To an interface whose frames it takes in where they are sent.
    quiet: Wire,
    counter: Counter,
    rate: f64,
    /// Counts a second without the load, before it, and with it.
    plain: f64,
    loaded: f64,
    netns: Netns,
}

impl Softirqs {
    /// On this CPU; the calling thread, on another one, sends.
    pub(in super::super) fn start(cpu: usize) -> Result<Self> {
        let netns = Netns::new()?;
        drop(netns.settle(false)?);
        furnish(&netns)?;
        steer(&netns, "in0", cpu)?;
        let (burning, quiet) = (Wire::open(&netns, "in1")?, Wire::open(&netns, "quiet1")?);
        let counter = Counter::start(cpu)?;
        let mut softirqs = Self { burning, quiet, counter, rate: FIRST, plain: 0.0, loaded: 0.0, netns };
        softirqs.wait_until_it_forwards()?;
        softirqs.plain = softirqs.speed(&softirqs.quiet, PLAIN)?;
        for _ in 0..TRIES {
            let took = 1.0 - softirqs.speed(&softirqs.burning, TRY)? / softirqs.plain;
            ensure!(took > 0.0, "frames that the kernel forwards take nothing from CPU {cpu}");
            softirqs.rate *= (PART / took).clamp(0.3, 3.0);
        }
        softirqs.plain = softirqs.speed(&softirqs.quiet, PLAIN)?;
        Ok(softirqs)
    }

    /// Ports of a bridge come up a while after they were told to.
    fn wait_until_it_forwards(&self) -> Result<()> {
        let (last, end) = (format!("out{}-1", PORTS - 1), Instant::now() + PATIENCE);
        while self.netns.counters(&last)?.rx_frames == 0 {
            ensure!(Instant::now() < end, "the bridge forwards nothing");
            self.burning.repeat(&FRAME, 1);
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// How fast the thread counts while frames are sent there.
    fn speed(&self, wire: &Wire, length: Duration) -> Result<f64> {
        let before = self.counter.look();
        self.send(wire, length);
        let after = self.counter.look();
        let seconds = after[1] - before[1];
        ensure!(seconds > 0.0, "the thread that counts never gets the CPU");
        Ok((after[0] - before[0]) / seconds)
    }

    fn send(&self, wire: &Wire, length: Duration) {
        let (start, mut sent) = (Instant::now(), 0.0);
        loop {
            let elapsed = start.elapsed();
            if elapsed >= length {
                return;
            }
            if elapsed.as_secs_f64() * self.rate >= sent + BURST as f64 {
                wire.repeat(&FRAME, BURST);
                sent += BURST as f64;
            }
        }
    }
}

/// A bridge with a way in and [`PORTS`] ways out, and a pair of interfaces beside it.
fn furnish(netns: &Netns) -> Result<()> {
    let outs = (0..PORTS).map(|port| format!("out{port}-"));
    let pairs: Vec<String> = ["in", "quiet"].map(str::to_owned).into_iter().chain(outs).collect();
    ip(netns, "link add burn type bridge")?;
    ip(netns, "link set burn up")?;
    for pair in &pairs {
        ip(netns, &format!("link add {pair}0 type veth peer name {pair}1"))?;
        ip(netns, &format!("link set {pair}0 up"))?;
        ip(netns, &format!("link set {pair}1 up"))?;
    }
    let mut ports = pairs.iter().filter(|pair| *pair != "quiet");
    ports.try_for_each(|pair| ip(netns, &format!("link set {pair}0 master burn")))
}

impl Burn for Softirqs {
    fn threads(&self) -> Vec<Thread> {
        Vec::new()
    }

    fn go(&mut self, length: Duration) -> Result<()> {
        self.loaded = self.speed(&self.burning, length)?;
        Ok(())
    }

    fn took(&mut self) -> Result<(f64, f64)> {
        let after = self.speed(&self.quiet, PLAIN)?;
        let plain = f64::midpoint(self.plain, after);
        Ok((1.0 - self.loaded / plain, (self.plain - after).abs() / plain / 2.0))
    }
}

/// A thread that counts as fast as it can.
struct Counter {
    /// See [`Counter::look`].
    told: Arc<Mutex<[f64; 2]>>,
    _seated: Seated,
}

/// Counts between two looks at the clocks, some 0.2 ms.
const CHUNK: usize = 100_000;

impl Counter {
    fn start(cpu: usize) -> Result<Self> {
        let told = Arc::<Mutex<[f64; 2]>>::default();
        let (tells, start, mut count) = (told.clone(), Instant::now(), 0u64);
        let turn = move || {
            for _ in 0..CHUNK {
                count = black_box(count + 1);
            }
            let seconds = start.elapsed().as_secs_f64() - waited();
            *tells.lock().unwrap_or_else(PoisonError::into_inner) = [count as f64, seconds];
        };
        Ok(Self { _seated: Seated::start("burn/count", cpu, turn)?, told })
    }

    /// Counts, and seconds in which no other thread had the CPU instead of it.
    fn look(&self) -> [f64; 2] {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds that the calling thread has waited for a CPU. A kernel that does not tell is believed not to let it wait.
fn waited() -> f64 {
    // On a CPU, waiting for one, time slices.
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse::<f64>().ok());
    waited.unwrap_or(0.0) * 1e-9
}
