//! Linear model of packet cost, fitted to observations, with a prior.
//!
//! `cycles per packet = a + b x octets + c / packets per pass`
//!
//! At any time a thread observes one point of that function over and over: packets of one size, in passes
//! (iterations of its loop) of one length. So the three parameters cannot be determined from it alone. They
//! are the best fit to the observations, regularized towards values that are usual for the kind of thread
//! (least squares with a prior, Hoerl and Kennard 1970): where there are observations, they decide; for other
//! sizes or pass lengths the usual values fill in. Observations older than some seconds count for little.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::memory::{Day, ENOUGH};

/// Decay per window: after 5 s, at ten windows a second, an observation counts for a third.
const MEMORY: f64 = 0.98;
/// Weight of the prior, in windows.
const PRIOR: f64 = 0.05;
/// Number of packets from which on a window has full weight.
const WHOLE: f64 = 500.0;
/// Lower bound of a prediction, as a fraction of the usual cost.
const LEAST: f64 = 0.1;
/// Packet size and pass length at which the terms are compared.
const USUAL: (f64, f64) = (60.0, 16.0);

/// Class of thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A vCPU.
    Vcpu,
    /// A vhost thread; all vhost threads of a router on one core count as one.
    Vhost,
}

/// Path of frames to and from a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// A port of our switch, or other memory: no system call per frame.
    Switch,
    /// A TAP or macvtap: one system call for each frame in each direction.
    Tap,
    /// AF_XDP: one system call per burst.
    Xdp,
    /// Interfaces of a kernel router: a NAPI thread receives a frame, routes it, and hands it to the next interface for transmission.
    Kernel,
}

/// Properties that determine the estimated cost of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Class of thread.
    pub class: Class,
    /// Most expensive path of its router's NICs.
    pub path: Path,
    /// True if register accesses of an e1000 without status block leave the guest.
    pub exits: bool,
    /// True if vCPU and vhost thread are on different cores, so that every cache line moves between their
    /// caches.
    pub far: bool,
}

/// Cumulative counters of a thread: `THREAD.work`, or its CPU time if it sleeps whenever it is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Cycles spent on packets.
    pub cycles: u64,
    /// Packets.
    pub frames: u64,
    /// Octets of these packets.
    pub octets: u64,
    /// Passes that moved them.
    pub batches: u64,
}

impl Observation {
    /// Difference to an earlier reading; the whole reading if the counters were restarted.
    pub fn since(&self, earlier: &Self) -> Self {
        let whole = self.cycles < earlier.cycles || self.frames < earlier.frames;
        let before = if whole { Self::default() } else { *earlier };
        Self {
            cycles: self.cycles - before.cycles,
            frames: self.frames - before.frames,
            octets: self.octets.saturating_sub(before.octets),
            batches: self.batches.saturating_sub(before.batches),
        }
    }
}

/// Evidence for a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Too few observations: highest cost of such a thread on the machines that were tried.
    Default,
    /// Observed in an earlier run, last on this day.
    Remembered {
        /// Last day, UTC.
        day: Day,
        /// Packets observed.
        frames: u64,
    },
    /// Observed in this run.
    Measured {
        /// Packets observed.
        frames: u64,
    },
}

impl Basis {
    /// Basis of the sum of two costs: the one with fewer observations.
    #[must_use]
    pub fn weaker(self, other: Self) -> Self {
        let frames = |basis| match basis {
            Self::Default => 0,
            Self::Remembered { frames, .. } | Self::Measured { frames } => frames,
        };
        if frames(other) < frames(self) { other } else { self }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(out, "an estimate: fewer than {ENOUGH} packets were seen"),
            Self::Remembered { day, frames } => write!(out, "measured here on {day} over {frames} packets"),
            Self::Measured { frames } => write!(out, "measured over {frames} packets"),
        }
    }
}

/// Cost of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Cycles.
    pub cycles: f64,
    /// Evidence for it.
    pub basis: Basis,
}

impl Kind {
    /// Usual cycles per packet, per octet, and per pass: rather too many than too few.
    fn usual(self) -> [f64; 3] {
        let [frame, octet, pass] = match (self.class, self.path) {
            (Class::Vcpu, _) => [250.0, 0.05, 30_000.0],
            (Class::Vhost, Path::Switch) => [300.0, 0.5, 20_000.0],
            (Class::Vhost, Path::Tap) => [6500.0, 0.8, 20_000.0],
            (Class::Vhost, Path::Xdp) => [2500.0, 0.6, 20_000.0],
            (Class::Vhost, Path::Kernel) => [4000.0, 0.5, 20_000.0],
        };
        let lines = if self.far { 2.0 } else { 1.0 };
        // Five accesses per pass, each of which leaves the guest.
        let exits = if self.exits { 200_000.0 } else { 0.0 };
        [frame * lines, octet * lines, pass + exits]
    }
}

