//! Control groups of both versions: where they are mounted, and how threads enter them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use config::{Policy, Shares};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::attr;
use crate::exclusive_cpus::PARTITION;

/// `cpu.shares` of a group of weight 1: that of one thread of nice 0.
const SHARES: u64 = 1024;
/// Period of quotas, in µs, if it leaves at least the kernel's minimum quota of 1 ms. It is short to keep
/// queues short.
const PERIOD_US: u64 = 10_000;
/// Period of the smallest quotas, in µs.
const LONG_PERIOD_US: u64 = 100_000;
/// Kernel's minimum quota, in µs.
const LEAST_QUOTA_US: u64 = 1000;

/// Version of the control group interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all controllers; single threads can be placed in `threaded` groups.
    V2,
}

impl Version {
    /// Control file of a group that lists threads, and moves those written to it.
    pub(crate) const fn threads(self) -> &'static str {
        match self {
            Self::V1 => "tasks",
            Self::V2 => "cgroup.threads",
        }
    }
}

/// Place where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Version of the interface.
    pub version: Version,
    /// Group in which ours are made.
    pub base: PathBuf,
    /// Group of this process, to which threads return.
    pub home: PathBuf,
}

impl Hierarchy {
    /// Finds the hierarchy of this controller in which this process may make groups, or says why there is
    /// none.
    pub(crate) fn find(controller: &str) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let found = locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?, controller)
            .ok_or_else(|| format!("no cgroup hierarchy with the controller {controller} is mounted"))?;
        let found = found.usable(controller)?;
        access(&found.base, Access::WRITE_OK)
            .map_err(|error| format!("{} cannot be written: {error}", found.base.display()))?;
        Ok(found)
    }

    /// Returns this hierarchy if the controller can be used in it.
    pub(crate) fn usable(self, controller: &str) -> Result<Self, String> {
        let base = self.base.display();
        match self.version {
            // Only the root has this file.
            Version::V1 if controller == "cpuset" && !self.base.join("cgroup.sane_behavior").exists() => {
                Err(format!("{base} is not the root of all cpusets, which is what balances load"))
            }
            Version::V1 => Ok(self),
            Version::V2 => {
                let held = fs::read_to_string(self.base.join("cgroup.controllers")).unwrap_or_default();
                if !held.split_whitespace().any(|held| held == controller) {
                    return Err(format!(
                        "the control group {base} has not got the controller {controller} (systemd: Delegate=yes)"
                    ));
                }
                if controller == "cpuset" && !may_hold_partitions(&self.base) {
                    return Err(format!(
                        "the control group {base} is neither the root nor a partition (cpuset.cpus.partition), and only in \
                         such can another one be made"
                    ));
                }
                Ok(self)
            }
        }
    }
}

impl Hierarchy {
    /// Returns the reason why groups below this one cannot contain kernel threads, if so. In version 2 a thread has to stay below the
    /// group of its process (`cgroup_attach_permissions` of kernel/cgroup/cgroup.c), and kernel threads are in the root group.
    pub(crate) fn refuses_kernel(&self) -> Option<String> {
        // Only the root group has no such file.
        let is_below = self.version == Version::V2 && self.base.join("cgroup.type").exists();
        is_below.then(|| {
            format!(
                "kernel threads are in the root control group (version 2), and cannot enter groups below {}",
                self.base.display()
            )
        })
    }

    /// Smallest quota of this group and those above it, with its period, in µs, if ours must not exceed it. Version 1 refuses a larger
    /// one below it (`tg_cfs_schedulable_down` of kernel/sched/core.c); in version 2 the smaller one applies.
    pub(crate) fn quota_us(&self) -> Option<(u64, u64)> {
        if self.version == Version::V2 {
            return None;
        }
        let read = |group: &Path, file: &str| -> Option<i64> {
            fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
        };
        let of = |group: &Path| Some((read(group, "cpu.cfs_quota_us")?, read(group, "cpu.cfs_period_us")?));
        // Above the mount point no folder has such files. A quota of -1 is no limit.
        let limits = self.base.ancestors().map_while(of);
        let limits = limits
            .filter_map(|(quota, period)| Some((u64::try_from(quota).ok()?, u64::try_from(period).ok()?)));
        let product = |quota: u64, period: u64| u128::from(quota) * u128::from(period);
        limits.min_by(|a, b| product(a.0, b.1).cmp(&product(b.0, a.1)))
    }
}

/// Returns true if a v2 group may contain partitions. The root has no file that says so. Since Linux 6.7 a
/// group that was given CPUs of its own (`cpuset.cpus.exclusive`) may contain them as well.
fn may_hold_partitions(base: &Path) -> bool {
    let is_partition = |state: &str| matches!(state.trim(), "root" | "isolated");
    let has_own = || {
        let own = fs::read_to_string(base.join("cpuset.cpus.exclusive"));
        own.is_ok_and(|cpus| !cpus.trim().is_empty())
    };
    fs::read_to_string(base.join(PARTITION)).map_or(true, |state| is_partition(&state) || has_own())
}

