//! CPUs taken out of the kernel's load balancing, because a reservation may be confined to a set of CPUs only
//! if that set is a scheduling domain of its own (Linux, `Documentation/scheduler/sched-deadline.rst`,
//! section 5).
//!
//! cgroup v1: the root cpuset must not balance load, which would leave the other CPUs without any balancing.
//! An empty cpuset `ringroad-rest` restores it for them. It exists as long as there is an exclusive cpuset of
//! any of our runs, and marks that we turned the root's balancing off. v2: a partition.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use config::CpuSet;

use crate::cgroup::{self, Hierarchy, Version, write};
use crate::controller;
use crate::lock::{lock, lock_to_undo};

/// Prefix of our groups' names.
pub(crate) const OURS: &str = "ringroad-";
const REST: &str = "ringroad-rest";
/// v2: file with the partition type of a group.
pub(crate) const PARTITION: &str = "cpuset.cpus.partition";
const BALANCE: &str = "cpuset.sched_load_balance";
/// File that makes the CPUs of a group exclusive, in v1 and in v2 (since Linux 6.7).
const EXCLUSIVE_V1: &str = "cpuset.cpu_exclusive";
const EXCLUSIVE_V2: &str = "cpuset.cpus.exclusive";

/// Folder of an exclusive set of CPUs.
pub(crate) fn path(hierarchy: &Hierarchy, run: &str, cpus: &CpuSet) -> PathBuf {
    hierarchy.base.join(format!("{OURS}{run}.cpus{cpus}"))
}

/// Makes CPUs exclusive, under the lock on `shared`; `None`: the caller holds the lock.
pub(crate) fn make(
    hierarchy: &Hierarchy,
    path: &Path,
    cpus: &CpuSet,
    shared: Option<&Path>,
) -> io::Result<()> {
    let _lock = shared.map(lock).transpose()?;
    match hierarchy.version {
        Version::V1 => make_v1(&hierarchy.base, path, cpus),
        Version::V2 => make_v2(&hierarchy.base, path, cpus),
    }
}

/// Gives exclusive CPUs back, under the lock on `shared`; `None`: the caller holds the lock. A missing group
/// is no error. A group that is still in use loses its exclusivity but stays.
pub(crate) fn remove(
    version: Version,
    base: &Path,
    path: &Path,
    home: &Path,
    shared: Option<&Path>,
) -> io::Result<()> {
    if version == Version::V2 {
        cgroup::empty(path, home, version);
        // The kernel returns the CPUs of a removed group only some time later, so they are given back first.
        // A missing file means that there is nothing to give back.
        let _ = write(&path.join(PARTITION), "member");
        let removed = cgroup::remove(path, home, version);
        if removed.is_err() {
            let _ = write(&path.join(EXCLUSIVE_V2), "\n");
        }
        return removed;
    }
    let _lock = shared.map(lock_to_undo).transpose()?;
    let removed = cgroup::remove(path, home, version);
    if removed.is_err() {
        let _ = write(&path.join(EXCLUSIVE_V1), "0");
    }
    rebalance(base, None)?;
    removed
}

fn make_v1(base: &Path, path: &Path, cpus: &CpuSet) -> io::Result<()> {
    without_overlap(base, path, cpus)?;
    rebalance(base, Some(cpus))?;
    cgroup::make(path, Version::V1)?;
    write(&path.join("cpuset.cpus"), &cpus.to_string())?;
    write(&path.join("cpuset.mems"), read(&base.join("cpuset.mems"))?.trim())?;
    write(&path.join(EXCLUSIVE_V1), "1")
}

/// Balances load on all CPUs that are not exclusive; restores the kernel's default if none is exclusive.
fn rebalance(base: &Path, more: Option<&CpuSet>) -> io::Result<()> {
    let (rest, balance) = (base.join(REST), base.join(BALANCE));
    let mut exclusive = exclusive(base)?;
    exclusive.extend(more.into_iter().flat_map(|cpus| cpus.cpus()).copied());
    if exclusive.is_empty() {
        if rest.exists() {
            write(&balance, "1")?;
            return cgroup::remove(&rest, base, Version::V1);
        }
        return Ok(());
    }
    if read(&balance)?.trim() == "0" && !rest.exists() {
        // Someone else has configured this host's scheduling domains.
        return Ok(());
    }
    cgroup::make(&rest, Version::V1)?;
    let all = CpuSet::from_kernel(&read(&base.join("cpuset.cpus"))?).map_err(io::Error::other)?;
    let others = CpuSet::from_cpus(all.cpus().iter().copied().filter(|cpu| !exclusive.contains(cpu)));
    let others = others.map_or_else(|| "\n".to_owned(), |others| others.to_string());
    write(&rest.join("cpuset.cpus"), &others)?;
    write(&rest.join("cpuset.mems"), read(&base.join("cpuset.mems"))?.trim())?;
    write(&balance, "0")
}

/// CPUs that runs have made exclusive although others may use them. In v2 others may not.
pub(crate) fn shared(hierarchy: &Hierarchy) -> Vec<u32> {
    match hierarchy.version {
        Version::V1 => exclusive(&hierarchy.base).unwrap_or_default(),
        Version::V2 => Vec::new(),
    }
}

