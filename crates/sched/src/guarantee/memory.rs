//! What packets were seen to cost on this machine, kept from one run to the next.
//!
//! A *way* is what packets take through a class of a router's threads. Of each there is one point for frames of about one size
//! in passes of about one length, and a [`Model`] begins with the line through these points, before any packet has come. A
//! point is one end of what windows have shown: the expectile (Newey and Powell 1987) that windows on one side of it pull at ten
//! times as hard as those on the other. Of a thread that does not keep up it is the dear end, as a promise is to be kept also where
//! packets cost somewhat more than they mostly do; of one that keeps up the cheap end, where it wakes up least. It follows what
//! has changed within some ten seconds of traffic.
//!
//! A promise counts where its CPU is full, and there passes are long, for frames wait until a thread has its turn. So it is
//! judged by the longest passes of which enough was seen, before all by those of a thread that did not keep up. In shorter ones,
//! and on a CPU that slept, part of a thread's time is that of waking up and of polling in vain: they can show that packets cost
//! less than was estimated, and not that they cost more; the shortest say nothing at all.

mod document;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::model::{Basis, Cost, Kind, Model, Observation};
pub use document::Unusable;

/// Packets that a window has to have.
pub const FEWEST: u64 = 200;
/// Packets after which a point counts.
pub(super) const ENOUGH: u64 = 10_000;
/// Packets that make a window count as a whole one.
const WHOLE: f64 = 500.0;
/// Parts of the way to a whole window's cost that the point goes, if that is on the side that counts more, and if not.
const HARD: f64 = 0.1;
const LITTLE: f64 = 0.01;
/// Sizes that frames are sorted by: at most so many octets each.
const FRAMES: [u32; 7] = [128, 256, 512, 1024, 1536, 9216, 65_550];
/// Lengths that passes are sorted by: at least so many packets each. Shorter ones than what estimates are for are not taken.
const PASSES: [u32; 3] = [ESTIMATED, LONG, FULL];
/// Packets of the passes that estimates are for.
const ESTIMATED: u32 = 16;
/// Packets of long passes. The longest that there are have 64: those of a thread that puts interrupts off have them, too, where it
/// has little to do.
const LONG: u32 = 32;
/// In passes of so many, on a CPU that never sleeps, a thread hardly wakes up.
const FULL: u32 = 48;
/// A packet that cost less was not measured: less than a tenth of the least estimate, and nothing that rounding makes to zero.
const LEAST_CYCLES: f64 = 1.0;
/// Nor one that cost more.
const MOST_CYCLES: f64 = 1e8;
/// Nor one whose cost is so many times more or less than such packets usually cost: part of what is counted, guests count.
const BEYOND: f64 = 10.0;
/// Windows that a point counts as where a model begins with it.
const LESSONS: u32 = 4;
/// Points that are kept.
const MOST: usize = 512;
/// Octets of the longest device.
const LONGEST: usize = 200;

/// The machine that costs are true for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's name, with family and model.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// The version of this program.
    pub ringroad: String,
}

/// What a thread and its CPU did in a window beside the thread's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: the CPU never slept, and the thread did not keep up.
    Behind,
    /// The CPU never slept.
    Never,
    /// It slept now and then, so that part of the thread's time is that of waking up.
    Asleep,
    /// The thread has polled in vain, if passes were not so long that it had no time to.
    Polling,
}

/// What packets take through a class of a router's threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// Which class, and the dearest of the ways of its router's NICs.
    pub kind: Kind,
    /// What else matters of the router, as text: engine, threads, and each model of NIC with what it is attached to. At most
    /// 200 octets; nothing is remembered of a longer one.
    pub device: String,
    /// CPUs that the class is spread over, of which each has a part of the work.
    pub cpus: u32,
}

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day {
    year: u16,
    month: u8,
    day: u8,
}

impl FromStr for Day {
    type Err = String;

    /// Reads `2026-11-22`.
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

/// Frames of about one size in passes of about one length, of a thread that kept up or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    /// Octets of a frame at most: one of [`FRAMES`].
    frames_to: u32,
    /// Packets of a pass at least: one of [`PASSES`].
    passes_from: u32,
    /// Whether the thread did not keep up.
    behind: bool,
}

