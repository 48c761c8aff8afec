//! What the kernel refused.

use std::io;

use rustix::io::Errno;

/// Something that could not be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct ApplyError {
    thread: Option<String>,
    what: String,
    source: io::Error,
}

impl ApplyError {
    pub(crate) fn host(what: impl Into<String>, source: io::Error) -> Self {
        Self { thread: None, what: what.into(), source }
    }

    pub(crate) fn thread(name: &str, what: impl std::fmt::Display, source: io::Error) -> Self {
        Self { thread: Some(name.to_owned()), what: format!("{name}: {what}"), source }
    }

    /// The thread that it is about, if it is one.
    pub fn of_thread(&self) -> Option<&str> {
        self.thread.as_deref()
    }

    /// Whether no descriptors were left.
    pub fn is_out_of_descriptors(&self) -> bool {
        let full = [Errno::MFILE, Errno::NFILE];
        self.source
            .raw_os_error()
            .is_some_and(|number| full.iter().any(|errno| errno.raw_os_error() == number))
    }

    /// Whether it may succeed a little later: somebody else has what is wanted and may let go of it (also a thread whose
    /// reservation was given back in this period), threads that are about to go are in what is to be removed, the thread sleeps
    /// on another CPU, or it has just ended and another will be told of.
    pub fn is_passing(&self) -> bool {
        let passing = [
            Errno::BUSY,
            Errno::NOTEMPTY,
            Errno::AGAIN,
            Errno::SRCH,
            Errno::INTR,
            Errno::NOMEM,
            Errno::NOENT,
        ];
        self.source
            .raw_os_error()
            .is_some_and(|number| passing.iter().any(|errno| errno.raw_os_error() == number))
    }
}
