//! Trial: one attack alternating with rest, and what it costs others.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use measure::stats::Summary;
use support::attack::Attack;
use support::{Counters, on_cpu};

use super::list::Spec;
use super::scene::{OTHER_CPU, Scene};
use super::usage::{CpuTimes, Held, Ids, Observations, Watch};

/// Longest slice of attack, and fewest pairs, as many as an interval requires.
const SLICE: Duration = Duration::from_secs(5);
const PAIRS: u32 = 6;
/// Ratio of an attack slice to a rest slice: the neighbour's rate without the attacker is stable, so it needs less time.
const REST: u32 = 3;
/// Pause between two slices, in which pending work completes.
const BREAK: Duration = Duration::from_millis(300);
/// Pause before an attack that is being refused is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// Lines of the run's output that are shown in case of a fault.
const LAST_LINES: usize = 40;

/// Required ratio of the neighbour's rates, and longest answer time of `ps`.
const LEAST_RATIO: f64 = 0.97;
const LONGEST_ANSWER: Duration = Duration::from_millis(100);
/// Counters of frames lost in a full queue, or in the ring of a router that has no CPU at the moment.
const FULL_QUEUES: [&str; 4] = ["drop_full", "drop_no_buffer", "drop_queue_full", "drop_tx_full"];

/// Kind and length of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    with: bool,
    length: Duration,
}

/// Pairs of slices with this much attack time in total; their order alternates from pair to pair.
fn turns(time: Duration) -> Vec<[Turn; 2]> {
    let length = (time / PAIRS).min(SLICE);
    let count = (time.as_secs_f64() / length.as_secs_f64()).round() as usize;
    let (attack, rest) = (Turn { with: true, length }, Turn { with: false, length: length / REST });
    (0..count).map(|n| if n.is_multiple_of(2) { [attack, rest] } else { [rest, attack] }).collect()
}

/// Measurements of a slice, with or without the attacker.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    seconds: f64,
    forwarded: u64,
    ran: CpuTimes,
}

impl Slice {
    fn rate(self) -> f64 {
        self.forwarded as f64 / self.seconds
    }

    fn plus(self, more: Self) -> Self {
        Self {
            seconds: self.seconds + more.seconds,
            forwarded: self.forwarded + more.forwarded,
            ran: self.ran.plus(more.ran),
        }
    }
}

/// Result of an attack.
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) acts: u64,
    /// Seconds of attack, and the neighbour's rate in packets a second meanwhile.
    pub(super) seconds: f64,
    pub(super) rate: f64,
    /// Ratio of the neighbour's rates with / without the attacker: low end, median and high end, if there are enough pairs.
    pub(super) ratio: (f64, f64, f64),
    /// CPU time of threads in a second of attack beyond that in a second of rest, in µs.
    pub(super) control: f64,
    pub(super) supervisor: f64,
    /// CPU time of the neighbour's threads per packet in ns, and the fraction of the time in which one of them was runnable but
    /// waited for a CPU: with the attacker and without.
    pub(super) near: [f64; 2],
    pub(super) waited: [f64; 2],
    /// Longest answer times of the supervisor (`ps`) and of the data plane (`counters`).
    pub(super) seen: Observations,
    pub(super) counters: Duration,
    /// Memory in octets and descriptors beyond those before the attack: at most, and at the end.
    pub(super) most: (i64, i64),
    pub(super) left: (i64, i64),
    /// Frames lost by the neighbour, by counter name.
    pub(super) lost: BTreeMap<String, u64>,
    /// Number of lines that the run has printed.
    pub(super) lines: usize,
    pub(super) faults: Vec<String>,
}

/// Carries out an attack for this many seconds of attack time.
pub(super) fn run(binary: &str, spec: &Spec, seconds: u64) -> Result<Outcome> {
    // Use a new thread, which pins itself only after the run has been started: the run may use all CPUs.
    let attacked = thread::scope(|scope| scope.spawn(|| run_here(binary, spec, seconds)).join());
    attacked.map_err(|_| anyhow!("a panic in an attack"))?
}

