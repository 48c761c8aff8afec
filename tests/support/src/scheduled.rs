//! Scheduling parameters of threads, from `/proc` and chrt(1).

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::threads_of;
use crate::running::run;

/// Timeout of `chrt` and `ringroad show`, generous for software emulation on a busy host.
const LIMIT: Duration = Duration::from_secs(60);

/// Scheduling parameters of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// CPUs of its affinity mask, as a list.
    pub cpus: String,
    /// Policy, such as `SCHED_FIFO`.
    pub policy: String,
    /// Real-time priority; 0 for other policies.
    pub priority: u32,
    /// Runtime, deadline and period in ns; empty without a reservation.
    pub reserved: Vec<u64>,
}

impl Scheduled {
    /// Reads those of the thread with this ID; none if it has ended.
    pub fn read(tid: u32) -> Option<Self> {
        let cpus = allowed_cpus(tid)?;
        let said = run(Command::new("chrt").args(["-p", &tid.to_string()]), LIMIT).ok()?.stdout;
        let field = |name: &str| {
            let line = said.lines().find(|line| line.contains(name))?;
            Some(line.rsplit(": ").next()?.trim().to_owned())
        };
        let policy = field("scheduling policy")?.split('|').next()?.to_owned();
        let reserved = field("runtime/deadline/period").unwrap_or_default();
        let reserved = reserved.split('/').filter_map(|number| number.parse().ok()).collect();
        Some(Self { cpus, policy, priority: field("scheduling priority")?.parse().ok()?, reserved })
    }

    /// Reads those of all threads of a router of a run that `binary` started, by name; empty while there is no data plane.
    ///
    /// # Errors
    /// The run does not answer, or answers in an unexpected way.
    pub fn of_router(binary: &str, router: &str) -> Result<BTreeMap<String, Self>> {
        let of = |(tid, name): (u32, String)| Some((name, Self::read(tid)?));
        Ok(router_threads(binary, router)?.into_iter().filter_map(of).collect())
    }
}

/// CPUs of a thread's affinity mask, as a list; none if it has ended.
pub fn allowed_cpus(tid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned())
}

/// ID and name of all threads of a router that are placed: those that the run reports, and vCPUs in a process of their own.
///
/// # Errors
/// The run does not answer, or answers in an unexpected way.
pub fn router_threads(binary: &str, router: &str) -> Result<Vec<(u32, String)>> {
    let done = run(Command::new(binary).args(["show", router, "--json"]), LIMIT)?;
    if done.stderr.contains("ask again") {
        return Ok(Vec::new());
    }
    let shown: Value = serde_json::from_str(&done.stdout).with_context(|| format!("{done:?}"))?;
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let named = shown["status"]["threads"].as_array().context("no threads")?.iter();
    let named =
        named.filter_map(|thread| Some((number(&thread["tid"])?, thread["name"].as_str()?.to_owned())));
    let process = number(&shown["status"]["pid"]);
    let vcpus = process.into_iter().flat_map(|pid| threads_of(pid).unwrap_or_default());
    let vcpus = vcpus.filter(|(_, name)| name.contains("/vcpu"));
    Ok(named.chain(vcpus).filter(|(_, name)| !name.ends_with("/bus")).collect())
}
