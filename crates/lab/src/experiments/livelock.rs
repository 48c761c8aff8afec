//! `livelock`: an application that spends a fixed time on each frame, behind a bounded queue that the driver fills, under increasing
//! load. Unprotected, each interrupt takes precedence over the application: beyond its capacity the guest receives frames only to
//! drop them (receive livelock). Protected, the driver polls with a budget and leaves frames in the ring while the queue is full
//! (back-pressure), so that excess frames are dropped early, at no cost.
//!
//! The figure is the share of its best rate that the application keeps under the heaviest load: delivered there / most delivered at
//! any load. The loads are multiples of the capacity that the time for each frame allows; delivered and offered rates of each step
//! stand beside it.

use std::slice;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use engine::Guest;

use super::Case;
use crate::device::{self, CpuAssignment};
use crate::experiment::{Experiment, ExtraFigures, Options, Rig, Sample};
use crate::generator::Generator;
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, Reading, accesses};
use crate::rig::ReceivingGuest;
use crate::scenario::{LoadSweep, Step, step, until_quiet};

/// Offered loads, as multiples of the application's capacity. The first is so low that even a driver that pays half a millisecond for
/// each interrupt carries every frame.
const STEPS: [f64; 12] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0];
/// Shortest step: some hundreds of frames, several times the content of queue and ring.
const STEP: Duration = Duration::from_millis(25);
/// Part of a step that passes before the measurement: queue and ring fill.
const LEAD: f64 = 0.25;
/// Quiet time after a step, after which the application counts as idle, and the limit for reaching it.
const REST: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_millis(200);

/// Creates the unprotected and the protected case, with the measuring thread and the guest on the CPUs of the options.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    ensure!(
        options.vcpus == 1,
        "livelock needs the driver and the application on one vCPU: leave --vcpus out"
    );
    let seats = CpuAssignment::of(options)?;
    let Options { frame, work, queue, .. } = *options;
    let case = |(is_protected, how): (bool, &str)| {
        let name = format!("{}/{frame}/work={work}/queue={queue}/{how}", options.device());
        let (options, seats, pair) = (options.clone(), seats.clone(), seats.pair());
        let build = move || Application::start(options.clone(), &seats, is_protected);
        Case::from(Experiment::new(("livelock", "share"), name, build).between(pair))
    };
    Ok([(false, "unprotected"), (true, "protected")].map(case).into())
}

struct Application {
    guest: ReceivingGuest,
    options: Options,
}

impl Application {
    fn start(options: Options, seats: &CpuAssignment, is_protected: bool) -> Result<Self> {
        let (plan, work) = (device::end_plan(&options, seats)?, (options.work, is_protected));
        Ok(Self { guest: ReceivingGuest::application(&options, &plan, work, seats.host)?, options })
    }

    /// Offers `rate` frames a second for the lead-in and the measured time, then lets the application finish.
    fn step(&mut self, rate: f64, length: Duration) -> Result<Step> {
        let options = Options { rate: Some(rate), ..self.options.clone() };
        let mut generator = Generator::new(&device::traffic(&options))?;
        let (offered, lead) = (generator.counters(), length.mul_f64(LEAD));
        let machine = self.guest.guest.machine().clone();
        let delivered = || machine.shared().vcpus[0].application.delivered.get();
        let offer = |length| {
            let before = offered.frames.get();
            self.guest.feed(&mut generator, length);
            vec![offered.frames.get() - before]
        };
        let step = step((lead, length - lead), offer, || Ok(vec![delivered()]))?;
        let mut before = delivered();
        until_quiet(REST, GIVE_UP, || {
            self.guest.back.pump();
            Some(std::mem::replace(&mut before, delivered()) != before)
        });
        Ok(step)
    }
}

impl Rig for Application {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let capacity = 1e9 / f64::from(self.options.work.max(1));
        let length = STEP.max(length / STEPS.len() as u32);
        let before = Reading::of(self);
        let (mut climb, mut packets) = (LoadSweep::default(), 0);
        for part in STEPS {
            let step = self.step(part * capacity, length)?;
            climb.more.extend([
                (format!("offered_{part}_kpps"), step.offered_kpps(0)),
                (format!("delivered_{part}_kpps"), step.forwarded_kpps(0)),
            ]);
            packets += step.packets();
            climb.count(&step, part * capacity);
        }
        let (ledger, exits) = before.since(self)?;
        let (best, last) = climb.best_and_last().context("the application got nothing")?;
        let mut more = ExtraFigures::from([("best_kpps", best)]);
        more.append(climb.more);
        more.extend(accesses::per_frame(&ledger, packets));
        Ok(Sample { value: last / best, packets, exits: Some(exits), more, ledger, ..Sample::default() })
    }
}

impl HasCounters for Application {
    fn guests(&self) -> &[Guest] {
        slice::from_ref(&self.guest.guest)
    }

    fn count(&self, ledger: &mut Snapshot) {
        let guest = &self.guest.guest;
        let vcpu = &guest.machine().shared().vcpus[0];
        ledger.take("application", &vcpu.application);
        ledger.take("guest.nic0", &vcpu.nics[0]);
        ledger.take("guest.exit", &*guest.machine().exits()[0]);
        ledger.take("rx", &guest.nics()[0].rx_ledger());
        accesses::take(guest, ledger);
    }
}
