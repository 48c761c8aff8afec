//! Feedback controller that keeps promises: ten times a second it compares deliveries with promises and
//! adjusts the shares.
//!
//! The share of a router is the model's, times a correction that starts somewhat above 1. If less is
//! delivered than was promised although enough was offered, the correction grows in proportion to the
//! deficit. If a router gets more than was promised while others want its cores, it shrinks. If no one else
//! wants them, it slowly returns to its initial value. A router with more time than it needs is woken for few
//! packets at a time, which makes each packet more expensive, so that it uses all the time it is given.
//! Therefore, while others want its cores and nothing is lost, the share is slowly reduced until something is
//! lost, and then stays a little above that point for some seconds. A gain of 0.4 a tick settles within a
//! second although an action shows one tick later (a loop with a delay of one tick oscillates from 0.25 on,
//! and is stable up to 1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::admit::{Core, Promise, Refusal, admit, rate};
use super::model::Cost;

/// Part of a deficit that is corrected in one tick.
const GAIN: f64 = 0.4;
/// Tolerance within which a promise counts as kept.
const GOOD: f64 = 0.01;
/// Losses above these parts of the promised rate are corrected: LOST within one tick, in which a burst may
/// have found a ring full, and LOST_OF_LATE on average.
const LOST: f64 = 0.01;
const LOST_OF_LATE: f64 = 0.003;
/// Weight of a tick in moving averages.
const LATE: f64 = 0.1;
/// Deviation from the promise that is reported as broken.
const BROKEN: f64 = 0.05;
/// Initial correction: a router starts with so many times the model's share, if that much is available, and
/// returns to it while no one else wants the core. Bursts want some headroom, and what is not needed is taken
/// back.
const ROOM: f64 = 1.1;
/// Part of its way back to [`ROOM`] that a correction goes in one tick, if there is nothing to correct.
const FORGET: f64 = 0.01;
/// Part of a share that is taken back in one tick, to probe whether less is enough.
const TRIED: f64 = 0.005;
/// Ticks without a loss before probing, and the step back after it has failed.
const CALM: u32 = 100;
const BACK: f64 = 0.08;
/// Limits of corrections.
const MOST: f64 = 4.0;
const LEAST: f64 = 0.5;
/// Relative changes of a share below this are not worth a system call.
const WORTH: f64 = 0.01;
/// Ticks after which a promise that is not kept is reported as broken: 1.5 s.
const PATIENCE: u32 = 15;
/// With fewer packets in a tick no statement is possible.
const FEWEST: f64 = 16.0;

/// Counts of a router so far, for all NICs and ways together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured<'a> {
    /// Name of the router.
    pub router: &'a str,
    /// Packets that it has finished: forwarded, or dropped by its own decision.
    pub delivered: u64,
    /// Packets lost on their way in because the router had no time: `drop_full`, `drop_no_buffer`, and drops
    /// of a TAP. Packets dropped by `limit` were never promised and do not count.
    pub dropped: u64,
    /// True if others wanted its cores meanwhile: one of them never slept, and the router did not get all of
    /// it.
    pub contended: bool,
}

/// A share to be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Name of the router.
    pub router: String,
    /// CPU number.
    pub cpu: u32,
    /// Router's part of that core.
    pub share: f64,
    /// Part of that core left for all threads without a promise.
    pub rest: f64,
}

impl Adjustment {
    /// Runtime of a reservation with this period (constant bandwidth server): at least a microsecond.
    pub fn runtime(&self, period: Duration) -> Duration {
        period.mul_f64(self.share.clamp(0.0, 1.0)).max(Duration::from_micros(1))
    }

    /// Weight beside the threads without a promise on that core, whose weights sum up to `others`, such that
    /// each gets its share when all want more. With `others` 0 shares are only relative to each other, 1000
    /// for a whole core. At least 1.
    pub fn weight(&self, others: u64) -> u64 {
        let unit = if others == 0 { 1000.0 } else { others as f64 / self.rest.max(0.01) };
        (self.share * unit).round().max(1.0) as u64
    }
}

