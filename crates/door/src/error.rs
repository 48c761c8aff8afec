//! Errors of rendezvous sockets, one line each.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is in use.
    #[error("{} {why}; stop that one or choose a new path", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
        /// Description of what is there.
        why: &'static str,
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
    pub(crate) fn system(what: impl Into<String>, answer: io::Error) -> Self {
        Self::System { what: what.into(), answer }
    }

    pub(crate) fn taken(path: &Path, why: &'static str) -> Self {
        Self::Taken { path: path.to_owned(), why }
    }
}
