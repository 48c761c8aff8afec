//! What can go wrong with the host's interfaces, in one line each.

use std::io;
use std::path::PathBuf;

/// Why an interface or a namespace could not be had or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel allows no such interface name.
    #[error("`{name}` cannot name an interface: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A number that the device does not take.
    #[error("{what} is {found}, expected {expected}")]
    Range {
        /// Which number.
        what: &'static str,
        /// The number.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// The TUN/TAP driver is not there.
    #[error("there is no /dev/net/tun: load the driver (`modprobe tun`) or give this container the device")]
    NoDriver,
    /// The caller may not do it.
    #[error("{what}: not permitted; run as root (CAP_NET_ADMIN, for namespaces CAP_SYS_ADMIN too)")]
    NotPermitted {
        /// What was tried.
        what: String,
    },
    /// The name belongs to something else.
    #[error(
        "the interface `{name}` exists already or is used by another process; stop that one or choose a new name"
    )]
    InUse {
        /// The name.
        name: String,
    },
    /// The path of a socket belongs to something else.
    #[error("{} {why}; stop that one or choose a new path", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// What is there.
        why: &'static str,
    },
    /// The existing interface cannot be attached to.
    #[error("the interface `{name}` exists and is not a TAP with this number of queues; choose another name")]
    NotTap {
        /// The name.
        name: String,
    },
    /// This kernel has no AF_XDP.
    #[error(
        "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS, Linux 5.9 or later); attach by `macvtap:` or `tap:`"
    )]
    NoXdp,
    /// The kernel lets us load no program.
    #[error(
        "{what}: not permitted; run as root (CAP_BPF and CAP_NET_ADMIN; before Linux 5.11 also `ulimit -l unlimited`)"
    )]
    NoBpf {
        /// What was tried.
        what: String,
    },
    /// Another program is at the interface.
    #[error("`{name}` has an XDP program already: stop whoever runs it, or `ip link set {name} xdp off`")]
    ProgramAttached {
        /// The interface.
        name: String,
    },
    /// A queue has another socket.
    #[error("queue {queue} of `{name}` has an AF_XDP socket already: stop whoever has it")]
    QueueTaken {
        /// The interface.
        name: String,
        /// Its number.
        queue: u32,
    },
    /// The interface has fewer queues.
    #[error("`{name}` has no queue {queue} that AF_XDP can use: see `ethtool -l {name}`")]
    NoQueue {
        /// The interface.
        name: String,
        /// Its number.
        queue: u32,
    },
    /// The interface is down.
    #[error("`{name}` is down: `ip link set {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// The process may not lock this much memory.
    #[error(
        "{octets} octets for frames are more than this process may lock: a smaller `queue_len`, a higher `ulimit -l`, or \
         CAP_IPC_LOCK"
    )]
    Memlock {
        /// What one queue takes.
        octets: u64,
    },
    /// Somebody cannot or may not do it, for a reason of their own.
    #[error("{what}: {why}")]
    Refused {
        /// What was tried.
        what: String,
        /// The reason, and what would be right.
        why: String,
    },
    /// No interface has this name.
    #[error("{what}: there is no such interface")]
    NoInterface {
        /// What was tried.
        what: String,
    },
    /// Any other answer of the kernel.
    #[error("{what}: {answer}")]
    System {
        /// What was tried.
        what: String,
        /// The kernel's answer; part of the sentence, so that a chain of errors does not tell it twice.
        answer: io::Error,
    },
}

impl Error {
    /// The kernel's answer to an attempt at `what`.
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what },
            Some(libc::ENODEV) => Self::NoInterface { what },
            _ => Self::System { what, answer: source },
        }
    }
}

impl From<door::Error> for Error {
    fn from(error: door::Error) -> Self {
        match error {
            door::Error::Taken { path, why } => Self::Socket { path, why },
            door::Error::System { what, answer } => Self::system(what, answer),
        }
    }
}