/// State of a promise.
#[derive(Clone, Debug, PartialEq)]
pub enum PromiseState {
    /// Nothing was measured yet.
    Unknown,
    /// Less is offered than was promised, and all of it is delivered.
    BelowPromise,
    /// The promise is kept.
    Yes,
    /// Not kept yet: shares are being adjusted.
    Settling,
    /// Not kept, for the reason given in one line.
    No(String),
}

/// State of a promise, with the rates of the last tick in packets/s.
#[derive(Clone, Debug, PartialEq)]
pub struct PromiseStatus {
    /// Name of the router.
    pub router: String,
    /// Promised rate.
    pub promised: f64,
    /// Offered rate.
    pub offered: f64,
    /// Rate of packets finished.
    pub delivered: f64,
    /// State of the promise.
    pub kept: PromiseState,
}

#[derive(Clone, Debug)]
struct RouterState {
    promise: Promise,
    correction: f64,
    /// Time of the last measurement, and the counts then (delivered, dropped).
    last: Option<(Duration, u64, u64)>,
    /// Consecutive ticks with a deficit, and those without a loss since.
    short: u32,
    calm: u32,
    /// Moving average of the deficit.
    missing: f64,
    standing: PromiseStatus,
}

/// Controller that keeps promises.
#[derive(Clone, Debug)]
pub struct Controller {
    cores: Vec<Core>,
    routers: Vec<RouterState>,
    /// Shares set last, by router and CPU.
    set: BTreeMap<(String, u32), f64>,
}

impl Controller {
    /// Creates a controller of these cores, without promises.
    pub fn new(cores: Vec<Core>) -> Self {
        Self { cores, routers: Vec::new(), set: BTreeMap::new() }
    }

    /// Promises a rate. It replaces an earlier promise to the same router, whose learned correction is kept.
    ///
    /// # Errors
    /// The rate does not fit; then nothing changes.
    pub fn promise(&mut self, promise: Promise) -> Result<(), Refusal> {
        let held: Vec<Promise> = self.routers.iter().map(|kept| kept.promise.clone()).collect();
        admit(&self.cores, &held, &promise)?;
        match self.routers.iter_mut().find(|kept| kept.promise.router == promise.router) {
            Some(kept) => {
                kept.standing.promised = promise.pps;
                kept.short = 0;
                kept.promise = promise;
            }
            None => self.routers.push(RouterState::new(promise)),
        }
        Ok(())
    }

    /// Takes over the state of a previous controller: corrections and standings of promises that exist here
    /// as well. Both must use the same clock. Costs that are others here move no share, as in
    /// [`Controller::learn`].
    pub fn resume(&mut self, before: &Self) {
        for kept in &mut self.routers {
            let same = |known: &&RouterState| known.promise.router == kept.promise.router;
            if let Some(before) = before.routers.iter().find(same) {
                let short = if before.promise.pps == kept.promise.pps { before.short } else { 0 };
                let standing = PromiseStatus { promised: kept.promise.pps, ..before.standing.clone() };
                let correction = kept.promise.carried(before.correction, &before.promise);
                let promise = kept.promise.clone();
                *kept = RouterState { promise, correction, short, standing, ..before.clone() };
            }
        }
    }

    /// Withdraws a promise.
    pub fn forget(&mut self, router: &str) {
        self.routers.retain(|kept| kept.promise.router != router);
        self.set.retain(|(name, _), _| name != router);
    }

    /// Updates the model's cost of a packet of this router on this core. The share does not jump but follows
    /// step by step.
    pub fn learn(&mut self, router: &str, cpu: u32, cost: Cost) {
        let Some(kept) = self.routers.iter_mut().find(|kept| kept.promise.router == router) else { return };
        let before = kept.promise.clone();
        for need in kept.promise.needs.iter_mut().filter(|need| need.cpu == cpu) {
            need.cost = cost;
        }
        kept.correction = kept.promise.carried(kept.correction, &before);
    }

