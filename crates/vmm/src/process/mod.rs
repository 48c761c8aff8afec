//! Machine in a process of its own: the same firmware, started from the same image, in namespaces of its own
//! and under a seccomp filter of four system calls.
//!
//! [`Process::spawn`] has the empty process started; [`Process::hand_over`] gives it its memory and doorbells
//! by the socket. From then on [`Process::serve`] handles its register accesses and notices its end.

mod child;
mod forker;
mod handover;
mod pidfd;
mod serve;

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bootinfo::Environment;
use threads::cpu_clock;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::firmware::Firmware;
use crate::machine::{self, Machine, MachineConfig, Memory};
use crate::probe::tsc_khz;

pub use forker::Forker;

/// Spawner of processes for firmwares. A process that may not fork delegates this to the supervisor.
pub trait Spawn: Send + Sync {
    /// Spawns a process for the router `name`: image of this firmware, namespaces of its own, no privilege, no
    /// descriptor but its end of the socket. It waits there for [`Process::hand_over`], and dies with the
    /// thread that called this.
    ///
    /// # Errors
    /// One line: what this host refuses, and what would permit it.
    fn spawn(&self, name: &str, firmware: Firmware) -> Result<Spawned>;

    /// Kills a process that it has spawned, without waiting for its end; does nothing if it has ended
    /// already. A process that may not send signals delegates this to the supervisor.
    fn kill(&self, process: &Child) {
        pidfd::kill(&process.pidfd);
    }
}

/// A spawned process that waits for its handover.
#[derive(Debug)]
pub struct Spawned {
    /// Our end of the socket (`SOCK_SEQPACKET`).
    pub socket: OwnedFd,
    /// A pidfd, to wait for the process and to kill it.
    pub pidfd: OwnedFd,
    /// Its ID in our namespace.
    pub pid: i32,
}

/// Kills a spawned process that is not needed any more, and waits until it has ended.
pub fn end(pidfd: &OwnedFd) {
    pidfd::kill(pidfd);
    pidfd::wait(pidfd);
}

/// A machine in a process.
pub struct Process {
    machine: Arc<Machine>,
    /// Signalled by the process to request a register access, and by this program to stop serving.
    bell: EventFd,
    child: OnceLock<Child>,
    /// The build that it runs.
    firmware: Firmware,
}

/// The process of a router.
pub struct Child {
    /// The router's name.
    name: String,
    /// Our end of its socket.
    socket: OwnedFd,
    pidfd: OwnedFd,
    pid: i32,
    /// The spawner that has started it.
    spawner: Arc<dyn Spawn>,
    /// Highest CPU time that was read, in nanoseconds.
    spent: AtomicU64,
}

/// Duration of the measurement of the time-stamp counter, which takes place once in the life of this program.
const TSC_MEASUREMENT: Duration = Duration::from_millis(2);

impl Process {
    /// Creates the machine, ready for its devices; no process runs yet. Opens nothing.
    pub fn new(config: MachineConfig) -> Result<Self> {
        static KHZ: OnceLock<u64> = OnceLock::new();
        let firmware = Firmware::of(&config.info);
        let memory = Memory::new(config, Environment::Process)?;
        machine::write_tsc_khz(&memory.ram, *KHZ.get_or_init(|| tsc_khz(TSC_MEASUREMENT)))?;
        let machine = Machine::new(memory, None)?;
        let bell = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")?;
        Ok(Self { machine, bell, child: OnceLock::new(), firmware })
    }

    /// Spawns the process, which waits for [`Process::hand_over`].
    ///
    /// # Errors
    /// The error of [`Spawn::spawn`], or the machine has had a process already.
    pub fn spawn(&self, spawner: &Arc<dyn Spawn>, name: &str) -> Result<()> {
        let Spawned { socket, pidfd, pid } = spawner.spawn(name, self.firmware)?;
        let (name, spawner) = (name.to_owned(), spawner.clone());
        let child = Child { name, socket, pidfd, pid, spawner, spent: AtomicU64::new(0) };
        let Err(second) = self.child.set(child) else { return Ok(()) };
        second.end();
        bail!("the process of a machine is started once")
    }

    /// Hands the process its memory and doorbells. vCPU `n` runs on the CPU `cpus[n]`, if there is one. When
    /// this returns the process is confined and its firmware is about to run; a thread must call
    /// [`Process::serve`]. Blocks until the process reports that, has ended, or [`Process::stop`] is called:
    /// the caller judges how long a process may take.
    ///
    /// # Errors
    /// One line: the step that failed in the process. The process is then killed.
    pub fn hand_over(&self, cpus: &[u32]) -> Result<()> {
        let child = self.child.get().context("a machine without a process is handed nothing")?;
        handover::hand_over(self, child, cpus).inspect_err(|_| child.kill())
    }

    /// Returns its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Returns the ID of the process, once it has been started.
    pub fn pid(&self) -> Option<i32> {
        self.child.get().map(|child| child.pid)
    }

    /// Returns the CPU time of all its vCPUs together; once the process has ended, the last value read.
    pub fn cpu_time(&self) -> Duration {
        self.child.get().map_or(Duration::ZERO, Child::cpu_time)
    }

    /// Requests it to stop. The serving thread kills it if it does not.
    pub fn stop(&self) {
        self.machine.stop();
        // A full counter means that it is signalled already.
        let _ = self.bell.write(1);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = self.child.get() {
            child.end();
        }
    }
}

impl Child {
    /// Returns the name of its router.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its ID in our namespace.
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    fn kill(&self) {
        self.spawner.kill(self);
    }

    /// Kills it, and waits until it has ended.
    fn end(&self) {
        self.kill();
        pidfd::wait(&self.pidfd);
    }

    fn cpu_time(&self) -> Duration {
        let now = cpu_clock::of_process(self.pid).as_nanos() as u64;
        // Checked after the reading: until the process has ended its ID cannot be reused.
        if !pidfd::is_over(&self.pidfd) {
            self.spent.fetch_max(now, Ordering::Relaxed);
        }
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }
}

fn borrow(event: &EventFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open for as long as the borrow of its owner.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn a_number_that_is_another_process_by_now_is_not_read() {
        let mut ended = std::process::Command::new("true").spawn().expect("a process");
        let pidfd = pidfd_open(Pid::from_child(&ended), PidfdFlags::empty()).expect("a descriptor");
        ended.wait().expect("it ends");
        // The ID of this process, which has used some CPU time.
        let child = Child {
            name: "edge".to_owned(),
            socket: pidfd.try_clone().expect("a descriptor"),
            pidfd,
            pid: std::process::id().cast_signed(),
            spawner: Arc::new(Forker::new().expect("an image")),
            spent: AtomicU64::new(70),
        };
        assert!(cpu_clock::of_process(child.pid) > Duration::from_nanos(70));
        assert_eq!(child.cpu_time(), Duration::from_nanos(70));
    }
}
