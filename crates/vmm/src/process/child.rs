//! Code of a new process until it becomes the firmware. The process is a copy of a multi-threaded program of
//! which only one thread was copied, so it uses system calls only: no allocation, no lock, no panic.

use std::ffi::{CString, c_char, c_int, c_ulong};
use std::mem::MaybeUninit;
use std::{io, ptr};

use anyhow::{Context, Result};
use bootinfo::process::{Report, SOCKET, Step};
use rustix::process::Resource;
use sandbox::steps;

/// Descriptor of the image until the process executes it; closed by `exec`.
const IMAGE: c_int = SOCKET + 1;
/// Resources whose limits are zero for a firmware: core, file size, message queues, real-time priority,
/// locked memory.
const FORBIDDEN: [Resource; 5] =
    [Resource::Core, Resource::Fsize, Resource::Msgqueue, Resource::Rtprio, Resource::Memlock];

/// User and group without any files, by the kernel's own default (`overflowuid`).
pub(super) const NOBODY: u32 = 65_534;

/// User of the process; the first octet that it receives by its socket.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum User {
    /// The user of its parent.
    AsBefore = 0,
    /// [`NOBODY`].
    Nobody = 1,
}

/// Data that the child needs, prepared while allocation was still allowed.
pub(super) struct ChildSetup {
    socket: c_int,
    /// The parent's end, of which the child has a copy.
    parents: c_int,
    /// A pidfd of the parent.
    parent: c_int,
    image: c_int,
    name: CString,
}

/// A failed step, and its error number.
struct Failed(Step, c_int);

type Done = std::result::Result<(), Failed>;

impl Failed {
    fn at(step: Step) -> impl FnOnce(io::Error) -> Self {
        move |error| Self(step, error.raw_os_error().unwrap_or_default())
    }

    /// Records that the last system call failed.
    fn now(step: Step) -> Self {
        Self::at(step)(io::Error::last_os_error())
    }
}

impl ChildSetup {
    /// Prepares a process that communicates by the first socket of a pair, whose second is its parent's, and
    /// becomes `image`. `parent` is a pidfd of the parent.
    pub(super) fn new(sockets: [c_int; 2], parent: c_int, image: c_int, name: &str) -> Result<Self> {
        let name = CString::new(name).context("a router's name has no zero in it")?;
        let [socket, parents] = sockets;
        Ok(Self { socket, parents, parent, image, name })
    }

    /// In the child: drops all privileges and becomes the firmware.
    pub(super) fn become_firmware_or_exit(&self) -> ! {
        let Err(Failed(step, error)) = self.steps();
        // Before the descriptors are arranged, the socket still has its old number.
        let socket =
            if matches!(step, Step::User | Step::Tie | Step::Descriptors) { self.socket } else { SOCKET };
        let report = Report { step: step as u32, error: error as u32 };
        // SAFETY: sends plain data, then leaves without running anything of the program that this is a copy of.
        unsafe {
            libc::send(socket, ptr::from_ref(&report).cast(), size_of::<Report>(), libc::MSG_NOSIGNAL);
            libc::_exit(1)
        }
    }

    fn steps(&self) -> std::result::Result<std::convert::Infallible, Failed> {
        tie()?;
        self.become_user()?;
        // A change of the user clears the parent-death signal.
        tie()?;
        self.check_parent()?;
        self.arrange_descriptors()?;
        steps::forbid(&FORBIDDEN).map_err(Failed::at(Step::Limits))?;
        steps::pivot_to_empty_root().map_err(Failed::at(Step::Root))?;
        give_up_privileges().map_err(Failed::at(Step::Privileges))?;
        Err(self.become_firmware())
    }

    /// Waits until the parent has sent the user to become, and becomes that user.
    fn become_user(&self) -> Done {
        let mut user = User::AsBefore as u8;
        // While a copy of the parent's end is open here, the death of a parent before this process was tied
        // to it would go unnoticed.
        // SAFETY: a descriptor of this process alone.
        unsafe { libc::close(self.parents) };
        // SAFETY: room for one octet.
        if unsafe { libc::recv(self.socket, (&raw mut user).cast(), 1, 0) } != 1 {
            return Err(Failed::now(Step::User));
        }
        if user == User::Nobody as u8 {
            steps::become_user(NOBODY).map_err(Failed::at(Step::User))?;
        }
        Ok(())
    }

    /// Checks that the parent is alive: a process tied to a parent that has died already gets no signal. The
    /// parent may have sent everything before its death.
    fn check_parent(&self) -> Done {
        let mut parent = libc::pollfd { fd: self.parent, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, and no waiting.
        match unsafe { libc::poll(&raw mut parent, 1, 0) } {
            0 => Ok(()),
            _ => Err(Failed::now(Step::Tie)),
        }
    }

    /// Closes all descriptors except the socket, and the image until it is executed.
    fn arrange_descriptors(&self) -> Done {
        let step = Step::Descriptors;
        // SAFETY: calls on descriptors of this process, which has no other threads. First both are moved away
        // from their final numbers.
        unsafe {
            let socket = check(libc::fcntl(self.socket, libc::F_DUPFD_CLOEXEC, IMAGE + 1), step)?;
            let image = check(libc::fcntl(self.image, libc::F_DUPFD_CLOEXEC, IMAGE + 1), step)?;
            check(libc::dup2(socket, SOCKET), step)?;
            check(libc::dup3(image, IMAGE, libc::O_CLOEXEC), step)?;
            let close = |first: c_int, last: u32| libc::syscall(libc::SYS_close_range, first, last, 0);
            check(close(0, SOCKET as u32 - 1) as c_int, step)?;
            check(close(IMAGE + 1, u32::MAX) as c_int, step)?;
        }
        Ok(())
    }

    /// Becomes the firmware; returns only if that fails.
    fn become_firmware(&self) -> Failed {
        let (arguments, environment) = ([self.name.as_ptr(), ptr::null()], [ptr::null::<c_char>()]);
        // SAFETY: C strings and lists of them with a null at their end.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                IMAGE,
                c"".as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        Failed::now(Step::Exec)
    }
}

/// Ties the process to the thread that created it, with which it dies, and unblocks all signals.
fn tie() -> Done {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: numbers, and a signal set that sigemptyset fills before it is used.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong, 0, 0, 0), Step::Tie)?;
        libc::sigemptyset(none.as_mut_ptr());
        check(libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()), Step::Tie)?;
    }
    Ok(())
}

/// Drops all capabilities, also for any program that is executed later.
fn give_up_privileges() -> io::Result<()> {
    steps::empty_bounding_set()?;
    steps::enter_no_new_privs()?;
    steps::drop_capabilities()
}

fn check(result: c_int, step: Step) -> std::result::Result<c_int, Failed> {
    if result < 0 { Err(Failed::now(step)) } else { Ok(result) }
}
