//! Observed packet costs on this machine, kept from one run to the next.
//!
//! A *way* is the path of packets through a class of a router's threads; a *pass* is one iteration of a
//! thread, which moves a batch of packets. For each way there is one point for frames of about one size in
//! passes of about one length, and a [`Model`] starts from a fit through these points, before any packet has
//! arrived. A point is a high or low expectile (Newey and Powell 1987) of the windows observed: windows on
//! one side of it count ten times as much as those on the other. For a saturated thread it is the high end,
//! since a promise must be kept even when packets cost somewhat more than usual; for a thread that keeps up
//! it is the low end, where it wakes up least. It adapts to changes within some ten seconds of traffic.
//!
//! A promise matters when its CPU is full, and then passes are long, since frames wait until a thread gets
//! its turn. So it is judged by the longest passes with enough observations, preferably those of a saturated
//! thread. In shorter passes, and on a CPU that slept, part of a thread's time goes into waking up and
//! fruitless polling: they can show that packets cost less than the estimate, but not that they cost more;
//! the shortest show nothing at all.

mod document;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::model::{Basis, Cost, Kind, Model, Observation};
pub use document::Unusable;

/// Least number of packets in a window.
pub const FEWEST: u64 = 200;
/// Number of packets from which on a point is used.
pub(super) const ENOUGH: u64 = 10_000;
/// Number of packets from which on a window has full weight.
const WHOLE: f64 = 500.0;
/// Step of a point towards a full window's cost: if the window is on the side that counts more, and if not.
const HARD: f64 = 0.1;
const LITTLE: f64 = 0.01;
/// Size classes of frames: upper bounds in octets.
const FRAMES: [u32; 7] = [128, 256, 512, 1024, 1536, 9216, 65_550];
/// Length classes of passes: lower bounds in packets. Shorter passes than those of the estimates are ignored.
const PASSES: [u32; 3] = [ESTIMATED, LONG, FULL];
/// Pass length that estimates assume, in packets.
const ESTIMATED: u32 = 16;
/// Long passes, in packets. The longest have 64 packets; threads that moderate interrupts have long passes
/// even with little to do.
const LONG: u32 = 32;
/// In passes of so many packets, on a CPU that never sleeps, a thread hardly ever wakes up.
const FULL: u32 = 48;
/// Least plausible cost, in cycles: less than a tenth of the lowest estimate, but not so small that rounding
/// makes it zero.
const LEAST_CYCLES: f64 = 1.0;
/// Highest plausible cost, in cycles.
const MOST_CYCLES: f64 = 1e8;
/// A cost that differs from the usual by more than this factor is implausible: some of the counters come from
/// guests.
const BEYOND: f64 = 10.0;
/// Number of windows that a point counts as when a model starts from it.
const LESSONS: u32 = 4;
/// Most points kept.
const MOST: usize = 512;
/// Longest device name, in octets.
const LONGEST: usize = 200;

/// Machine that costs hold for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processor name, with family and model.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Version of this program.
    pub ringroad: String,
}

/// Use of a thread's time in a window beside its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// None: the CPU never slept, and the thread was saturated.
    Behind,
    /// The CPU never slept, but the thread kept up.
    Never,
    /// The CPU slept now and then, so part of the thread's time went into waking up.
    Asleep,
    /// The thread polled an empty queue, unless passes were so long that it had no time to.
    Polling,
}

/// Path of packets through a class of a router's threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostKey {
    /// Kind of thread, with the most expensive path of its router's NICs.
    pub kind: Kind,
    /// Other relevant properties of the router, as text: engine, threads, and each NIC model with its
    /// attachment. At most 200 octets; nothing is remembered for a longer one.
    pub device: String,
    /// Number of CPUs that the class is spread over, each with a part of the work.
    pub cpus: u32,
}

/// Day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day {
    year: u16,
    month: u8,
    day: u8,
}

impl FromStr for Day {
    type Err = String;

    /// Parses `2026-11-22`.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = |from: usize, to: usize| {
            let part = text.get(from..to)?;
            part.bytes().all(|octet| octet.is_ascii_digit()).then(|| part.parse::<u16>().ok())?
        };
        let read = || {
            let is_cut = text.len() == 10 && text.get(4..5)? == "-" && text.get(7..8)? == "-";
            let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
            let is_day = is_cut && (1..=12).contains(&month) && (1..=31).contains(&day);
            is_day.then_some(Self { year, month: month as u8, day: day as u8 })
        };
        read().ok_or_else(|| "no day such as 2026-11-22".to_owned())
    }
}

impl TryFrom<String> for Day {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Class of observations: frames of about one size in passes of about one length, by a thread that was
/// saturated or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CostBucket {
    /// Most octets per frame: one of [`FRAMES`].
    frames_to: u32,
    /// Least packets per pass: one of [`PASSES`].
    passes_from: u32,
    /// True if the thread was saturated.
    behind: bool,
}

/// Observed point. All values are per packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CostPoint {
    cycles: f64,
    octets: f64,
    /// Packets per pass.
    batch: f64,
    /// Packets observed so far.
    frames: u64,
    /// Day of the last observation.
    day: Day,
}

impl CostPoint {
    /// Converts a window into a point and its class; `None` if it is not usable.
    fn of(window: &Observation, day: Day) -> Option<(CostBucket, Self)> {
        if window.frames < FEWEST || window.batches == 0 || window.cycles == 0 {
            return None;
        }
        let frames = window.frames as f64;
        let cycles = window.cycles as f64 / frames;
        let (octets, batch) = (window.octets as f64 / frames, frames / window.batches as f64);
        let passes_from = *PASSES.iter().rfind(|least| batch >= f64::from(**least))?;
        let sort = CostBucket { frames_to: *size(octets)?, passes_from, behind: false };
        (LEAST_CYCLES..=MOST_CYCLES)
            .contains(&cycles)
            .then_some((sort, Self { cycles, octets, batch, frames: window.frames, day }))
    }

