//! Keeps promises: looks ten times a second at what was delivered, and moves the shares.
//!
//! The share of a router is what the model says, times a correction that begins somewhat above 1. Where less is delivered than
//! was promised although more was offered, the correction grows with what is missing; where a router gets more than was promised
//! while others want its cores, it shrinks; where nobody else wants them, it goes back slowly to where it began. Who is given more
//! than it needs is woken for each few packets, which then cost more, so that all of it is used: so while others want its cores and
//! nothing is lost, the share shrinks slowly, until something is, and then stays for some seconds a little above that. A gain of
//! 0.4 a tick settles within a second although what is done now is seen one tick later (a loop with one delay swings from 0.25 on,
//! and is stable up to 1).

use std::collections::BTreeMap;
use std::time::Duration;

use super::admit::{Core, Promise, Refusal, admit, rate};
use super::model::Cost;

/// Part of what is missing that is made up for in one tick.
const GAIN: f64 = 0.4;
/// What is within this of the promise is kept.
const GOOD: f64 = 0.01;
/// What is lost of it beyond this part is made up for: in one tick, where a burst may have found a ring full, and of late.
const LOST: f64 = 0.01;
const LOST_OF_LATE: f64 = 0.003;
/// What a tick counts among those before it.
const LATE: f64 = 0.1;
/// What is missing, or too much, that is told as a broken promise.
const BROKEN: f64 = 0.05;
/// Where nothing was seen yet and nobody wants the core a router has so many times what the model says, if there is so much: bursts
/// want some room, and what is not needed is taken back.
const ROOM: f64 = 1.1;
/// Part of its way there that a correction goes in one tick, where there is nothing to correct.
const FORGET: f64 = 0.01;
/// Part of a share that is taken back in one tick, to find out whether less is enough.
const TRIED: f64 = 0.005;
/// Ticks without a loss before that is tried, and what is given back after it has failed.
const CALM: u32 = 100;
const BACK: f64 = 0.08;
/// Corrections are within this of 1.
const MOST: f64 = 4.0;
const LEAST: f64 = 0.5;
/// Changes below this part of a share are not worth a system call.
const WORTH: f64 = 0.01;
/// Ticks after which a promise that is not kept is told as broken: a second and a half.
const PATIENCE: u32 = 15;
/// Without so many packets in a tick nothing can be said.
const FEWEST: f64 = 16.0;

/// What a router has counted so far, all NICs and ways together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured<'a> {
    /// Its name.
    pub router: &'a str,
    /// Packets that it was done with: forwarded, or dropped by its own decision.
    pub delivered: u64,
    /// Packets that were lost on their way in because it had no time: `drop_full`, `drop_no_buffer`, what a TAP dropped. What
    /// `limit` drops was never promised and is none of them.
    pub dropped: u64,
    /// Whether others wanted its cores meanwhile: one of them never slept, and the router has not had all of it.
    pub contended: bool,
}

/// What is to be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Name of the router.
    pub router: String,
    /// Where.
    pub cpu: u32,
    /// Its part of that core.
    pub share: f64,
    /// The part that is left there for everybody without a promise.
    pub rest: f64,
}

impl Adjustment {
    /// The runtime of a reservation of this period (constant bandwidth server): at least a microsecond.
    pub fn runtime(&self, period: Duration) -> Duration {
        period.mul_f64(self.share.clamp(0.0, 1.0)).max(Duration::from_micros(1))
    }

    /// The weight beside those without a promise on that core, whose weights together are `others`: then each gets its share
    /// when all want more. 0 others: shares are compared with each other only, 1000 for a whole core. At least 1.
    pub fn weight(&self, others: u64) -> u64 {
        let unit = if others == 0 { 1000.0 } else { others as f64 / self.rest.max(0.01) };
        (self.share * unit).round().max(1.0) as u64
    }
}

/// Whether a promise is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Nothing was measured yet.
    Unknown,
    /// Less is offered than was promised, and all of it is delivered.
    Unasked,
    /// It is.
    Yes,
    /// Not yet: shares are being moved.
    Settling,
    /// It is not: one line.
    No(String),
}

/// How a promise is kept. Rates are of the last tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Name of the router.
    pub router: String,
    /// Packets a second that are promised.
    pub promised: f64,
    /// That came.
    pub offered: f64,
    /// That it was done with.
    pub delivered: f64,
    /// Whether that is what was promised.
    pub kept: Kept,
}

#[derive(Clone, Debug)]
struct Held {
    promise: Promise,
    correction: f64,
    /// When it was measured last, and what it had counted.
    last: Option<(Duration, u64, u64)>,
    /// Ticks in which less was delivered than was promised, and those since.
    short: u32,
    calm: u32,
    /// What was missing of late.
    missing: f64,
    standing: Standing,
}

