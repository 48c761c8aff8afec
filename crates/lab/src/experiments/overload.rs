//! `attachments` and `queue-length`: a running router between two interfaces of a host, under load that increases far beyond
//! its capacity. Load comes from one CPU, through a packet socket; the router has the other one, vCPU and vhost thread
//! together, as in figure 13 of seed paper 000. It is run by the command itself, with its supervisor and its confinement.
//!
//! The figure is the best rate over all loads (the peak); beside it stand the rate at the heaviest load, and each step's
//! offered and forwarded rates. Frames are counted by the host's kernel behind the router. Doorbells of the driver and VM
//! exits per frame, over all steps, come from the router's own counters.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::VhostThreads;
use host::cores;
use sched::account::{Split, Thread};

use super::{Case, control};
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::metric::usage::{self, Reader};
use crate::rig::router_run::{File, Link, RouterRun};
use crate::scenario::{LoadSweep, step};

/// Offered loads in frames a second. The last one is the highest that the socket can offer.
const STEPS: [f64; 8] = [25e3, 50e3, 100e3, 200e3, 300e3, 400e3, 600e3, f64::INFINITY];
/// Shortest step: both threads are scheduled many times, and a self-tuning queue finds its length.
const STEP: Duration = Duration::from_millis(300);
/// Part of a step that passes before the measurement.
const LEAD: f64 = 0.4;
/// Pause after a step in which queued frames are forwarded.
const REST: Duration = Duration::from_millis(20);
/// Largest burst sent at once, in frames.
const BURST: usize = 16;
/// Share of a CPU below which a thread counts as inactive while the router is overloaded.
const ACTIVE: f64 = 0.05;

/// Values of `queue_len`: the most frames that may wait in front of the router.
const LENGTHS: [&str; 6] = ["5", "35", "50", "110", "500", "\"auto\""];

/// Cases of `attachments`: every attachment with the default length of the queue.
pub(super) fn attachments(options: &Options) -> Result<Vec<Case>> {
    let links = Link::ALL.into_iter().filter(|link| link.is_for_machines());
    links.map(|link| case("attachments", link, None, options)).collect()
}

/// Cases of `queue-length`: every length of the queue, with a macvtap.
pub(super) fn queue_lengths(options: &Options) -> Result<Vec<Case>> {
    let one = |length| case("queue-length", Link::Macvtap, Some(length), options);
    LENGTHS.into_iter().map(one).collect()
}

fn case(id: &'static str, link: Link, queue_len: Option<&'static str>, options: &Options) -> Result<Case> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let vhost = match options.vhost {
        VhostThreads::Shared => String::new(),
        other => format!("/vhost={}", other.name()),
    };
    let length = queue_len.map(|length| format!("/queue_len={}", length.trim_matches('"')));
    let (device, frame, link_name) = (options.device(), options.frame, link.name());
    let name = format!("{device}{vhost}/{frame}/{link_name}{}", length.unwrap_or_default());
    let options = options.clone();
    let build = move || Attached::open(&options, link, queue_len, cpus);
    Ok(Experiment::new((id, "kpps"), name, build).between(cpus).into())
}

struct Attached {
    vhost: VhostThreads,
    room: RouterRun,
    /// Kernel threads that appeared with the room: up to Linux 6.3, vhost-net's threads belong to none of its processes.
    kernel: Vec<Thread>,
}

impl Attached {
    fn open(
        options: &Options,
        link: Link,
        queue_len: Option<&'static str>,
        cpus: (usize, usize),
    ) -> Result<Self> {
        cores::pin(cpus.0)?;
        let (vhost, pinned) = (options.vhost, [control::on(cpus.1)]);
        let by_kernel = vhost == VhostThreads::Kernel;
        if by_kernel {
            vmm::vhost_net::open().context("nobody but the kernel's vhost-net plays this")?;
        }
        let before = usage::of_kernel()?;
        let room = RouterRun::open(&File { queue_len, ..File::new(options, link, &pinned) })?;
        let came = usage::of_kernel()?.into_iter().filter(|thread| by_kernel && !before.contains(thread));
        Ok(Self { vhost, room, kernel: came.collect() })
    }
}

impl Rig for Attached {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (room, length) = (&self.room, STEP.max(length / STEPS.len() as u32));
        let (before, lead) = (room.counts(), length.mul_f64(LEAD));
        let mut account = Reader::by_ticks()?;
        let mut threads = room.threads()?;
        threads.extend(self.kernel.iter().cloned());
        ensure!(is_played(self.vhost, &threads), "{} is not who serves", self.vhost.name());
        // Usage during the last step, the heaviest.
        let (mut climb, mut busy) = (LoadSweep::default(), Split::default());
        for rate in STEPS {
            let at_rest = account.look(&threads)?;
            let offer = |length| vec![offer(room, rate, length)];
            let step = step((lead, length - lead), offer, || room.forwarded())?;
            std::thread::sleep(REST);
            let load = if rate.is_finite() { (rate * 1e-3).to_string() } else { "most".to_owned() };
            climb.more.extend([
                (format!("offered_{load}_kpps"), step.offered_kpps(0)),
                (format!("forwarded_{load}_kpps"), step.forwarded_kpps(0)),
            ]);
            climb.count(&step, rate);
            busy = Split::between(&at_rest, &account.look(&threads)?);
        }
        let (best, last) = climb.best_and_last()?;
        let more = [("overload_kpps", last), ("kept", last / best), ("active", active(&busy) as f64)];
        climb.more.extend(more);
        let [kicks, exits] = room.each_since(&before)?;
        climb.more.extend([("kicks_each", kicks), ("exits_each", exits)]);
        climb.sample(best)
    }

    fn take_down(self: Box<Self>) -> Result<()> {
        self.room.close()
    }
}

/// Returns true if the threads that the case is named after move the frames: vhost-net's, or none of vhost-net's.
fn is_played(vhost: VhostThreads, threads: &[Thread]) -> bool {
    let by_kernel = threads.iter().any(|thread| usage::is_vhost_net(&thread.name));
    by_kernel == (vhost == VhostThreads::Kernel)
}

/// Number of active threads on a frame's path: threads of the router, and the kernel's softirqs counted as one.
fn active(split: &Split) -> usize {
    let works = |ns: f64| ns / split.interval >= ACTIVE;
    let threads = split.threads.values().filter(|thread| works(thread.run)).count();
    threads + usize::from(works(split.cores.values().map(|core| core.softirq).sum()))
}

/// Sends frames at this rate; returns the number that the interface accepted.
fn offer(room: &RouterRun, rate: f64, length: Duration) -> u64 {
    let (start, mut sent) = (Instant::now(), 0);
    loop {
        let elapsed = start.elapsed();
        if elapsed >= length {
            return sent;
        }
        let due = if rate.is_finite() { (elapsed.as_secs_f64() * rate) as u64 } else { u64::MAX };
        let burst = due.saturating_sub(sent).min(BURST as u64) as usize;
        if burst > 0 {
            sent += room.send(0, burst, 0) as u64;
        }
    }
}

#[cfg(test)]
mod tests;
