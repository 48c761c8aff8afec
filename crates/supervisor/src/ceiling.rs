//! Limits on memory and tasks of a run: of its data planes and of the processes of its routers together
//! (`docs/limits.md`).
//!
//! Processes enter the control groups before they are told what to do. This module sums up what a plan may
//! need. Beyond that the kernel kills a process or refuses a thread, which is reported and counted.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use config::{Engine, Group, Nic, Plan, Router};
use sched::ceiling::{Ceiling, CgroupLimits, Reached, Resource, place};
use telemetry::Kind;

use super::Supervisor;
use crate::run_lock::RunLock;

const MIB: u64 = 1 << 20;
/// Memory of a data plane without routers, in octets: program, heap, buffers of traces and captures. Several
/// times what is used in fact.
const PLANE: u64 = 64 * MIB;
/// Memory of a router beside its RAM, for each VRF: a route table in which every page is used (66 MiB), spare groups for
/// long prefixes (4 MiB), stacks of its threads, and the kernel's memory for its vCPUs, event descriptors and
/// filters.
const ROUTER: u64 = 128 * MIB;
/// Page tables take one part in so many of RAM, in the data plane, the guest and a process together: 8 octets
/// for 4096 in each.
const PAGE_TABLES: u64 = 128;
/// Buffers of a queue outside of a NIC, whatever its kind: bursts and large frames (64 places of 64 KiB).
const QUEUE: u64 = 8 * MIB;
/// Memory of a frame that waits in such a queue.
const FRAME: u64 = 2048;
/// A port of a switch that leads to a kernel router, or by a tunnel to another host: a queue in each direction, one of which holds 1000
/// frames.
const KERNEL_PORT: u64 = 2 * QUEUE + 1000 * FRAME;
/// Memory of the room in a route table for a /24 network with longer prefixes.
const LONG_ROUTE: u64 = 1024;
/// Memory of a static route: its entry, and a group of the table if its prefix is long.
const ROUTE: u64 = 2048;
/// Memory of what a router learns from its control plane: a million routes of IPv4 and a quarter of a million of IPv6, as a list
/// (128 MiB), on their way (64 MiB), in groups for long prefixes (32 MiB) and in the table of IPv6 (96 MiB). FRR itself is not in
/// the control groups.
const CONTROL: u64 = 512 * MIB;
/// One part in so many of the host's memory stays for others where a ceiling is so high only because of
/// memory that peers may share.
const HOST_RESERVE_DIVISOR: u64 = 8;

/// Threads allowed to a data plane for each of its routers. Most of them, in the largest router, are vCPUs
/// and one kernel thread for each pair of queues of each NIC (16 x 8).
pub(super) const THREADS: u64 = 256;
/// Threads of a data plane that belong to no router: control, link, clock, captures.
const THREADS_OF_PLANE: u64 = 64;
/// Threads of such a port: one serves it, another one opens or closes it.
const THREADS_OF_KERNEL_PORT: u64 = 2;
/// Threads of the process of a router with `engine = "process"`: its vCPUs, at most 16.
const THREADS_OF_PROCESS: u64 = 32;

/// Time between two looks at the kernel's counts.
const LOOK: Duration = Duration::from_secs(1);
/// Least time between two reports of the same kind.
const PAUSE: Duration = Duration::from_secs(10);

/// Why a memory ceiling of the owner's cannot be set under cgroup v2.
const NOT_OURS: &str = "with control groups of version 2 write MemoryMax= into the unit of systemd, or the like, that the run is in";

/// State of the reports about one ceiling.
#[derive(Debug, Default)]
struct ReportState {
    /// Total of processes killed or threads refused.
    times: u64,
    /// Those not reported yet.
    news: u64,
    at: Option<Instant>,
}

/// Ceilings of a run, and how often they were reached.
#[derive(Debug, Default)]
pub(super) struct Ceilings {
    bounds: CgroupLimits,
    /// Memory ceiling that the owner asked for.
    memory: Option<u64>,
    host: Option<u64>,
    memory_told: ReportState,
    tasks_told: ReportState,
    /// True if the memory ceiling was reached since the last data plane was buried.
    is_full: bool,
    /// Ceiling to be set as soon as the run holds less.
    wanted: Option<Ceiling>,
    look: Option<Instant>,
    /// Lines that wait to be reported.
    troubles: Vec<String>,
}

/// Returns the most that a plan may need. `memory`: the owner's ceiling, used instead of the computed one.
pub fn needed(plan: &Plan, memory: Option<u64>, host: Option<u64>) -> Ceiling {
    let own = memory_of_run(plan);
    let shared = plan.nics().map(|(_, nic)| shared(nic)).fold(0, u64::saturating_add);
    let spare = host.map_or(u64::MAX, |host| (host - host / HOST_RESERVE_DIVISOR).saturating_sub(own));
    Ceiling { memory: memory.unwrap_or_else(|| own.saturating_add(shared.min(spare))), tasks: tasks(plan) }
}