    /// Evaluates the counts at `now` (a time since an arbitrary fixed moment) and returns the shares to set: all
    /// those of routers on a core where one has changed by at least one percent. A router without a measurement
    /// stays as it is.
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
        // Weights on a core are relative to each other: if one changes, all are set. A router whose classes are on
        // different cores has its weights from all of its shares.
        let cpus: Vec<u32> = all.iter().filter(|share| changed(share)).map(|share| share.cpu).collect();
        let there = all.iter().filter(|share| cpus.contains(&share.cpu));
        let routers: BTreeSet<String> = there.map(|share| share.router.clone()).collect();
        let moved: Vec<_> = all.into_iter().filter(|share| routers.contains(&share.router)).collect();
        for share in &moved {
            self.set.insert((share.router.clone(), share.cpu), share.share);
        }
        moved
    }

    /// State of each promise.
    pub fn standings(&self) -> impl Iterator<Item = &PromiseStatus> {
        self.routers.iter().map(|kept| &kept.standing)
    }

    /// All promises.
    pub fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.routers.iter().map(|kept| &kept.promise)
    }

    /// Share of each router on each of its cores. If the sum exceeds what can be promised, routers that ask
    /// for more than the model's share give way first.
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
                // The correction follows the cut, so that it does not wind up.
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

/// Cuts shares to what is free: first the parts above the model's shares, then all.
fn fit(shares: &mut [f64], plain: &[f64], free: f64) {
    let sum: f64 = shares.iter().sum();
    if sum <= free {
        return;
    }
    let base: f64 = shares.iter().zip(plain).map(|(share, plain)| share.min(*plain)).sum();
    if base >= free {
        // Even the model's shares exceed what is free: all are scaled down alike.
        shares.iter_mut().zip(plain).for_each(|(share, plain)| *share = share.min(*plain) * free / base);
        return;
    }
    let part = (free - base) / (sum - base);
    for (share, plain) in shares.iter_mut().zip(plain) {
        let base = share.min(*plain);
        *share = base + (*share - base) * part;
    }
}

impl Promise {
    /// Correction with which the shares stay what they were when the costs of the same CPUs were those of
    /// `before`.
    fn carried(&self, correction: f64, before: &Self) -> f64 {
        let total = |promise: &Self| promise.needs.iter().map(|need| need.cost.cycles).sum::<f64>();
        let cpus = |promise: &Self| promise.needs.iter().map(|need| need.cpu).collect::<Vec<_>>();
        let (then, now) = (total(before), total(self));
        if then > 0.0 && now > 0.0 && cpus(self) == cpus(before) {
            return (correction * then / now).clamp(LEAST, MOST);
        }
        correction
    }
}

impl RouterState {
    fn new(promise: Promise) -> Self {
        let standing = PromiseStatus {
            router: promise.router.clone(),
            promised: promise.pps,
            offered: 0.0,
            delivered: 0.0,
            kept: PromiseState::Unknown,
        };
        Self { promise, correction: ROOM, last: None, short: 0, calm: 0, missing: 0.0, standing }
    }

    fn look(&mut self, now: Duration, measured: &Measured<'_>) {
        let last = self.last.replace((now, measured.delivered, measured.dropped));
        let Some((then, delivered, dropped)) = last else { return };
        let seconds = now.saturating_sub(then).as_secs_f64();
        // Counters that were restarted say nothing about this tick.
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

    /// Updates the correction by what this tick has shown.
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

    /// Reacts to a loss.
    fn make_up_for(&mut self, missing: f64, contended: bool) {
        let back = if contended && self.calm > CALM { BACK } else { 0.0 };
        self.correction *= 1.0 + (GAIN * missing).max(back);
        self.short = self.short.saturating_add(1);
        self.calm = 0;
    }

    /// Reacts to a tick without loss. `wanted`: others want the core, and the router is offered at least what
    /// it was promised.
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

    /// Returns slowly towards the model's share.
    fn forget(&mut self) {
        self.correction += (ROOM - self.correction) * FORGET;
    }

    fn judge(&mut self) {
        let PromiseStatus { promised, offered, delivered, .. } = self.standing;
        let wanted = offered.min(promised);
        self.standing.kept = if delivered >= wanted * (1.0 - BROKEN) {
            if offered < promised * (1.0 - GOOD) { PromiseState::BelowPromise } else { PromiseState::Yes }
        } else if self.short < PATIENCE {
            PromiseState::Settling
        } else {
            let cycles: f64 = self.promise.needs.iter().map(|need| need.cost.cycles).sum();
            PromiseState::No(format!(
                "{} are promised and {} came, but {} were delivered, at {cycles:.0} cycles each",
                rate(promised),
                rate(offered),
                rate(delivered)
            ))
        };
    }
}
