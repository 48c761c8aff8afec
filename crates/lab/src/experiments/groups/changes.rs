//! `group-change`: frames that are lost, and flows that are reordered, while a member is added to a group or removed from it, at 0.9 of
//! what the smaller of both groups carries. The group is between two switches, in this process; a thread sends, and this one changes the
//! plan a quarter of a second after the load began, which lasts a second, or until the change has been made. Flows of which the queue (or bucket) has another owner afterwards are *moved*: the old
//! owner may still have frames of them when the new one begins. Flows that stay must stay in order.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use config::{GroupKind, Plan};
use engine::HostServices;
use host::cores;
use port::steer::{self, Hash};
use port::{Frame, Sink as _, Source as _};
use ring::{BURST, Bytes};

use crate::due::{self, NAP, send_each};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::experiments::scale::{Between, Kind, plan, settings};
use crate::generator::{Generator, Settings, first_frames};
use crate::tag;

/// Members of the smaller group.
const FEW: u32 = 2;
/// Load as a fraction of what the smaller group carries.
const PART: f64 = 0.9;
/// Least length of the load, the moment of the change, and the most that the load lasts if the change does not end.
const LENGTH: Duration = Duration::from_secs(1);
const CHANGE: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(120);
/// What is in rings and queues when the load ends.
const REST: Duration = Duration::from_millis(100);
/// First rate of the search for what the group carries, in frames a second, factor from one rate to the next, and the last rate.
const FIRST: f64 = 100e3;
const GROWTH: f64 = 1.2;
const LAST: f64 = 40e6;
/// Length of each rate, and the largest fraction that may be lost there; the search ends after so many losses in a row.
const TRY: Duration = Duration::from_millis(150);
const LOSS: f64 = 0.001;
const LOSSES: u32 = 3;

/// Change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Removed,
}

impl Change {
    const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }

    /// Number of members before and after.
    const fn members(self) -> (u32, u32) {
        match self {
            Self::Added => (FEW, FEW + 1),
            Self::Removed => (FEW + 1, FEW),
        }
    }
}

/// Returns a case for each change of either kind of group.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let mut cases = Vec::new();
    for kind in [Kind::Parallel, Kind::Multistage] {
        for change in [Change::Added, Change::Removed] {
            let engine = if options.engine == "process" { "process/" } else { "" };
            let name = format!("{engine}{}/{}/{}", kind.name(), options.frame, change.name());
            let options = options.clone();
            let slice = move |_: Duration| repetition(kind, change, &options, cpus.0);
            let case = Experiment::unbuilt(("group-change", "percent"), name, slice);
            cases.push(case.whole().between(cpus).into());
        }
    }
    Ok(cases)
}

/// What arrived of each flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Arrived {
    /// Number of the next frame.
    next: u32,
    frames: u64,
    /// Frames that came after a later one.
    reordered: u64,
}

/// Sink that watches the order of each flow.
struct Watch(Mutex<Vec<Arrived>>);

impl Watch {
    fn new(flows: u32) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![Arrived::default(); flows as usize])))
    }

    fn flows(&self) -> MutexGuard<'_, Vec<Arrived>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what has arrived, and returns it.
    fn take(&self) -> Vec<Arrived> {
        let mut flows = self.flows();
        let empty = vec![Arrived::default(); flows.len()];
        std::mem::replace(&mut *flows, empty)
    }
}

impl port::Sink for Watch {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut flows = self.flows();
        for frame in frames {
            let (ethertype, tag) = (frame.octets().read::<2>(12), frame.octets().read::<8>(tag::FLOW));
            // The group's own frames are ARP.
            let (Some([8, 0]), Some([f0, f1, f2, f3, s0, s1, s2, s3])) = (ethertype, tag) else { continue };
            let Some(flow) = flows.get_mut(u32::from_be_bytes([f0, f1, f2, f3]) as usize) else { continue };
            let sequence = u32::from_be_bytes([s0, s1, s2, s3]);
            flow.frames += 1;
            if sequence.wrapping_sub(flow.next) < 1 << 31 {
                flow.next = sequence.wrapping_add(1);
            } else {
                flow.reordered += 1;
            }
        }
        frames.len()
    }
}

/// Returns true if a load of at least `length` has lasted long enough: until what is done meanwhile is done.
fn is_over(elapsed: Duration, length: Duration, is_done: bool) -> bool {
    elapsed >= length && (is_done || elapsed >= LONGEST)
}

/// Result of a load.
struct Loaded {
    offered: u64,
    /// Seconds for which it was offered.
    seconds: f64,
    flows: Vec<Arrived>,
}

impl Loaded {
    /// Fraction of the offered frames that did not arrive.
    fn lost(&self) -> f64 {
        let came: u64 = self.flows.iter().map(|flow| flow.frames).sum();
        (1.0 - came as f64 / self.offered.max(1) as f64).max(0.0)
    }

    /// Flows that were reordered, of those for which `is_meant` holds.
    fn reordered(&self, is_meant: impl Fn(usize) -> bool) -> usize {
        self.flows
            .iter()
            .enumerate()
            .filter(|(flow, arrived)| is_meant(*flow) && arrived.reordered > 0)
            .count()
    }
}

