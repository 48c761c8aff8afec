//! A process that does nothing but wait for the end of the one that holds the locks, and removes what that could not
//! remove itself because it was killed: lock files and sockets (also those that peers of vhost-user connect to),
//! macvtaps, ports of Open vSwitch, groups and sets of CPUs that its threads were in. What else a run makes belongs to descriptors and goes with them.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::BackOff;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use uplink::Undo;

use super::file::{clean_up, patiently};

mod list;

use list::List;
pub(super) use list::Rubbish;

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

/// What is to be removed, and the process that hears of it at once.
#[derive(Debug, Default)]
struct Notes {
    /// In the order in which it was noted, each as it is told.
    lines: Vec<Vec<u8>>,
    /// None: nobody would remove it at the moment.
    pipe: Option<ChildStdin>,
}

impl Notes {
    /// Notes something, and tells of it.
    fn note(&mut self, what: u8, path: &[u8]) {
        let line = [&[what], path, &[0]].concat();
        match what {
            FORGET => self.lines.retain(|line| !is_about(line, path)),
            _ => {
                // Made again: what it stands on may have been made meanwhile.
                self.lines.retain(|known| *known != line);
                self.lines.push(line.clone());
            }
        }
        if let Some(pipe) = &mut self.pipe {
            // If somebody has killed it, the next one is told all of it.
            let _ = pipe.write_all(&line);
        }
    }
}

/// Whether a line is of this lock, or of something that goes with it.
fn is_about(line: &[u8], lock: &[u8]) -> bool {
    let rest = line.get(1..).and_then(|line| line.strip_prefix(lock));
    rest.is_some_and(|rest| rest.starts_with(b"\0") || rest.starts_with(b"\n"))
}

/// The list of what is to be removed, shared by all who make something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Notes>>);

impl Ledger {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be removed: a lock.
    pub(super) fn add_lock(&self, path: &Path) {
        self.notes().note(LOCK, path.as_os_str().as_bytes());
    }

    /// To be removed if `lock` is: something else.
    pub(super) fn add_rubbish(&self, lock: &Path, path: &Path) {
        self.note_with(RUBBISH, lock, path.as_os_str().as_bytes());
    }

    /// To be done if `lock` is removed.
    pub(super) fn add_undo(&self, lock: &Path, undo: &Undo) {
        if let Ok(undo) = serde_json::to_string(undo) {
            self.note_with(UNDO, lock, undo.as_bytes());
        }
    }

    /// To be done if `lock` is removed: what was done for the places of threads.
    pub(super) fn add_schedule(&self, lock: &Path, undo: &sched::Undo) {
        if let Ok(undo) = serde_json::to_string(undo) {
            self.note_with(SCHEDULE, lock, undo.as_bytes());
        }
    }

    /// Not to be removed any more.
    pub(super) fn forget(&self, path: &Path) {
        self.notes().note(FORGET, path.as_os_str().as_bytes());
    }

    fn note_with(&self, what: u8, lock: &Path, rest: &[u8]) {
        // The folder of a lock has a plain name.
        self.notes().note(what, &[lock.as_os_str().as_bytes(), b"\n", rest].concat());
    }

    /// Another process hears of everything from now on, and first of what there is.
    fn tell(&self, mut pipe: ChildStdin) -> io::Result<()> {
        let mut notes = self.notes();
        pipe.write_all(&notes.lines.concat())?;
        notes.pipe = Some(pipe);
        Ok(())
    }
}

/// The cleaner's process, as the supervisor holds it. Dropping it ends the process, which removes nothing then.
pub(crate) struct Cleaner {
    ledger: Ledger,
    command: Box<dyn Fn() -> Command>,
    /// None: it has ended, and there will be another one.
    child: Option<Own>,
    since: Instant,
    back_off: BackOff,
    again: Option<Instant>,
}

/// The process.
#[derive(Debug)]
struct Own {
    child: Child,
    /// Readable once it has ended.
    pidfd: OwnedFd,
}

impl Own {
    fn start(mut command: Command, ledger: &Ledger) -> Result<Self> {
        let why = "cannot start the process that cleans up";
        let mut child = command.stdin(Stdio::piped()).spawn().context(why)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let told = child.stdin.take().context(why).and_then(|pipe| ledger.tell(pipe).context(why));
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
    /// Starts it.
    ///
    /// # Errors
    /// No process can be made.
    pub(crate) fn start(ledger: Ledger, now: Instant) -> Result<Self> {
        Self::start_as(Box::new(command), ledger, now)
    }

    fn start_as(command: Box<dyn Fn() -> Command>, ledger: Ledger, now: Instant) -> Result<Self> {
        let child = Some(Own::start(command(), &ledger)?);
        Ok(Self { ledger, command, child, since: now, back_off: BackOff::default(), again: None })
    }

    /// What to poll for reading: its end.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.child.as_ref().map(|own| own.pidfd.as_fd())
    }

    /// When another one is to be started.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.again
    }

    /// Notices its end, and starts another one after a pause; what is to be told of that.
    pub(crate) fn attend(&mut self, now: Instant) -> Option<String> {
        let ended = self.child.as_mut().and_then(|own| Some((own.child.id(), own.child.try_wait().ok()??)));
        if let Some((pid, status)) = ended {
            self.child = None;
            self.ledger.notes().pipe = None;
            let pause = self.pause(now);
            let next = format!("another one is started in {pause:?}");
            return Some(format!(
                "the process that cleans up after this one (pid {pid}) has ended ({status}); {next}"
            ));
        }
        self.again.take_if(|again| now >= *again)?;
        self.since = now;
        match Own::start((self.command)(), &self.ledger) {
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
        // It must not see the end of its pipe before it is dead.
        if let Some(mut own) = self.child.take() {
            let _ = own.child.kill();
            let _ = own.child.wait();
        }
    }
}

/// The process itself: waits until the one with number `parent` is gone, and cleans up.
pub fn clean_up_after(parent: u32) -> Result<()> {
    // Out of reach of a terminal's signals.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ringroad/clean");
    let list = List::hear(io::stdin().lock()).context("cannot hear the other process")?;
    for (lock, rubbish) in list.locks() {
        clean_up(&lock, parent, &rubbish, &mut patiently());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
