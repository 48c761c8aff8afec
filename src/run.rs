//! `ringroad run`: brings a file up and shows what it does until it is told to stop.

use std::path::Path;

use anyhow::Result;

use crate::supervisor::{Options, Supervisor};

/// Runs a file.
///
/// # Errors
/// What is wrong with it or missing on this host, one line each.
pub(crate) fn run(file: &Path, options: Options) -> Result<()> {
    match Supervisor::start(file, options)? {
        Some(supervisor) => supervisor.run(),
        None => Ok(()),
    }
}
