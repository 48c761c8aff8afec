//! What a packet costs: a line through what was seen, that starts from what is usual.
//!
//! `cycles of a packet = a + b x octets + c / packets of a pass`
//!
//! What a thread sees at a time is one point of that, again and again: packets of one size, in passes of one length. So the
//! three numbers are not to be had from it alone. They are those that fit what was seen best among those near what is usual
//! for the kind of thread (least squares with a prior, Hoerl and Kennard 1970): where something was seen, it decides; for another
//! size or pass, what is usual fills in. What is older than some seconds counts for little.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::memory::{Day, ENOUGH};

/// Windows after which what was seen counts for a third: 5 s of ten a second.
const MEMORY: f64 = 0.98;
/// How much what is usual counts, in windows.
const PRIOR: f64 = 0.05;
/// Packets that make a window count as a whole one.
const WHOLE: f64 = 500.0;
/// A packet costs at least this part of what is usual, whatever the line says where nothing was seen.
const LEAST: f64 = 0.1;
/// The size of a packet and of a pass at which parts are compared.
const USUAL: (f64, f64) = (60.0, 16.0);

/// Which thread it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A vCPU.
    Vcpu,
    /// A vhost thread; all of one router that share a core, together.
    Vhost,
}

/// How frames come to and leave a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// A port of our switch, or other memory: no system call for a frame.
    Switch,
    /// A TAP or macvtap: a system call for each frame and way.
    Tap,
    /// AF_XDP: system calls for bursts.
    Xdp,
}

/// What decides what a packet costs before any was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Which thread.
    pub class: Class,
    /// The dearest of the ways of its router's NICs.
    pub path: Path,
    /// Whether register accesses of an e1000 without status block leave the guest.
    pub exits: bool,
    /// Whether vCPU and vhost thread are on different cores, so that every line crosses between their caches.
    pub far: bool,
}

/// What a thread has counted so far: the counters `THREAD.work`, or its CPU time where it sleeps whenever it has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Cycles spent on them.
    pub cycles: u64,
    /// Packets.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
    /// Passes that moved them.
    pub batches: u64,
}

impl Observation {
    /// What has come since; all of it if the counters began anew.
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

/// Where a cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Too little was seen: what such a thread takes at most on the machines it was tried on.
    Default,
    /// Packets of an earlier run were seen, the last ones on this day.
    Remembered {
        /// UTC.
        day: Day,
        /// Packets.
        frames: u64,
    },
    /// So many packets were seen.
    Measured {
        /// Packets.
        frames: u64,
    },
}

impl Basis {
    /// Of two costs that are added up, the one of which less is known.
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

/// What a packet costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Cycles.
    pub cycles: f64,
    /// Whether that was seen.
    pub basis: Basis,
}

impl Kind {
    /// Cycles of a packet, of each of its octets, and of a pass: rather too many than too few.
    fn usual(self) -> [f64; 3] {
        let [frame, octet, pass] = match (self.class, self.path) {
            (Class::Vcpu, _) => [250.0, 0.05, 30_000.0],
            (Class::Vhost, Path::Switch) => [300.0, 0.5, 20_000.0],
            (Class::Vhost, Path::Tap) => [6500.0, 0.8, 20_000.0],
            (Class::Vhost, Path::Xdp) => [2500.0, 0.6, 20_000.0],
        };
        let lines = if self.far { 2.0 } else { 1.0 };
        // Of five accesses a pass, each of which leaves the guest.
        let exits = if self.exits { 200_000.0 } else { 0.0 };
        [frame * lines, octet * lines, pass + exits]
    }
}

/// The cost of packets in one thread, learned while it works.
#[derive(Clone, Debug)]
pub struct Model {
    usual: [f64; 3],
    /// What each part is measured in, so that none is lost beside the others.
    scale: [f64; 3],
    /// Sums over what was seen: of products of parts, and of parts with the cycles.
    products: [[f64; 3]; 3],
    sums: [f64; 3],
    frames: u64,
    /// It has begun with what was seen up to this day, so many packets.
    remembered: Option<(Day, u64)>,
}

/// The three parts of a packet of this size in a pass of this length.
fn parts(octets: f64, batch: f64) -> [f64; 3] {
    [1.0, octets, 1.0 / batch.max(1.0)]
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Model {
    /// For a thread of this kind, of which nothing was seen.
    pub fn new(kind: Kind) -> Self {
        let usual = kind.usual();
        let at = parts(USUAL.0, USUAL.1);
        let whole = dot(&usual, &at);
        let mut scale = [1.0; 3];
        for ((scale, usual), at) in scale.iter_mut().zip(&usual).zip(&at) {
            // In parts of the whole packet's cost; one that is usually small may turn out larger.
            *scale = (usual * at).max(whole * 0.05) / at;
        }
        Self { usual, scale, products: [[0.0; 3]; 3], sums: [0.0; 3], frames: 0, remembered: None }
    }

    /// Learns from a window: what came since the last one. One without packets says nothing.
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

    /// What was learned so far is what was seen up to this day, so many packets.
    pub(super) fn remember(&mut self, day: Day, frames: u64) {
        (self.frames, self.remembered) = (0, Some((day, frames)));
    }

    /// Where its cost comes from.
    fn basis(&self) -> Basis {
        match self.remembered {
            Some((day, frames)) if self.frames == 0 => Basis::Remembered { day, frames },
            None if self.frames == 0 => Basis::Default,
            _ => Basis::Measured { frames: self.frames },
        }
    }

    /// Cycles of a usual packet of this kind, in which all is measured.
    fn unit(&self) -> f64 {
        dot(&self.usual, &parts(USUAL.0, USUAL.1))
    }

    fn scaled(&self, octets: f64, batch: f64, unit: f64) -> [f64; 3] {
        let mut part = parts(octets, batch);
        part.iter_mut().zip(&self.scale).for_each(|(part, scale)| *part *= scale / unit);
        part
    }

    /// What a packet of this size costs, in passes of so many.
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

/// Gauss's way. The matrix is positive definite by its prior; none if numbers have run away all the same.
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
