//! Least privilege for threads of the data plane.
//!
//! There are two steps. [`give_up_privileges`] is called once for the whole process, while it has one thread:
//! its own user, namespaces and an empty root, no capabilities, `no_new_privs`, not dumpable. [`confine`] is
//! called by each thread at the end of its set-up: a seccomp filter of its [`Class`]. A call that the class
//! does not list is not executed; it ends the process by SIGSYS ([`was_forbidden`]), with one line that names
//! the thread and the call.
//!
//! A few calls are answered by an error instead, because the C library or the report of a panic makes them on
//! its own and copes with failure: opening files and querying paths (EACCES), clone3(2) (ENOSYS: a filter
//! cannot see its flags, but those of clone(2), which is tried next).

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
pub use jail::{MissingIsolation, map_user};
pub use privileges::{give_up_privileges, reset_oom_score};

/// Switch for confining threads; `Off` is for measuring the overhead, `ringroad run` always confines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Each thread enters the filter of its class.
    #[default]
    On,
    /// No thread is confined.
    Off,
}

impl Confinement {
    /// Confines the calling thread, if confinement is on.
    ///
    /// # Errors
    /// Those of [`confine`].
    pub fn enter(self, class: Class) -> Result<()> {
        match self {
            Self::On => confine(class),
            Self::Off => Ok(()),
        }
    }
}

/// Returns true if a process ended because one of its threads made a call that its class does not allow.
pub fn was_forbidden(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGSYS)
}
