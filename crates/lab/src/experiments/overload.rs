//! `attachments` and `queue-length`: a running router between two interfaces of a host, offered more and more, until far
//! beyond what it can carry. Load comes from one CPU, by a packet socket; the router has the other one, vCPU and vhost thread
//! together, as in figure 13 of seed paper 000. It is the command itself, with its supervisor and its confinement.
//!
//! The figure is the best rate of all loads (the peak); beside it the rate at the heaviest load, and each step's offered
//! and forwarded rates. Frames are counted by the kernel of the host behind the router. What the driver rang and how often
//! its vCPU left the guest, for each frame of all steps, are the router's own counters.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::VhostThreads;
use host::cores;
use sched::account::{Split, Thread};

use super::{Case, control};
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::metric::usage::{self, Reader};
use crate::rig::room::{File, Link, Room};
use crate::scenario::{Climb, step};

/// Offered load in frames a second. The last one: all that the socket gives.
const STEPS: [f64; 8] = [25e3, 50e3, 100e3, 200e3, 300e3, 400e3, 600e3, f64::INFINITY];
/// Shortest step: the scheduler has given both threads many turns, and a queue that tunes itself has found its length.
const STEP: Duration = Duration::from_millis(300);
/// Part of a step that passes before it is measured.
const LEAD: f64 = 0.4;
/// After a step: what waits is forwarded.
const REST: Duration = Duration::from_millis(20);
/// Frames sent at once.
const BURST: usize = 16;
/// What takes less of a CPU than this while more comes than can be carried is not active.
const ACTIVE: f64 = 0.05;

/// What waits at most before the router; none: as many as its file's default.
const LENGTHS: [&str; 6] = ["5", "35", "50", "110", "500", "\"auto\""];

/// Every attachment with the default length of the queue.
pub(super) fn attachments(options: &Options) -> Result<Vec<Case>> {
    Link::ALL.into_iter().map(|link| case("attachments", link, None, options)).collect()
}

/// Every length of the queue, by macvtap.
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
    room: Room,
    /// Threads of the kernel that came with the room: up to Linux 6.3 those of vhost-net are none of its processes'.
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
        let room = Room::open(&File { queue_len, ..File::new(options, link, &pinned) })?;
        let came = usage::of_kernel()?.into_iter().filter(|thread| by_kernel && !before.contains(thread));
        Ok(Self { vhost, room, kernel: came.collect() })
    }
}

impl Rig for Attached {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (room, length) = (&self.room, STEP.max(length / STEPS.len() as u32));
        let (before, lead) = (room.counts(), length.mul_f64(LEAD));
        let mut account = Reader::by_ticks()?;
        let mut threads = usage::threads(room.supervisor())?;
        threads.extend(self.kernel.iter().cloned());
        ensure!(is_played(self.vhost, &threads), "{} is not who serves", self.vhost.name());
        // Of the last step, the heaviest.
        let (mut climb, mut busy) = (Climb::default(), Split::default());
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

/// Whether frames are moved by those after whom the case is named: by threads of vhost-net, or by none of them.
fn is_played(vhost: VhostThreads, threads: &[Thread]) -> bool {
    let by_kernel = threads.iter().any(|thread| usage::is_vhost_net(&thread.name));
    by_kernel == (vhost == VhostThreads::Kernel)
}

/// What is active on the way of a frame: threads of the router, and the kernel's interrupts as one.
fn active(split: &Split) -> usize {
    let works = |ns: f64| ns / split.interval >= ACTIVE;
    let threads = split.threads.values().filter(|thread| works(thread.run)).count();
    threads + usize::from(works(split.cores.values().map(|core| core.softirq).sum()))
}

/// Frames that the interface took.
fn offer(room: &Room, rate: f64, length: Duration) -> u64 {
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
