//! `efficiency`: what two members of a group carry on two CPUs, beside what these could carry if every packet cost what it costs with
//! one router: 2 / (g + v + u), where g, v and u are the CPU time of generator, I/O (vhost) thread and vCPU for each forwarded packet.
//! One router, two members side by side, and two back ends behind a balancer in the switch are measured one after the other, between the
//! same TAPs, with all threads and the load free on both CPUs, each at the highest load of which it loses at most one percent.
//!
//! g is the CPU time of the sending thread, which sleeps while no frame is due. v and u are what the passes that moved frames took, by the
//! threads' own counters (`THREAD.work`), so polling in vain is not among them.

use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::{Client, Counters};
use host::cores;
use vmm::probe::tsc_khz;

use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::experiments::control::{capacity, free_on};
use crate::metric::cpu_time;
use crate::rig::router_run::{File, GroupShape, Link, RouterRun, Stages};
use crate::scenario::load::{SendMode, step};

/// Flows of the load.
const FLOWS: u32 = 1024;
/// Members of the groups, and CPUs of everything.
const MEMBERS: u32 = 2;
/// Largest fraction of the offered load that may be lost.
const LOSS: f64 = 0.01;
/// First load, as a fraction of what one router carries on one CPU; factor from one load to the next; and the last load.
const FIRST: f64 = 0.4;
const GROWTH: f64 = 1.08;
const LAST: f64 = 8.0;
/// Loads in a row with a larger loss after which the search ends: one alone may be the host's fault.
const LOSSES: u32 = 3;
/// Lead-in and length of each load of the search.
const TRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(250));
/// Lead-in and least length of the load that counts.
const LEAD: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_secs(1);
/// Pause in which queued frames are forwarded.
const REST: Duration = Duration::from_millis(50);
/// Lower loads that are tried in the place of one that loses more when it counts.
const FALL_BACKS: u32 = 12;
/// The load shares a CPU with the routers.
const MANNER: SendMode = SendMode { sleeps: true, short: false };

/// Returns the one case.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let options = options.clone();
    let name = format!("{}/{}/tap", options.device(), options.frame);
    let slice = move |_: Duration| {
        cores::pin(cpus.0)?;
        repetition(&options, cpus)
    };
    Ok(vec![Experiment::unbuilt(("efficiency", "times"), name, slice).whole().between(cpus).into()])
}

/// What a router or group carries.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// Forwarded frames a second, in thousands.
    kpps: f64,
    each: Costs,
}

/// CPU time of each forwarded frame, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Costs {
    generator: f64,
    vhost: f64,
    vcpu: f64,
}

impl Costs {
    /// Frames a second, in thousands, that this many CPUs could carry at these costs.
    fn carried_by(self, cpus: u32) -> f64 {
        f64::from(cpus) * 1e6 / (self.generator + self.vhost + self.vcpu)
    }
}

fn repetition(options: &Options, cpus: (usize, usize)) -> Result<Sample> {
    let capacity = capacity::once(options, Link::Tap, cpus.1)?;
    let carried = |group| carried(options, cpus, group, capacity);
    let one = carried(None)?;
    let parallel = carried(Some(GroupShape::Parallel(MEMBERS)))?;
    let multistage = carried(Some(GroupShape::Multistage(Stages::of_switches(1, MEMBERS))))?;
    let ideal = one.each.carried_by(MEMBERS);
    let more = [
        ("capacity_kpps", capacity * 1e-3),
        ("one_kpps", one.kpps),
        ("parallel_kpps", parallel.kpps),
        ("multistage_kpps", multistage.kpps),
        ("ideal_kpps", ideal),
        ("generator_ns", one.each.generator),
        ("vhost_ns", one.each.vhost),
        ("vcpu_ns", one.each.vcpu),
        ("parallel_ns", 2e6 / parallel.each.carried_by(2)),
        ("multistage_ns", 2e6 / multistage.each.carried_by(2)),
    ];
    Ok(Sample { value: parallel.kpps / ideal, more: more.into(), ..Sample::default() })
}