/// The controller that keeps promises.
#[derive(Clone, Debug)]
pub struct Controller {
    cores: Vec<Core>,
    routers: Vec<Held>,
    /// What was set last, by router and CPU.
    set: BTreeMap<(String, u32), f64>,
}

impl Controller {
    /// On these cores; nothing is promised yet.
    pub fn new(cores: Vec<Core>) -> Self {
        Self { cores, routers: Vec::new(), set: BTreeMap::new() }
    }

    /// Promises a rate; one that the same router was promised before is replaced, and what was learned in keeping it stays.
    ///
    /// # Errors
    /// It does not fit; then everything is as it was.
    pub fn promise(&mut self, promise: Promise) -> Result<(), Refusal> {
        let held: Vec<Promise> = self.routers.iter().map(|kept| kept.promise.clone()).collect();
        admit(&self.cores, &held, &promise)?;
        match self.routers.iter_mut().find(|kept| kept.promise.router == promise.router) {
            Some(kept) => {
                kept.standing.promised = promise.pps;
                kept.short = 0;
                kept.promise = promise;
            }
            None => self.routers.push(Held::new(promise)),
        }
        Ok(())
    }

    /// Goes on where another one was: what it has learned in keeping promises that are made here as well, and how those are kept.
    /// Its times are of the same clock.
    pub fn resume(&mut self, before: &Self) {
        for kept in &mut self.routers {
            let same = |known: &&Held| known.promise.router == kept.promise.router;
            if let Some(before) = before.routers.iter().find(same) {
                let short = if before.promise.pps == kept.promise.pps { before.short } else { 0 };
                let standing = Standing { promised: kept.promise.pps, ..before.standing.clone() };
                *kept = Held { promise: kept.promise.clone(), short, standing, ..before.clone() };
            }
        }
    }

    /// Takes a promise back.
    pub fn forget(&mut self, router: &str) {
        self.routers.retain(|kept| kept.promise.router != router);
        self.set.retain(|(name, _), _| name != router);
    }

    /// What a packet of this router costs on this core, as the model says now. Its share does not jump: it goes there step by
    /// step.
    pub fn learn(&mut self, router: &str, cpu: u32, cost: Cost) {
        let Some(kept) = self.routers.iter_mut().find(|kept| kept.promise.router == router) else { return };
        let total = |promise: &Promise| promise.needs.iter().map(|need| need.cost.cycles).sum::<f64>();
        let before = total(&kept.promise);
        for need in kept.promise.needs.iter_mut().filter(|need| need.cpu == cpu) {
            need.cost = cost;
        }
        let after = total(&kept.promise);
        if before > 0.0 && after > 0.0 {
            kept.correction = (kept.correction * before / after).clamp(LEAST, MOST);
        }
    }

    /// Looks at what was counted up to `now` (a time since any moment, always the same one) and says what is to be set: what
    /// changed by a hundredth at least. A router that is not measured stays as it is.
    pub fn tick(&mut self, now: Duration, measured: &[Measured<'_>]) -> Vec<Adjustment> {
        for kept in &mut self.routers {
            if let Some(measured) = measured.iter().find(|known| known.router == kept.promise.router) {
                kept.look(now, measured);
            }
        }
        let all = self.shares();
        let changed = |share: &Adjustment| {
            let before = self.set.get(&(share.router.clone(), share.cpu)).copied();
            before.is_none_or(|before| (share.share - before).abs() > WORTH * before)
        };
        // Weights on a core depend on each other: if one moves, all are set.
        let cpus: Vec<u32> = all.iter().filter(|share| changed(share)).map(|share| share.cpu).collect();
        let moved: Vec<Adjustment> = all.into_iter().filter(|share| cpus.contains(&share.cpu)).collect();
        for share in &moved {
            self.set.insert((share.router.clone(), share.cpu), share.share);
        }
        moved
    }

    /// How promises are kept.
    pub fn standings(&self) -> impl Iterator<Item = &Standing> {
        self.routers.iter().map(|kept| &kept.standing)
    }

    /// What is promised.
    pub fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.routers.iter().map(|kept| &kept.promise)
    }

    /// The share of each router on each of its cores. Where they would be more than can be promised, those that ask for more
    /// than the model says give way first.
    fn shares(&mut self) -> Vec<Adjustment> {
        let mut all = Vec::new();
        for core in &self.cores {
            let free = core.most - core.reserved;
            let routers: Vec<usize> = (0..self.routers.len())
                .filter(|n| self.routers[*n].promise.needs.iter().any(|need| need.cpu == core.cpu))
                .collect();
            let plain: Vec<f64> = routers.iter().map(|n| self.routers[*n].promise.share(core)).collect();
            let wanted = routers.iter().zip(&plain).map(|(n, plain)| plain * self.routers[*n].correction);
            let mut shares: Vec<f64> = wanted.collect();
            let asked = shares.clone();
            fit(&mut shares, &plain, free);
            let rest = (1.0 - core.reserved - shares.iter().sum::<f64>()).max(0.0);
            for ((n, share), asked) in routers.into_iter().zip(shares).zip(asked) {
                // What it does not get it need not ask for again.
                if asked > share {
                    self.routers[n].correction =
                        (self.routers[n].correction * share / asked).clamp(LEAST, MOST);
                }
                let router = self.routers[n].promise.router.clone();
                all.push(Adjustment { router, cpu: core.cpu, share, rest });
            }
        }
        all
    }
}

