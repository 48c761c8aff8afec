//! Cleaner process. It does nothing but wait for the end of the process that holds the locks, and removes
//! what that one could not remove itself because it was killed: lock files and sockets (also those that peers
//! of vhost-user connect to), macvtaps, ports of Open vSwitch, groups and sets of CPUs that its threads were
//! in, names of namespaces of kernel routers, and their containers. It also returns interfaces that were moved
//! into kernel routers, and restores settings and numbers of virtual functions. Everything else that a run makes
//! belongs to descriptors and disappears with them.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::BackOff;
use lxc::{OrphanedContainer, Programs};
use netns::Namespace;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use uplink::Undo;

use super::file::{clean_up_all, is_taken_over, take_left, until_long_timeout, until_timeout};
use crate::kernels::backend::Remains;

mod list;

pub(super) use list::CleanupItem;
use list::List;

/// Prefix of the path of a lock.
const LOCK: u8 = b'l';
/// Prefix of the path of a lock and, after a line feed, that of a file that goes with it.
const RUBBISH: u8 = b'r';
/// Prefix of the path of a lock and, after a line feed, an [`Undo`] that goes with it.
const UNDO: u8 = b'u';
/// Prefix of the path of a lock and, after a line feed, a [`sched::Undo`] that goes with it.
const SCHEDULE: u8 = b's';
/// Prefix of a kernel router's entry: the path of a lock and, after line feeds, a name in `/run/netns` and the
/// [`kernel_router::Leftover`] with that name. A later entry replaces an earlier one of the same name.
const KERNEL: u8 = b'k';
/// Prefix of a container's entry: the path of a lock and, after line feeds, its name and its [`lxc::OrphanedContainer`].
const CONTAINER: u8 = b'c';
/// Prefix of a virtual function's entry: the path of the lock on it and, after line feeds, its PCI address and the
/// [`sriov::FormerSettings`] with its former settings.
const FUNCTION: u8 = b'v';
/// Prefix of the entry of a port's number of virtual functions: the path of a lock and, after line feeds, the port's PCI address and its
/// [`sriov::CountRecord`].
const COUNT: u8 = b'n';
/// Prefixes of entries that are replaced by a later entry of the same name.
const NAMED: [u8; 4] = [KERNEL, CONTAINER, FUNCTION, COUNT];
/// Prefix of a path that is not to be removed any more.
const FORGET: u8 = b'f';

/// List of what is to be removed, and the pipe to the cleaner process, which learns of changes at once.
#[derive(Debug, Default)]
struct CleanupEntries {
    /// In the order of their announcement, as sent.
    lines: Vec<Vec<u8>>,
    /// `None` while there is no cleaner process.
    pipe: Option<ChildStdin>,
}

impl CleanupEntries {
    /// Records an entry and sends it.
    fn note(&mut self, what: u8, path: &[u8]) {
        let line = [&[what], path, &[0]].concat();
        match what {
            FORGET => self.lines.retain(|line| !is_about(line, path)),
            _ => {
                // Made again: moved to the end, since what it depends on may have been made meanwhile.
                self.lines.retain(|known| subject(known) != subject(&line));
                self.lines.push(line.clone());
            }
        }
        if let Some(pipe) = &mut self.pipe {
            // If the cleaner was killed, its successor is sent the whole list.
            let _ = pipe.write_all(&line);
        }
    }
}

/// Identity of an entry: all of it, or for these prefixes only the prefix, the lock and the name.
fn subject(line: &[u8]) -> &[u8] {
    let is_told = line.first().is_some_and(|what| NAMED.contains(what));
    // The rest follows the lock and the name.
    let end = line.iter().enumerate().filter(|(_, octet)| **octet == b'\n').map(|(at, _)| at).nth(1);
    end.filter(|_| is_told).and_then(|end| line.get(..end)).unwrap_or(line)
}

/// Returns true if a line concerns this lock, or something that goes with it.
fn is_about(line: &[u8], lock: &[u8]) -> bool {
    let rest = line.get(1..).and_then(|line| line.strip_prefix(lock));
    rest.is_some_and(|rest| rest.starts_with(b"\0") || rest.starts_with(b"\n"))
}

/// Shared list of what is to be removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct CleanupList(Arc<Mutex<CleanupEntries>>);

