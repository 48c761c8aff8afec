//! What the routers' threads took of a CPU, from the scheduler's own sums (`/proc/PID/task/TID/schedstat`), and what was left
//! of a CPU, from the kernel's ticks (`/proc/stat`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

/// Ticks of `/proc/stat` a second (USER_HZ).
const TICKS: f64 = 100.0;

/// A look at the clocks.
pub(super) struct Look {
    at: Instant,
    /// Nanoseconds of each thread: its number, its router, whether it is a vCPU.
    threads: BTreeMap<u32, (Thread, u64)>,
    cpus: BTreeMap<usize, Ticks>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    router: usize,
    is_vcpu: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    softirq: f64,
    idle: f64,
}

/// Shares of one CPU between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    pub(super) vcpu: f64,
    pub(super) vhost: f64,
}

impl Look {
    /// Looks at the threads of all processes that this one started.
    ///
    /// # Errors
    /// There is no /proc.
    pub(super) fn at(supervisor: u32) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let mut threads = BTreeMap::new();
        for process in processes(supervisor)? {
            // Who ends meanwhile took nothing more.
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            for task in tasks.flatten().map(|entry| entry.path()) {
                threads.extend(thread(&task));
            }
        }
        Ok(Self { at: Instant::now(), threads, cpus: cpus(&stat) })
    }

    /// What each class of a router's threads took since an earlier look; of all routers if none is named.
    pub(super) fn used_since(&self, before: &Self, router: Option<usize>) -> Used {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let mut used = Used::default();
        for (number, (thread, now)) in &self.threads {
            if router.is_some_and(|router| router != thread.router) {
                continue;
            }
            let then = before.threads.get(number).map_or(0, |(_, then)| *then);
            let share = now.saturating_sub(then) as f64 * 1e-9 / seconds;
            *(if thread.is_vcpu { &mut used.vcpu } else { &mut used.vhost }) += share;
        }
        used
    }

    /// Shares of a CPU that were softirq, and idle.
    pub(super) fn of_cpu_since(&self, before: &Self, cpu: usize) -> Option<[f64; 2]> {
        let (now, then) = (self.cpus.get(&cpu)?, before.cpus.get(&cpu)?);
        let ticks = self.at.duration_since(before.at).as_secs_f64() * TICKS;
        Some([now.softirq - then.softirq, now.idle - then.idle].map(|share| (share / ticks).clamp(0.0, 1.0)))
    }
}

/// This process and what it started, down to the last one.
fn processes(first: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        parents.extend(parent(&stat).map(|parent| (process, parent)));
    }
    let mut found = vec![first];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        at += 1;
    }
    Ok(found)
}

/// The parent of a process by its `stat`: behind the name, which may hold anything, state and parent.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// One thread, if it is one of a router's, and the nanoseconds that it has run.
fn thread(task: &Path) -> Option<(u32, (Thread, u64))> {
    let number = task.file_name()?.to_str()?.parse().ok()?;
    let name = fs::read_to_string(task.join("comm")).ok()?;
    let ran = fs::read_to_string(task.join("schedstat")).ok()?;
    let ran = ran.split_whitespace().next()?.parse().ok()?;
    Some((number, (class(name.trim())?, ran)))
}

/// `ROUTER/vcpu0`, or any other thread of a router. Names are cut at 15 octets.
fn class(name: &str) -> Option<Thread> {
    let (router, role) = name.split_once('/')?;
    let letter =
        router.bytes().last().filter(|letter| router.starts_with('l') && letter.is_ascii_lowercase())?;
    Some(Thread { router: usize::from(letter - b'a'), is_vcpu: role.starts_with("vc") })
}

/// `cpuN user nice system idle iowait irq softirq …`.
fn cpus(stat: &str) -> BTreeMap<usize, Ticks> {
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        Some((cpu, Ticks { softirq: *ticks.get(6)?, idle: *ticks.get(3)? }))
    };
    stat.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_by_their_names() {
        let of = |name| class(name).map(|thread| (thread.router, thread.is_vcpu));
        assert_eq!(of("l1f2-0a/vcpu0"), Some((0, true)));
        assert_eq!(of("l1f2b-10b/vcpu"), Some((1, true)));
        assert_eq!(of("l1f2-0h/near-rx"), Some((7, false)));
        assert_eq!((of("ringroad/clock"), of("ksoftirqd/1"), of("l1f2-0")), (None, None, None));
    }

    #[test]
    fn what_is_read_of_proc_is_what_it_says() {
        assert_eq!(parent("12 (a name) with) R 7 12 0"), Some(7));
        assert_eq!(parent("12"), None);
        let read = cpus("cpu  1 2 3 4 5 6 7\ncpu1 10 20 30 40 50 60 70 0 0 0\nintr 5\n");
        assert_eq!(read.into_iter().collect::<Vec<_>>(), [(1, Ticks { softirq: 70.0, idle: 40.0 })]);
    }

    #[test]
    fn a_thread_that_runs_is_seen_running_and_its_process_among_the_parents() {
        let me = std::process::id();
        assert!(processes(me).unwrap().contains(&me));
        let worker = std::thread::Builder::new().name("l0-0c/vcpu0".to_owned());
        let (say, hear) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let burn = worker.spawn(move || {
            say.send(()).unwrap();
            while wait.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {}
        });
        hear.recv().unwrap();
        let before = Look::at(me).unwrap();
        let mut used = Used::default();
        let patience = Instant::now() + std::time::Duration::from_secs(20);
        while used.vcpu == 0.0 && Instant::now() < patience {
            used = Look::at(me).unwrap().used_since(&before, Some(2));
        }
        assert!(used.vcpu > 0.0 && used.vhost == 0.0, "{used:?}");
        assert_eq!(Look::at(me).unwrap().used_since(&before, Some(0)), Used::default());
        end.send(()).unwrap();
        burn.unwrap().join().unwrap();
    }
}
