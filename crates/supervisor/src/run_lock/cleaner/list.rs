//! List of what is to be removed, as a cleaner receives it: line by line, as long as the run lasts.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Instant;

use kernel_router::Leftover;
use lxc::OrphanedContainer;
use uplink::Undo;

use super::{CONTAINER, COUNT, FORGET, FUNCTION, KERNEL, LOCK, NAMED, RUBBISH, SCHEDULE, UNDO};

/// Octets of the longest line; paths have at most 4096, and a line holds several.
const LONGEST_LINE: u64 = 64 << 10;
/// Most octets kept of all lines. What is announced beyond that is ignored.
const MOST: usize = 16 << 20;

/// Object that goes with a lock.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::run_lock) enum CleanupItem {
    /// A file.
    File(PathBuf),
    /// A host object.
    Made(Undo),
    /// Placement and scheduling of its threads.
    Scheduled(sched::Undo),
    /// A kernel router; removed before everything else.
    Kernel(Leftover),
    /// A container; removed early as well.
    Container(OrphanedContainer),
    /// A virtual function; its settings are restored early as well.
    Function(sriov::FormerSettings),
    /// The number of virtual functions of a port; restored after their settings.
    Count(sriov::CountRecord),
}

impl CleanupItem {
    /// Removes the object, waiting until `end` at most for processes that still use it.
    pub(in crate::run_lock) fn remove(&self, end: Instant) {
        match self {
            Self::File(path) => drop(std::fs::remove_file(path)),
            Self::Made(undo) => undo.after_kill(end),
            Self::Scheduled(undo) => drop(undo.after_kill(end)),
            Self::Kernel(_) | Self::Container(_) | Self::Function(_) | Self::Count(_) => {}
        }
    }

    /// Parses what a line says after its lock.
    fn read(what: u8, text: &[u8]) -> Option<Self> {
        match what {
            RUBBISH => Some(Self::File(to_path(text))),
            UNDO => serde_json::from_slice(text).ok().map(Self::Made),
            SCHEDULE => serde_json::from_slice(text).ok().map(Self::Scheduled),
            KERNEL => serde_json::from_slice(after_name(text)?).ok().map(Self::Kernel),
            CONTAINER => serde_json::from_slice(after_name(text)?).ok().map(Self::Container),
            FUNCTION => serde_json::from_slice(after_name(text)?).ok().map(Self::Function),
            COUNT => serde_json::from_slice(after_name(text)?).ok().map(Self::Count),
            _ => None,
        }
    }
}

/// Lock, and what goes with it in the order in which it was made.
#[derive(Debug)]
struct Held {
    lock: Vec<u8>,
    /// Each as received: kind and text.
    rubbish: Vec<(u8, Vec<u8>)>,
}

/// Announced and not revoked. Its size depends on what exists, not on how much was ever announced.
#[derive(Debug, Default)]
pub(super) struct List {
    held: Vec<Held>,
    octets: usize,
}

impl List {
    /// Reads until the writer closes the pipe.
    ///
    /// # Errors
    /// The pipe cannot be read.
    pub(super) fn hear(mut told: impl BufRead) -> io::Result<Self> {
        let (mut list, mut line) = (Self::default(), Vec::new());
        loop {
            line.clear();
            if told.by_ref().take(LONGEST_LINE).read_until(0, &mut line)? == 0 {
                return Ok(list);
            }
            if let Some(line) = line.strip_suffix(&[0]) {
                list.note(line);
            } else {
                // Too long to be valid, or cut off in the middle: then the file does not exist yet.
                skip_line(&mut told)?;
            }
        }
    }

    /// Handles a line, given without its terminator.
    fn note(&mut self, line: &[u8]) {
        let Some((what, text)) = line.split_first() else { return };
        match *what {
            LOCK => self.add_lock(text),
            FORGET => self.forget(text),
            what => self.add_rubbish(what, text),
        }
    }

    fn add_lock(&mut self, lock: &[u8]) {
        let is_new = self.held.iter().all(|held| held.lock != lock);
        if is_new && self.has_room(lock) {
            self.octets += lock.len();
            self.held.push(Held { lock: lock.to_vec(), rubbish: Vec::new() });
        }
    }

