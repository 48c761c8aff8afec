//! What can go wrong with a socket that programs meet at, in one line each.

use std::io;
use std::path::{Path, PathBuf};

/// Why a door could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path belongs to something else.
    #[error("{} {why}; stop that one or choose a new path", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
        /// What is there.
        why: &'static str,
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
    pub(crate) fn system(what: impl Into<String>, answer: io::Error) -> Self {
        Self::System { what: what.into(), answer }
    }

    pub(crate) fn taken(path: &Path, why: &'static str) -> Self {
        Self::Taken { path: path.to_owned(), why }
    }
}
