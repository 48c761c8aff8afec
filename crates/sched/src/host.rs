//! Scheduling limits of this host's kernel and of this process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use rustix::process::{Resource, getrlimit};

use crate::cgroup::{self, Hierarchy};
use crate::topology::Topology;

/// First kernel with a fair server, which reserves time of each CPU for ordinary threads.
const WITH_FAIR_SERVER: (u32, u32) = (6, 12);
/// Its default runtime and period, in nanoseconds. With it, exclusive CPUs of Linux 6.18 admit no more than
/// 0.900.
const FAIR_SERVER: (u64, u64) = (50_000_000, 1_000_000_000);

/// Bit number of CAP_SYS_NICE.
const SYS_NICE: u32 = 23;

/// Limit on real-time threads and reservations of each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTime {
    /// `sched_rt_runtime_us`; `None`: no limit (-1).
    pub runtime_us: Option<u64>,
    /// `sched_rt_period_us`.
    pub period_us: u64,
}

impl Default for RealTime {
    /// Kernel defaults.
    fn default() -> Self {
        Self { runtime_us: Some(950_000), period_us: 1_000_000 }
    }
}

/// Capabilities of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Highest real-time priority that this process may set: 99 with CAP_SYS_NICE, else RLIMIT_RTPRIO.
    pub priority: u32,
    /// True if it may make reservations: CAP_SYS_NICE.
    pub may_reserve: bool,
    /// Limit on real-time threads.
    pub real_time: RealTime,
    /// Time of each CPU that the kernel keeps for ordinary threads by a reservation of its own
    /// (`fair_server`): runtime and period in nanoseconds, from debugfs, else the kernel's defaults. Empty if
    /// the kernel has none.
    pub fair_server: BTreeMap<u32, (u64, u64)>,
    /// Shortest and longest period of a reservation, in µs.
    pub periods_us: (u64, u64),
    /// Kernel version, e.g. (6, 18).
    pub kernel: (u32, u32),
    /// Where groups with weights and quotas can be made, or why they cannot.
    pub cpu: Result<Hierarchy, String>,
    /// Smallest quota of the groups around ours, with its period, in µs, if the kernel refuses larger ones.
    pub quota_us: Option<(u64, u64)>,
    /// Where exclusive cpusets can be made, or why they cannot.
    pub cpuset: Result<Hierarchy, String>,
    /// True if this process sees kernel threads, which it does only in the host's initial PID namespace.
    pub sees_kernel: bool,
    /// Reason why groups with weights cannot contain kernel threads, if so.
    pub not_for_kernel: Option<String>,
    /// `cpu.rt_runtime_us` of this process's group, if groups have such a limit.
    pub group_rt_us: Option<i64>,
}

impl Default for Host {
    /// A host without any restriction.
    fn default() -> Self {
        let hierarchy = Hierarchy {
            version: cgroup::Version::V1,
            base: "/sys/fs/cgroup".into(),
            home: "/sys/fs/cgroup".into(),
        };
        Self {
            priority: 99,
            may_reserve: true,
            real_time: RealTime::default(),
            fair_server: BTreeMap::new(),
            periods_us: (100, 4_194_304),
            kernel: (6, 1),
            cpu: Ok(hierarchy.clone()),
            quota_us: None,
            cpuset: Ok(hierarchy),
            sees_kernel: true,
            not_for_kernel: None,
            group_rt_us: None,
        }
    }
}

impl Host {
    /// Reads the properties of this host.
    pub(crate) fn read() -> Self {
        let may = may_nice();
        let version = version(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default());
        let cpu = Hierarchy::find("cpu");
        let group_rt_us = cpu.as_ref().ok().and_then(|found| number(&found.base.join("cpu.rt_runtime_us")));
        Self {
            priority: if may { 99 } else { real_time_limit() },
            may_reserve: may,
            real_time: RealTime {
                runtime_us: kernel::<i64>("sched_rt_runtime_us").and_then(|us| u64::try_from(us).ok()),
                period_us: kernel("sched_rt_period_us").unwrap_or(1_000_000),
            },
            fair_server: fair_server(version, Path::new("/sys/kernel/debug/sched/fair_server")),
            periods_us: (
                kernel("sched_deadline_period_min_us").unwrap_or(100),
                kernel("sched_deadline_period_max_us").unwrap_or(4_194_304),
            ),
            kernel: version,
            sees_kernel: fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim_end() == "kthreadd"),
            not_for_kernel: cpu.as_ref().ok().and_then(Hierarchy::refuses_kernel),
            quota_us: cpu.as_ref().ok().and_then(Hierarchy::quota_us),
            cpu,
            cpuset: Hierarchy::find("cpuset"),
            group_rt_us,
        }
    }
}

fn kernel<T: FromStr>(name: &str) -> Option<T> {
    number(&Path::new("/proc/sys/kernel").join(name))
}

/// First number in a file.
fn number<T: FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

fn may_nice() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok())
        .is_some_and(|held| held >> SYS_NICE & 1 == 1)
}

fn real_time_limit() -> u32 {
    getrlimit(Resource::Rtprio).current.map_or(99, |limit| u32::try_from(limit).unwrap_or(99).min(99))
}

fn fair_server(version: (u32, u32), folder: &Path) -> BTreeMap<u32, (u64, u64)> {
    if version < WITH_FAIR_SERVER {
        return BTreeMap::new();
    }
    let of_cpu = |cpu: u32| {
        let held = folder.join(format!("cpu{cpu}"));
        let shown = number(&held.join("runtime")).zip(number(&held.join("period")));
        (cpu, shown.unwrap_or(FAIR_SERVER))
    };
    Topology::read().cpus.iter().map(|cpu| of_cpu(cpu.number)).collect()
}

/// Parses `6.18.44-x` as (6, 18).
fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