/// A group with its load.
struct Bench {
    between: Between,
    watch: Arc<Watch>,
    settings: Settings,
    /// CPU of the thread that sends.
    cpu: usize,
}

impl Bench {
    fn start(plan: &Plan, options: &Options, cpu: usize) -> Result<Self> {
        let settings = Settings { rate: None, ..settings(plan, options)? };
        let watch = Watch::new(settings.flow_count());
        let between = Between::start(plan, watch.clone())?;
        Ok(Self { between, watch, settings, cpu })
    }

    /// Offers so many frames a second for `length`, or until what is done meanwhile is done.
    fn load(
        &mut self,
        rate: f64,
        length: Duration,
        meanwhile: impl FnOnce(&mut Between) -> Result<()>,
    ) -> Result<Loaded> {
        self.watch.take();
        let (cpu, into) = (self.cpu, self.between.into.clone());
        let mut generator = Generator::new(&self.settings)?;
        let is_done = AtomicBool::new(false);
        let is_done = &is_done;
        let sends = move || -> Result<(u64, f64)> {
            cores::pin(cpu)?;
            let start = Instant::now();
            let is_over = |elapsed| is_over(elapsed, length, is_done.load(Relaxed));
            let send = |_: usize, frames: usize, _: u64| {
                generator.drain(frames.min(BURST), &mut |burst| {
                    into.deliver(burst);
                })
            };
            let sent = send_each(&[rate], due::BURST, is_over, send, || sleep(NAP));
            Ok((sent.iter().map(|(_, taken)| taken).sum(), start.elapsed().as_secs_f64()))
        };
        let (offered, seconds) = scope(|scope| {
            let sender = scope.spawn(sends);
            let done = meanwhile(&mut self.between);
            is_done.store(true, Relaxed);
            let offered = sender.join().map_err(|_| anyhow!("the thread that sends has died"))?;
            done.and(offered)
        })?;
        sleep(REST);
        Ok(Loaded { offered, seconds, flows: self.watch.take() })
    }

    /// Searches for the highest rate of which hardly anything is lost, in frames a second.
    fn carries(&mut self) -> Result<f64> {
        let (mut rate, mut best, mut losses) = (FIRST, None, 0);
        while losses < LOSSES && rate < LAST {
            let loaded = self.load(rate, TRY, |_| Ok(()))?;
            let is_offered = loaded.offered as f64 >= rate * TRY.as_secs_f64() * PART;
            if is_offered && loaded.lost() <= LOSS {
                (best, losses) = (Some(rate), 0);
            } else {
                losses += 1;
            }
            rate *= GROWTH;
        }
        best.context("the group loses frames at any rate")
    }
}

fn repetition(kind: Kind, change: Change, options: &Options, cpu: usize) -> Result<Sample> {
    // Threads inherit the CPUs of the thread that starts them, now and when a member is added.
    cores::allow(&options.all_cpus()?)?;
    let (from, to) = change.members();
    let few = Bench::start(&plan(kind, FEW, options)?, options, cpu)?.carries()?;
    let before = plan(kind, from, options)?;
    let after = before.with_members("core", to)?;
    let mut bench = Bench::start(&before, options, cpu)?;
    let places = places(&before, &bench.settings)?;
    let owners = |bench: &Bench| bench.between.instance.owners("core", 0);
    let owned = owners(&bench);
    let loaded = bench.load(PART * few, LENGTH, |between| {
        sleep(CHANGE);
        between.instance.apply(&after, HostServices::default())?;
        between.wait_until_all_serve()
    })?;
    let now = owners(&bench);
    ensure!(!owned.is_empty() && owned.len() == now.len(), "the group does not tell who owns what");
    let has_moved = |flow: usize| places.get(flow).is_some_and(|place| owned.get(*place) != now.get(*place));
    let moved = (0..places.len()).filter(|flow| has_moved(*flow)).count();
    let more = [
        ("carries_kpps", few * 1e-3),
        ("offered_kpps", loaded.offered as f64 / loaded.seconds * 1e-3),
        ("seconds", loaded.seconds),
        ("moved_flows", moved as f64),
        ("reordered_unmoved", loaded.reordered(|flow| !has_moved(flow)) as f64),
        ("reordered_moved", loaded.reordered(has_moved) as f64),
    ];
    let packets = loaded.flows.iter().map(|flow| flow.frames).sum();
    Ok(Sample { value: loaded.lost() * 100.0, packets, more: more.into(), ..Sample::default() })
}

/// Queue, or behind a balancer bucket, of each flow of the generator, as the group's first NIC chooses it.
fn places(plan: &Plan, settings: &Settings) -> Result<Vec<usize>> {
    let group = plan.groups.first().context("a group")?;
    let queues = group.queues() as usize;
    let place = |mut octets: Vec<u8>| {
        let octets = Bytes::from_slice(&mut octets);
        match group.kind {
            GroupKind::Multistage(_) => usize::from(steer::bucket(octets, Hash::Symmetric)),
            GroupKind::Parallel => {
                let mut found = 0;
                steer::by_flow(&[Frame::new(octets)], queues, Hash::Symmetric, |queue, _| found = queue);
                found
            }
        }
    };
    let flows = settings.flow_count() as usize;
    Ok(first_frames(settings, flows)?.into_iter().map(place).collect())
}

#[cfg(test)]
mod tests;