/// A point of what was seen. Numbers are those of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    cycles: f64,
    octets: f64,
    /// Packets of a pass.
    batch: f64,
    /// Packets so far.
    frames: u64,
    /// When it was seen last.
    day: Day,
}

impl Seen {
    /// What a window says, and of which sort; none if that is nothing.
    fn of(window: &Observation, day: Day) -> Option<(Sort, Self)> {
        if window.frames < FEWEST || window.batches == 0 || window.cycles == 0 {
            return None;
        }
        let frames = window.frames as f64;
        let cycles = window.cycles as f64 / frames;
        let (octets, batch) = (window.octets as f64 / frames, frames / window.batches as f64);
        let passes_from = *PASSES.iter().rfind(|least| batch >= f64::from(**least))?;
        let sort = Sort { frames_to: *size(octets)?, passes_from, behind: false };
        (LEAST_CYCLES..=MOST_CYCLES)
            .contains(&cycles)
            .then_some((sort, Self { cycles, octets, batch, frames: window.frames, day }))
    }

    /// Goes towards what a window has shown, that of a thread that is `behind` or keeps up.
    fn follow(&mut self, new: &Self, behind: bool) {
        let all = self.frames.saturating_add(new.frames);
        // The mean of all, as long as they are few.
        let mean = new.frames as f64 / all as f64;
        let window = (new.frames as f64 / WHOLE).min(1.0);
        let pulls = if (new.cycles > self.cycles) == behind { HARD } else { LITTLE };
        self.cycles += (new.cycles - self.cycles) * mean.max(pulls * window);
        self.octets += (new.octets - self.octets) * mean.max(LITTLE * window);
        self.batch += (new.batch - self.batch) * mean.max(LITTLE * window);
        (self.frames, self.day) = (all, new.day);
    }

    /// Whether packets of this way can have cost that.
    fn is_likely(&self, way: &Way) -> bool {
        let times = self.cycles / Model::new(way.kind).per_frame(self.octets, self.batch).cycles;
        (1.0 / BEYOND..=BEYOND).contains(&times)
    }

    /// A window that says the same.
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

/// The size that a frame is sorted by.
fn size(octets: f64) -> Option<&'static u32> {
    FRAMES.iter().find(|most| octets <= f64::from(**most))
}

/// What packets were seen to cost on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    machine: Machine,
    costs: BTreeMap<(Way, Sort), Seen>,
}

impl Memory {
    /// Of this machine; nothing was seen yet.
    pub fn new(machine: Machine) -> Self {
        Self { machine, costs: BTreeMap::new() }
    }

    /// The machine that it is of.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Takes a window of a thread into account. One that says nothing of what packets cost is left out.
    pub fn note(&mut self, way: &Way, window: &Observation, rest: Rest, day: Day) {
        let Some((mut sort, new)) = Seen::of(window, day) else { return };
        match rest {
            Rest::Polling if sort.passes_from < FULL => return,
            Rest::Asleep => sort.passes_from = sort.passes_from.min(LONG),
            Rest::Behind => sort.behind = sort.passes_from == FULL,
            Rest::Polling | Rest::Never => {}
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

    /// Forgets what is oldest where there is too much.
    fn forget(&mut self) {
        while self.costs.len() > MOST {
            let age = |(_, seen): &(&(Way, Sort), &Seen)| (seen.day, seen.frames);
            let Some(oldest) = self.costs.iter().min_by_key(age).map(|(key, _)| key.clone()) else { return };
            self.costs.remove(&oldest);
        }
    }

    /// What a packet of so many octets costs on a way; none where that is not known.
    pub fn cost(&self, way: &Way, octets: f64) -> Option<Cost> {
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

    /// A model that begins with what is known of a way, where the cost of packets of so many octets is.
    pub fn model(&self, way: &Way, octets: f64) -> Option<Model> {
        let Basis::Remembered { day, frames } = self.cost(way, octets)?.basis else { return None };
        let mut model = Model::new(way.kind);
        for _ in 0..LESSONS {
            let own = self.costs.iter().filter(|((of, _), _)| of == way);
            own.for_each(|(_, seen)| model.learn(&seen.window()));
        }
        model.remember(day, frames);
        Some(model)
    }

    /// This with what somebody else has `written` since it was as `before`: what only one of both has changed is as he says, of
    /// what both have, the dearer counts.
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
