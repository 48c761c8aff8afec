//! Spawns processes in namespaces of their own.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::child::{ChildSetup, NOBODY, User};
use super::{Spawn, Spawned};
use crate::firmware::Firmware;

/// A user namespace comes first: it permits unprivileged users to create the others.
const NAMESPACES: i32 =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;

/// Forks the calling program and turns the copy into a process for a firmware.
pub struct Forker {
    plain: File,
    jumbo: File,
    /// A pidfd of this process, by which its children check whether it is still alive.
    own: OwnedFd,
}

impl Forker {
    /// Puts the firmware images into memory from which they can be executed.
    pub fn new() -> Result<Self> {
        let (plain, jumbo) = (executable(Firmware::Plain)?, executable(Firmware::Jumbo)?);
        let own = pidfd_open(getpid(), PidfdFlags::empty());
        let own = own.context("cannot get a descriptor of this process (pidfd_open)")?;
        Ok(Self { plain, jumbo, own })
    }

    fn image(&self, firmware: Firmware) -> &File {
        match firmware {
            Firmware::Plain => &self.plain,
            Firmware::Jumbo => &self.jumbo,
        }
    }

    /// Spawns a process like [`Spawn::spawn`]. `enter` is called with its ID before the process does
    /// anything: it puts the process below the resource ceilings of its run.
    ///
    /// # Errors
    /// See [`Spawn::spawn`].
    pub fn spawn_within(
        &self,
        (name, firmware): (&str, Firmware),
        enter: impl FnOnce(u32),
    ) -> Result<Spawned> {
        let (socket, theirs) = socket_pair().context("cannot make a socket pair")?;
        let sockets = [theirs.as_raw_fd(), socket.as_raw_fd()];
        let image = self.image(firmware).as_raw_fd();
        let room = ChildSetup::new(sockets, self.own.as_raw_fd(), image, name)?;
        let mut pidfd = -1;
        let mut orders = clone_args(&mut pidfd);
        // SAFETY: without CLONE_VM the child gets a copy of this process with one thread, and uses nothing but
        // `room`, which was made before, and system calls: no lock, no allocation.
        let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut orders, size_of::<CloneArgs>()) };
        match pid {
            0 => room.become_firmware_or_exit(),
            1.. => {
                // SAFETY: the kernel has just made this descriptor for us.
                let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
                // Only root may map another user, and only if that user exists in the namespace; otherwise
                // the process keeps its user.
                let mapped = sandbox::map_user(pid, NOBODY, NOBODY);
                let user = if mapped.is_ok() { User::Nobody } else { User::AsBefore };
                // A guest's process must not be spared by the OOM killer, even if its parent is.
                let _ = sandbox::reset_oom_score(pid);
                enter(pid as u32);
                // If it has ended already, the handover will report the reason.
                let _ = send(&socket, &[user as u8], SendFlags::NOSIGNAL);
                Ok(Spawned { socket, pidfd, pid: pid as i32 })
            }
            _ => Err(refused(&io::Error::last_os_error())),
        }
    }
}

impl Spawn for Forker {
    fn spawn(&self, name: &str, firmware: Firmware) -> Result<Spawned> {
        self.spawn_within((name, firmware), |_| {})
    }
}

/// Arguments of clone3 as of Linux 5.3.
#[derive(Default)]
#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

fn clone_args(pidfd: &mut i32) -> CloneArgs {
    CloneArgs {
        flags: (NAMESPACES | libc::CLONE_PIDFD) as u64,
        pidfd: std::ptr::from_mut(pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    }
}

/// Describes why there are no namespaces, and what would help.
fn refused(error: &io::Error) -> anyhow::Error {
    let why = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "this host lets this user make no user namespace; root may, or sysctl kernel.unprivileged_userns_clone=1 \
             and kernel.apparmor_restrict_unprivileged_userns=0 where they exist, and no chroot"
        }
        Some(libc::ENOSPC | libc::EUSERS) => {
            "no more namespaces are allowed: raise the sysctl user.max_user_namespaces"
        }
        Some(libc::EINVAL | libc::ENOSYS) => "this kernel lacks user, pid, net or ipc namespaces, or clone3",
        Some(libc::EAGAIN) => "no more processes are allowed: raise ulimit -u",
        _ => "the kernel does not start a process",
    };
    anyhow!("the engine `process` needs namespaces, but {why} ({error})")
}

pub(super) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Returns memory that has a firmware image, and never changes.
fn executable(firmware: Firmware) -> Result<File> {
    let mut image = memfd().context("cannot make memory for the firmware image (memfd_create)")?;
    image.write_all(firmware.image()).context("cannot write the firmware image")?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&image, seals).context("cannot seal the firmware image")?;
    Ok(image)
}

fn memfd() -> io::Result<File> {
    let make = |flags| memfd_create(c"ringroad-firmware", flags);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Allows execution even if the host's default forbids it for memfds (`vm.memfd_noexec`); Linux 6.3.
    let made = match make(flags | MemfdFlags::EXEC) {
        // A kernel that does not know the flag lets every memfd be executed.
        Err(Errno::INVAL) => make(flags),
        made => made,
    };
    Ok(made?.into())
}
