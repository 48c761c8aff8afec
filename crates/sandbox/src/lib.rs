//! What a thread of the data plane may still ask of the kernel, and nothing more.
//!
//! Two steps. [`give_up_privileges`] is for the whole process, once, while it has one thread: a user, namespaces and an empty root of
//! its own, no capabilities, `no_new_privs`, not dumpable. [`confine`] is for each thread, at the end of its set-up: a seccomp filter of its
//! [`Class`]. A call that the class does not list is not carried out; it ends the process with one line that names
//! the thread and the call, by SIGSYS ([`was_forbidden`]).
//!
//! A few calls are answered by an error instead, because the C library or the report of a panic makes them on its own
//! and goes on without: opening files, asking for paths (EACCES), clone3(2) (ENOSYS: its flags cannot be seen by a
//! filter, those of the clone(2) that is tried next can).

mod class;
mod filter;
mod ioctl;
mod jail;
mod names;
mod privileges;
mod rules;
pub mod steps;
mod violation;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::Result;

pub use class::Class;
pub use filter::confine;
pub use jail::{Missing, map_user};
pub use privileges::{be_ordinary, give_up_privileges};

/// Whether threads are confined. For measurements of what it costs; `ringroad run` always confines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Each thread enters the filter of its class.
    #[default]
    On,
    /// None does.
    Off,
}

impl Confinement {
    /// Confines the calling thread, if threads are confined.
    ///
    /// # Errors
    /// As [`confine`].
    pub fn enter(self, class: Class) -> Result<()> {
        match self {
            Self::On => confine(class),
            Self::Off => Ok(()),
        }
    }
}

/// Whether a process ended because one of its threads asked the kernel for something that its class may not.
pub fn was_forbidden(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGSYS)
}
