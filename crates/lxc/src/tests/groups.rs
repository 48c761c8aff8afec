//! Control groups of containers, in folders like those of hosts with version 1, version 2 and both.

use std::fs::{self, create_dir_all};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::groups::{parents, places, remove};

const NAME: &str = "ringroad-edge";
/// Longer than any operation takes.
const LONG: Duration = Duration::from_secs(60);

/// A mount point of control groups with these groups.
fn mounted(groups: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    groups.iter().for_each(|group| create_dir_all(folder.path().join(group)).expect("a folder"));
    folder
}

/// Groups that are left after those of the container were removed, of `all`.
fn left<'g>(mounted: &Path, of_init: &str, all: &[&'g str]) -> Vec<&'g str> {
    remove(&places(mounted, of_init), NAME, Duration::ZERO);
    all.iter().copied().filter(|group| mounted.join(group).exists()).collect()
}

#[test]
fn groups_of_containers_are_below_those_of_init() {
    let found = |text: &str| -> Vec<String> {
        parents(text).into_iter().map(|path| path.display().to_string()).collect()
    };
    let table = "9:name=systemd:/init.scope\n4:memory:/jobs/7:a\n3:cpu,cpuacct:/\n0::/jobs/init.scope\n";
    assert_eq!(found(table), ["", "jobs", "jobs/7:a"]);
    for outside in ["", "odd", "0::/../other", "0::/"] {
        assert_eq!(found(outside), [""], "{outside}");
    }
}

#[test]
fn version_1_has_them_in_each_hierarchy() {
    let all = [
        "cpu,cpuacct/lxc.payload.ringroad-edge/below/deep",
        "cpu,cpuacct/lxc.monitor.ringroad-edge",
        "cpu,cpuacct/lxc.payload.ringroad-edge2",
        "memory/jobs/lxc.payload.ringroad-edge",
        "memory/jobs/lxc.pivot",
        "systemd/lxc.monitor.ringroad-edge",
        "systemd/other/lxc.payload.ringroad-edge",
    ];
    let host = mounted(&all);
    symlink("cpu,cpuacct", host.path().join("cpu")).expect("a link");
    let of_init = "9:name=systemd:/init.scope\n4:memory:/jobs\n3:cpu,cpuacct:/\n";
    let others = ["cpu,cpuacct/lxc.payload.ringroad-edge2", "systemd/other/lxc.payload.ringroad-edge"];
    assert_eq!(left(host.path(), of_init, &all), others);
    assert!(host.path().join("memory/jobs").exists());
}

#[test]
fn version_2_has_one_hierarchy() {
    let all = [
        "lxc.payload.ringroad-edge/system.slice/ssh.service",
        "lxc.payload.ringroad-edge/init.scope",
        "lxc.monitor.ringroad-edge",
        "lxc.pivot",
        "lxc.payload.core",
        "system.slice/lxc.payload.ringroad-edge",
    ];
    let host = mounted(&all);
    fs::write(host.path().join("cgroup.controllers"), "cpu memory pids\n").expect("a file");
    assert_eq!(places(host.path(), "0::/init.scope\n"), [host.path().to_owned()]);
    let others = ["lxc.payload.core", "system.slice/lxc.payload.ringroad-edge"];
    assert_eq!(left(host.path(), "0::/init.scope\n", &all), others);
    assert!(!host.path().join("lxc.payload.ringroad-edge").exists());
    // Init is in a group, as in a container.
    let all = ["jobs/lxc.payload.ringroad-edge", "lxc.monitor.ringroad-edge"];
    all.iter().for_each(|group| create_dir_all(host.path().join(group)).expect("a folder"));
    assert!(left(host.path(), "0::/jobs\n", &all).is_empty());
}

#[test]
fn a_host_may_have_both_versions() {
    let all = [
        "unified/lxc.payload.ringroad-edge/init.scope",
        "unified/lxc.monitor.ringroad-edge",
        "pids/lxc.payload.ringroad-edge",
    ];
    let host = mounted(&all);
    fs::write(host.path().join("unified/cgroup.controllers"), "\n").expect("a file");
    assert!(left(host.path(), "2:pids:/\n0::/init.scope\n", &all).is_empty());
    assert!(!host.path().join("unified/lxc.payload.ringroad-edge").exists());
}

#[test]
fn a_group_is_removed_once_its_processes_have_left_and_not_awaited_for_ever() {
    let host = mounted(&["lxc.payload.ringroad-edge/init.scope", "lxc.monitor.ringroad-edge"]);
    fs::write(host.path().join("cgroup.controllers"), "pids\n").expect("a file");
    // A folder with a file cannot be removed, like a group with a process.
    let process = host.path().join("lxc.payload.ringroad-edge/init.scope/process");
    fs::write(&process, "").expect("a file");
    let places: Vec<PathBuf> = places(host.path(), "0::/\n");
    remove(&places, NAME, Duration::ZERO);
    assert!(process.exists() && !host.path().join("lxc.monitor.ringroad-edge").exists());
    thread::scope(|scope| {
        scope.spawn(|| fs::remove_file(&process).expect("it was there"));
        remove(&places, NAME, LONG);
    });
    assert!(!host.path().join("lxc.payload.ringroad-edge").exists());
}
