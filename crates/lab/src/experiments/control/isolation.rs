//! `isolation`: routers that share one CPU; one is overloaded in steps, and the rate that the others keep is measured (seed paper
//! 003, section 4.2, tables 2, 4 and 5).
//!
//! The first router is offered the paper's fraction of the capacity, the second an increasing load; with more than two routers,
//! all others together get the load of the paper's second one. The capacity is measured anew before each sample. A sample is the
//! share of its load that the protected router keeps at the heaviest step.

use std::time::Duration;

use anyhow::Result;
use sched::account::Split;

use super::contended::SharedCpuSetup;
use crate::experiment::{Experiment, Options, Sample, named_kind};
use crate::experiments::Case;
use crate::metric::usage::{self, Reader};
use crate::rig::router_run::RouterRun;
use crate::scenario::load::{SendMode, step};
use crate::scenario::{LoadSweep, Step};

/// Capacity of the paper's core, in kpps: both routers together in overload, as printed in its tables 2 and 4.
const PAPER: f64 = 1241.0;
/// Lead-in of each step, in which the controller settles, and least length of a step: whole control periods.
const LEAD: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_secs(1);

/// Load of the first two routers in each step of table 2, in the paper's kpps: the first one is overloaded.
const FIRST: [[f64; 2]; 5] =
    [[400.0, 400.0], [600.0, 400.0], [800.0, 400.0], [1000.0, 400.0], [1088.0, 400.0]];
/// Load in each step of tables 4 and 5: the second one is overloaded.
const SECOND: [[f64; 2]; 4] = [[800.0, 400.0], [800.0, 500.0], [800.0, 600.0], [800.0, 688.0]];

named_kind! {
    /// Mechanism that protects the first router.
    enum Control {
        /// None: the scheduler shares the CPU fairly among threads.
        None = "no-control",
        /// CPU weight of twice that of all others together.
        Shares = "shares",
        /// A guaranteed rate equal to its offered load.
        Guarantee = "guarantee",
    }
}

impl Control {
    /// Configuration line of the router with this index.
    fn line(self, router: usize, routers: usize, promised: f64) -> String {
        match (self, router) {
            (Self::Shares, 0) => {
                format!("sched = {{ policy = \"shares\", weight = {} }}\n", 2 * (routers - 1))
            }
            (Self::Shares, _) => "sched = { policy = \"shares\", weight = 1 }\n".to_owned(),
            (Self::Guarantee, 0) => format!("guarantee = \"{:.0}pps\"\n", promised),
            _ => String::new(),
        }
    }
}

/// Two, three and eight routers, the first protected by each mechanism or not at all; and two routers of which the first is
/// overloaded. Two routers also by macvtaps, which stand in the place of the paper's virtual functions.
///
/// # Errors
/// There are fewer than two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let by_tap = SharedCpuSetup::new(options)?;
    let by_macvtap = by_tap.by_macvtap();
    let mut cases = Vec::new();
    for (contended, numbers) in [(by_tap, &[2, 3, 8][..]), (by_macvtap, &[2][..])] {
        let case = |routers, control, overloaded| {
            Case::from(Isolation { overload: Overload { routers, overloaded }, control }.case(&contended))
        };
        cases.push(case(2, Control::None, 0));
        for routers in numbers {
            cases.extend(Control::ALL.map(|control| case(*routers, control, 1)));
        }
    }
    Ok(cases)
}

/// Parameters of a case: the routers, and how the first one is protected.
#[derive(Clone, Copy)]
struct Isolation {
    overload: Overload,
    control: Control,
}

impl Isolation {
    fn case(self, contended: &SharedCpuSetup) -> Experiment {
        let Overload { routers, overloaded } = self.overload;
        let which = if overloaded == 0 { "/vr1-overloaded" } else { "" };
        let end = format!("{routers}-routers{which}/{}", self.control.name());
        let lines = move |_: &SharedCpuSetup, capacity: f64| -> Vec<String> {
            let promised = self.overload.part_of(0) * capacity;
            (0..routers).map(|router| self.control.line(router, routers, promised)).collect()
        };
        let measure = move |contended: &SharedCpuSetup, room: &RouterRun, capacity: f64| {
            self.overload.measure(&contended.options, room, capacity, contended.cpus.1)
        };
        contended.case(("isolation", "kept"), &end, lines, measure)
    }
}

/// Routers on one CPU, one of which is overloaded in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) struct Overload {
    /// Number of routers.
    pub(in crate::experiments) routers: usize,
    /// Index (0 or 1) of the overloaded router.
    pub(in crate::experiments) overloaded: usize,
}

impl Overload {
    fn steps(self) -> &'static [[f64; 2]] {
        if self.overloaded == 0 { &FIRST } else { &SECOND }
    }

    /// Returns the index of the victim: the one of the first two that is not overloaded.
    pub(in crate::experiments) const fn victim(self) -> usize {
        1 - self.overloaded
    }

    /// Load of one of the first two routers in the first step, as a multiple of the capacity. The victim's load is the same in
    /// all steps.
    pub(in crate::experiments) fn part_of(self, router: usize) -> f64 {
        self.part(self.steps()[0], router)
    }

    /// Load offered to a router, as a multiple of the capacity.
    fn part(self, kpps: [f64; 2], router: usize) -> f64 {
        let among = if router == 0 { 1 } else { self.routers - 1 };
        kpps[router.min(1)] / PAPER / among as f64
    }

    /// Measures all steps. The sample is the fraction of its load that the victim forwards in the heaviest one.
    ///
    /// # Errors
    /// No frame was forwarded, or the CPU time cannot be read.
    pub(in crate::experiments) fn measure(
        self,
        options: &Options,
        room: &RouterRun,
        capacity: f64,
        cpu: usize,
    ) -> Result<Sample> {
        let mut reader = Reader::by_ticks()?;
        let mut look = || reader.look(&room.threads()?);
        let times = (LEAD, options.step(STEP));
        let (mut climb, mut kept) = (LoadSweep::of(capacity), 0.0);
        for (n, kpps) in (1..).zip(self.steps()) {
            let rates: Vec<f64> =
                (0..self.routers).map(|router| self.part(*kpps, router) * capacity).collect();
            let before = look()?;
            let step = step(room, &rates, times, SendMode::PLAIN)?;
            let split = Split::between(&before, &look()?);
            climb.count(&step, rates[0]);
            climb.more.extend(self.told(n, &step, &split, cpu));
            let victim = self.victim();
            kept = step.forwarded_kpps(victim) / step.offered_kpps(victim).max(f64::MIN_POSITIVE);
            climb.more.push(format!("kept_{n}"), kept);
        }
        climb.more.push("offered_short", climb.short);
        climb.sample(kept)
    }

    /// Returns the figures of the n-th step.
    fn told(self, n: usize, step: &Step, split: &Split, cpu: usize) -> Vec<(String, f64)> {
        let total: f64 = (0..self.routers).map(|router| step.forwarded_kpps(router)).sum();
        let mut told = vec![(format!("total_{n}"), total)];
        told.extend(usage::busy(split, cpu).map(|busy| (format!("cpu_total_{n}"), busy.total * 100.0)));
        for router in 0..2 {
            let (used, vr) = (usage::used(split, Some(router)), router + 1);
            told.extend([
                (format!("vr{vr}_offered_{n}"), step.offered_kpps(router)),
                (format!("vr{vr}_{n}"), step.forwarded_kpps(router)),
                (format!("vr{vr}_cpu_{n}"), (used.vcpu + used.vhost) * 100.0),
            ]);
        }
        told
    }
}

#[cfg(test)]
mod tests;
