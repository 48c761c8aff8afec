//! CPU time of the routers' threads, and the remaining time of a CPU, from the account that `top` shows (`sched::account`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use sched::account::{Account, Sample, Split, Thread, TimeCategory};

/// Process ID of `kthreadd`, the parent of all kernel threads.
const KTHREADD: u32 = 2;

/// Separator of the name of a group and the number of a member.
const MEMBER: char = '_';
/// Beginning of the names of balancers and of their threads.
const BALANCER: &str = "lb";
/// Beginning of the name of a group's own thread, `NAME/group`, which the kernel may have cut.
const GROUP: &str = "gr";

/// Reader of the CPU account.
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
    /// Opens a reader without cost for the watched threads; interrupts are accounted by the kernel's ticks.
    ///
    /// # Errors
    /// There is no /proc.
    pub(crate) fn by_ticks() -> Result<Self> {
        let account = Account::open(&[], &[]).context("cannot read /proc/stat")?;
        Ok(Self { account })
    }

    /// Opens a reader with the tracer, if the host has one: interrupts are accounted to the nanosecond, and excluded from the threads'
    /// time. The cost of the tracer is described in `docs/account.md`.
    ///
    /// # Errors
    /// There is no /proc.
    pub(crate) fn traced() -> Result<Self> {
        let mut reader = Self::by_ticks()?;
        // Without a tracer, ticks are used instead; `is_traced` tells.
        let _ = reader.account.trace();
        Ok(reader)
    }

    /// Returns true if the tracer is active.
    pub(crate) fn is_traced(&self) -> bool {
        self.account.is_traced()
    }

    /// Reads the cores and these threads.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub(crate) fn look(&mut self, threads: &[Thread]) -> Result<Sample> {
        self.account.watch(threads).context("cannot watch threads")?;
        Ok(self.account.sample())
    }
}

/// CPU shares by class of a router's threads; of all routers if none is named.
pub(crate) fn used(split: &Split, router: Option<usize>) -> Used {
    let mut used = Used::default();
    for (name, thread) in &split.threads {
        if router.is_some() && router != class(name).map(|(known, _)| known) {
            continue;
        }
        let share = thread.run / split.interval;
        match thread.column {
            TimeCategory::Guest => used.vcpu += share,
            TimeCategory::Vhost => used.vhost += share,
            TimeCategory::Other => {}
        }
    }
    used
}

/// Stage of a multistage group that a thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A balancer: a thread of the run (`NAME/lb0`), or a virtual machine (`NAME_lb0`).
    Balancer,
    /// A back end: `NAME_0`.
    BackEnd,
}

/// Class of a router's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A vCPU.
    Vcpu,
    /// Any other thread: it moves frames.
    Mover,
}

/// Returns the stage and class of a thread of a multistage group; `None` for threads of no stage, such as the group's own.
pub(crate) fn stage(name: &str) -> Option<(Stage, Class)> {
    let (router, role) = name.split_once('/')?;
    let class = if role.starts_with("vc") { Class::Vcpu } else { Class::Mover };
    match router.split_once(MEMBER) {
        Some((_, member)) if member.starts_with(BALANCER) => Some((Stage::Balancer, class)),
        Some(_) => Some((Stage::BackEnd, class)),
        None => role.starts_with(BALANCER).then_some((Stage::Balancer, class)),
    }
}

/// CPU shares of the threads of a stage.
pub(crate) fn of_stage(split: &Split, wanted: Stage) -> Used {
    let mut used = Used::default();
    for (name, thread) in &split.threads {
        match stage(name) {
            Some((found, Class::Vcpu)) if found == wanted => used.vcpu += thread.run / split.interval,
            Some((found, Class::Mover)) if found == wanted => used.vhost += thread.run / split.interval,
            _ => {}
        }
    }
    used
}

/// CPU share of the own threads of groups, which probe members: `NAME/group`.
pub(crate) fn of_groups(split: &Split) -> f64 {
    let is_own = |name: &str| {
        let role = name.split_once('/').map_or("", |(_, role)| role);
        role.starts_with(GROUP) && class(name).is_some() && member(name).is_empty()
    };
    let own = split.threads.iter().filter(|(name, _)| is_own(name));
    own.map(|(_, thread)| thread.run / split.interval).sum()
}

/// Shares of a CPU in softirqs, and idle.
pub(crate) fn of_cpu(split: &Split, cpu: usize) -> Option<[f64; 2]> {
    let core = split.cores.get(&u32::try_from(cpu).ok()?)?;
    Some([core.softirq, core.idle].map(|ns| ns / split.interval))
}

/// Shares of a CPU in interrupts (handlers and softirqs together), and idle.
pub(crate) fn interrupts_of(split: &Split, cpu: usize) -> Option<[f64; 2]> {
    let core = split.cores.get(&u32::try_from(cpu).ok()?)?;
    Some([core.irq + core.softirq, core.idle].map(|ns| ns / split.interval))
}

/// Busy time of a CPU, as fractions of the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Busy {
    /// Kernel: interrupts, system calls, kernel threads.
    pub(crate) kernel: f64,
    /// Programs and guests.
    pub(crate) user: f64,
    /// Sum of both.
    pub(crate) total: f64,
}

/// Returns the busy time of a CPU. The time of vhost threads is divided into kernel and user in proportion to their ticks.
pub(crate) fn busy(split: &Split, cpu: usize) -> Option<Busy> {
    let number = u32::try_from(cpu).ok()?;
    let core = split.cores.get(&number)?;
    let there = split.threads.values().filter(|thread| thread.cpu == number);
    let of_vhost = there.filter(|thread| thread.column == TimeCategory::Vhost);
    let (run, system) =
        of_vhost.fold((0.0, 0.0), |(run, system), thread| (run + thread.run, system + thread.system));
    let part = if run > 0.0 { (system / run).min(1.0) } else { 0.0 };
    let kernel = core.kernel + core.irq + core.softirq + core.vhost * part;
    let user = core.user + core.guest + core.vhost * (1.0 - part);
    let of = |ns: f64| ns / split.interval;
    Some(Busy { kernel: of(kernel), user: of(user), total: of(kernel + user) })
}