/// Measures a router, or the group in its place.
fn carried(
    options: &Options,
    cpus: (usize, usize),
    group: Option<GroupShape>,
    capacity: f64,
) -> Result<Carried> {
    let lines = [free_on(&format!("{},{}", cpus.0, cpus.1))];
    let file = File { group, flows: Some(FLOWS), ..File::new(options, Link::Tap, &lines) };
    RouterRun::with_routers(&file, |room| {
        let mut client = room.client()?;
        if let Some(group) = group {
            room.wait_for_members(&mut client, group.members())?;
        }
        let mut rate = highest(room, capacity)?;
        for _ in 0..FALL_BACKS {
            if let Some(carried) = counted(room, &mut client, rate, options)? {
                return Ok(carried);
            }
            rate /= GROWTH;
        }
        bail!("no load is carried for {STEP:?} with at most {LOSS} of it lost")
    })
}

/// Searches for the highest load of which no more is lost than may be, in frames a second.
fn highest(room: &RouterRun, capacity: f64) -> Result<f64> {
    let (mut rate, mut best, mut losses) = (FIRST * capacity, None, 0);
    while losses < LOSSES && rate < LAST * capacity {
        let step = step(room, &[rate], TRY, MANNER)?;
        if is_carried(step.offered_kpps(0), step.forwarded_kpps(0)) {
            (best, losses) = (Some(rate), 0);
        } else {
            losses += 1;
        }
        sleep(REST);
        // A load that the generator cannot offer is not carried.
        if step.short(0, rate) > LOSS * 5.0 {
            break;
        }
        rate *= GROWTH;
    }
    best.context("more is lost even of the lowest load")
}

fn is_carried(offered: f64, forwarded: f64) -> bool {
    offered > 0.0 && forwarded >= offered * (1.0 - LOSS)
}

/// Offers the load that counts; `None` if too much of it is lost.
fn counted(room: &RouterRun, client: &mut Client, rate: f64, options: &Options) -> Result<Option<Carried>> {
    let length = options.step(STEP);
    let forwarded = || anyhow::Ok(room.forwarded()?.first().copied().unwrap_or_default());
    let (before, counters, ran) = (forwarded()?, client.counters(None)?, cpu_time());
    let step = step(room, &[rate], (LEAD, length), MANNER)?;
    let ran = cpu_time().saturating_sub(ran);
    sleep(REST);
    let (after, later) = (forwarded()?, client.counters(None)?);
    if !is_carried(step.offered_kpps(0), step.forwarded_kpps(0)) {
        return Ok(None);
    }
    let frames = after.saturating_sub(before).max(1) as f64;
    let (vhost, vcpu) = worked(&counters, &later, hertz())?;
    let generator = ran.as_nanos() as f64 / frames;
    let each = Costs { generator, vhost: vhost * 1e9 / frames, vcpu: vcpu * 1e9 / frames };
    Ok(Some(Carried { kpps: step.forwarded_kpps(0), each }))
}

/// Frequency of the time-stamp counter.
fn hertz() -> f64 {
    static HERTZ: OnceLock<f64> = OnceLock::new();
    *HERTZ.get_or_init(|| tsc_khz(Duration::from_millis(50)) as f64 * 1e3)
}

/// Seconds that all other threads, and all vCPUs, have worked between two readings: what a frame took in the passes that were timed,
/// times the frames that the thread moved.
fn worked(before: &Counters, after: &Counters, hertz: f64) -> Result<(f64, f64)> {
    let grown = |name: &str| {
        let value = |counters: &Counters| counters.counters.get(name).copied().unwrap_or(0);
        value(after).saturating_sub(value(before)) as f64
    };
    let (mut vhost, mut vcpu, mut threads) = (0.0, 0.0, 0);
    for name in after.counters.keys() {
        let Some(thread) = name.strip_suffix(".work.frames") else { continue };
        let Some((router, role)) = thread.split_once('/') else { continue };
        let timed = grown(name);
        let each = if timed > 0.0 { grown(&format!("{thread}.work.cycles")) / timed / hertz } else { 0.0 };
        if role.starts_with("vcpu") {
            vcpu += each * grown(&format!("{router}.{role}.forwarded"));
        } else {
            vhost += each * grown(&format!("{thread}.frames"));
        }
        threads += 1;
    }
    ensure!(threads >= 2, "the routers tell nothing of what their threads work");
    Ok((vhost, vcpu))
}

#[cfg(test)]
mod tests;
