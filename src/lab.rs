//! `ringroad lab` and `ringroad demo`: execute `ringroad-lab`, which implements both, so that this program,
//! which runs as root for months, does not contain that code.
//!
//! The program is taken only from the folder of this one. If that is cargo's output folder in a source tree,
//! cargo is called first to bring it up to date.

mod tree;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use host::own_files;

use tree::Tree;

/// Name of the program, and of the package that cargo builds it from.
const PROGRAM: &str = "ringroad-lab";
const PACKAGE: &str = "ringroad-lab-program";

/// All arguments after the verb.
#[derive(Args)]
pub(crate) struct LabArgs {
    /// Arguments of `ringroad-lab`; see --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<OsString>,
}

/// Replaces this process by that program, with its verb, if given, and these arguments, in the same
/// environment.
///
/// # Errors
/// It does not exist, does not build, may have been written by another user, or cannot be executed.
pub(crate) fn lab(verb: Option<&str>, words: &LabArgs) -> Result<()> {
    let program = program()?;
    // exec only returns on failure.
    let error = Command::new(&program).args(verb).args(&words.words).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("the file of this program is not known")?;
    if let Some(tree) = Tree::of(&own).filter(Tree::is_there) {
        tree.build()?;
    }
    own_files::beside(PROGRAM)?.with_context(|| absent(&own))
}

/// Advice if the program does not exist.
fn absent(own: &Path) -> String {
    format!(
        "expected the lab at {}, and there is no such file: install the package ringroad, or copy there what \
         `cargo build --release --package {PACKAGE}` makes (target/release/{PROGRAM})",
        own.with_file_name(PROGRAM).display()
    )
}

#[cfg(test)]
mod tests;
