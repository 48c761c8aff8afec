//! Control groups that LXC creates for a container, and their removal after LXC could not remove them.
//!
//! ```text
//! lxc.payload.NAME    processes of the container, possibly in groups below it
//! lxc.monitor.NAME    its lxc-start
//! lxc.pivot           the lxc-start of any container while it removes those two
//! ```
//!
//! In version 1 each hierarchy has them: one for each controller, or for a few. In version 2 there is one hierarchy. A host may also
//! have both versions (`/sys/fs/cgroup/unified`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Mount point of control groups: of version 2 itself, of version 1 with a directory for each hierarchy.
const GROUPS: &str = "/sys/fs/cgroup";
/// Control groups of init, below which LXC creates those of containers that root starts.
const GROUPS_OF_INIT: &str = "/proc/1/cgroup";
/// A file that each group of version 2 has, and none of version 1.
const OF_VERSION_2: &str = "cgroup.controllers";
/// Maximum depth of control groups that a container has created.
const DEEPEST: usize = 16;
/// Time limit for killed processes to leave the groups. On a busy host the kernel may take seconds for each of its grace periods.
const LEAVING: Duration = Duration::from_secs(30);
/// Interval between two attempts to remove a group.
const LOOK: Duration = Duration::from_millis(5);

/// Removes the control groups of a container that has ended. Waits for processes that the kernel is still tearing down.
pub(crate) fn remove_all(name: &str) {
    let of_init = fs::read_to_string(GROUPS_OF_INIT).unwrap_or_default();
    remove(&places(Path::new(GROUPS), &of_init), name, LEAVING);
}

/// Removes the control groups of a container in these places. A group that still has processes when `patience` is over stays.
pub(crate) fn remove(places: &[PathBuf], name: &str, patience: Duration) {
    let end = Instant::now() + patience;
    for kind in ["payload", "monitor"] {
        for group in places.iter().map(|place| place.join(format!("lxc.{kind}.{name}"))) {
            let is_left = || remove_group(&group, DEEPEST).is_err_and(|error| is_in_use(&error));
            while is_left() && Instant::now() < end {
                sleep(LOOK);
            }
        }
    }
    // Another container may be using it.
    places.iter().for_each(|place| drop(remove_group(&place.join("lxc.pivot"), DEEPEST)));
}

/// Groups in which LXC creates those of containers, given the mount point of control groups and the text of `/proc/1/cgroup`.
pub(crate) fn places(mounted: &Path, of_init: &str) -> Vec<PathBuf> {
    let parents = parents(of_init);
    let hierarchies = hierarchies(mounted).into_iter();
    hierarchies.flat_map(|root| parents.iter().map(move |parent| root.join(parent))).collect()
}

/// Roots of the hierarchies. The links to them that version 1 has are left out.
fn hierarchies(mounted: &Path) -> Vec<PathBuf> {
    if mounted.join(OF_VERSION_2).exists() {
        return vec![mounted.to_owned()];
    }
    let entries = fs::read_dir(mounted).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Groups that may contain those of containers, relative to their hierarchies: the root, and the groups of init according to the
/// text of `/proc/1/cgroup` (cgroups(7)). In a PID namespace init may be in any group.
pub(crate) fn parents(of_init: &str) -> BTreeSet<PathBuf> {
    let parent = |line: &str| {
        let path = Path::new(line.splitn(3, ':').nth(2)?.trim_start_matches('/'));
        // LXC ignores the group into which systemd moves itself.
        let path = if path.ends_with("init.scope") { path.parent()? } else { path };
        // A group outside of the cgroup namespace begins with `..`.
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        is_below.then(|| path.to_owned())
    };
    of_init.lines().filter_map(parent).chain([PathBuf::new()]).collect()
}

/// Removes a control group after its children. A missing group is no error.
fn remove_group(group: &Path, depth: usize) -> io::Result<()> {
    let entries = fs::read_dir(group).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if let Some(deeper) = depth.checked_sub(1) {
            // If it stays, so does this group.
            let _ = remove_group(&entry.path(), deeper);
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Returns true if a group was not removed because it has processes, or groups that have some.
fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::DirectoryNotEmpty)
}
