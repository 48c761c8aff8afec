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

use super::control::usage::{self, Reader};
use super::room::{self, Room};
use crate::experiment::{Experiment, Options, Sample};
use crate::ledger_snapshot::Snapshot;

/// Offered load in frames a second, and the names of the two rates at each step. The last one: all that the socket gives.
const STEPS: [(f64, &str, &str); 8] = [
    (25e3, "offered_25_kpps", "forwarded_25_kpps"),
    (50e3, "offered_50_kpps", "forwarded_50_kpps"),
    (100e3, "offered_100_kpps", "forwarded_100_kpps"),
    (200e3, "offered_200_kpps", "forwarded_200_kpps"),
    (300e3, "offered_300_kpps", "forwarded_300_kpps"),
    (400e3, "offered_400_kpps", "forwarded_400_kpps"),
    (600e3, "offered_600_kpps", "forwarded_600_kpps"),
    (f64::INFINITY, "offered_most_kpps", "forwarded_most_kpps"),
];
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

/// How the router's NICs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// macvtaps on veth pairs.
    Macvtap,
    /// TAPs in bridges of the kernel, with veth pairs.
    Bridge,
    /// TAPs in bridges of Open vSwitch, datapath in user space, with veth pairs.
    Ovs,
    /// TAPs, without anything behind them.
    Tap,
    /// veth pairs by AF_XDP.
    Xdp,
}

impl Link {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Macvtap, Self::Bridge, Self::Ovs, Self::Tap, Self::Xdp];

    /// Its name in cases.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Macvtap => "macvtap",
            Self::Bridge => "bridge",
            Self::Ovs => "ovs",
            Self::Tap => "tap",
            Self::Xdp => "xdp",
        }
    }
}

/// What waits at most before the router; none: as many as its file's default.
const LENGTHS: [&str; 6] = ["5", "35", "50", "110", "500", "\"auto\""];

/// See the head of this file.
pub struct Overload {
    options: Options,
    id: &'static str,
    link: Link,
    queue_len: Option<&'static str>,
    cpus: (usize, usize),
    room: Option<Room>,
    /// Threads of the kernel that came with the room: up to Linux 6.3 those of vhost-net are none of its processes'.
    kernel: Vec<Thread>,
}

impl Overload {
    /// Every attachment with the default length of the queue.
    pub fn attachments(options: &Options) -> Result<Vec<Self>> {
        Link::ALL.into_iter().map(|link| Self::new("attachments", link, None, options)).collect()
    }

    /// Every length of the queue, by macvtap.
    pub fn queue_lengths(options: &Options) -> Result<Vec<Self>> {
        let one = |length| Self::new("queue-length", Link::Macvtap, Some(length), options);
        LENGTHS.into_iter().map(one).collect()
    }

    fn new(id: &'static str, link: Link, queue_len: Option<&'static str>, options: &Options) -> Result<Self> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        Ok(Self { options: options.clone(), id, link, queue_len, cpus, room: None, kernel: Vec::new() })
    }
}

impl Experiment for Overload {
    fn id(&self) -> &'static str {
        self.id
    }

    fn case(&self) -> String {
        let (device, frame, link) = (self.options.device(), self.options.frame, self.link.name());
        let vhost = match self.options.vhost {
            VhostThreads::Shared => String::new(),
            other => format!("/vhost={}", other.name()),
        };
        let length = self.queue_len.map(|length| format!("/queue_len={}", length.trim_matches('"')));
        format!("{device}{vhost}/{frame}/{link}{}", length.unwrap_or_default())
    }

    fn unit(&self) -> &'static str {
        "kpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn prepare(&mut self) -> Result<()> {
        cores::pin(self.cpus.0)?;
        let cpu = self.cpus.1;
        let pinned = [format!("pin = {{ vcpu = \"{cpu}\", vhost = \"{cpu}\" }}\n")];
        let (options, link, queue_len) = (&self.options, self.link, self.queue_len);
        let by_kernel = options.vhost == VhostThreads::Kernel;
        if by_kernel {
            vmm::vhost_net::open().context("nobody but the kernel's vhost-net plays this")?;
        }
        let before = usage::of_kernel()?;
        let file = room::File { options, link, queue_len, routers: &pinned, memory: None };
        self.room = Some(Room::open(&room::program()?, &file)?);
        let came = usage::of_kernel()?.into_iter().filter(|thread| by_kernel && !before.contains(thread));
        self.kernel = came.collect();
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let room = self.room.as_mut().context("the room was not prepared")?;
        let length = STEP.max(length / STEPS.len() as u32);
        let (mut more, mut rates, mut packets) = (Vec::new(), Vec::new(), 0);
        let before = room.counts();
        let mut account = Reader::by_ticks()?;
        let mut threads = usage::threads(room.supervisor())?;
        threads.extend(self.kernel.iter().cloned());
        ensure!(is_played(self.options.vhost, &threads), "{} is not who serves", self.options.vhost.name());
        // Of the last step, the heaviest.
        let mut busy = Split::default();
        for (rate, offered_name, forwarded_name) in STEPS {
            let at_rest = account.look(&threads)?;
            let Step { seconds, offered, forwarded } = step(room, rate, length)?;
            let kpps = |frames: u64| frames as f64 / seconds * 1e-3;
            rates.push(kpps(forwarded));
            more.extend([(offered_name, kpps(offered)), (forwarded_name, kpps(forwarded))]);
            packets += forwarded;
            busy = Split::between(&at_rest, &account.look(&threads)?);
        }
        let best = rates.iter().copied().fold(0.0, f64::max);
        ensure!(best > 0.0, "nothing came through");
        let last = rates.last().copied().unwrap_or(0.0);
        more.extend([("overload_kpps", last), ("kept", last / best), ("active", active(&busy) as f64)]);
        let [kicks, exits] = room.each_since(&before)?;
        more.extend([("kicks_each", kicks), ("exits_each", exits)]);
        Ok(Sample { value: best, packets, lost: 0, exits: None, more, ledger: Snapshot::new() })
    }

    fn finish(&mut self) -> Result<()> {
        self.room.take().map_or(Ok(()), Room::close)
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

/// One step.
struct Step {
    seconds: f64,
    offered: u64,
    forwarded: u64,
}

/// Offers frames at this rate, lead and measured time, then lets the router finish.
fn step(room: &mut Room, rate: f64, length: Duration) -> Result<Step> {
    let lead = length.mul_f64(LEAD);
    offer(room, rate, lead);
    let (before, start) = (room.forwarded(0)?, Instant::now());
    let offered = offer(room, rate, length - lead);
    let (seconds, forwarded) = (start.elapsed().as_secs_f64(), room.forwarded(0)? - before);
    std::thread::sleep(REST);
    Ok(Step { seconds, offered, forwarded })
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
mod tests {
    use sched::account::Column;

    use super::*;

    #[test]
    fn a_case_of_vhost_net_is_played_by_its_threads_and_no_other_one_is() {
        let named = |names: &[&str]| -> Vec<Thread> {
            let thread =
                |name: &&str| Thread { name: (*name).to_owned(), pid: 1, tid: 2, column: Column::Vhost };
            names.iter().map(thread).collect()
        };
        let (ours, kernel) = (named(&["l1-0a/vhost#7"]), named(&["l1-0a/vcpu0#7", "vhost-70#71"]));
        assert!(is_played(VhostThreads::Shared, &ours) && is_played(VhostThreads::Kernel, &kernel));
        assert!(!is_played(VhostThreads::Kernel, &ours) && !is_played(VhostThreads::Shared, &kernel));
    }
}
