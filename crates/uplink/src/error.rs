//! Errors of the host's interfaces, one line each.

use std::io;
use std::path::PathBuf;

/// Reason why an interface or a namespace could not be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not permit such an interface name.
    #[error("`{name}` cannot name an interface: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why it is invalid.
        why: &'static str,
    },
    /// A number is out of the device's range.
    #[error("{what} is {found}, expected {expected}")]
    Range {
        /// The kind of number.
        what: &'static str,
        /// The number.
        found: u64,
        /// The permitted range.
        expected: &'static str,
    },
    /// The TUN/TAP driver is missing.
    #[error("there is no /dev/net/tun: load the driver (`modprobe tun`) or give this container the device")]
    NoDriver,
    /// The caller lacks permission.
    #[error("{what}: not permitted; run as root (CAP_NET_ADMIN, for namespaces CAP_SYS_ADMIN too)")]
    NotPermitted {
        /// The attempted operation.
        what: String,
    },
    /// The name is in use.
    #[error(
        "the interface `{name}` exists already or is used by another process; stop that one or choose a new name"
    )]
    InUse {
        /// The name.
        name: String,
    },
    /// The path of a socket is in use.
    #[error("{} {why}; stop that one or choose a new path", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// Description of what is there.
        why: &'static str,
    },
    /// The existing interface is not suitable.
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
    /// The kernel does not permit us to load a program.
    #[error(
        "{what}: not permitted; run as root (CAP_BPF and CAP_NET_ADMIN; before Linux 5.11 also `ulimit -l unlimited`)"
    )]
    NoBpf {
        /// The attempted operation.
        what: String,
    },
    /// The interface has an XDP program already.
    #[error("`{name}` has an XDP program already: stop whoever runs it, or `ip link set {name} xdp off`")]
    ProgramAttached {
        /// The interface.
        name: String,
    },
    /// The queue has an AF_XDP socket already.
    #[error("queue {queue} of `{name}` has an AF_XDP socket already: stop whoever has it")]
    QueueTaken {
        /// The interface.
        name: String,
        /// Number of the queue.
        queue: u32,
    },
    /// The interface has no such queue.
    #[error("`{name}` has no queue {queue} that AF_XDP can use: see `ethtool -l {name}`")]
    NoQueue {
        /// The interface.
        name: String,
        /// Number of the queue.
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
        /// Octets that one queue takes.
        octets: u64,
    },
    /// The operation was refused for a specific reason.
    #[error("{what}: {why}")]
    Refused {
        /// The attempted operation.
        what: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// No interface has this name.
    #[error("{what}: there is no such interface")]
    NoInterface {
        /// The attempted operation.
        what: String,
    },
    /// Any other error of the kernel.
    #[error("{what}: {answer}")]
    System {
        /// The attempted operation.
        what: String,
        /// The kernel's error; part of the message, so that a chain of errors does not repeat it.
        answer: io::Error,
    },
}

impl Error {
    /// Creates the error for the kernel's answer to an attempt at `what`.
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what },
            Some(libc::ENODEV) => Self::NoInterface { what },
            _ => Self::System { what, answer: source },
        }
    }
}

impl From<::netns::Error> for Error {
    fn from(error: ::netns::Error) -> Self {
        match error {
            ::netns::Error::NotPermitted { what } => Self::NotPermitted { what },
            ::netns::Error::System { what, answer } => Self::system(what, answer),
            other => Self::system("a network namespace", io::Error::other(other)),
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