fn run_here(binary: &str, spec: &Spec, seconds: u64) -> Result<Outcome> {
    let _given = spec.prepare()?;
    let mut scene = Scene::set(binary, spec.site)?;
    on_cpu(OTHER_CPU)?;
    let mut attack = match (spec.start)(&mut scene) {
        Ok(attack) => attack,
        Err(error) => return Err(scene.end().err().unwrap_or(error)),
    };
    let ids = scene.ids()?;
    let watch = Watch::start(scene.client()?, ids)?;
    let mut trial = Trial { scene, ids, acts: 0, counters: Duration::ZERO, before: Held::default() };
    // Warm-up: everything has been used once.
    trial.slice(None, Duration::from_secs(1))?;
    trial.before = Held::of(ids);
    let mut pairs = trial.pairs(attack.as_mut(), Duration::from_secs(seconds));
    if let Err(error) = attack.rest() {
        // An earlier error says more.
        pairs.1.get_or_insert(format!("{error:#}"));
    }
    drop(attack);
    trial.finish(spec, pairs, watch)
}

struct Trial {
    scene: Scene,
    ids: Ids,
    acts: u64,
    counters: Duration,
    before: Held,
}

/// Pairs of slices with and without the attacker, and the reason if there are no more.
type Pairs = (Vec<(Slice, Slice)>, Option<String>);

impl Trial {
    fn pairs(&mut self, attack: &mut dyn Attack, time: Duration) -> Pairs {
        let mut pairs = Vec::new();
        for turns in turns(time) {
            let mut pair = (Slice::default(), Slice::default());
            for Turn { with, length } in turns {
                let slice = if with {
                    self.slice(Some(&mut *attack), length).map(|slice| pair.0 = slice)
                } else {
                    self.slice(None, length).map(|slice| pair.1 = slice)
                };
                if let Err(error) = slice {
                    return (pairs, Some(format!("{error:#}")));
                }
            }
            pairs.push(pair);
        }
        (pairs, None)
    }

    fn slice(&mut self, mut attack: Option<&mut dyn Attack>, length: Duration) -> Result<Slice> {
        if let Some(attack) = &mut attack {
            attack.begin()?;
        }
        self.scene.place()?;
        let (first, ran) = (self.counters()?, CpuTimes::of(self.ids));
        let end = Instant::now() + length;
        if let Some(attack) = attack {
            while Instant::now() < end {
                if attack.act(end)? {
                    self.acts += 1;
                } else {
                    thread::sleep(AGAIN.min(end.saturating_duration_since(Instant::now())));
                }
            }
            let slice = self.slice_since(&first, ran)?;
            self.acts += attack.counted()?;
            attack.rest()?;
            thread::sleep(BREAK);
            return Ok(slice);
        }
        thread::sleep(length);
        self.slice_since(&first, ran)
    }

    fn slice_since(&mut self, first: &api::Counters, ran: CpuTimes) -> Result<Slice> {
        let last = self.counters()?;
        let forwarded = |counters: &api::Counters| Counters::from_answer(counters).get("near.out.tx.frames");
        Ok(Slice {
            seconds: (last.at_ns - first.at_ns) as f64 / 1e9,
            forwarded: forwarded(&last) - forwarded(first),
            ran: CpuTimes::of(self.ids).since(ran),
        })
    }

    fn counters(&mut self) -> Result<api::Counters> {
        let since = Instant::now();
        let counters = self.scene.counters();
        self.counters = self.counters.max(since.elapsed());
        counters
    }

