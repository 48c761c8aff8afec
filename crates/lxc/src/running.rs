//! A running container under supervision.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::info::cause;
use crate::programs::failed;
use crate::{Container, Error, HostPaths, Info, OrphanedContainer, Programs, Root};

/// Time limit of `lxc-info`. It queries `lxc-start`, which normally answers at once, but not while it moves interfaces: see
/// [`TimeLimits::default`].
const ANSWER: Duration = Duration::from_secs(30);
/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum octets of LXC's log that are read.
const LOG: u64 = 64 << 10;

/// Time limits for LXC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the container to run.
    pub start: Duration,
    /// For its init to exit after the request to do so.
    pub asked: Duration,
    /// For LXC to kill the container, and then for `lxc-start` to exit. This limit applies at most twice.
    pub killed: Duration,
    /// For `lxc-start` to exit after we have killed the container's init.
    pub init_killed: Duration,
    /// For the kernel to end `lxc-start` after we have killed that too.
    pub monitor_killed: Duration,
}

impl Default for TimeLimits {
    /// 60 s, 10 s, and 15 s for each of the others. LXC needs far less; but each namespace that it makes or ends, and each
    /// interface that it moves, waits for grace periods of the kernel, which take seconds on a busy host.
    fn default() -> Self {
        let [start, asked, killed] = [60, 10, 15].map(Duration::from_secs);
        Self { start, asked, killed, init_killed: killed, monitor_killed: killed }
    }
}

/// Outcome of stopping a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// Ended in time. A container with programs of the host was killed, as it has no state to save; another one shut down on
    /// request.
    InTime,
    /// LXC did not end it in time, so its init was killed.
    Killed,
    /// `lxc-start` hung and was killed. The kernel has returned moved interfaces, under the names that they had inside.
    MonitorKilled,
}

/// A running container. Dropping it kills and removes it.
#[derive(Debug)]
pub struct Running {
    programs: Programs,
    patience: TimeLimits,
    left: OrphanedContainer,
    own_init: bool,
    child: Child,
    init: Option<Init>,
    /// True after the container has ended and was removed.
    is_removed: bool,
}

#[derive(Debug)]
struct Init {
    pid: u32,
    process: OwnedFd,
    network: OwnedFd,
}