/// Cuts shares down to what is free: first what is above the model's shares, then all.
fn fit(shares: &mut [f64], plain: &[f64], free: f64) {
    let sum: f64 = shares.iter().sum();
    if sum <= free {
        return;
    }
    let base: f64 = shares.iter().zip(plain).map(|(share, plain)| share.min(*plain)).sum();
    if base >= free {
        // The model itself has learned more than there is: everybody gives the same part.
        shares.iter_mut().zip(plain).for_each(|(share, plain)| *share = share.min(*plain) * free / base);
        return;
    }
    let part = (free - base) / (sum - base);
    for (share, plain) in shares.iter_mut().zip(plain) {
        let base = share.min(*plain);
        *share = base + (*share - base) * part;
    }
}

impl Held {
    fn new(promise: Promise) -> Self {
        let standing = Standing {
            router: promise.router.clone(),
            promised: promise.pps,
            offered: 0.0,
            delivered: 0.0,
            kept: Kept::Unknown,
        };
        Self { promise, correction: ROOM, last: None, short: 0, calm: 0, missing: 0.0, standing }
    }

    fn look(&mut self, now: Duration, measured: &Measured<'_>) {
        let last = self.last.replace((now, measured.delivered, measured.dropped));
        let Some((then, delivered, dropped)) = last else { return };
        let seconds = now.saturating_sub(then).as_secs_f64();
        // Counters that began anew say nothing about this tick.
        let grown = |before: u64, now: u64| now.checked_sub(before).map(|n| n as f64);
        let (Some(delivered), Some(dropped)) =
            (grown(delivered, measured.delivered), grown(dropped, measured.dropped))
        else {
            return;
        };
        if seconds <= 0.0 {
            return;
        }
        self.standing.delivered = delivered / seconds;
        self.standing.offered = (delivered + dropped) / seconds;
        self.correct(delivered + dropped, measured.contended);
        self.judge();
    }

    /// Moves the correction by what this tick has shown.
    fn correct(&mut self, came: f64, contended: bool) {
        let wanted = self.standing.offered.min(self.promise.pps);
        let asked = self.standing.offered >= self.promise.pps * (1.0 - GOOD);
        if came < FEWEST || wanted <= 0.0 {
            self.short = 0;
            return self.forget();
        }
        let missing = 1.0 - self.standing.delivered / wanted;
        self.missing += (missing.max(0.0) - self.missing) * LATE;
        if missing > LOST || (missing > 0.0 && self.missing > LOST_OF_LATE) {
            self.make_up_for(missing, contended);
        } else {
            self.take_back(missing, asked && contended);
        }
        self.correction = self.correction.clamp(LEAST, MOST);
    }

    /// Something was lost.
    fn make_up_for(&mut self, missing: f64, contended: bool) {
        let back = if contended && self.calm > CALM { BACK } else { 0.0 };
        self.correction *= 1.0 + (GAIN * missing).max(back);
        self.short = self.short.saturating_add(1);
        self.calm = 0;
    }

    /// Nothing was; others want the core, and the router all that it was promised, or not.
    fn take_back(&mut self, missing: f64, wanted: bool) {
        self.short = 0;
        self.calm = self.calm.saturating_add(1);
        if !wanted {
            self.forget();
        } else if missing < -GOOD {
            self.correction /= 1.0 + GAIN * (-missing).min(1.0);
        } else if self.calm > CALM {
            self.correction *= 1.0 - TRIED;
        }
    }

    /// Goes back towards what the model says.
    fn forget(&mut self) {
        self.correction += (ROOM - self.correction) * FORGET;
    }

    fn judge(&mut self) {
        let Standing { promised, offered, delivered, .. } = self.standing;
        let wanted = offered.min(promised);
        self.standing.kept = if delivered >= wanted * (1.0 - BROKEN) {
            if offered < promised * (1.0 - GOOD) { Kept::Unasked } else { Kept::Yes }
        } else if self.short < PATIENCE {
            Kept::Settling
        } else {
            let cycles: f64 = self.promise.needs.iter().map(|need| need.cost.cycles).sum();
            Kept::No(format!(
                "{} are promised and {} came, but {} were delivered, at {cycles:.0} cycles each",
                rate(promised),
                rate(offered),
                rate(delivered)
            ))
        };
    }
}
