//! Claims on v1 groups: each run makes its own group and locks it, so that groups of killed runs can be told
//! from those of living runs, and removed.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat};
use rustix::io::Errno;

use super::LEAVING;
use crate::cgroup;

/// Groups made before one is used that another process has locked.
const CLAIMS: usize = 8;

/// Group of a run whose supervisor and cleaner were killed. It is removed when the kernel has torn down the
/// processes in it.
#[derive(Debug)]
pub(super) struct OrphanedGroup {
    group: PathBuf,
    _claim: OwnedFd,
    since: Instant,
}

impl OrphanedGroup {
    /// Removes it at the end of the run, if no process is in it any more.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir(self.group);
    }

    /// Returns true if it was removed, or is left behind because its processes do not end.
    pub(super) fn goes(&self, now: Instant) -> bool {
        let waits = fs::remove_dir(&self.group).is_err_and(|error| cgroup::is_in_use(&error));
        !waits || now.saturating_duration_since(self.since) >= LEAVING
    }
}

/// Makes a group under the first unused one of its names, and claims it. A run of the same name that looks
/// for left-over groups may lock one that was just made, and remove it: then the next name is taken. No claim
/// is returned if every one was locked by others; any user who can open the folder can do that, and so
/// prevents its removal. After an error none of the groups made is left.
pub(super) fn make_claimed(
    name: &Path,
    tell: impl FnMut(&Path),
    claim: impl FnMut(&Path) -> io::Result<OwnedFd>,
) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    let mut lost = Vec::new();
    let made = make_until_claimed(name, tell, claim, &mut lost);
    // A name that became free may have been used again.
    let kept = made.as_ref().ok().map(|(group, _)| group);
    lost.iter().filter(|lost| Some(*lost) != kept).for_each(|lost| drop(fs::remove_dir(lost)));
    made
}

/// Makes groups until one is claimed; those that were made in vain are added to `lost`.
fn make_until_claimed(
    name: &Path,
    mut tell: impl FnMut(&Path),
    mut claim: impl FnMut(&Path) -> io::Result<OwnedFd>,
    lost: &mut Vec<PathBuf>,
) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    loop {
        let group = free(name);
        tell(&group);
        fs::create_dir(&group)?;
        match claim(&group) {
            Ok(folder) => return Ok((group, Some(folder))),
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => {
                lost.push(group);
                return Err(error);
            }
            Err(_) if lost.len() + 1 == CLAIMS => return Ok((group, None)),
            Err(_) => lost.push(group),
        }
    }
}

/// First unused one of a group's names.
pub(super) fn free(name: &Path) -> PathBuf {
    let mut numbered = (2_u32..).map(|number| PathBuf::from(format!("{}.{number}", name.display())));
    let is_free = |name: &PathBuf| !name.exists();
    Some(name.to_owned())
        .filter(is_free)
        .or_else(|| numbered.find(is_free))
        .unwrap_or_else(|| name.to_owned())
}

/// Removes groups of earlier runs of a name whose supervisor and cleaner were killed, so that no process
/// claims them. Those with processes in them are claimed and returned. Groups of a living run of the same
/// name, with another folder for its locks, are claimed by that run.
pub(super) fn sweep(base: &Path, prefix: &str, now: Instant) -> Vec<OrphanedGroup> {
    let there = fs::read_dir(base).into_iter().flatten().flatten();
    let of_name = there.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let deserted = of_name.filter_map(|entry| {
        let group = entry.path();
        Some(OrphanedGroup { _claim: claim(&group).ok()?, group, since: now })
    });
    deserted.filter(|deserted| !deserted.goes(now)).collect()
}

/// Claims a group for this process, until the returned descriptor is closed.
///
/// # Errors
/// Another process has claimed it, or it does not exist any more: its owner may have removed it, and another
/// group may be there.
pub(super) fn claim(group: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(group, flags, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    if stat(group)?.st_ino != fstat(&folder)?.st_ino {
        return Err(Errno::NOENT.into());
    }
    Ok(folder)
}
