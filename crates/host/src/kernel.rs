//! Findings about what the kernel permits: schedulers, cgroups, privileges, limits.

use std::process::{Command, Output};
use std::time::Duration;

use config::{Policy, Reservation};
use rustix::fs::statfs;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use sched::{ceiling, try_policy};

use crate::{Finding, State, users};

/// `CGROUP2_SUPER_MAGIC` of `linux/magic.h`.
const CGROUP2: u64 = 0x6367_7270;
/// Descriptors needed by a run with some tens of routers, each with vCPUs, doorbells and interrupts.
const ENOUGH_FILES: u64 = 4096;
/// Reservation to try: 1 ms in every 100 ms.
const TRIED: Reservation = Reservation {
    runtime: Duration::from_millis(1),
    deadline: Duration::from_millis(100),
    period: Duration::from_millis(100),
    reclaim: false,
};

pub(crate) fn findings() -> Vec<Finding> {
    vec![
        scheduler("SCHED_FIFO", Policy::Fifo { priority: 1 }),
        scheduler("SCHED_DEADLINE", Policy::Deadline(TRIED)),
        cgroups(),
        autogroups(),
        ceilings(),
        root(),
        data_plane(),
        net_admin(),
        files(),
        locked_memory(),
    ]
}

fn scheduler(name: &'static str, policy: Policy) -> Finding {
    match try_policy(policy) {
        Ok(()) => {
            Finding::new(State::Ok, name, "permitted", "threads can be given a share that others cannot take")
        }
        Err(error) => Finding::new(State::Note, name, "refused", format!("{error}; threads share by weight")),
    }
}

fn cgroups() -> Finding {
    let name = "cgroups";
    match statfs("/sys/fs/cgroup") {
        Err(error) => {
            Finding::new(State::Note, name, "none", format!("/sys/fs/cgroup: {error}; no limits of CPU use"))
        }
        Ok(found) if found.f_type as u64 == CGROUP2 => {
            Finding::new(State::Ok, name, "version 2", "CPU use can be limited")
        }
        Ok(_) => Finding::new(State::Ok, name, "version 1", "CPU use can be limited"),
    }
}

/// Finding: is each session a scheduling group of its own? Linux 6.18 lets a busy group run on when its weight changes (upstream commit
/// 101f3498b4bd is the mend).
fn autogroups() -> Finding {
    let name = "autogroups";
    let setting = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
    match setting.trim() {
        "1" => Finding::new(
            State::Note,
            name,
            "on",
            "Linux 6.18 may stop its own threads for seconds beside a busy session: sysctl kernel.sched_autogroup_enabled=0",
        ),
        "0" => Finding::new(State::Ok, name, "off", "a session has no scheduling group of its own"),
        _ => Finding::new(State::Ok, name, "none", "the kernel has none"),
    }
}

/// Finding: can memory and tasks of a run be limited?
fn ceilings() -> Finding {
    let name = "ceilings";
    let found = ceiling::Resource::ALL.map(|resource| (resource, ceiling::place(resource)));
    let had = found.iter().filter(|(_, found)| found.is_ok()).map(|(resource, _)| resource.name());
    let had = had.collect::<Vec<_>>().join(", ");
    let missing = found.iter().filter_map(|(_, found)| found.as_ref().err());
    let missing = missing.map(String::as_str).collect::<Vec<_>>().join("; ");
    if missing.is_empty() {
        return Finding::new(State::Ok, name, had, "a run takes no more of them than its file needs at most");
    }
    let figure = if had.is_empty() { "none" } else { &had };
    Finding::new(
        State::Note,
        name,
        figure,
        format!("{missing}; else nothing bounds a run that is taken over"),
    )
}

fn root() -> Finding {
    let user = geteuid();
    if user.is_root() {
        return Finding::new(State::Ok, "user", "root", "namespaces and interfaces can be made");
    }
    let meaning = "not root: demo and TAP uplinks need it; run with sudo";
    Finding::new(State::No, "user", user.as_raw().to_string(), meaning)
}

/// Isolation that a data plane gets, found out by starting one as a probe.
fn data_plane() -> Finding {
    let name = "data plane";
    let mut command = Command::new("/proc/self/exe");
    command.args(["data-plane", "0", "--probe"]);
    if geteuid().is_root() {
        // The last number that a run would take; several processes may have it at once.
        command.arg(users::FREE.end().to_string());
    }
    let lines = |done: Output| String::from_utf8_lossy(&done.stdout).lines().collect::<Vec<_>>().join(", ");
    match command.output() {
        Ok(done) if done.status.success() && done.stdout.is_empty() => {
            let meaning = "it has a user (where root starts it), namespaces and an empty root of its own";
            Finding::new(State::Ok, name, "shut in", meaning)
        }
        Ok(done) if done.status.success() => {
            let meaning = format!("{}; the filters of its threads hold", lines(done));
            Finding::new(State::Note, name, "not shut in", meaning)
        }
        Ok(done) => Finding::new(
            State::No,
            name,
            "refused",
            String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default(),
        ),
        Err(error) => Finding::new(State::No, name, "unknown", format!("it cannot be started: {error}")),
    }
}

/// Finding: can interfaces be created and changed?
pub fn net_admin() -> Finding {
    let name = "CAP_NET_ADMIN";
    match capabilities(None) {
        Ok(sets) if sets.effective.contains(CapabilitySet::NET_ADMIN) => {
            Finding::new(State::Ok, name, "held", "interfaces can be made and changed")
        }
        Ok(_) => Finding::new(State::No, name, "missing", "no TAP interface can be made: run as root"),
        Err(error) => {
            Finding::new(State::No, name, "unknown", format!("capabilities cannot be read: {error}"))
        }
    }
}

fn files() -> Finding {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let enough = current.is_none_or(|most| most >= ENOUGH_FILES);
    let meaning = if enough { "for tens of routers" } else { "for a few routers; more with ulimit -n 4096" };
    let figure = format!("{} (at most {})", limit(current), limit(maximum));
    Finding::new(State::ok_or(enough, State::Note), "open files", figure, meaning)
}

fn locked_memory() -> Finding {
    let current = getrlimit(Resource::Memlock).current;
    let figure = current.map_or_else(|| limit(None), |octets| format!("{} MiB", octets >> 20));
    Finding::new(State::Ok, "locked memory", figure, "not needed by this version")
}

fn limit(value: Option<u64>) -> String {
    value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string())
}
