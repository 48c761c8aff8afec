//! NAPI threads of kernel routers: their names and identities, and their counters.

use std::collections::BTreeMap;

use kernel_router::NapiThread;
use sched::ThreadIdentity;
use sched::account::times;

use super::backend::Counted;
use crate::Supervisor;
use crate::thread_placement::ReportedThread;

/// NAPI thread of a kernel router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Napi {
    /// Name in `show` and `top`: `edge/wan-napi0`.
    pub(crate) name: String,
    /// NIC whose receive work it does.
    pub(crate) nic: String,
    /// Identity of the kernel thread.
    pub(crate) task: ThreadIdentity,
}

impl Napi {
    /// Returns the thread as the API presents it.
    pub(super) fn shown(&self) -> api::Thread {
        api::Thread { name: self.name.clone(), tid: self.task.tid }
    }
}

/// Returns the NAPI threads of a router, numbered for each NIC in the order of the kernel's NAPI IDs. `proc` is [`sched::stat`] or a
/// stand-in. A thread that has ended is left out.
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

/// Adds the counters of NAPI threads to those of their router: CPU time, `edge/wan-napi0.sleeps`, and `edge/wan-napi0.frames`. The
/// kernel counts frames only for the whole NIC, so each of its threads is assigned an equal part.
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

impl Supervisor {
    /// Returns the NAPI threads of all kernel routers as of the last check.
    pub(crate) fn napi_threads(&self) -> impl Iterator<Item = ReportedThread<'_>> {
        let napis = self.kernels.forwarders.values().flat_map(|known| &known.seen.threads);
        napis.map(|napi| (napi.name.as_str(), napi.task))
    }

    /// Returns the names of the kernel routers with a guarantee, whose counters are read ten times a second.
    pub(crate) fn kernels_promised(&self) -> Vec<String> {
        let promised = self.running.plan.in_kernel().filter(|router| router.guarantee.is_some());
        let names = promised.map(|router| router.name.clone());
        names.filter(|name| self.kernels.forwarders.contains_key(name)).collect()
    }
}

#[cfg(test)]
mod tests;
