//! What the routers' threads took, and what was left of a CPU, by the account that `top` shows (`sched::account`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sched::account::{Account, Column, Sample, Split, Thread};

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// Reader of the account.
pub(crate) struct Reader {
    account: Account,
}

/// Shares of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) vcpu: f64,
    pub(crate) vhost: f64,
}

impl Reader {
    /// Costs the watched nothing; interrupts are told apart by the kernel's ticks.
    ///
    /// # Errors
    /// There is no /proc.
    pub(crate) fn by_ticks() -> Result<Self> {
        let account = Account::open(&[], &[]).context("cannot read /proc/stat")?;
        Ok(Self { account })
    }

    /// With the tracer, if the host has one: interrupts to the nanosecond, and none of their time in that of threads. What it
    /// costs says `docs/account.md`.
    ///
    /// # Errors
    /// There is no /proc.
    pub(crate) fn traced() -> Result<Self> {
        let mut reader = Self::by_ticks()?;
        // Without one ticks have to do, and `is_traced` says so.
        let _ = reader.account.trace();
        Ok(reader)
    }

    /// Whether there is a tracer.
    pub(crate) fn is_traced(&self) -> bool {
        self.account.is_traced()
    }

    /// Cores and these threads as they are now.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn look(&mut self, threads: &[Thread]) -> Result<Sample> {
        self.account.watch(threads).context("cannot watch threads")?;
        Ok(self.account.sample())
    }
}

/// What each class of a router's threads took; of all routers if none is named.
pub(crate) fn used(split: &Split, router: Option<usize>) -> Used {
    let mut used = Used::default();
    for (name, thread) in &split.threads {
        if router.is_some() && router != class(name).map(|(known, _)| known) {
            continue;
        }
        let share = thread.run / split.interval;
        match thread.column {
            Column::Guest => used.vcpu += share,
            Column::Vhost => used.vhost += share,
            Column::Other => {}
        }
    }
    used
}

/// Shares of a CPU that were softirq, and idle.
pub(crate) fn of_cpu(split: &Split, cpu: usize) -> Option<[f64; 2]> {
    let core = split.cores.get(&u32::try_from(cpu).ok()?)?;
    Some([core.softirq, core.idle].map(|ns| ns / split.interval))
}

/// Shares of a CPU that were interrupts, handlers and softirqs together, and idle.
pub(crate) fn interrupts_of(split: &Split, cpu: usize) -> Option<[f64; 2]> {
    let core = split.cores.get(&u32::try_from(cpu).ok()?)?;
    Some([core.irq + core.softirq, core.idle].map(|ns| ns / split.interval))
}

/// The routers' threads in the processes that this one has started.
///
/// # Errors
/// There is no /proc.
pub(crate) fn threads(supervisor: u32) -> Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for process in processes(supervisor)? {
        // Who ends meanwhile takes nothing more.
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        threads.extend(tasks.flatten().filter_map(|task| thread(process, &task.path())));
    }
    Ok(threads)
}

/// The threads by which the kernel's vhost-net works for anybody, where they are threads of the kernel: up to Linux 6.3.
///
/// # Errors
/// There is no /proc.
pub(crate) fn of_kernel() -> Result<Vec<Thread>> {
    let of_kernel = parents()?.into_iter().filter(|(_, parent)| *parent == KTHREADD);
    Ok(of_kernel.filter_map(|(id, _)| thread(id, Path::new(&format!("/proc/{id}/task/{id}")))).collect())
}

/// Whether a thread of this name is one by which vhost-net works: `vhost-N`, by the number of the thread that owns the device.
pub(crate) fn is_vhost_net(name: &str) -> bool {
    let number = name.split('#').next().and_then(|name| name.strip_prefix("vhost-"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|octet| octet.is_ascii_digit()))
}

/// This process and what it started, down to the last one.
fn processes(first: u32) -> Result<Vec<u32>> {
    let parents = parents()?;
    let mut found = vec![first];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        at += 1;
    }
    Ok(found)
}

/// All processes, each with its parent.
fn parents() -> Result<Vec<(u32, u32)>> {
    let with_parent = |entry: fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((process, parent(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
    };
    Ok(fs::read_dir("/proc").context("cannot read /proc")?.flatten().filter_map(with_parent).collect())
}

/// The parent of a process by its `stat`: behind the name, which may hold anything, state and parent.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// One thread, if it is one of a router's, or of vhost-net's. Names are cut at 15 octets, so that its number is part of the name here.
fn thread(process: u32, task: &Path) -> Option<Thread> {
    let tid = task.file_name()?.to_str()?.parse().ok()?;
    let name = fs::read_to_string(task.join("comm")).ok()?;
    let known = class(name.trim()).map(|(_, column)| column);
    let column = known.or_else(|| is_vhost_net(name.trim()).then_some(Column::Vhost))?;
    Some(Thread { name: format!("{}#{tid}", name.trim()), pid: process.cast_signed(), tid, column })
}

/// The router of a thread, and what its time counts as: `ROUTER/vcpu0`, or any other thread of a router.
fn class(name: &str) -> Option<(usize, Column)> {
    let (router, role) = name.split_once('/')?;
    let letter =
        router.bytes().last().filter(|letter| router.starts_with('l') && letter.is_ascii_lowercase())?;
    let column = if role.starts_with("vc") { Column::Guest } else { Column::Vhost };
    Some((usize::from(letter - b'a'), column))
}

#[cfg(test)]
mod tests;
