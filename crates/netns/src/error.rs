//! Errors of this crate, each formatted as one line.

use std::io;

use rustix::io::Errno;

/// Reason for which a namespace could not be created, opened, read or named.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is not valid for a namespace.
    #[error("`{name}` cannot name a network namespace: {why}")]
    Name {
        /// The rejected name.
        name: String,
        /// The rule that it violates.
        why: &'static str,
    },
    /// The key is not a valid sysctl path.
    #[error(
        "`{key}` names no parameter of the kernel: expected a path below /proc/sys, such as `net/ipv4/ip_forward`"
    )]
    Key {
        /// The rejected key.
        key: String,
    },
    /// The name is in use by another namespace.
    #[error(
        "there is a network namespace `{name}` already: `ip netns delete {name}` if nobody needs it, or choose another name"
    )]
    InUse {
        /// The name.
        name: String,
    },
    /// No namespace has this name.
    #[error(
        "there is no network namespace `{name}`: `ip netns add {name}`, or choose one that `ip netns list` shows"
    )]
    Missing {
        /// The name.
        name: String,
    },
    /// The caller lacks privileges.
    #[error("{what}: not permitted; run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN)")]
    NotPermitted {
        /// The attempted operation.
        what: String,
    },
    /// Any other error of the kernel.
    #[error("{what}: {answer}")]
    System {
        /// The attempted operation.
        what: String,
        /// The kernel's error. It is part of the message and not a `source`, so that an error chain does not
        /// print it twice.
        answer: io::Error,
    },
}

impl Error {
    /// Converts the kernel's error of the attempt `what`; EPERM and EACCES become [`Error::NotPermitted`].
    pub(crate) fn system(what: impl Into<String>, answer: impl Into<io::Error>) -> Self {
        let (what, answer) = (what.into(), answer.into());
        match answer.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted { what },
            _ => Self::System { what, answer },
        }
    }
}