/// Cost of packets in one thread, learned while it works.
#[derive(Clone, Debug)]
pub struct Model {
    usual: [f64; 3],
    /// Scale of each term, for good conditioning.
    scale: [f64; 3],
    /// Weighted sums over the observations: products of terms, and of terms with cycles.
    products: [[f64; 3]; 3],
    sums: [f64; 3],
    frames: u64,
    /// Observations of earlier runs that it started from: last day, and number of packets.
    remembered: Option<(Day, u64)>,
}

/// The three terms for a packet size and pass length.
fn parts(octets: f64, batch: f64) -> [f64; 3] {
    [1.0, octets, 1.0 / batch.max(1.0)]
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Model {
    /// Creates a model for this kind of thread, without observations.
    pub fn new(kind: Kind) -> Self {
        let usual = kind.usual();
        let at = parts(USUAL.0, USUAL.1);
        let whole = dot(&usual, &at);
        let mut scale = [1.0; 3];
        for ((scale, usual), at) in scale.iter_mut().zip(&usual).zip(&at) {
            // Relative to the whole packet's cost; a term that is usually small may turn out larger.
            *scale = (usual * at).max(whole * 0.05) / at;
        }
        Self { usual, scale, products: [[0.0; 3]; 3], sums: [0.0; 3], frames: 0, remembered: None }
    }

    /// Learns from a window of observations. One without packets is ignored.
    pub fn learn(&mut self, new: &Observation) {
        if new.frames == 0 || new.cycles == 0 {
            return;
        }
        let frames = new.frames as f64;
        let octets = new.octets as f64 / frames;
        let batch = frames / new.batches.max(1) as f64;
        let cycles = new.cycles as f64 / frames;
        let weight = (frames / WHOLE).min(1.0);
        let unit = self.unit();
        let part = self.scaled(octets, batch, unit);
        for (row, a) in self.products.iter_mut().zip(&part) {
            for (sum, b) in row.iter_mut().zip(&part) {
                *sum = *sum * MEMORY + weight * a * b;
            }
        }
        for (sum, a) in self.sums.iter_mut().zip(&part) {
            *sum = *sum * MEMORY + weight * a * cycles / unit;
        }
        self.frames = self.frames.saturating_add(new.frames);
    }

    /// Declares what was learned so far to be remembered from earlier runs: last day, and number of packets.
    pub(super) fn remember(&mut self, day: Day, frames: u64) {
        (self.frames, self.remembered) = (0, Some((day, frames)));
    }

    /// Evidence for its predictions.
    fn basis(&self) -> Basis {
        match self.remembered {
            Some((day, frames)) if self.frames == 0 => Basis::Remembered { day, frames },
            None if self.frames == 0 => Basis::Default,
            _ => Basis::Measured { frames: self.frames },
        }
    }

    /// Cycles of a usual packet of this kind, the unit of all sums.
    fn unit(&self) -> f64 {
        dot(&self.usual, &parts(USUAL.0, USUAL.1))
    }

    fn scaled(&self, octets: f64, batch: f64, unit: f64) -> [f64; 3] {
        let mut part = parts(octets, batch);
        part.iter_mut().zip(&self.scale).for_each(|(part, scale)| *part *= scale / unit);
        part
    }

    /// Predicts the cost of a packet of this size, in passes of so many packets.
    pub fn per_frame(&self, octets: f64, batch: f64) -> Cost {
        let usual = dot(&self.usual, &parts(octets, batch));
        let basis = self.basis();
        if basis == Basis::Default {
            return Cost { cycles: usual, basis };
        }
        let unit = self.unit();
        let (mut left, mut right) = (self.products, self.sums);
        for n in 0..3 {
            left[n][n] += PRIOR;
            right[n] += PRIOR * self.usual[n] / self.scale[n];
        }
        let cycles = solve(left, right).map_or(usual, |line| {
            let part = self.scaled(octets, batch, unit);
            (dot(&line, &part) * unit).max(LEAST * usual)
        });
        Cost { cycles, basis }
    }
}

/// Gaussian elimination. The prior makes the matrix positive definite; returns `None` if numbers have
/// overflowed all the same.
fn solve(mut left: [[f64; 3]; 3], mut right: [f64; 3]) -> Option<[f64; 3]> {
    for pivot in 0..3 {
        let (above, here) = (left[pivot], right[pivot]);
        for row in pivot + 1..3 {
            let factor = left[row][pivot] / above[pivot];
            left[row].iter_mut().zip(&above).for_each(|(value, above)| *value -= factor * above);
            right[row] -= factor * here;
        }
    }
    let mut line = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|column| left[row][column] * line[column]).sum();
        line[row] = (right[row] - known) / left[row][row];
    }
    line.iter().all(|value| value.is_finite()).then_some(line)
}