/// CPUs of all exclusive cpusets of our runs.
fn exclusive(base: &Path) -> io::Result<Vec<u32>> {
    let sets = exclusive_sets(base)?;
    Ok(sets.iter().flat_map(|(_, cpus)| cpus.cpus()).copied().collect())
}

/// Exclusive cpusets of our runs, with their CPUs.
fn exclusive_sets(base: &Path) -> io::Result<Vec<(PathBuf, CpuSet)>> {
    let mut sets = Vec::new();
    for entry in fs::read_dir(base)? {
        let path = entry?.path();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OURS));
        let is_exclusive = || read(&path.join(EXCLUSIVE_V1)).is_ok_and(|text| text.trim() == "1");
        if is_ours && is_exclusive() {
            let cpus: Option<CpuSet> = read(&path.join("cpuset.cpus"))?.trim().parse().ok();
            sets.extend(cpus.map(|cpus| (path, cpus)));
        }
    }
    Ok(sets)
}

/// Checks that none of these CPUs is in an exclusive cpuset other than that of this path: the kernel refuses an
/// overlap with EINVAL, which does not say with what.
fn without_overlap(base: &Path, path: &Path, cpus: &CpuSet) -> io::Result<()> {
    let overlaps = |(other, held): &(PathBuf, CpuSet)| {
        other.as_path() != path && held.cpus().iter().any(|cpu| cpus.cpus().contains(cpu))
    };
    let Some((other, held)) = exclusive_sets(base)?.into_iter().find(overlaps) else { return Ok(()) };
    let name = other.file_name().unwrap_or_default().to_string_lossy();
    let run = name.strip_prefix(OURS).and_then(|name| name.rsplit_once(".cpus"));
    let run = run.map_or(&*name, |(run, _)| run);
    let what = format!(
        "CPU {held} is exclusive to the run {run} ({}); choose other CPUs, or stop that run",
        other.display()
    );
    Err(io::Error::other(what))
}

fn make_v2(base: &Path, path: &Path, cpus: &CpuSet) -> io::Result<()> {
    controller::switch_on(base, controller::CPUSET)?;
    cgroup::make(path, Version::V2)?;
    write(&path.join("cpuset.cpus"), &cpus.to_string())?;
    // With this file, a partition may be below a group that is none.
    let exclusive = path.join(EXCLUSIVE_V2);
    if exclusive.exists() {
        write(&exclusive, &cpus.to_string())?;
    }
    let partition = path.join(PARTITION);
    write(&partition, "root")?;
    let state = read(&partition)?;
    if state.trim() == "root" { Ok(()) } else { Err(io::Error::other(state.trim().to_owned())) }
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_may_use_exclusive_cpus_of_version_1_only() {
        let root = tempfile::tempdir().expect("a folder");
        for (name, cpus, is_exclusive) in [
            ("ringroad-lab.cpus2-3", "2-3", "1"),
            ("ringroad-old.cpus4", "4", "0"),
            ("ringroad-rest", "0-1,5", "0"),
            ("docker", "6", "1"),
        ] {
            let folder = root.path().join(name);
            fs::create_dir(&folder).expect("made");
            fs::write(folder.join("cpuset.cpus"), cpus).expect("written");
            fs::write(folder.join(EXCLUSIVE_V1), is_exclusive).expect("written");
        }
        let found = |version| {
            let base = root.path().to_owned();
            shared(&Hierarchy { version, home: base.clone(), base })
        };
        assert_eq!((found(Version::V1), found(Version::V2)), (vec![2, 3], vec![]));
    }

    #[test]
    fn exclusive_cpus_of_another_run_are_refused_by_its_name() {
        let root = tempfile::tempdir().expect("a folder");
        let base = root.path();
        let held = base.join("ringroad-my.lab.cpus2-3");
        fs::create_dir(&held).expect("made");
        fs::write(held.join("cpuset.cpus"), "2-3\n").expect("written");
        fs::write(held.join(EXCLUSIVE_V1), "1\n").expect("written");
        let hierarchy = Hierarchy { version: Version::V1, home: base.to_owned(), base: base.to_owned() };
        let cpus: CpuSet = "3-4".parse().expect("a set");
        let own = path(&hierarchy, "edge", &cpus);
        let refused = make(&hierarchy, &own, &cpus, None).expect_err("CPU 3 is taken").to_string();
        let what = "CPU 2-3 is exclusive to the run my.lab";
        assert_eq!(refused, format!("{what} ({}); choose other CPUs, or stop that run", held.display()));
        assert!(!own.exists() && !base.join(REST).exists(), "nothing was made");
        let is_free = |path: &Path, cpus: &str| {
            let cpus = cpus.parse().expect("a set");
            without_overlap(base, path, &cpus).is_ok()
        };
        assert!(is_free(&own, "4") && is_free(&held, "2-3"), "other CPUs, and what the run itself has left");
        fs::write(held.join(EXCLUSIVE_V1), "0\n").expect("written");
        assert!(is_free(&own, "3-4"), "they were given back");
    }
}
