//! `group-killed`: time from SIGKILL of a member of a group of two to the moment when all flows pass again. Probes of all flows are sent
//! all the time; those of the killed member are lost until another one has what it had. The killed member is then started anew, and the next
//! trial kills the other one. In the case `balancer` the two balancers of a group are killed in turn, which are virtual machines: each
//! carries one of the two links, so all flows pass both.
//!
//! A sample is the 99th percentile of 100 trials. Trials in which the hypervisor stole CPU time are dropped and counted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{Client, Request, RouterStatus};
use rustix::process::{Pid, Signal, kill_process};

use crate::experiment::{Experiment, Options};
use crate::experiments::Case;
use crate::experiments::containers::boot::Trials;
use crate::rig::router_run::{Balancer, File, FlowProbe, GroupShape, Interconnect, Link, RouterRun, Stages};

/// Number of trials that count.
const TRIALS: usize = 100;
/// Members of the group.
const MEMBERS: u32 = 2;
/// Balancers of it, where they are killed.
const BALANCERS: u32 = 2;
/// Flows, so many that neither member is without any, and the interval of their probes, which is also the error of a trial.
const FLOWS: u16 = 32;
const EVERY: Duration = Duration::from_millis(1);
/// Time after the kill from which probes count: a vCPU that is about to die may still forward those that are sent before.
const DYING: Duration = Duration::from_millis(1);
/// Timeout for all flows to pass.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which routers of a group are killed.
#[derive(Clone, Copy)]
enum Victims {
    Members,
    /// Balancers that are virtual machines.
    Balancers,
}

impl Victims {
    /// Waits until all members, and balancers if these are killed, have their parts; returns the status of those that are killed in turn.
    fn wait_for(self, room: &RouterRun, client: &mut Client) -> Result<Vec<RouterStatus>> {
        let members = room.wait_for_members(client, MEMBERS)?;
        match self {
            Self::Members => Ok(members),
            Self::Balancers => room.wait_for_balancers(client, BALANCERS),
        }
    }
}

/// Returns a case for each kind of group, and one for balancers.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let behind_machines = Stages {
        balancers: BALANCERS,
        back_ends: MEMBERS,
        balancer: Balancer::Vm,
        interconnect: Interconnect::Switch,
    };
    let kinds = [
        ("parallel", GroupShape::Parallel(MEMBERS), Victims::Members),
        ("multistage", GroupShape::Multistage(Stages::of_switches(1, MEMBERS)), Victims::Members),
        ("balancer", GroupShape::Multistage(behind_machines), Victims::Balancers),
    ];
    let one = |(name, group, victims): (&str, GroupShape, Victims)| {
        let name = format!("{}/tap/{name}", options.device());
        let measure = move |options: &Options, _: usize| {
            let lines = [String::new()];
            let file = File { group: Some(group), ..File::new(options, Link::Tap, &lines) };
            RouterRun::with_routers(&file, |room| Ok(trials(room, victims)?.sample()))
        };
        Experiment::pinned(("group-killed", "ms"), name, options, measure).map(Case::from)
    };
    kinds.into_iter().map(one).collect()
}

fn trials(room: &RouterRun, victims: Victims) -> Result<Trials> {
    let mut client = room.client()?;
    let (mut probe, mut number) = (FlowProbe::new(room, FLOWS, EVERY)?, 0);
    Trials::by(TRIALS, || {
        let victims = victims.wait_for(room, &mut client)?;
        probe.begin();
        all_pass(&mut probe)?;
        let victim = victims.get(number % victims.len()).context("a victim")?;
        number += 1;
        let took = trial(&mut probe, victim)?;
        revive(&mut client, victim);
        Ok(took)
    })
}

/// Kills a member or a balancer; returns the time from just before that until all flows pass, by probes that were sent when it was dead.
fn trial(probe: &mut FlowProbe<'_>, victim: &RouterStatus) -> Result<Duration> {
    let pid = victim.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let pid = pid.with_context(|| format!("router {} has no process of its own", victim.name))?;
    probe.begin();
    kill_process(pid, Signal::KILL).with_context(|| format!("cannot kill router {}", victim.name))?;
    probe.count_after(DYING);
    all_pass(probe)
}

/// Sends probes until all flows pass; returns the time since [`FlowProbe::begin`].
pub(super) fn all_pass(probe: &mut FlowProbe<'_>) -> Result<Duration> {
    let start = Instant::now();
    loop {
        probe.turn();
        if let Some(took) = probe.all_passed_after() {
            return Ok(took);
        }
        ensure!(start.elapsed() < PATIENCE, "flows do not pass within {PATIENCE:?}");
    }
}

/// Starts a killed router at once: by itself it waits the longer the more often it has failed.
fn revive(client: &mut Client, victim: &RouterStatus) {
    // It may be on its way by itself; whether it comes is waited for before the next trial.
    let _ = client.ask(&Request::Start { router: victim.name.clone() });
}
