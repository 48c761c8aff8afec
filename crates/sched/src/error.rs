//! Errors of carrying out an outline.

use std::io;

use rustix::io::Errno;

/// A step that the kernel refused.
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

    /// Name of the thread concerned, if it is one.
    pub fn of_thread(&self) -> Option<&str> {
        self.thread.as_deref()
    }

    /// Returns true if the process or the host is out of descriptors.
    pub fn is_out_of_descriptors(&self) -> bool {
        let full = [Errno::MFILE, Errno::NFILE];
        self.source
            .raw_os_error()
            .is_some_and(|number| full.iter().any(|errno| errno.raw_os_error() == number))
    }

    /// Returns true if a retry may succeed soon: someone else holds what is needed and may release it (also a
    /// thread whose reservation was given back in this period), ending threads are in a group to be removed,
    /// the thread sleeps on another CPU, or it has just ended and a successor will be reported.
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
