//! Controllers of cgroup v2, which `cgroup.subtree_control` of a group turns on for the groups in it.
//!
//! A run that needs a controller that is off turns it on, and first makes an empty marker group
//! `ringroad-cpu` or `ringroad-cpuset`: as long as that exists, it was a run of ours that turned it on. The
//! last run with groups that need the controller turns it off again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup::write;
use crate::exclusive_cpus::{OURS, PARTITION};
use crate::lock::lock_to_undo;

/// Controller of weights and quotas.
pub(crate) const CPU: &str = "cpu";
/// Controller of exclusive CPUs.
pub(crate) const CPUSET: &str = "cpuset";

const SWITCHES: &str = "cgroup.subtree_control";

/// Marker group: exists if we turned the controller on.
pub(crate) fn mark(base: &Path, controller: &str) -> PathBuf {
    base.join(format!("{OURS}{controller}"))
}

/// Turns a controller on for the groups in `base`. The caller holds the lock until they exist.
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

/// Turns a controller off if we turned it on and no group of ours needs it any more; under the lock on
/// `shared`, or, for `None`, that of the caller.
pub(crate) fn switch_off(base: &Path, controller: &str, shared: Option<&Path>) -> io::Result<()> {
    let switch = || {
        let _lock = shared.map(lock_to_undo).transpose()?;
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

/// Returns true if a run has a group that needs the controller: partitions need `cpuset`, all other groups
/// `cpu`.
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