impl Running {
    /// Starts a container in the run's directory `home`, and waits until its init runs. The caller has recorded its [`OrphanedContainer`]
    /// before. Blocks; to be called on a thread that may wait.
    ///
    /// # Errors
    /// One line: LXC is not installed, refuses, or takes too long. Nothing is left behind then.
    pub fn start(
        programs: &Programs,
        container: &Container,
        home: &Path,
        patience: TimeLimits,
    ) -> Result<Self, Error> {
        programs.look()?;
        let left = OrphanedContainer::new(&container.name, home);
        // A container of this name that an earlier run has left.
        left.clean(programs)?;
        let ground = HostPaths::look(Path::new("/"), left.folder());
        if let Err(error) = ground.make(container) {
            // A partly built directory.
            let _ = left.remove();
            return Err(error);
        }
        let log = ground.log();
        let spawned = programs
            .command("lxc-start")
            .args(left.arguments(&["-F", "-o", &log.display().to_string(), "-l", "WARN", "-C"]))
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(answer) => {
                let _ = left.remove();
                return Err(failed("lxc-start", answer));
            }
        };
        let own_init = matches!(container.root, Root::Folder { .. });
        let programs = programs.clone();
        let mut running = Self { programs, patience, left, own_init, child, init: None, is_removed: false };
        running.init = Some(running.wait_until_running(&log)?);
        Ok(running)
    }

    /// Returns its name for LXC.
    pub fn name(&self) -> &str {
        &self.left.name
    }

    /// Returns true if its init is a program of the user's, which is asked to end.
    pub const fn has_own_init(&self) -> bool {
        self.own_init
    }

    /// Returns the PID of its init outside the container.
    pub fn pid(&self) -> u32 {
        self.init.as_ref().map_or(0, |init| init.pid)
    }

    /// Returns its network namespace, which exists as long as a copy of this descriptor.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn network(&self) -> Result<OwnedFd, Error> {
        let init = self.init.as_ref().ok_or_else(|| self.refused("it does not run".to_owned()))?;
        init.network.try_clone().map_err(|e| Error::system("copying a descriptor", e))
    }

    /// Returns a descriptor that becomes readable when its init exits.
    pub fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.init.as_ref().map(|init| init.process.as_fd())
    }

    /// Returns the exit status of `lxc-start`, if it has exited: the container is gone then.
    ///
    /// # Errors
    /// The kernel cannot report it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(|e| Error::system("looking at `lxc-start`", e))
    }

    /// Ends the container in bounded time, and removes its files. LXC requests its init to exit, and kills it after a time limit.
    /// If LXC hangs, this function kills the init, and finally `lxc-start`. Blocks; to be called on a thread that may wait.
    ///
    /// # Errors
    /// One line: the container does not end even so, or its directory cannot be removed.
    pub fn stop(mut self) -> Result<StopOutcome, Error> {
        let how = self.end()?;
        self.is_removed = true;
        self.left.remove().map(|()| how)
    }

    /// Waits until the container runs and its init and network namespace are known.
    fn wait_until_running(&mut self, log: &Path) -> Result<Init, Error> {
        let end = Instant::now() + self.patience.start;
        loop {
            if let Some(status) = self.ended()? {
                let why = log_error(log)
                    .unwrap_or_else(|| format!("`lxc-start` exited ({status}) without an error message"));
                return Err(self.refused(why));
            }
            if let Some(pid) = self.info()?.and_then(|info| info.running())
                && let Some(init) = self.open_init(pid)?
            {
                return Ok(init);
            }
            if Instant::now() >= end {
                let said = log_error(log).unwrap_or_else(|| "LXC printed no error message".to_owned());
                let (name, seconds) = (self.left.name.clone(), self.patience.start.as_secs());
                return Err(Error::Late { name, seconds, said });
            }
            sleep(LOOK);
        }
    }

    /// Queries LXC for its state; `None` while LXC does not know it.
    fn info(&self) -> Result<Option<Info>, Error> {
        match self.programs.run("lxc-info", &self.left.arguments(&["-s", "-p"]), ANSWER)? {
            Some(said) if said.well => Info::read(&said.output).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens the init and its network namespace. `None`: the init has exited meanwhile.
    fn open_init(&self, pid: u32) -> Result<Option<Init>, Error> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| Error::Info { found: format!("PID: {pid}") })?;
        let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(None) };
        let Ok(network) = File::open(format!("/proc/{pid}/ns/net")) else { return Ok(None) };
        // Both belong to that init only if it still runs now.
        let still = self.info()?.and_then(|info| info.running()) == Some(pid);
        Ok(still.then(|| Init { pid, process, network: network.into() }))
    }

    fn end(&mut self) -> Result<StopOutcome, Error> {
        let TimeLimits { asked, killed, init_killed, monitor_killed, .. } = self.patience;
        let seconds = asked.as_secs().to_string();
        let (ask, kill) = (["-t", seconds.as_str()], ["-k"]);
        let (more, patience) = if self.own_init { (&ask[..], asked + killed) } else { (&kill[..], killed) };
        // The result of `lxc-stop` does not matter: the container ends or not. If `lxc-stop` hung, the time is already used up.
        let answer = self.programs.run("lxc-stop", &self.left.arguments(more), patience);
        let more = if matches!(answer, Ok(None)) { Duration::ZERO } else { killed };
        if self.ends_within(more)? {
            return Ok(StopOutcome::InTime);
        }
        self.kill_init();
        if self.ends_within(init_killed)? {
            return Ok(StopOutcome::Killed);
        }
        // Fails if it has exited already.
        let _ = self.child.kill();
        if self.ends_within(monitor_killed)? {
            return Ok(StopOutcome::MonitorKilled);
        }
        Err(Error::Stuck { name: self.left.name.clone(), pid: self.child.id() })
    }

    fn kill_init(&self) {
        if let Some(init) = &self.init {
            let _ = pidfd_send_signal(&init.process, Signal::KILL);
        }
    }

    fn ends_within(&mut self, patience: Duration) -> Result<bool, Error> {
        let end = Instant::now() + patience;
        while self.ended()?.is_none() {
            if Instant::now() >= end {
                return Ok(false);
            }
            sleep(LOOK);
        }
        Ok(true)
    }

    fn refused(&self, why: String) -> Error {
        Error::Refused { name: self.left.name.clone(), why }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_removed {
            // Killing the init first lets `lxc-start` return the interfaces that it has moved.
            self.kill_init();
            let patience = if self.init.is_some() { self.patience.init_killed } else { Duration::ZERO };
            if !self.ends_within(patience).unwrap_or(false) {
                let _ = self.child.kill();
                let _ = self.ends_within(self.patience.monitor_killed);
            }
            let _ = self.left.remove();
        }
    }
}

/// Returns the reason of LXC's failure, from the beginning of its log.
fn log_error(log: &Path) -> Option<String> {
    let mut octets = Vec::new();
    File::open(log).ok()?.take(LOG).read_to_end(&mut octets).ok()?;
    cause(&String::from_utf8_lossy(&octets))
}