/// Memory of the run itself, whatever its guests, networks and peers do.
fn memory_of_run(plan: &Plan) -> u64 {
    let planes = 1 + plan.isolated().count() as u64;
    // Memory that the host's kernel uses for a kernel router is not charged to the run; the list of its routes is, for whoever asks.
    let asked = plan.in_kernel().filter(|router| router.control.is_some()).map(|_| CONTROL);
    let routers = machines(plan).map(memory_of_router).chain(plan.groups.iter().map(memory_of_group));
    let routers = routers.chain(asked);
    let own = PLANE.saturating_mul(planes).saturating_add(KERNEL_PORT.saturating_mul(kernel_ports(plan)));
    routers.fold(own, u64::saturating_add)
}

/// Number of ports of switches that lead to kernel routers, and by tunnels to other hosts.
fn kernel_ports(plan: &Plan) -> u64 {
    let nics = plan.in_kernel().flat_map(|router| &router.nics);
    (nics.filter(|nic| nic.attach.switch().is_some()).count() + plan.tunnel_ports().count()) as u64
}

fn memory_of_router(router: &Router) -> u64 {
    // A peer that was handed a router's RAM may still hold it when the next data plane allocates it anew.
    let is_lent = router.nics.iter().any(|nic| nic.attach.traits().is_handed);
    let ram = router.memory.saturating_mul(if is_lent { 2 } else { 1 });
    let queues = router.nics.iter().map(|nic| {
        let frames = u64::from(nic.queue_len.most()).saturating_mul(FRAME);
        frames.saturating_add(QUEUE).saturating_mul(router.outer_queues(nic) as u64)
    });
    let more = &router.forwarding;
    let routes = router.routes.len() + more.routes6.len() + more.spread.len() + more.refused.len();
    let long = LONG_ROUTE * u64::from(more.long_routes.unwrap_or_default());
    let (routes, tables) = (ROUTE.saturating_mul(routes as u64), (ROUTER + long) * router.tables() as u64);
    let control = router.control.as_ref().map_or(0, |_| memory_of_control(router));
    [ram, ram / PAGE_TABLES, routes, tables, control].into_iter().chain(queues).fold(0, u64::saturating_add)
}

/// Memory of what all members of a group share: the queues of its links, which are there whoever reads them.
fn memory_of_group(group: &Group) -> u64 {
    let of = |nic: &Nic| {
        let frames = u64::from(nic.queue_len.most()).saturating_mul(FRAME);
        frames.saturating_add(QUEUE).saturating_mul(group.wanted(nic).queues as u64)
    };
    group.pattern.nics.iter().map(of).fold(0, u64::saturating_add)
}

/// Memory of a control plane: shadows are queues as well.
fn memory_of_control(router: &Router) -> u64 {
    CONTROL.saturating_add(QUEUE.saturating_mul(router.nics.len() as u64))
}

/// Memory that belongs to a peer, but is charged to us if we touch it first.
fn shared(nic: &Nic) -> u64 {
    if nic.attach.traits().shares_memory { nic.memory_max } else { 0 }
}

fn tasks(plan: &Plan) -> u64 {
    let of = |router: &Router| {
        let process = if router.engine == Some(Engine::Process) { THREADS_OF_PROCESS } else { 0 };
        // The threads that serve the NICs of an isolated router are in the data plane.
        let isolated = if router.is_isolated() { THREADS + THREADS_OF_PLANE } else { 0 };
        THREADS + process + isolated
    };
    // What the control plane of a group says is moved by a thread for each NIC.
    let voices = plan.groups.iter().filter(|group| group.pattern.control.is_some());
    let voices = voices.map(|group| group.pattern.nics.len() as u64);
    machines(plan)
        .map(of)
        .chain(voices)
        .fold(THREADS_OF_PLANE + THREADS_OF_KERNEL_PORT * kernel_ports(plan), u64::saturating_add)
}

/// Routers that are machines, with memory and threads of the run; not kernel routers.
fn machines(plan: &Plan) -> impl Iterator<Item = &Router> {
    plan.routers.iter().filter(|router| !router.is_in_kernel())
}

fn both(one: Ceiling, other: Ceiling, memory: Option<u64>) -> Ceiling {
    Ceiling {
        memory: memory.unwrap_or_else(|| one.memory.saturating_add(other.memory)),
        tasks: one.tasks.saturating_add(other.tasks),
    }
}

/// A size as files write it, rounded up to MiB.
pub fn mib(octets: u64) -> String {
    format!("{} MiB", octets.div_ceil(MIB))
}

impl Ceilings {
    /// Creates the control groups for what `plan` needs, where the host allows them; `memory` is the owner's
    /// own ceiling.
    ///
    /// # Errors
    /// The owner wants a memory ceiling and the host offers none; or the process is out of descriptors.
    pub(super) fn begin(run: &str, plan: &Plan, memory: Option<u64>, lock: &RunLock) -> Result<Self> {
        let host = host::memory_total();
        let (bounds, errors) =
            CgroupLimits::make(run, &needed(plan, memory, host), Instant::now(), lock.journal()?);
        let troubles: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if let Some(full) = errors.into_iter().find(|error| error.is_out_of_descriptors()) {
            return Err(full.into());
        }
        if memory.is_some() && !bounds.sets(Resource::Memory) {
            let why = troubles.first().cloned().or_else(|| place(Resource::Memory).err());
            bail!("--memory-max: {}", why.unwrap_or_else(|| NOT_OURS.to_owned()));
        }
        Ok(Self { bounds, memory, host, troubles, ..Self::default() })
    }

