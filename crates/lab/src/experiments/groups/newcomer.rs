//! `group-new`: time from the request for one more member of a group to the first frame of the load that it has forwarded. Probes of many
//! flows are sent all the time, so the new member has frames as soon as it owns a queue; whether it has forwarded any is asked of its
//! counters over and over, and the time that an answer takes (`question_ms`) is the error of a trial. It is ended again after each trial.
//!
//! The group has a spare member, which has not forwarded anything before; in the cases `started` it has none, and the member is started
//! from nothing. `answer_ms` is the time until the request is answered.
//!
//! A sample is the 99th percentile of 100 trials. Trials in which the hypervisor stole CPU time are dropped and counted.

use std::thread::scope;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use api::{Answer, Client, Request};

use super::killed::all_pass;
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::experiments::containers::boot::Trials;
use crate::rig::router_run::{File, FlowProbe, GroupShape, Link, RouterRun, Stages, change};
use crate::stats;

/// Number of trials that count.
const TRIALS: usize = 100;
/// Members before and after, spare ones not counted.
const BEFORE: u32 = 2;
const AFTER: u32 = 3;
/// Flows, so many that each member has some, and the interval of their probes.
const FLOWS: u16 = 64;
const EVERY: Duration = Duration::from_millis(1);
/// Timeout for the first frame.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns two cases for each kind of group: with a spare member, and without one.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let kinds = [
        ("parallel", "members", GroupShape::Parallel(BEFORE)),
        ("multistage", "backends", GroupShape::Multistage(Stages::of_switches(1, BEFORE))),
    ];
    let both = kinds.into_iter().flat_map(|kind| [(kind, true), (kind, false)]);
    let one = |((name, key, group), has_spare): ((&str, &'static str, GroupShape), bool)| {
        let name = format!("{}/tap/{name}{}", options.device(), if has_spare { "" } else { "/started" });
        let measure = move |options: &Options, _: usize| {
            let lines = [if has_spare { "spare = 1\n".to_owned() } else { String::new() }];
            let file = File { group: Some(group), ..File::new(options, Link::Tap, &lines) };
            RouterRun::with_routers(&file, |room| measured(room, key, has_spare))
        };
        Experiment::pinned(("group-new", "ms"), name, options, measure).map(Case::from)
    };
    both.map(one).collect()
}

fn measured(room: &RouterRun, key: &str, has_spare: bool) -> Result<Sample> {
    let (mut asks, mut orders) = (room.client()?, room.client()?);
    let (mut probe, mut times) = (FlowProbe::new(room, FLOWS, EVERY)?, Times::default());
    let (group, newest) = (room.router(0), format!("{}_{BEFORE}", room.router(0)));
    let set = |key: &str, value: u32| Request::Set {
        router: group.clone(),
        key: key.to_owned(),
        value: value.to_string(),
    };
    let trials = Trials::by(TRIALS, || {
        room.wait_for_members_and_spares(&mut asks, (BEFORE, has_spare.into()))?;
        probe.begin();
        all_pass(&mut probe)?;
        let order = set(key, AFTER);
        let took = trial(&mut probe, (&mut asks, &mut orders), (&newest, &order), &mut times)?;
        change(&mut orders, &set(key, BEFORE))?;
        if has_spare {
            // It sleeps again. The next one is to be new.
            change(&mut orders, &set("spare", 0))?;
            change(&mut orders, &set("spare", 1))?;
        }
        Ok(took)
    })?;
    let mut sample = trials.sample();
    for (name, times) in [("question_ms", &times.questions), ("answer_ms", &times.answers)] {
        sample.more.push(name, stats::median(times).unwrap_or(f64::NAN));
    }
    Ok(sample)
}

/// Durations of requests, in milliseconds.
#[derive(Default)]
struct Times {
    /// Those about counters.
    questions: Vec<f64>,
    /// Those for a member.
    answers: Vec<f64>,
}

/// Orders a member; returns the time until it has forwarded a frame.
fn trial(
    probe: &mut FlowProbe<'_>,
    (asks, orders): (&mut Client, &mut Client),
    (newest, order): (&str, &Request),
    times: &mut Times,
) -> Result<Duration> {
    let start = Instant::now();
    scope(|scope| {
        let ordered = scope.spawn(|| change(orders, order).map(|()| start.elapsed()));
        let took = loop {
            probe.turn();
            let asked = Instant::now();
            let forwarded = has_forwarded(asks, newest)?;
            times.questions.push(ms(asked.elapsed()));
            if forwarded {
                break start.elapsed();
            }
            ensure!(start.elapsed() < PATIENCE, "member {newest} forwards nothing within {PATIENCE:?}");
        };
        times.answers.push(ms(ordered.join().map_err(|_| anyhow!("a thread of the lab has died"))??));
        Ok(took)
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
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
