//! Errors of this crate, each formatted as one line.

use std::io;

/// Reason for which a program could not be loaded, attached or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller lacks privileges.
    #[error("{what}: not permitted; run as root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)")]
    NotPermitted {
        /// The attempted operation.
        what: &'static str,
    },
    /// The kernel has no tcx.
    #[error("this kernel has no tcx (Linux 6.6 or later), which limits and traces of kernel routers need")]
    NoTcx,
    /// The kernel does not export its type information (BTF).
    #[error(
        "this kernel exports no type information (CONFIG_DEBUG_INFO_BTF), which drop counters need: {why}"
    )]
    NoTypes {
        /// The missing part of it.
        why: String,
    },
    /// The interface has been deleted.
    #[error("there is no interface with index {index} in this network namespace any more")]
    NoInterface {
        /// Index of the interface.
        index: u32,
    },
    /// The router has no NIC of this number.
    #[error("there is no NIC {nic}: this router has {nics}, counted from 0")]
    NoNic {
        /// The requested number.
        nic: u32,
        /// The number of NICs.
        nics: u32,
    },
    /// A number is out of range.
    #[error("{what} is {found}, expected 1 to {most}")]
    Range {
        /// Meaning of the number.
        what: &'static str,
        /// The number.
        found: u32,
        /// Its maximum.
        most: u32,
    },
    /// Any other error of the kernel.
    #[error("{what}: {answer}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        answer: io::Error,
    },
}

/// Error numbers of `asm-generic/errno-base.h` and `errno.h`.
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;

impl Error {
    /// Converts an error of bpf(2).
    pub(crate) fn bpf(what: &'static str, answer: io::Error) -> Self {
        match answer.raw_os_error() {
            Some(EPERM | EACCES) => Self::NotPermitted { what },
            _ => Self::System { what, answer },
        }
    }

    /// Converts an error of attaching a program to an interface at tcx.
    pub(crate) fn tcx(index: u32, answer: io::Error) -> Self {
        match answer.raw_os_error() {
            Some(ENODEV) => Self::NoInterface { index },
            Some(EINVAL) => Self::NoTcx,
            _ => Self::bpf("attaching a program to an interface", answer),
        }
    }
}
