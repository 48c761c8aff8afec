//! A process that does nothing but wait for the end of the one that holds the locks, and removes what that could not
//! remove itself because it was killed: lock files and sockets (also those that peers of vhost-user connect to),
//! macvtaps, ports of Open vSwitch, groups and sets of CPUs that its threads were in. What else a run makes belongs to descriptors and goes with them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use uplink::Undo;

use super::file::clean_up;

/// Octets of the longest list of what is to be removed.
const LONGEST: u64 = 16 << 20;
/// Before the path of a lock.
const LOCK: u8 = b'l';
/// Before the path of a lock and, after a line feed, of something that goes with it.
const RUBBISH: u8 = b'r';
/// Before the path of a lock and, after a line feed, of an [`Undo`] that goes with it.
const UNDO: u8 = b'u';
/// Before the path of a lock and, after a line feed, of a [`sched::Undo`] that goes with it.
const SCHEDULE: u8 = b's';
/// Before a path that is not to be removed any more.
const FORGET: u8 = b'f';

/// The process, as the one that it cleans up after has it. Dropping it ends it; nothing is removed then.
#[derive(Debug)]
pub(crate) struct Cleaner {
    child: Child,
}

impl Cleaner {
    /// Starts it.
    ///
    /// # Errors
    /// No process can be made.
    pub(crate) fn start() -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("cleaner").arg(std::process::id().to_string()).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.spawn().context("cannot start the process that cleans up")? })
    }

    /// To be removed: a lock.
    pub(crate) fn add_lock(&mut self, path: &Path) {
        self.tell(LOCK, path);
    }

    /// To be removed if `lock` is: something else.
    pub(crate) fn add_rubbish(&mut self, lock: &Path, path: &Path) {
        // The folder of a lock has a plain name.
        self.tell(RUBBISH, Path::new(&[lock.as_os_str(), path.as_os_str()].join(OsStr::new("\n"))));
    }

    /// To be done if `lock` is removed.
    pub(crate) fn add_undo(&mut self, lock: &Path, undo: &Undo) {
        let Ok(undo) = serde_json::to_string(undo) else { return };
        self.tell(UNDO, Path::new(&[lock.as_os_str(), OsStr::new(&undo)].join(OsStr::new("\n"))));
    }

    /// Somebody else who may say what is to be done if `lock` is removed.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn journal(&self, lock: &Path) -> Result<Journal> {
        let pipe = self.child.stdin.as_ref().context("the process that cleans up does not listen")?;
        let pipe = pipe.as_fd().try_clone_to_owned().context("no descriptors are left")?;
        Ok(Journal { pipe: pipe.into(), lock: lock.to_owned() })
    }

    /// Not to be removed any more.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.tell(FORGET, path);
    }

    fn tell(&mut self, what: u8, path: &Path) {
        if let Some(pipe) = &mut self.child.stdin {
            tell(pipe, what, path);
        }
    }
}

fn tell(pipe: &mut impl Write, what: u8, path: &Path) {
    let mut line = vec![what];
    line.extend_from_slice(path.as_os_str().as_bytes());
    line.push(0);
    // If somebody has killed it, the next run of the same name takes the files over.
    let _ = pipe.write_all(&line);
}

/// Where whoever places threads says what is to be undone.
#[derive(Debug)]
pub(crate) struct Journal {
    pipe: File,
    lock: PathBuf,
}

impl Journal {
    /// To be done if the lock is removed.
    pub(crate) fn note(&mut self, undo: &sched::Undo) {
        let Ok(undo) = serde_json::to_string(undo) else { return };
        let line = [self.lock.as_os_str(), OsStr::new(&undo)].join(OsStr::new("\n"));
        tell(&mut self.pipe, SCHEDULE, Path::new(&line));
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // It must not see the end of its pipe before it is dead.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What goes with a lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rubbish {
    /// A file.
    File(PathBuf),
    /// Something of the host.
    Made(Undo),
    /// Where its threads were, and how they were scheduled.
    Scheduled(sched::Undo),
}

impl Rubbish {
    /// Removes it.
    pub(super) fn remove(&self) {
        match self {
            Self::File(path) => drop(std::fs::remove_file(path)),
            Self::Made(undo) => undo.now(),
            Self::Scheduled(undo) => drop(undo.now()),
        }
    }
}

/// What is to be removed: locks, each with what goes with it.
type List = Vec<(PathBuf, Vec<Rubbish>)>;

/// The process itself: waits until the one with number `parent` is gone, and cleans up.
pub(crate) fn clean_up_after(parent: u32) -> Result<()> {
    // Out of reach of a terminal's signals.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ringroad/clean");
    let mut told = Vec::new();
    io::stdin().take(LONGEST).read_to_end(&mut told).context("cannot hear the other process")?;
    for (lock, rubbish) in list(&told) {
        clean_up(&lock, parent, &rubbish);
    }
    Ok(())
}

fn list(told: &[u8]) -> List {
    let mut list = List::new();
    for line in told.split_inclusive(|octet| *octet == 0) {
        // Cut off in the middle: the file does not exist yet.
        let Some((what, path)) = line.strip_suffix(&[0]).and_then(<[u8]>::split_first) else { continue };
        match *what {
            LOCK => list.push((to_path(path), Vec::new())),
            RUBBISH => add_rubbish(&mut list, path, |path| Some(Rubbish::File(to_path(path)))),
            UNDO => add_rubbish(&mut list, path, |undo| serde_json::from_slice(undo).ok().map(Rubbish::Made)),
            SCHEDULE => {
                add_rubbish(&mut list, path, |undo| {
                    serde_json::from_slice(undo).ok().map(Rubbish::Scheduled)
                });
            }
            FORGET => list.retain(|(lock, _)| *lock != to_path(path)),
            _ => {}
        }
    }
    list
}

fn add_rubbish(list: &mut List, line: &[u8], read: impl Fn(&[u8]) -> Option<Rubbish>) {
    let mut parts = line.splitn(2, |octet| *octet == b'\n');
    let (Some(lock), Some(what)) = (parts.next(), parts.next()) else { return };
    let lock = to_path(lock);
    list.iter_mut().filter(|(known, _)| *known == lock).for_each(|(_, rubbish)| rubbish.extend(read(what)));
}

fn to_path(octets: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(octets.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_what_was_told_and_not_taken_back() {
        let told = b"l/a/lock\0l/b\0r/a/lock\n/a/control\0r/a/lock\n/a/prom\0l/c\0f/b\0r/b\n/x\0l/cut";
        let files = ["/a/control", "/a/prom"].map(|path| Rubbish::File(path.into()));
        let expected: List = vec![("/a/lock".into(), files.into()), ("/c".into(), vec![])];
        assert_eq!(list(told), expected);
    }

    #[test]
    fn what_was_made_is_told_of_too() {
        let undo = Undo::of_macvtap("edge.wan");
        let told =
            [b"l/a\0u/a\n", serde_json::to_string(&undo).expect("text").as_bytes(), b"\0u/a\n{}\0"].concat();
        assert_eq!(list(&told), [("/a".into(), vec![Rubbish::Made(undo)])]);
    }

    #[test]
    fn anything_else_is_nothing() {
        for told in [&b""[..], b"\0", b"\0\0", b"x/a\0", b"r/a\0", b"r/a\n/b\0", b"f/a\0", b"l"] {
            assert!(list(told).is_empty(), "{told:?}");
        }
    }
}
