//! A machine that runs as a process of its own: the same firmware, started from the same image, in namespaces of its
//! own and under a filter of four system calls.
//!
//! [`Process::spawn`] has somebody start the empty process; [`Process::hand_over`] gives it its memory and bells through the socket.
//! From then on [`Process::serve`] answers its register accesses and notices its end.

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
use bootinfo::Ground;
use threads::cpu_clock;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::machine::{self, Machine, MachineConfig, Memory};
use crate::probe::tsc_khz;

pub use forker::Forker;

/// Starts processes for firmwares. Who may not fork asks somebody who may.
pub trait Spawn: Send + Sync {
    /// Starts a process for the router `name`: firmware image, namespaces of its own, no privilege, no descriptor but
    /// its end of the socket. It waits there for [`Process::hand_over`], and dies with the thread that called this.
    ///
    /// # Errors
    /// One line: what this host refuses, and what would allow it.
    fn spawn(&self, name: &str) -> Result<Spawned>;

    /// Kills a process that it has started, and does not wait for its end; one that is gone stays gone. Whoever may not signal asks
    /// somebody who may.
    fn kill(&self, process: &Child) {
        pidfd::kill(&process.pidfd);
    }
}

/// A process that was started and waits for its orders.
#[derive(Debug)]
pub struct Spawned {
    /// Our end of the socket (`SOCK_SEQPACKET`).
    pub socket: OwnedFd,
    /// The process, to wait for and to kill.
    pub pidfd: OwnedFd,
    /// Its number in our namespace.
    pub pid: i32,
}

/// Ends a process that was spawned and is not wanted any more, and waits until it is gone.
pub fn end(pidfd: &OwnedFd) {
    pidfd::kill(pidfd);
    pidfd::wait(pidfd);
}

/// One machine in a process.
pub struct Process {
    machine: Arc<Machine>,
    /// Rung by the process when it asks for a register access, and by ourselves to stop serving.
    bell: EventFd,
    child: OnceLock<Child>,
}

/// The process of a router.
pub struct Child {
    /// Its router.
    name: String,
    /// Our end of its socket.
    socket: OwnedFd,
    pidfd: OwnedFd,
    pid: i32,
    /// What has started it.
    spawner: Arc<dyn Spawn>,
    /// The most time on CPUs that was read, in nanoseconds.
    spent: AtomicU64,
}

/// Time over which the time-stamp counter is measured, once in the life of this program.
const TSC_MEASUREMENT: Duration = Duration::from_millis(2);

impl Process {
    /// Makes the machine, ready for its devices; no process runs yet. Opens nothing.
    pub fn new(config: MachineConfig) -> Result<Self> {
        static KHZ: OnceLock<u64> = OnceLock::new();
        let memory = Memory::new(config, Ground::Process)?;
        machine::write_tsc_khz(&memory.ram, *KHZ.get_or_init(|| tsc_khz(TSC_MEASUREMENT)))?;
        let machine = Machine::new(memory, None)?;
        let bell = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")?;
        Ok(Self { machine, bell, child: OnceLock::new() })
    }

    /// Starts the process, which waits for [`Process::hand_over`].
    ///
    /// # Errors
    /// What [`Spawn::spawn`] says, or the machine has had a process already.
    pub fn spawn(&self, spawner: &Arc<dyn Spawn>, name: &str) -> Result<()> {
        let Spawned { socket, pidfd, pid } = spawner.spawn(name)?;
        let (name, spawner) = (name.to_owned(), spawner.clone());
        let child = Child { name, socket, pidfd, pid, spawner, spent: AtomicU64::new(0) };
        let Err(second) = self.child.set(child) else { return Ok(()) };
        second.end();
        bail!("the process of a machine is started once")
    }

    /// Hands the process its memory and bells. vCPU `n` runs on the CPU that `cpus` has for it, if any. When this returns the process
    /// is confined and its firmware is about to run; somebody must [`Process::serve`]. It waits until the process says so, is gone, or
    /// [`Process::stop`] is called: how long a process may take is for its caller to judge.
    ///
    /// # Errors
    /// One line: what the process says it cannot do. Then it is killed.
    pub fn hand_over(&self, cpus: &[u32]) -> Result<()> {
        let child = self.child.get().context("a machine without a process is handed nothing")?;
        handover::hand_over(self, child, cpus).inspect_err(|_| child.kill())
    }

    /// What the firmware runs on.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// The number of the process, once it has been started.
    pub fn pid(&self) -> Option<i32> {
        self.child.get().map(|child| child.pid)
    }

    /// Time that all its vCPUs together have spent on CPUs; once it is gone, what was read last.
    pub fn cpu_time(&self) -> Duration {
        self.child.get().map_or(Duration::ZERO, Child::cpu_time)
    }

    /// Asks it to stop. Whoever serves kills it if it does not.
    pub fn stop(&self) {
        self.machine.stop();
        // Full means that it rings.
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
    /// Name of its router.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in our namespace.
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    fn kill(&self) {
        self.spawner.kill(self);
    }

    /// Kills it, and waits until it is gone.
    fn end(&self) {
        self.kill();
        pidfd::wait(&self.pidfd);
    }

    fn cpu_time(&self) -> Duration {
        let now = cpu_clock::of_process(self.pid).as_nanos() as u64;
        // Looked at after the reading: until it has ended nobody else can have its number.
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
        // This process has run for a while.
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
