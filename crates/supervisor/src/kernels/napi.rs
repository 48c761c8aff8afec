//! NAPI threads of kernel routers: their names and tasks, their counters, and the offloads of a container's pairs that they need.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kernel_router::{NapiThread, go_by_napi};
use netlink::{Generic, Netlink};
use netns::Namespace;
use rustix::time::{ClockId, clock_gettime};
use sched::ThreadIdentity;
use sched::account::times;

use super::ground::Counted;
use crate::Supervisor;
use crate::thread_placement::ReportedThread;

/// A NAPI thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Napi {
    /// Its name in `show` and `top`: `edge/wan-napi0`.
    pub(crate) name: String,
    /// The NIC whose receive work it does.
    pub(crate) nic: String,
    /// The thread.
    pub(crate) task: ThreadIdentity,
}

impl Napi {
    /// The thread as the API shows it.
    pub(super) fn shown(&self) -> api::Thread {
        api::Thread { name: self.name.clone(), tid: self.task.tid }
    }
}

/// The NAPI threads of a router, numbered for each NIC in the order of the kernel's NAPI ids. `proc` returns what [`sched::stat`] does.
/// A thread that has ended is left out.
pub(super) fn of_router(
    router: &str,
    mut threads: Vec<NapiThread>,
    proc: impl Fn(i32, i32) -> Option<String>,
) -> Vec<Napi> {
    threads.sort_by(|a, b| (&a.interface, a.napi).cmp(&(&b.interface, b.napi)));
    let mut queues: BTreeMap<String, u32> = BTreeMap::new();
    let napi = |thread: NapiThread| {
        let queue = queues.entry(thread.interface.clone()).or_default();
        let name = format!("{router}/{}-napi{queue}", thread.interface);
        *queue += 1;
        let task = ThreadIdentity::named_in_kernel(&proc, thread.tid, &thread.name)?;
        Some(Napi { name, nic: thread.interface, task })
    };
    threads.into_iter().filter_map(napi).collect()
}

/// Adds the counters of NAPI threads to those of their router: CPU time, `edge/wan-napi0.sleeps`, and `edge/wan-napi0.frames`, which the
/// kernel counts only for the NIC: its threads are taken to have equal parts.
pub(super) fn count(router: &str, napis: &[Napi], counted: &mut Counted) {
    for napi in napis.iter().filter(|napi| napi.task.is_there()) {
        let Some(times) = times(napi.task.pid, napi.task.tid) else { continue };
        let queues = napis.iter().filter(|other| other.nic == napi.nic).count() as u64;
        let frames = counted.counters.get(&format!("{router}.{}.rx.frames", napi.nic)).copied();
        let frames = frames.unwrap_or(0) / queues.max(1);
        counted.counters.insert(format!("{}.frames", napi.name), frames);
        counted.counters.insert(format!("{}.sleeps", napi.name), times.sleeps);
        counted.cpu_ns.insert(napi.name.clone(), times.run_ns);
    }
}

/// Sets the offloads of pairs that LXC has created, each by the name of its end in the container and of its end on the host, so that
/// their frames go through NAPI.
///
/// # Errors
/// One line: an end is not where LXC has put it, or the kernel refuses.
pub(super) fn prepare(container: &Namespace, pairs: &[(String, String)]) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let (inside, outside) =
        (container.netlink()?, Netlink::open().context("a socket to the host's interfaces")?);
    let (own, other) = (container.within(Generic::open)??, Generic::open()?);
    for (interface, end) in pairs {
        let set = || {
            let (receiver, sender) =
                (inside.link(interface.as_str())?.index, outside.link(end.as_str())?.index);
            go_by_napi((&own, receiver), (&other, sender), true)
        };
        set().with_context(|| format!("setting the offloads of the pair of `{interface}` and `{end}`"))?;
    }
    Ok(())
}

/// Frames that were lost before the pairs of a container because their queues were full, by NIC.
pub(super) fn lost_before(pairs: &[(String, String)]) -> BTreeMap<String, u64> {
    let Some(outside) = (!pairs.is_empty()).then(Netlink::open).and_then(Result::ok) else {
        return BTreeMap::new();
    };
    let dropped = |end: &String| Some(outside.statistics_of(end.as_str()).ok()?.tx_dropped);
    pairs.iter().filter_map(|(nic, end)| Some((nic.clone(), dropped(end)?))).collect()
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

impl Supervisor {
    /// The NAPI threads of all kernel routers from the last check.
    pub(crate) fn napi_threads(&self) -> impl Iterator<Item = ReportedThread<'_>> {
        let napis = self.kernels.forwarders.values().flat_map(|known| &known.seen.threads);
        napis.map(|napi| (napi.name.as_str(), napi.task))
    }

    /// Names of the kernel routers that have a guarantee: their counters are read ten times a second.
    pub(crate) fn kernels_promised(&self) -> Vec<String> {
        let promised = self.running.plan.in_kernel().filter(|router| router.guarantee.is_some());
        let names = promised.map(|router| router.name.clone());
        names.filter(|name| self.kernels.forwarders.contains_key(name)).collect()
    }
}

#[cfg(test)]
mod tests;