impl CleanupList {
    fn notes(&self) -> MutexGuard<'_, CleanupEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a lock.
    pub(super) fn add_lock(&self, path: &Path) {
        self.notes().note(LOCK, path.as_os_str().as_bytes());
    }

    /// Adds a file that goes with `lock`.
    pub(super) fn add_rubbish(&self, lock: &Path, path: &Path) {
        self.note_with(RUBBISH, lock, path.as_os_str().as_bytes());
    }

    /// Adds a host object that goes with `lock`.
    pub(super) fn add_undo(&self, lock: &Path, undo: &Undo) {
        if let Ok(undo) = serde_json::to_string(undo) {
            self.note_with(UNDO, lock, undo.as_bytes());
        }
    }

    /// Adds something that was made for the placement of threads and goes with `lock`.
    pub(super) fn add_schedule(&self, lock: &Path, undo: &sched::Undo) {
        if let Ok(undo) = serde_json::to_string(undo) {
            self.note_with(SCHEDULE, lock, undo.as_bytes());
        }
    }

    /// Records what exists of a kernel router now, to be removed when the process is dead. It goes with `lock`, except for a virtual
    /// function, which goes with its own.
    pub(super) fn add_rest(&self, lock: &Path, rest: &Remains<'_>) {
        let (lock, what, name, text) = match rest {
            Remains::Kernel(leftover) => {
                let name = leftover.published.clone().unwrap_or_default();
                (lock, KERNEL, name, serde_json::to_string(leftover))
            }
            Remains::Container(left) => (lock, CONTAINER, left.name.clone(), serde_json::to_string(left)),
            Remains::Function(former, own) => {
                (*own, FUNCTION, former.address.to_string(), serde_json::to_string(former))
            }
            Remains::Count(record) => (lock, COUNT, record.port.to_string(), serde_json::to_string(record)),
        };
        if let Ok(text) = text {
            self.note_with(what, lock, format!("{name}\n{text}").as_bytes());
        }
    }

    /// Removes a lock and what goes with it from the list.
    pub(super) fn forget(&self, path: &Path) {
        self.notes().note(FORGET, path.as_os_str().as_bytes());
    }

    fn note_with(&self, what: u8, lock: &Path, rest: &[u8]) {
        // The folder of a lock has a plain name without a line feed.
        self.notes().note(what, &[lock.as_os_str().as_bytes(), b"\n", rest].concat());
    }

    /// Sends the whole list to another cleaner process, and all changes from now on.
    fn tell(&self, mut pipe: ChildStdin) -> io::Result<()> {
        let mut notes = self.notes();
        pipe.write_all(&notes.lines.concat())?;
        notes.pipe = Some(pipe);
        Ok(())
    }
}

/// Supervisor's handle on the cleaner process. Dropping it ends the process, which then removes nothing.
pub(crate) struct Cleaner {
    cleanup_list: CleanupList,
    command: Box<dyn Fn() -> Command>,
    /// `None`: it has ended, and a successor will be started.
    child: Option<Own>,
    since: Instant,
    back_off: BackOff,
    again: Option<Instant>,
}

/// Child process of the supervisor.
#[derive(Debug)]
struct Own {
    child: Child,
    /// Readable once the process has ended.
    pidfd: OwnedFd,
}

impl Own {
    fn start(mut command: Command, cleanup_list: &CleanupList) -> Result<Self> {
        let why = "cannot start the process that cleans up";
        let mut child = command.stdin(Stdio::piped()).spawn().context(why)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let told = child.stdin.take().context(why).and_then(|pipe| cleanup_list.tell(pipe).context(why));
        match pidfd.context(why).and_then(|pidfd| told.map(|()| pidfd)) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }
}

fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("cleaner").arg(std::process::id().to_string()).current_dir("/");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Cleaner {
    /// Starts the process.
    ///
    /// # Errors
    /// No process can be started.
    pub(crate) fn start(cleanup_list: CleanupList, now: Instant) -> Result<Self> {
        Self::start_as(Box::new(command), cleanup_list, now)
    }

    fn start_as(command: Box<dyn Fn() -> Command>, cleanup_list: CleanupList, now: Instant) -> Result<Self> {
        let child = Some(Own::start(command(), &cleanup_list)?);
        Ok(Self { cleanup_list, command, child, since: now, back_off: BackOff::default(), again: None })
    }

    /// Descriptor to poll for reading: the end of the process.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.child.as_ref().map(|own| own.pidfd.as_fd())
    }

    /// When a successor is to be started.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.again
    }

    /// Notices the end of the process, and starts a successor after a pause. Returns a line to report.
    pub(crate) fn attend(&mut self, now: Instant) -> Option<String> {
        let ended = self.child.as_mut().and_then(|own| Some((own.child.id(), own.child.try_wait().ok()??)));
        if let Some((pid, status)) = ended {
            self.child = None;
            self.cleanup_list.notes().pipe = None;
            let pause = self.pause(now);
            let next = format!("another one is started in {pause:?}");
            return Some(format!(
                "the process that cleans up after this one (pid {pid}) has ended ({status}); {next}"
            ));
        }
        self.again.take_if(|again| now >= *again)?;
        self.since = now;
        match Own::start((self.command)(), &self.cleanup_list) {
            Ok(own) => {
                self.child = Some(own);
                None
            }
            Err(error) => Some(format!("{error:#}; once more in {:?}", self.pause(now))),
        }
    }

    fn pause(&mut self, now: Instant) -> Duration {
        let pause = self.back_off.failed(now.saturating_duration_since(self.since));
        self.again = Some(now + pause);
        pause
    }
}

impl fmt::Debug for Cleaner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleaner").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // The process must be dead before its pipe is closed: the closed pipe would make it clean up.
        if let Some(mut own) = self.child.take() {
            let _ = own.child.kill();
            let _ = own.child.wait();
        }
    }
}

/// Main function of the cleaner process: waits until the process with number `parent` is gone, and cleans up.
pub fn clean_up_after(parent: u32) -> Result<()> {
    // Own session: out of reach of a terminal's signals.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ringroad/clean");
    let list = List::hear(io::stdin().lock()).context("cannot hear the other process")?;
    // Held until their settings are restored: a run that claims one meanwhile would take those of the dead run for the former ones.
    let functions = locked_functions(&list, parent);
    // What another run of this name starts from now on is not of the dead one.
    let of_containers = |(lock, left): (PathBuf, OrphanedContainer)| (lock, left.monitors_now(), left);
    let containers: Vec<_> = list.containers().into_iter().map(of_containers).collect();
    // The data plane does not hold these, and a new run of the same routers may be waiting for their names.
    if let Ok(home) = Namespace::current() {
        list.kernels().iter().for_each(|leftover| drop(leftover.remove(&home)));
    }
    for (lock, monitors, left) in containers {
        // LXC would find the new container of this name, and the directory is that of the other run.
        let is_taken = || is_taken_over(&lock, parent);
        let _ = left.clean_unless(&Programs::default(), is_taken);
        if is_taken() {
            monitors.kill();
        } else {
            let _ = fs::remove_dir(&left.home);
        }
    }
    restore_functions(functions, &list.counts());
    clean_up_all(list.locks().collect(), parent, &mut until_long_timeout());
    Ok(())
}

/// Takes the locks on the virtual functions of the dead process, except for those that another run has by now.
fn locked_functions(list: &List, dead: u32) -> Vec<(File, sriov::FormerSettings)> {
    let mut wait = until_timeout();
    let lock = |(path, former): (PathBuf, _)| Some((take_left(&path, dead, &mut wait)?, former));
    list.functions().into_iter().filter_map(lock).collect()
}

/// Restores the ports' former settings and numbers of virtual functions, and releases the functions. Their interfaces have been returned
/// to the host by now.
fn restore_functions(locked: Vec<(File, sriov::FormerSettings)>, counts: &[sriov::CountRecord]) {
    if locked.is_empty() && counts.is_empty() {
        return;
    }
    let sysfs = sriov::Sysfs::here();
    if let Ok(kernel) = netlink::Netlink::open() {
        locked.iter().for_each(|(_, former)| drop(sriov::restore(&sysfs, &kernel, former)));
    }
    drop(locked);
    counts.iter().for_each(|record| drop(record.restore(&sysfs)));
}

#[cfg(test)]
mod tests;
