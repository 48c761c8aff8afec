//! `group-new`: time from the request for one more member of a group to the first frame of the load that it has forwarded. Probes of many
//! flows are sent all the time, so the new member has frames as soon as it owns a queue; whether it has forwarded any is asked of its
//! counters over and over, and the time that an answer takes (`question_ms`) is the error of a trial. It is ended again after each trial.
//!
//! The group has a spare member, which has not forwarded anything before; in the cases `started` it has none, and the member is started
//! from nothing. `answer_ms` is the time until the request is answered. Of members that are started it is also told what their time went
//! to: the steps of a start, as in `boot`, and `rest_ms`, which is what they leave of the time to the first frame (the change of plan, a
//! process with its sandbox, links, the first probes). A copy of a machine that has booted could spare `image_ms`, and of `boot_ms` what is
//! beyond `vcpu_ms`: all else is setting the machine up.
//!
//! A sample is the 99th percentile of 100 trials. Trials in which the hypervisor stole CPU time are dropped and counted.

use std::thread::scope;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use api::{Answer, Client, LAST_START, Request};

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
        if !has_spare {
            times.starts.push(with_rest(last_start(&mut asks, &newest)?, took));
        }
        change(&mut orders, &set(key, BEFORE))?;
        if has_spare {
            // It sleeps again. The next one is to be new.
            change(&mut orders, &set("spare", 0))?;
            change(&mut orders, &set("spare", 1))?;
        }
        Ok(took)
    })?;
    let mut sample = trials.sample();
    for (name, took) in times.medians() {
        sample.more.push(name, took);
    }
    Ok(sample)
}

/// Steps of a start by name, and how long each took, in milliseconds.
type Steps = Vec<(String, f64)>;

/// Durations in milliseconds.
#[derive(Default)]
struct Times {
    /// Requests about counters.
    questions: Vec<f64>,
    /// Requests for a member.
    answers: Vec<f64>,
    /// The steps of each start, which are the same ones each time.
    starts: Vec<Steps>,
}

impl Times {
    fn medians(&self) -> Steps {
        let median = |times: &[f64]| stats::median(times).unwrap_or(f64::NAN);
        let requests = [("question_ms", &self.questions), ("answer_ms", &self.answers)];
        let mut medians: Steps =
            requests.into_iter().map(|(name, times)| (name.to_owned(), median(times))).collect();
        for (number, (step, _)) in self.starts.iter().take(1).flatten().enumerate() {
            let took = self.starts.iter().filter_map(|steps| Some(steps.get(number)?.1));
            medians.push((format!("{step}_ms"), median(&took.collect::<Vec<f64>>())));
        }
        medians
    }
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
            let forwarded = has_forwarded(asks, newest);
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

/// Returns the steps of a member's last start, as soon as it knows that it has booted.
fn last_start(client: &mut Client, member: &str) -> Result<Steps> {
    let (request, asked) = (Request::Show { router: member.to_owned() }, Instant::now());
    loop {
        let Answer::Show(shown) = client.ask(&request)? else { bail!("{member} is not shown") };
        let told = shown.settings.get(LAST_START).map(ToString::to_string).unwrap_or_default();
        let steps = steps(&told);
        if steps.iter().any(|(step, _)| step == "boot") {
            return Ok(steps);
        }
        ensure!(asked.elapsed() < PATIENCE, "{member} does not say what its start took: {told:?}");
    }
}

/// Reads the steps of a start from what is told of it.
fn steps(told: &str) -> Steps {
    let step = |part: &str| {
        let mut words = part.split(' ');
        Some((words.next()?.to_owned(), words.next()?.parse::<f64>().ok()?))
    };
    told.split(", ").filter_map(step).collect()
}

/// The steps of a start, and what they leave of the time that it took. The creation of a vCPU is a part of the boot.
fn with_rest(mut steps: Steps, took: Duration) -> Steps {
    let known: f64 = steps.iter().filter(|(step, _)| step != "vcpu").map(|(_, took)| took).sum();
    steps.push(("rest".to_owned(), ms(took) - known));
    steps
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns true if a member has forwarded frames other than probes of the group itself. There may be no such member yet.
fn has_forwarded(client: &mut Client, member: &str) -> bool {
    client.counters(Some(member)).is_ok_and(|counters| is_forwarding(counters.counters.iter()))
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

    #[test]
    fn what_a_start_went_to_is_told_by_the_median_of_each_step() {
        let start = |told: &str, took| with_rest(steps(told), Duration::from_millis(took));
        let starts = vec![
            start("create 0.50 ms, boot 2.00 ms, vcpu 0.25 ms", 8),
            start("create 1.50 ms, boot 4.00 ms, vcpu 0.75 ms", 9),
            start("create 1.00 ms, boot 3.00 ms, vcpu 0.50 ms", 10),
        ];
        let times = Times { questions: vec![1.0], answers: vec![2.0], starts };
        let shown: Vec<String> =
            times.medians().iter().map(|(name, took)| format!("{name} {took:.2}")).collect();
        let requests = ["question_ms 1.00", "answer_ms 2.00"];
        let steps = ["create_ms 1.00", "boot_ms 3.00", "vcpu_ms 0.50", "rest_ms 5.50"];
        assert_eq!(shown, [&requests[..], &steps[..]].concat());
        assert_eq!(super::steps(""), []);
    }
}