/// Finds a controller's hierarchy in `/proc/self/mountinfo`, and the own group of `/proc/self/cgroup` in it.
pub(crate) fn locate(mounts: &str, own: &str, controller: &str) -> Option<Hierarchy> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let mut unified = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let (&[_, _, _, root, point, ..], &[kind, _, options, ..]) = (left.as_slice(), right.as_slice())
        else {
            continue;
        };
        let group = |is_it: &dyn Fn(&str) -> bool| {
            let mut fields = own.lines().map(|line| line.splitn(3, ':').skip(1));
            let own =
                fields.find_map(|mut line| Some((line.next()?, line.next()?)).filter(|own| is_it(own.0)))?.1;
            Some(Path::new(point).join(Path::new(own).strip_prefix(root).unwrap_or(Path::new(""))))
        };
        if kind == "cgroup" && has(options) {
            let home = group(&has)?;
            let base = if controller == "cpuset" { PathBuf::from(point) } else { home.clone() };
            return Some(Hierarchy { version: Version::V1, base, home });
        }
        if kind == "cgroup2" && unified.is_none() {
            unified = group(&str::is_empty);
        }
    }
    unified.map(|home| Hierarchy { version: Version::V2, base: home.clone(), home })
}

/// Makes a group, unless it exists, and lets it hold single threads.
pub(crate) fn make(path: &Path, version: Version) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let kind = path.join("cgroup.type");
    if version == Version::V2 && fs::read_to_string(&kind)?.trim() != "threaded" {
        write(&kind, "threaded")?;
    }
    Ok(())
}

/// Writes a value to a control file.
pub(crate) fn write(path: &Path, value: &str) -> io::Result<()> {
    // Opened without O_CREAT, so that the error for a missing file is clear.
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, value.as_bytes())
}

/// Sets a group's weight and quota.
pub(crate) fn weigh(path: &Path, version: Version, shares: &Shares) -> io::Result<()> {
    let quota = shares.quota.map(quota_us);
    match version {
        Version::V1 => {
            let weight = u64::from(shares.weight) * SHARES / 100;
            write(&path.join("cpu.shares"), &weight.to_string())?;
            let file = path.join("cpu.cfs_quota_us");
            // A kernel without quotas has no such file; then there is nothing to reset.
            let Some((quota, period)) = quota else {
                return if file.exists() { write(&file, "-1") } else { Ok(()) };
            };
            // No limit while the period changes: the quota of one setting may not fit the period of another.
            write(&file, "-1")?;
            write(&path.join("cpu.cfs_period_us"), &period.to_string())?;
            write(&file, &quota.to_string())
        }
        Version::V2 => {
            write(&path.join("cpu.weight"), &shares.weight.to_string())?;
            let file = path.join("cpu.max");
            match quota {
                Some((quota, period)) => write(&file, &format!("{quota} {period}")),
                None if file.exists() => write(&file, "max"),
                None => Ok(()),
            }
        }
    }
}

/// Quota and period in µs for so many thousandths of a CPU.
fn quota_us(thousandths: u32) -> (u64, u64) {
    let quota = |period: u64| u64::from(thousandths) * period / 1000;
    let period = if quota(PERIOD_US) >= LEAST_QUOTA_US { PERIOD_US } else { LONG_PERIOD_US };
    (quota(period), period)
}

/// Moves a thread into a group.
pub(crate) fn enter(group: &Path, version: Version, tid: i32) -> io::Result<()> {
    write(&group.join(version.threads()), &tid.to_string())
}

/// Moves all threads of a group to `home`.
pub(crate) fn empty(path: &Path, home: &Path, version: Version) {
    let listed = fs::read_to_string(path.join(version.threads())).unwrap_or_default();
    for tid in listed.lines().filter_map(|line| line.parse::<i32>().ok()) {
        // Its reservation may not fit there. Nor may it move while its runtime is exhausted: on Linux 6.18
        // threads that did, and ended soon after, were seen to hang.
        if attr::attributes(tid).is_ok_and(|held| held.is_deadline()) {
            let _ = attr::set(tid, Policy::Other);
        }
        let _ = enter(home, version, tid);
    }
}

/// Removes a group after moving its threads to `home`. A missing group is no error. Threads of a killed
/// process cannot be moved, and stay until the kernel has torn them down ([`is_in_use`]).
pub(crate) fn remove(path: &Path, home: &Path, version: Version) -> io::Result<()> {
    empty(path, home, version);
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Returns true if a group was not removed because something is still in it.
pub(crate) fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::DirectoryNotEmpty)
}