/// Returns the router to which a thread of this name belongs.
pub(crate) fn router(name: &str) -> Option<usize> {
    class(name).map(|(router, _)| router)
}

/// Returns what follows the name of the group in that of the member or balancer to which a thread belongs (`_0`, `_lb0`); empty for
/// other threads.
pub(crate) fn member(name: &str) -> &str {
    let router = name.split('/').next().unwrap_or_default();
    router.find(MEMBER).and_then(|at| router.get(at..)).unwrap_or_default()
}

/// Lists the routers' threads in the processes descended from the supervisor.
///
/// # Errors
/// There is no /proc.
pub(crate) fn threads(supervisor: u32) -> Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for process in processes(supervisor)? {
        // A process that has just ended uses no more time.
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        threads.extend(tasks.flatten().filter_map(|task| thread(process, &task.path())));
    }
    Ok(threads)
}

/// Lists the threads of vhost-net, of any process, where they are kernel threads: up to Linux 6.3.
///
/// # Errors
/// There is no /proc.
pub(crate) fn of_kernel() -> Result<Vec<Thread>> {
    let of_kernel = parents()?.into_iter().filter(|(_, parent)| *parent == KTHREADD);
    Ok(of_kernel.filter_map(|(id, _)| thread(id, Path::new(&format!("/proc/{id}/task/{id}")))).collect())
}

/// Lists the NAPI threads of the interfaces for which `router` returns a router. The kernel names such a thread after its
/// interface.
///
/// # Errors
/// There is no /proc.
pub(crate) fn of_napi(router: impl Fn(&str) -> Option<usize>) -> Result<Vec<Thread>> {
    let entries = fs::read_dir("/proc").context("cannot read /proc")?.flatten();
    let thread = |entry: fs::DirEntry| {
        let tid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let comm = fs::read_to_string(entry.path().join("comm")).ok()?;
        napi(comm.trim(), tid, &router)
    };
    Ok(entries.filter_map(thread).collect())
}

/// Returns a NAPI thread, `napi/INTERFACE-NUMBER`, under a name from which [`router`] derives its router.
fn napi(comm: &str, tid: i32, router: impl Fn(&str) -> Option<usize>) -> Option<Thread> {
    let (interface, _) = comm.strip_prefix("napi/")?.rsplit_once('-')?;
    let letter = char::from(b'a' + u8::try_from(router(interface)? % 26).ok()?);
    Some(Thread { name: format!("l{letter}/{comm}#{tid}"), pid: tid, tid, column: TimeCategory::Vhost })
}

/// Returns true if the name is that of a vhost-net thread: `vhost-N`, where N is the ID of the thread that owns the device.
pub(crate) fn is_vhost_net(name: &str) -> bool {
    let number = name.split('#').next().and_then(|name| name.strip_prefix("vhost-"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|octet| octet.is_ascii_digit()))
}

/// Returns the CPU time so far of all threads of a process and its descendants, whatever they are called.
///
/// # Errors
/// There is no /proc.
pub(crate) fn of_all(first: u32) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for process in processes(first)? {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        let stats = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
        sum += stats.filter_map(|stat| ran(&stat)).sum::<Duration>();
    }
    Ok(sum)
}

/// Parses the time that a thread has run out of its `schedstat`: the first number, in nanoseconds.
fn ran(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().next()?.parse().ok()?))
}

/// Returns a process and all its descendants.
///
/// # Errors
/// There is no /proc.
pub(crate) fn processes(first: u32) -> Result<Vec<u32>> {
    let parents = parents()?;
    let mut found = vec![first];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        at += 1;
    }
    Ok(found)
}

/// Lists all processes, each with its parent.
fn parents() -> Result<Vec<(u32, u32)>> {
    let with_parent = |entry: fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((process, parent(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
    };
    Ok(fs::read_dir("/proc").context("cannot read /proc")?.flatten().filter_map(with_parent).collect())
}

/// Parses the parent out of a process's `stat`: behind the name, which may contain any character, follow state and parent.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Describes one thread if it belongs to a router or to vhost-net. Names are cut at 15 octets, so the thread ID is appended to the
/// name.
fn thread(process: u32, task: &Path) -> Option<Thread> {
    let tid = task.file_name()?.to_str()?.parse().ok()?;
    let name = fs::read_to_string(task.join("comm")).ok()?;
    let known = class(name.trim()).map(|(_, column)| column);
    let column = known.or_else(|| is_vhost_net(name.trim()).then_some(TimeCategory::Vhost))?;
    Some(Thread { name: format!("{}#{tid}", name.trim()), pid: process.cast_signed(), tid, column })
}

/// Router of a thread, and the column that its time counts in: `ROUTER/vcpu0`, or any other thread of a router.
fn class(name: &str) -> Option<(usize, TimeCategory)> {
    let (router, role) = name.split_once('/')?;
    // Members of a group have its name and a number.
    let router = router.split_once(MEMBER).map_or(router, |(group, _)| group);
    let letter =
        router.bytes().last().filter(|letter| router.starts_with('l') && letter.is_ascii_lowercase())?;
    let column = if role.starts_with("vc") { TimeCategory::Guest } else { TimeCategory::Vhost };
    Some((usize::from(letter - b'a'), column))
}

#[cfg(test)]
mod tests;
