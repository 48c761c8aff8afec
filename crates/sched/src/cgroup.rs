//! Control groups of both versions: where they are, and threads in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use config::{Policy, Shares};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::attr;
use crate::island::PARTITION;

/// What a group of weight 1 has in version 1: what one thread of nice 0 counts.
const SHARES: u64 = 1024;
/// The period in which a quota is counted, in µs, while that leaves enough for the kernel's least quota of 1 ms. Short, so that
/// queues are short.
const PERIOD_US: u64 = 10_000;
/// The period of the smallest quotas, in µs.
const LONG_PERIOD_US: u64 = 100_000;
/// The kernel's least quota.
const LEAST_QUOTA_US: u64 = 1000;

/// Which interface to control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One for all, in which threads of a process are told apart by `threaded` groups.
    V2,
}

impl Version {
    /// The file of a group that threads are listed in, and written into.
    pub(crate) const fn threads(self) -> &'static str {
        match self {
            Self::V1 => "tasks",
            Self::V2 => "cgroup.threads",
        }
    }
}

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Of which version.
    pub version: Version,
    /// The group that ours are made in.
    pub base: PathBuf,
    /// The group that this process is in, and that threads go back to.
    pub home: PathBuf,
}

impl Hierarchy {
    /// The one with this controller in which this process may make groups, or why there is none.
    pub(crate) fn find(controller: &str) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let found = locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?, controller)
            .ok_or_else(|| format!("no cgroup hierarchy with the controller {controller} is mounted"))?;
        let found = found.usable(controller)?;
        access(&found.base, Access::WRITE_OK)
            .map_err(|error| format!("{} cannot be written: {error}", found.base.display()))?;
        Ok(found)
    }

    /// This group, if the controller can be used in it.
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

/// Whether a group of version 2 may have partitions in it. The root has no file that says so. Since Linux 6.7 whoever has given a
/// group CPUs of its own (`cpuset.cpus.exclusive`) has allowed them as well.
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

/// Makes a group, if it is not there already, and lets it have single threads.
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

/// Writes one value into a file of a group.
pub(crate) fn write(path: &Path, value: &str) -> io::Result<()> {
    // Not created where it is missing: the error says more then.
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, value.as_bytes())
}

/// Gives a group its weight and its quota.
pub(crate) fn weigh(path: &Path, version: Version, shares: &Shares) -> io::Result<()> {
    let quota = shares.quota.map(quota_us);
    match version {
        Version::V1 => {
            let weight = u64::from(shares.weight) * SHARES / 100;
            write(&path.join("cpu.shares"), &weight.to_string())?;
            let file = path.join("cpu.cfs_quota_us");
            // A kernel without quotas has no such file; nothing is asked of it then.
            let Some((quota, period)) = quota else {
                return if file.exists() { write(&file, "-1") } else { Ok(()) };
            };
            // Without a limit while the period changes: quota and period of two settings may not go together.
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

/// Quota and period in µs of so many thousandths of a CPU.
fn quota_us(thousandths: u32) -> (u64, u64) {
    let quota = |period: u64| u64::from(thousandths) * period / 1000;
    let period = if quota(PERIOD_US) >= LEAST_QUOTA_US { PERIOD_US } else { LONG_PERIOD_US };
    (quota(period), period)
}

/// Moves a thread into a group.
pub(crate) fn enter(group: &Path, version: Version, tid: i32) -> io::Result<()> {
    write(&group.join(version.threads()), &tid.to_string())
}

/// Has the threads of a group go to `home`.
pub(crate) fn empty(path: &Path, home: &Path, version: Version) {
    let listed = fs::read_to_string(path.join(version.threads())).unwrap_or_default();
    for tid in listed.lines().filter_map(|line| line.parse::<i32>().ok()) {
        // A reservation may not fit where it goes to. Nor does it go along while its time is used up: on Linux 6.18 threads
        // that did, and ended soon after, were seen never to end.
        if attr::attributes(tid).is_ok_and(|held| held.is_deadline()) {
            let _ = attr::set(tid, Policy::Other);
        }
        let _ = enter(home, version, tid);
    }
}

/// Removes a group; threads that are in it go to `home`. One that is not there is no error. Those of a process that was killed
/// cannot go anywhere else, and are in it until the kernel is done with them ([`is_in_use`]).
pub(crate) fn remove(path: &Path, home: &Path, version: Version) -> io::Result<()> {
    empty(path, home, version);
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Whether a group was not removed because something is still in it.
pub(crate) fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::DirectoryNotEmpty)
}
