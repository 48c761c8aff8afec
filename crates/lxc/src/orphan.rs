//! Removal of a container whose supervisor was killed.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::{Error, Programs, folder};

/// Time limit for LXC to kill a container, and then for `lxc-start` to exit, which returns moved interfaces first. Each
/// of these waits for a grace period of the kernel, which may take seconds on a busy host.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between two checks, each of which looks at all processes.
const LOOK: Duration = Duration::from_millis(20);

/// A container that may have been left behind. The supervisor records it before it starts the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrphanedContainer {
    /// Name for LXC.
    pub name: String,
    /// Directory of the containers of this run (`lxc-start -P`); no other run uses it.
    pub home: PathBuf,
}

/// The `lxc-start` processes that a container had at one moment.
#[derive(Debug)]
pub struct Monitors(Vec<OwnedFd>);

impl OrphanedContainer {
    /// Describes the container of this name in a run's directory.
    pub fn new(name: &str, home: &Path) -> Self {
        Self { name: name.to_owned(), home: home.to_owned() }
    }

    /// Returns the container's directory.
    pub fn folder(&self) -> PathBuf {
        self.home.join(&self.name)
    }

    /// Ends the container if it runs, and removes its control groups and its directory. LXC returns the interfaces that it has
    /// moved. If `lxc-start` was killed too, the kernel does so, under the names that they had inside. This takes at most
    /// two minutes, and returns at once if there is no such container.
    ///
    /// # Errors
    /// Something is mounted in its directory, or the directory cannot be removed.
    pub fn clean(&self, programs: &Programs) -> Result<(), Error> {
        self.clean_within(programs, PATIENCE)
    }

    pub(crate) fn clean_within(&self, programs: &Programs, patience: Duration) -> Result<(), Error> {
        if !self.monitors().is_empty() {
            // Its result does not matter: the next check shows whether the container has ended.
            let _ = programs.run("lxc-stop", &self.arguments(&["-k"]), patience);
            if !self.has_ended(patience) {
                self.monitors_now().kill();
                self.has_ended(PATIENCE);
            }
        }
        self.remove()
    }

    /// Does what [`Self::clean`] does, for the `lxc-start` processes of this moment alone, unless another run has taken the container's
    /// name over. One that does so meanwhile ends the old container itself; its own container and its files stay.
    ///
    /// # Errors
    /// See [`Self::clean`].
    pub fn clean_unless(&self, programs: &Programs, is_taken_over: impl Fn() -> bool) -> Result<(), Error> {
        let monitors = self.monitors_now();
        // Asked after the look: otherwise these might be of the other run.
        if is_taken_over() {
            return Ok(());
        }
        if !monitors.have_ended(Duration::ZERO) {
            let _ = programs.run("lxc-stop", &self.arguments(&["-k"]), PATIENCE);
            if !monitors.have_ended(PATIENCE) {
                monitors.kill();
                monitors.have_ended(PATIENCE);
            }
        }
        if is_taken_over() { Ok(()) } else { self.remove() }
    }

    /// Removes the files of a container that has ended.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        folder::sweep(&self.home, &self.name);
        folder::remove(&self.folder())
    }

    /// Arguments that all LXC programs take (`-P`, `-n`), followed by `more`.
    pub(crate) fn arguments(&self, more: &[&str]) -> Vec<String> {
        let home = self.home.display().to_string();
        let words = ["-P", &home, "-n", &self.name];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    /// PIDs of the `lxc-start` processes of this container.
    pub(crate) fn monitors(&self) -> Vec<Pid> {
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers.filter(|pid| self.is_monitor(*pid)).filter_map(Pid::from_raw).collect()
    }

    fn is_monitor(&self, pid: i32) -> bool {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_lxc_start_command(&words, &self.arguments(&[]))
    }

    /// Waits up to `patience` for its `lxc-start` to exit. Returns true if it has.
    fn has_ended(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while !self.monitors().is_empty() {
            if Instant::now() >= end {
                return false;
            }
            sleep(LOOK);
        }
        true
    }

    /// Returns its `lxc-start` processes as they are now, to be killed even if another run starts a container of this name.
    pub fn monitors_now(&self) -> Monitors {
        let opened = |pid: Pid| {
            let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // The PID may have been reused before it was opened.
            self.is_monitor(pid.as_raw_nonzero().get()).then_some(process)
        };
        Monitors(self.monitors().into_iter().filter_map(opened).collect())
    }
}

impl Monitors {
    /// Kills them. The init of a container dies with its `lxc-start` (PR_SET_PDEATHSIG, which LXC sets), and all processes inside with
    /// the init.
    pub fn kill(&self) {
        for process in &self.0 {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Waits up to `patience` until they have ended. Returns true if they have.
    fn have_ended(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while !self.0.iter().all(has_exited) {
            if Instant::now() >= end {
                return false;
            }
            sleep(LOOK);
        }
        true
    }
}

/// Returns true if a process has exited: then its descriptor is readable.
fn has_exited(process: &OwnedFd) -> bool {
    let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default()));
    ready.is_ok_and(|count| count > 0)
}

/// Returns true if a command line, with NUL-terminated words, is that of `lxc-start` with these arguments. A script in place of
/// `lxc-start`, as tests use it, has its interpreter as first word.
pub(crate) fn is_lxc_start_command(cmdline: &[u8], told: &[String]) -> bool {
    let words: Vec<&[u8]> = cmdline.split(|octet| *octet == 0).collect();
    let is_program = |word: &&[u8]| *word == b"lxc-start" || word.ends_with(b"/lxc-start");
    let Some(at) = words.iter().take(2).position(is_program) else { return false };
    let rest = words.get(at + 1..).unwrap_or_default();
    rest.len() >= told.len() && rest.iter().zip(told).all(|(word, told)| *word == told.as_bytes())
}