    /// Adds an object of a lock, once: if announced again it moves behind what was made meanwhile.
    fn add_rubbish(&mut self, what: u8, line: &[u8]) {
        let mut parts = line.splitn(2, |octet| *octet == b'\n');
        let (Some(lock), Some(text)) = (parts.next(), parts.next()) else { return };
        let has_room = self.has_room(text);
        let Some(held) = self.held.iter_mut().find(|held| held.lock == lock) else { return };
        let is_named = NAMED.contains(&what);
        let is_same = |known: &[u8]| if is_named { name_of(known) == name_of(text) } else { known == text };
        let known = held.rubbish.iter().position(|(of, known)| *of == what && is_same(known));
        if let Some(known) = known {
            let (_, before) = held.rubbish.remove(known);
            self.octets = self.octets - before.len() + text.len();
            held.rubbish.push((what, text.to_vec()));
        } else if has_room && CleanupItem::read(what, text).is_some() {
            self.octets += text.len();
            held.rubbish.push((what, text.to_vec()));
        }
    }

    fn forget(&mut self, lock: &[u8]) {
        let octets =
            |held: &Held| held.lock.len() + held.rubbish.iter().map(|(_, text)| text.len()).sum::<usize>();
        let gone: usize = self.held.extract_if(.., |held| held.lock == lock).map(|held| octets(&held)).sum();
        self.octets -= gone;
    }

    fn has_room(&self, text: &[u8]) -> bool {
        self.octets + text.len() <= MOST
    }

    /// The kernel routers, the last one first.
    pub(super) fn kernels(&self) -> Vec<Leftover> {
        self.found(|rubbish| match rubbish {
            CleanupItem::Kernel(leftover) => Some(leftover),
            _ => None,
        })
    }

    /// Containers, the last one first, each with the lock that it goes with.
    pub(super) fn containers(&self) -> Vec<(PathBuf, OrphanedContainer)> {
        self.found_with_locks(|rubbish| match rubbish {
            CleanupItem::Container(left) => Some(left),
            _ => None,
        })
    }

    /// Virtual functions, the last one first, each with the lock on it.
    pub(super) fn functions(&self) -> Vec<(PathBuf, sriov::FormerSettings)> {
        self.found_with_locks(|rubbish| match rubbish {
            CleanupItem::Function(former) => Some(former),
            _ => None,
        })
    }

    /// Records of numbers of virtual functions.
    pub(super) fn counts(&self) -> Vec<sriov::CountRecord> {
        self.found(|rubbish| match rubbish {
            CleanupItem::Count(record) => Some(record),
            _ => None,
        })
    }

    fn found<T>(&self, is_one: impl Fn(CleanupItem) -> Option<T>) -> Vec<T> {
        self.found_with_locks(is_one).into_iter().map(|(_, found)| found).collect()
    }

    /// Objects, the last one first, each with the lock that it goes with.
    fn found_with_locks<T>(&self, is_one: impl Fn(CleanupItem) -> Option<T>) -> Vec<(PathBuf, T)> {
        let told = self.held.iter().rev();
        let told = told.flat_map(|held| held.rubbish.iter().rev().map(move |rubbish| (&held.lock, rubbish)));
        let found = told.filter_map(|(lock, (what, text))| {
            Some((to_path(lock), is_one(CleanupItem::read(*what, text)?)?))
        });
        found.collect()
    }

    /// Each lock with what goes with it.
    pub(super) fn locks(&self) -> impl Iterator<Item = (PathBuf, Vec<CleanupItem>)> {
        self.held.iter().map(|held| {
            let rubbish = held.rubbish.iter().filter_map(|(what, text)| CleanupItem::read(*what, text));
            (to_path(&held.lock), rubbish.collect())
        })
    }
}

/// The name in an entry.
fn name_of(text: &[u8]) -> &[u8] {
    text.split(|octet| *octet == b'\n').next().unwrap_or_default()
}

/// The part of an entry behind the name.
fn after_name(text: &[u8]) -> Option<&[u8]> {
    text.get(name_of(text).len() + 1..)
}

/// Skips the rest of a line.
fn skip_line(told: &mut impl BufRead) -> io::Result<()> {
    told.skip_until(0).map(drop)
}

fn to_path(octets: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(octets.to_vec()))
}
