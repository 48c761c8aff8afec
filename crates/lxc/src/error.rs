//! Errors of this crate, each formatted as one line.

use std::io;

/// Reason for which a container did not start or does not end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// LXC is not installed.
    #[error(
        "`{program}` is not installed: install LXC (Debian package `lxc`), or write `engine = \"kernel\"`, which does not need it"
    )]
    Missing {
        /// The missing program.
        program: &'static str,
    },
    /// A value cannot be written to LXC's configuration.
    #[error("{what} is `{found}`, expected {expected}")]
    Fault {
        /// Meaning of the value.
        what: &'static str,
        /// The value.
        found: String,
        /// Allowed values.
        expected: &'static str,
    },
    /// LXC refused to start the container.
    #[error("LXC did not start the container `{name}`: {why}")]
    Refused {
        /// Name of the container.
        name: String,
        /// LXC's error message.
        why: String,
    },
    /// LXC did not start the container in time.
    #[error("the container `{name}` was not running {seconds} s after its start and was killed ({said})")]
    Late {
        /// Name of the container.
        name: String,
        /// The time limit, in seconds.
        seconds: u64,
        /// LXC's last error message.
        said: String,
    },
    /// The container does not end.
    #[error(
        "the container `{name}` did not end: `lxc-start` (PID {pid}) still exists after SIGKILL; it is left behind (see `cat \
         /proc/{pid}/stack`)"
    )]
    Stuck {
        /// Name of the container.
        name: String,
        /// PID of its `lxc-start`.
        pid: u32,
    },
    /// The output of `lxc-info` cannot be parsed.
    #[error(
        "`lxc-info` printed `{found}`; expected a line `State:` and, for a running container, a line `PID:`"
    )]
    Info {
        /// That output.
        found: String,
    },
    /// Something is mounted below a directory that should contain only our files.
    #[error("`{path}` is not removed: something is mounted below it; `umount` that and remove the folder")]
    Mounted {
        /// The directory.
        path: String,
    },
    /// The kernel refused an operation.
    #[error("{what}: {answer}")]
    System {
        /// The attempted operation.
        what: String,
        /// The kernel's error.
        answer: io::Error,
    },
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, answer: io::Error) -> Self {
        Self::System { what: what.into(), answer }
    }
}