    /// Moves a process into the control groups, before it is told anything.
    pub(super) fn enter(&mut self, process: u32) {
        if let Err(error) = self.bounds.enter(process) {
            self.troubles.push(error.to_string());
        }
    }

    /// Ceiling that a plan needs.
    fn needed(&self, plan: &Plan) -> Ceiling {
        needed(plan, self.memory, self.host)
    }

    /// Raises the ceilings for the time in which one plan replaces another: parts of both exist then.
    pub(super) fn allow_both(&mut self, from: &Plan, to: &Plan) {
        self.set(both(self.needed(from), self.needed(to), self.memory));
    }

    /// Sets the ceilings to what this plan alone needs.
    pub(super) fn follow(&mut self, plan: &Plan) {
        self.set(self.needed(plan));
    }

    fn set(&mut self, ceiling: Ceiling) {
        // The run may still hold more memory than that; then it is tried again.
        self.wanted = self.bounds.set(&ceiling).is_err().then_some(ceiling);
    }

    /// Number of times a ceiling was reached: processes killed, or threads refused.
    pub(super) fn times(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Memory => self.memory_told.times,
            Resource::Tasks => self.tasks_told.times,
        }
    }

    /// Looks at the kernel's counts and returns the lines to report.
    fn look(&mut self, now: Instant) -> Vec<String> {
        self.look = Some(now + LOOK);
        if let Some(wanted) = self.wanted.take() {
            self.set(wanted);
        }
        let mut lines = std::mem::take(&mut self.troubles);
        lines.extend(self.bounds.clear(now).iter().map(ToString::to_string));
        for reached in self.bounds.reached() {
            self.is_full |= reached.resource == Resource::Memory && reached.ceiling.is_some();
            let told = match reached.resource {
                Resource::Memory => &mut self.memory_told,
                Resource::Tasks => &mut self.tasks_told,
            };
            told.times = told.times.saturating_add(reached.times);
            told.news = told.news.saturating_add(reached.times);
            if told.at.is_none_or(|at| now >= at + PAUSE) {
                told.at = Some(now);
                lines.push(line(&Reached { times: std::mem::take(&mut told.news), ..reached }));
            }
        }
        lines
    }

    /// When to look next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.look
    }

    /// Removes the control groups; returns a line for each that could not be removed.
    pub(super) fn remove(&mut self) -> Vec<String> {
        self.bounds.remove().iter().map(ToString::to_string).collect()
    }
}

fn line(reached: &Reached) -> String {
    let Reached { resource, times, ceiling } = reached;
    match (resource, ceiling) {
        (Resource::Memory, Some(most)) => {
            let most = mib(*most);
            format!(
                "the run has reached its ceiling of memory, {most}: the kernel has ended {times} of its processes"
            )
        }
        (Resource::Memory, None) => {
            format!(
                "the host, or a group around the run, is out of memory: the kernel has ended {times} of its processes"
            )
        }
        (Resource::Tasks, most) => {
            let most = most.map_or_else(String::new, |most| format!(", {most}"));
            format!(
                "the run has reached its ceiling of tasks{most}: the kernel has refused {times} threads or processes"
            )
        }
    }
}

impl Supervisor {
    /// Checks from time to time whether a ceiling was reached.
    pub(super) fn attend_ceilings(&mut self, now: Instant) {
        if self.ceilings.look.is_none_or(|look| now >= look) {
            self.tell_of_ceilings(now);
        }
    }

    /// Renews the control groups after the death of a data plane that reached its ceiling: the next one must
    /// not pay for what is still charged to this one, which is memory that others hold and that it was the
    /// first to touch.
    pub(super) fn renew_ceilings(&mut self, now: Instant) {
        self.tell_of_ceilings(now);
        if !std::mem::take(&mut self.ceilings.is_full) {
            return;
        }
        let planes = self.isolated.values().filter_map(|isolated| isolated.lifecycle.plane.as_ref());
        let alive: Vec<u32> = planes.map(super::Plane::pid).collect();
        let renewed =
            self.lock.journal().and_then(|journal| Ok(self.ceilings.bounds.renew(&alive, now, journal)?));
        if let Err(error) = renewed {
            self.events.record(Kind::Notice, format!("{error:#}"));
        }
    }

    /// Reports ceilings that were reached; they may explain a death.
    pub(super) fn tell_of_ceilings(&mut self, now: Instant) {
        for line in self.ceilings.look(now) {
            self.events.record(Kind::Notice, line);
            self.display.leave();
        }
    }
}

#[cfg(test)]
mod tests;