    /// Moves towards a window's point; `behind`: the thread was saturated.
    fn follow(&mut self, new: &Self, behind: bool) {
        let all = self.frames.saturating_add(new.frames);
        // Plain mean, as long as there are few packets.
        let mean = new.frames as f64 / all as f64;
        let window = (new.frames as f64 / WHOLE).min(1.0);
        let pulls = if (new.cycles > self.cycles) == behind { HARD } else { LITTLE };
        self.cycles += (new.cycles - self.cycles) * mean.max(pulls * window);
        self.octets += (new.octets - self.octets) * mean.max(LITTLE * window);
        self.batch += (new.batch - self.batch) * mean.max(LITTLE * window);
        (self.frames, self.day) = (all, new.day);
    }

    /// Returns true if this cost is plausible for the way.
    fn is_likely(&self, way: &CostKey) -> bool {
        let times = self.cycles / Model::new(way.kind).per_frame(self.octets, self.batch).cycles;
        (1.0 / BEYOND..=BEYOND).contains(&times)
    }

    /// Window with the point's values.
    fn window(&self) -> Observation {
        let frames = 1e6;
        Observation {
            cycles: (self.cycles * frames) as u64,
            frames: frames as u64,
            octets: (self.octets * frames) as u64,
            batches: (frames / self.batch) as u64,
        }
    }
}

/// Size class of a frame.
fn size(octets: f64) -> Option<&'static u32> {
    FRAMES.iter().find(|most| octets <= f64::from(**most))
}

/// Observed packet costs of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct CostMemory {
    machine: Machine,
    costs: BTreeMap<(CostKey, CostBucket), CostPoint>,
}

impl CostMemory {
    /// Creates an empty memory for this machine.
    pub fn new(machine: Machine) -> Self {
        Self { machine, costs: BTreeMap::new() }
    }

    /// Machine that the costs belong to.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Records a window of a thread. Unusable windows are ignored.
    pub fn note(&mut self, way: &CostKey, window: &Observation, rest: Idleness, day: Day) {
        let Some((mut sort, new)) = CostPoint::of(window, day) else { return };
        match rest {
            Idleness::Polling if sort.passes_from < FULL => return,
            Idleness::Asleep => sort.passes_from = sort.passes_from.min(LONG),
            Idleness::Behind => sort.behind = sort.passes_from == FULL,
            Idleness::Polling | Idleness::Never => {}
        }
        if way.device.len() > LONGEST || !new.is_likely(way) {
            return;
        }
        self.costs
            .entry((way.clone(), sort))
            .and_modify(|seen| seen.follow(&new, sort.behind))
            .or_insert(new);
        self.forget();
    }

    /// Drops the oldest points if there are too many.
    fn forget(&mut self) {
        while self.costs.len() > MOST {
            let age = |(_, seen): &(&(CostKey, CostBucket), &CostPoint)| (seen.day, seen.frames);
            let Some(oldest) = self.costs.iter().min_by_key(age).map(|(key, _)| key.clone()) else { return };
            self.costs.remove(&oldest);
        }
    }

    /// Cost of a packet of so many octets on a way; `None` if it is unknown.
    pub fn cost(&self, way: &CostKey, octets: f64) -> Option<Cost> {
        let size = size(octets)?;
        let close = self.costs.iter().filter(|((of, sort), _)| of == way && sort.frames_to == *size);
        let known = close.filter(|(_, seen)| seen.frames >= ENOUGH);
        let ((_, sort), seen) = known.max_by_key(|((_, sort), _)| (sort.passes_from, sort.behind))?;
        let estimate = Model::new(way.kind).per_frame(octets, f64::from(ESTIMATED)).cycles;
        let counts = sort.passes_from == FULL || seen.cycles <= estimate;
        counts.then_some(Cost {
            cycles: seen.cycles,
            basis: Basis::Remembered { day: seen.day, frames: seen.frames },
        })
    }

    /// Model that starts from what is known of a way, if the cost of packets of so many octets is known.
    pub fn model(&self, way: &CostKey, octets: f64) -> Option<Model> {
        let Basis::Remembered { day, frames } = self.cost(way, octets)?.basis else { return None };
        let mut model = Model::new(way.kind);
        for _ in 0..LESSONS {
            let own = self.costs.iter().filter(|((of, _), _)| of == way);
            own.for_each(|(_, seen)| model.learn(&seen.window()));
        }
        model.remember(day, frames);
        Some(model)
    }

    /// Merges with what another run has `written` since both had `before`: a point that only one of them has
    /// changed is taken from that one; of a point that both have changed, the more expensive version counts.
    pub fn merged(&self, before: &Self, written: &Self) -> Self {
        let mut merged = self.clone();
        if written.machine != self.machine {
            return merged;
        }
        for (key, theirs) in &written.costs {
            let then = before.costs.get(key);
            if then == Some(theirs) {
                continue;
            }
            match merged.costs.get_mut(key) {
                Some(ours) if then != Some(ours) && ours.cycles >= theirs.cycles => {
                    ours.frames = ours.frames.max(theirs.frames);
                }
                Some(ours) => *ours = *theirs,
                None => drop(merged.costs.insert(key.clone(), *theirs)),
            }
        }
        merged.forget();
        merged
    }
}