    fn finish(mut self, spec: &Spec, (pairs, mut trouble): Pairs, watch: Watch) -> Result<Outcome> {
        thread::sleep(BREAK);
        let (seen, held) = (watch.stop()?, Held::of(self.ids));
        let said = self.scene.said();
        let (before, counters, acts) = (self.before, self.counters, self.acts);
        let ended = self.scene.end();
        let mut faults: Vec<String> = trouble.take().into_iter().chain(seen.troubles.clone()).collect();
        let mut lost = BTreeMap::new();
        match ended {
            Ok((given, counters)) => {
                faults.extend(books(given, &counters));
                lost = drops(&counters);
            }
            Err(error) => faults.push(format!("it does not end well: {error:#}")),
        }
        let ratio = ratio(&pairs);
        let with = pairs.iter().fold(Slice::default(), |sum, pair| sum.plus(pair.0));
        let without = pairs.iter().fold(Slice::default(), |sum, pair| sum.plus(pair.1));
        let cost = |of: fn(&CpuTimes) -> u64| {
            let a_second = |slice: Slice| of(&slice.ran) as f64 / 1e3 / slice.seconds.max(1e-9);
            a_second(with) - a_second(without)
        };
        let more = |held: Held| {
            let octets = held.octets.cast_signed() - before.octets.cast_signed();
            (octets, held.descriptors.cast_signed() as i64 - before.descriptors.cast_signed() as i64)
        };
        let mut outcome = Outcome {
            name: spec.name,
            acts,
            seconds: with.seconds,
            rate: with.rate(),
            ratio,
            control: cost(|ran| ran.control),
            supervisor: cost(|ran| ran.supervisor),
            near: [with, without].map(|slice| slice.ran.near as f64 / (slice.forwarded as f64).max(1.0)),
            waited: [with, without].map(|slice| slice.ran.near_waited as f64 / 1e9 / slice.seconds.max(1e-9)),
            most: more(seen.most),
            left: more(held),
            seen,
            counters,
            lost,
            lines: said.len(),
            faults,
        };
        outcome.judge();
        if !outcome.faults.is_empty() {
            said.iter()
                .skip(said.len().saturating_sub(LAST_LINES))
                .for_each(|line| println!("  it said: {line}"));
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn judge(&mut self) {
        let (low, median, high) = self.ratio;
        if median.is_nan() || median < LEAST_RATIO {
            self.faults
                .push(format!("the neighbour forwards {median:.3} ({low:.3} to {high:.3}) of its rate"));
        }
        if self.seen.longest > LONGEST_ANSWER {
            let (longest, in_all) = (self.seen.longest, self.seen.longest_in_all);
            self.faults.push(format!("ps is answered after {longest:.1?} ({in_all:.1?} with its own wait)"));
        }
        if self.acts == 0 {
            self.faults.push("nothing was attacked".to_owned());
        }
        let named = |name: &str| FULL_QUEUES.iter().any(|queue| name.ends_with(queue));
        let others: Vec<_> = self.lost.iter().filter(|(name, _)| !named(name)).collect();
        if !others.is_empty() {
            self.faults.push(format!("the neighbour lost frames in no queue of its own: {others:?}"));
        }
    }
}

/// Median of the paired ratios within its interval; between the least and the greatest ratio if there are too few pairs.
fn ratio(pairs: &[(Slice, Slice)]) -> (f64, f64, f64) {
    let ratios: Vec<f64> = pairs.iter().map(|(with, without)| with.rate() / without.rate()).collect();
    let found = Summary::of(&ratios).map(|of| of.within().unwrap_or((of.min, of.median, of.max)));
    found.unwrap_or((f64::NAN, f64::NAN, f64::NAN))
}

/// Checks that the frames sent to the neighbour, forwarded and dropped add up; returns the discrepancies.
fn books(given: u64, counters: &Counters) -> Vec<String> {
    let mut faults = counters.faults("near");
    let taken = counters.get("near.in.rx.frames");
    let dropped = counters.sum(|name| name.starts_with("near.in.") && is_drop(name));
    if given != taken + dropped {
        faults.push(format!("near: {given} frames were given, but {taken} taken and {dropped} dropped"));
    }
    faults
}

/// Frames lost by a router, by counter name.
fn drops(counters: &Counters) -> BTreeMap<String, u64> {
    let of_near = counters.named(|name| name.starts_with("near.") && is_drop(name));
    of_near.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn is_drop(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|last| last.starts_with("drop_"))
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
