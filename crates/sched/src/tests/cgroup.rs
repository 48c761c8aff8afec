//! Locating control groups.

use std::fs;
use std::path::Path;

use config::Shares;

use crate::cgroup::{Hierarchy, Version, locate, weigh};

const OWN: &str = "9:name=systemd:/\n3:cpuset:/set\n2:cpu,cpuacct:/box/one\n0::/unit.service\n";
const MOUNTS: &str = "\
    25 20 0:22 / /sys rw - sysfs sysfs rw\n\
    30 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
    31 25 0:28 /box /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
    32 25 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

#[test]
fn version_1_is_found_by_its_controller() {
    let cpu = locate(MOUNTS, OWN, "cpu").expect("there is one");
    assert_eq!(cpu.version, Version::V1);
    assert_eq!(cpu.base.to_str(), Some("/sys/fs/cgroup/cpu/one"));
    assert_eq!(cpu.home, cpu.base);
}

#[test]
fn exclusive_cpusets_are_made_in_the_root() {
    let cpuset = locate(MOUNTS, OWN, "cpuset").expect("there is one");
    assert_eq!(cpuset.base.to_str(), Some("/sys/fs/cgroup/cpuset"));
    assert_eq!(cpuset.home.to_str(), Some("/sys/fs/cgroup/cpuset/set"));
}

#[test]
fn version_2_is_for_what_version_1_has_not() {
    let memory = locate(MOUNTS, OWN, "memory").expect("there may be one");
    assert_eq!(memory.version, Version::V2);
    assert_eq!(memory.base.to_str(), Some("/sys/fs/cgroup/unified/unit.service"));
    assert_eq!(locate("", OWN, "cpu"), None);
    assert_eq!(locate(MOUNTS, "", "cpu"), None);
    assert_eq!(locate("- \n - \n1 - 2\n", OWN, "cpu"), None);
}

#[test]
fn partitions_are_made_in_the_root_or_in_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).expect("a file");
    let usable = || {
        let (base, home) = (folder.path().to_owned(), folder.path().to_owned());
        Hierarchy { version: Version::V2, base, home }.usable("cpuset").map(drop)
    };
    assert!(
        usable().is_err_and(|why| why.ends_with("has not got the controller cpuset (systemd: Delegate=yes)"))
    );
    write("cgroup.controllers", "cpuset cpu pids\n");
    assert_eq!(usable(), Ok(()), "the root");
    write("cpuset.cpus.partition", "member\n");
    assert!(usable().is_err_and(|why| why.contains("is neither the root nor a partition")));
    write("cpuset.cpus.partition", "root invalid (Parent is not a partition root)\n");
    assert!(usable().is_err());
    write("cpuset.cpus.exclusive", "\n");
    assert!(usable().is_err());
    write("cpuset.cpus.exclusive", "1\n");
    assert_eq!(usable(), Ok(()), "CPUs of its own");
    fs::remove_file(folder.path().join("cpuset.cpus.exclusive")).expect("it goes");
    for state in ["root\n", "isolated\n"] {
        write("cpuset.cpus.partition", state);
        assert_eq!(usable(), Ok(()));
    }
}

/// Content of a group's files after its weight was set.
fn weighed(version: Version, files: &[&str], shares: Shares) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|file| fs::write(folder.path().join(file), "").expect("a file"));
    weigh(folder.path(), version, &shares).expect("all files are there");
    files.iter().map(|file| fs::read_to_string(folder.path().join(file)).expect("a file")).collect()
}

#[test]
fn weights_and_quotas_in_both_versions() {
    let half = Shares { weight: 150, quota: Some(500) };
    let little = Shares { weight: 5, quota: Some(10) };
    let v2 = ["cpu.weight", "cpu.max"];
    assert_eq!(weighed(Version::V2, &v2, half), ["150", "5000 10000"]);
    assert_eq!(weighed(Version::V2, &v2, little), ["5", "1000 100000"]);
    assert_eq!(weighed(Version::V2, &v2, Shares::ORDINARY), ["100", "max"]);
    assert_eq!(weighed(Version::V2, &v2[..1], Shares::ORDINARY), ["100"]);
    let v1 = ["cpu.shares", "cpu.cfs_period_us"];
    let quota = ["cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"];
    assert_eq!(weighed(Version::V1, &quota, half)[..2], ["1536", "10000"]);
    assert_eq!(weighed(Version::V1, &quota, little)[..2], ["51", "100000"]);
    assert_eq!(weighed(Version::V1, &quota, Shares::ORDINARY), ["1024", "", "-1"]);
    assert_eq!(weighed(Version::V1, &v1, Shares::ORDINARY), ["1024", ""], "a kernel without quotas");
}

#[test]
fn a_quota_that_cannot_be_had_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("cpu.weight"), "").expect("a file");
    let limited = Shares { weight: 100, quota: Some(500) };
    assert!(weigh(folder.path(), Version::V2, &limited).is_err());
}

#[test]
fn threads_of_the_kernel_enter_groups_of_the_root_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let refuses = |version| {
        let (base, home) = (folder.path().to_owned(), folder.path().to_owned());
        Hierarchy { version, base, home }.refuses_kernel()
    };
    assert_eq!([Version::V1, Version::V2].map(refuses), [None, None]);
    fs::write(folder.path().join("cgroup.type"), "domain\n").expect("a file");
    assert_eq!(refuses(Version::V1), None);
    let why = refuses(Version::V2).expect("it is below the root");
    assert!(why.contains("cannot enter groups below") && !why.contains('\n'), "{why}");
}

#[test]
fn the_smallest_quota_of_the_groups_around_ours_bounds_it_in_version_1() {
    let root = tempfile::tempdir().expect("a folder");
    let outer = root.path().join("outer");
    let base = outer.join("inner/base");
    fs::create_dir_all(&base).expect("made");
    let found = |version| {
        let (base, home) = (base.clone(), base.clone());
        Hierarchy { version, base, home }.quota_us()
    };
    assert_eq!(found(Version::V1), None, "a kernel without quotas");
    let set = |group: &Path, quota: &str, period: &str| {
        fs::write(group.join("cpu.cfs_quota_us"), format!("{quota}\n")).expect("written");
        fs::write(group.join("cpu.cfs_period_us"), format!("{period}\n")).expect("written");
    };
    for group in [base.clone(), outer.join("inner"), outer.clone()] {
        set(&group, "-1", "100000");
    }
    assert_eq!(found(Version::V1), None, "no limit");
    set(&outer, "150000", "100000");
    set(&base, "30000", "10000");
    assert_eq!(found(Version::V1), Some((150_000, 100_000)));
    set(&base, "14000", "10000");
    assert_eq!(found(Version::V1), Some((14_000, 10_000)));
    assert_eq!(found(Version::V2), None);
}
