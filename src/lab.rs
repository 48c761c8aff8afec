//! `ringroad lab` and `ringroad demo`: starts `ringroad-lab`, the program that does both, so that this one, which runs as root for
//! months, does not carry it.
//!
//! It is taken from the folder of this program, and from nowhere else. Where that is a folder of cargo's in a source tree, cargo is
//! asked first to make it what the sources say.

mod tree;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use host::own_files;

use tree::Tree;

/// The program, and the package that cargo builds it from.
const PROGRAM: &str = "ringroad-lab";
const PACKAGE: &str = "ringroad-lab-program";

/// All that follows the verb.
#[derive(Args)]
pub(crate) struct Words {
    /// What `ringroad-lab` is told; --help tells more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<OsString>,
}

/// Becomes that program, with this verb of it if one is given, and these words: as the same process, in the same environment.
///
/// # Errors
/// It is not there, does not build, may be somebody else's, or cannot be started.
pub(crate) fn lab(verb: Option<&str>, words: &Words) -> Result<()> {
    let program = program()?;
    // It only comes back where it fails.
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

/// What to do where it is not there.
fn absent(own: &Path) -> String {
    format!(
        "expected the lab at {}, and there is no such file: install the package ringroad, or copy there what \
         `cargo build --release --package {PACKAGE}` makes (target/release/{PROGRAM})",
        own.with_file_name(PROGRAM).display()
    )
}

#[cfg(test)]
mod tests;
