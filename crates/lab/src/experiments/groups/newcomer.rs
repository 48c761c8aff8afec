//! `group-new`: time from the request for one more member of a group to the first frame of the load that it has forwarded. Probes of many
//! flows are sent all the time, so the new member has frames as soon as it owns a queue; whether it has forwarded any is asked of its
//! counters over and over, and the time that an answer takes (`question_ms`) is the error of a trial. It is ended again after each trial.
//!
//! A sample is the 99th percentile of 100 trials. Trials in which the hypervisor stole CPU time are dropped and counted.

use std::thread::scope;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use api::{Answer, Client, Request};
use host::cores;

use super::killed::all_pass;
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::experiments::containers::boot::Trials;
use crate::rig::router_run::{File, FlowProbe, GroupShape, Link, RouterRun, Stages, change};
use crate::stats;

/// Number of trials that count.
const TRIALS: usize = 100;
/// Members before and after: the second case has its links made for more of them.
const BEFORE: u32 = 2;
const AFTER: u32 = 3;
/// Flows, so many that each member has some, and the interval of their probes.
const FLOWS: u16 = 64;
const EVERY: Duration = Duration::from_millis(1);
/// Timeout for the first frame.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a case for each kind of group.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let kinds = [
        ("parallel", "members", GroupShape::Parallel(BEFORE)),
        ("multistage", "backends", GroupShape::Multistage(Stages::of_switches(1, BEFORE))),
    ];
    let one = |(name, key, group): (&str, &'static str, GroupShape)| {
        let options = options.clone();
        let name = format!("{}/tap/{name}", options.device());
        let slice = move |_: Duration| {
            cores::pin(cpus.0)?;
            let lines = [String::new()];
            let file = File { group: Some(group), ..File::new(&options, Link::Tap, &lines) };
            RouterRun::with_routers(&file, |room| measured(room, key))
        };
        Case::from(Experiment::unbuilt(("group-new", "ms"), name, slice).whole().between(cpus))
    };
    Ok(kinds.map(one).into())
}

fn measured(room: &RouterRun, key: &str) -> Result<Sample> {
    let (mut asks, mut orders) = (room.client()?, room.client()?);
    let (mut probe, mut questions) = (FlowProbe::new(room, FLOWS, EVERY)?, Vec::new());
    let (group, newest) = (room.router(0), format!("{}_{BEFORE}", room.router(0)));
    let to = |members: u32| Request::Set {
        router: group.clone(),
        key: key.to_owned(),
        value: members.to_string(),
    };
    let trials = Trials::by(TRIALS, || {
        room.wait_for_members(&mut asks, BEFORE)?;
        probe.begin();
        all_pass(&mut probe)?;
        let took = trial(&mut probe, (&mut asks, &mut orders), (&newest, &to(AFTER)), &mut questions)?;
        change(&mut orders, &to(BEFORE))?;
        Ok(took)
    })?;
    let mut sample = trials.sample();
    sample.more.push("question_ms", stats::median(&questions).unwrap_or(f64::NAN));
    Ok(sample)
}

/// Orders a member; returns the time until it has forwarded a frame. The durations of all questions are appended to `questions`, in
/// milliseconds.
fn trial(
    probe: &mut FlowProbe<'_>,
    (asks, orders): (&mut Client, &mut Client),
    (newest, order): (&str, &Request),
    questions: &mut Vec<f64>,
) -> Result<Duration> {
    let start = Instant::now();
    scope(|scope| {
        let ordered = scope.spawn(|| change(orders, order));
        let took = loop {
            probe.turn();
            let asked = Instant::now();
            let forwarded = has_forwarded(asks, newest)?;
            questions.push(asked.elapsed().as_secs_f64() * 1e3);
            if forwarded {
                break start.elapsed();
            }
            ensure!(start.elapsed() < PATIENCE, "member {newest} forwards nothing within {PATIENCE:?}");
        };
        ordered.join().map_err(|_| anyhow!("a thread of the lab has died"))??;
        Ok(took)
    })
}

/// Returns true if a member has forwarded frames other than probes of the group itself. There may be no such member yet.
fn has_forwarded(client: &mut Client, member: &str) -> Result<bool> {
    let request = Request::Counters { router: Some(member.to_owned()) };
    match client.ask(&request) {
        Ok(Answer::Counters(counters)) => Ok(is_forwarding(counters.counters.iter())),
        Ok(other) => bail!("a question about counters was answered by {other:?}"),
        Err(_) => Ok(false),
    }
}

/// Returns true if one of the counters of frames that have left members by their NICs (`core_2.far.group.passed`) is not zero.
fn is_forwarding<'c>(mut counters: impl Iterator<Item = (&'c String, &'c u64)>) -> bool {
    counters.any(|(name, frames)| name.ends_with(".group.passed") && *frames > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_frames_that_are_no_probes_tell_that_a_member_forwards() {
        let of = |name: &str, frames: u64| is_forwarding(BTreeMap::from([(name.to_owned(), frames)]).iter());
        assert!(of("core_2.far.group.passed", 1));
        assert!(!of("core_2.far.group.passed", 0) && !of("core_2.vcpu0.forwarded", 7));
        assert!(!is_forwarding(BTreeMap::new().iter()));
    }
}
