//! Groups of version 1 by their names: each run makes its own and claims it, so that those of runs that were killed can be told
//! from those of runs that live, and are taken away.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat};
use rustix::io::Errno;

use super::LEAVING;
use crate::cgroup;

/// Groups that are made before one is used that somebody else holds.
const CLAIMS: usize = 8;

/// A group of a run whose supervisor and cleaner were killed. It goes when the kernel is done with the processes in it.
#[derive(Debug)]
pub(super) struct Deserted {
    group: PathBuf,
    _claim: OwnedFd,
    since: Instant,
}

impl Deserted {
    /// Takes it away at the end of the run, if no process is in it any more.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir(self.group);
    }

    /// Whether it has gone, or is left behind: who is in it lives, or does not die.
    pub(super) fn goes(&self, now: Instant) -> bool {
        let waits = fs::remove_dir(&self.group).is_err_and(|error| cgroup::is_in_use(&error));
        !waits || now.saturating_duration_since(self.since) >= LEAVING
    }
}

/// Makes a group under the first of these names that no group has, and claims it. A run of the same name that looks for groups that were
/// left behind may hold one that was just made, and take it away: then the next name is taken. No claim: somebody holds each, as everybody
/// may who can look at them, and so keeps them from being taken away.
pub(super) fn make_claimed(
    name: &Path,
    mut tell: impl FnMut(&Path),
    mut claim: impl FnMut(&Path) -> io::Result<OwnedFd>,
) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    let mut lost: Vec<PathBuf> = Vec::new();
    let (group, claim) = loop {
        let group = free(name);
        tell(&group);
        fs::create_dir(&group)?;
        match claim(&group) {
            Ok(folder) => break (group, Some(folder)),
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => {
                return Err(error);
            }
            Err(_) if lost.len() + 1 == CLAIMS => break (group, None),
            Err(_) => lost.push(group),
        }
    };
    // A name that was free again may have been taken a second time.
    lost.iter().filter(|lost| **lost != group).for_each(|lost| drop(fs::remove_dir(lost)));
    Ok((group, claim))
}

/// The first of the names of a group that no group has.
pub(super) fn free(name: &Path) -> PathBuf {
    let mut numbered = (2_u32..).map(|number| PathBuf::from(format!("{}.{number}", name.display())));
    let is_free = |name: &PathBuf| !name.exists();
    Some(name.to_owned())
        .filter(is_free)
        .or_else(|| numbered.find(is_free))
        .unwrap_or_else(|| name.to_owned())
}

/// Takes away groups of earlier runs of a name, whose supervisor and cleaner were killed: nobody claims them. Those that processes are
/// in still are claimed and returned. Groups of another run of that name, which has another folder for its locks, are claimed by that one.
pub(super) fn sweep(base: &Path, prefix: &str, now: Instant) -> Vec<Deserted> {
    let there = fs::read_dir(base).into_iter().flatten().flatten();
    let of_name = there.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let deserted = of_name.filter_map(|entry| {
        let group = entry.path();
        Some(Deserted { _claim: claim(&group).ok()?, group, since: now })
    });
    deserted.filter(|deserted| !deserted.goes(now)).collect()
}

/// Makes a group this process's own, until it closes what is returned.
///
/// # Errors
/// It is another one's, or not there any more: whoever had it before may have taken it away, and another one may be there.
pub(super) fn claim(group: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(group, flags, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    if stat(group)?.st_ino != fstat(&folder)?.st_ino {
        return Err(Errno::NOENT.into());
    }
    Ok(folder)
}
