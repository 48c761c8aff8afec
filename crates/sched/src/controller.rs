//! Controllers of version 2: the groups in a group have those that its `cgroup.subtree_control` names.
//!
//! A run that needs one that is off switches it on, and makes a group `ringroad-cpu` or `ringroad-cpuset` before, that nobody is in:
//! as long as it is there, it was us, whichever run. The last run that has groups with the controller switches it off again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup::write;
use crate::island::{OURS, PARTITION};
use crate::lock::lock;

/// Weights and quotas.
pub(crate) const CPU: &str = "cpu";
/// Exclusive CPUs.
pub(crate) const CPUSET: &str = "cpuset";

const SWITCHES: &str = "cgroup.subtree_control";

/// The group that says that it was us who switched a controller on.
pub(crate) fn mark(base: &Path, controller: &str) -> PathBuf {
    base.join(format!("{OURS}{controller}"))
}

/// Lets groups in `base` have a controller. To be called with the lock, which is held until they have it.
pub(crate) fn switch_on(base: &Path, controller: &str) -> io::Result<()> {
    let switches = base.join(SWITCHES);
    if fs::read_to_string(&switches)?.split_whitespace().any(|held| held == controller) {
        return Ok(());
    }
    match fs::create_dir(mark(base, controller)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => write(&switches, &format!("+{controller}")),
    }
}

/// Switches a controller off, if it was us who switched it on and no group of ours has it any more; under the lock on `shared`,
/// none: who calls has it.
pub(crate) fn switch_off(base: &Path, controller: &str, shared: Option<&Path>) -> io::Result<()> {
    let switch = || {
        let _lock = shared.map(lock).transpose()?;
        let mark = mark(base, controller);
        if !mark.exists() || is_needed(base, controller)? {
            return Ok(());
        }
        write(&base.join(SWITCHES), &format!("-{controller}"))?;
        fs::remove_dir(mark)
    };
    match switch() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Whether a run has a group for which it has asked for the controller: partitions are those of one, all others of the other.
fn is_needed(base: &Path, controller: &str) -> io::Result<bool> {
    let marks = [CPU, CPUSET].map(|controller| mark(base, controller));
    for entry in fs::read_dir(base)? {
        let path = entry?.path();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OURS));
        if !is_ours || marks.contains(&path) || !path.is_dir() {
            continue;
        }
        let state = fs::read_to_string(path.join(PARTITION));
        let is_partition = state.is_ok_and(|state| state.trim() != "member");
        if is_partition == (controller == CPUSET) {
            return Ok(true);
        }
    }
    Ok(false)
}
