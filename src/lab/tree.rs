//! Source tree in which this program was built.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use host::own_files;
use rustix::fs::{Access, access};

use super::{PACKAGE, PROGRAM};

/// Default name of cargo's output folder.
const TARGET: &str = "target";
/// Files that identify this program's source tree.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "lab/Cargo.toml"];

/// A workspace, and an output folder in it: `ROOT/target/PROFILE`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    root: PathBuf,
    folder: PathBuf,
    profile: String,
}

impl Tree {
    /// Tree in which a program at this path was built, judging by the path only; `None`: it was not built
    /// there.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let folder = program.parent()?;
        let root = folder.parent().filter(|target| target.ends_with(TARGET))?.parent()?;
        let profile = match folder.file_name()?.to_str()? {
            "debug" => "dev",
            name => name,
        };
        Some(Self { root: root.to_owned(), folder: folder.to_owned(), profile: profile.to_owned() })
    }

    /// Returns true if it is our source tree, and not one that anyone could have placed around the program.
    pub(super) fn is_there(&self) -> bool {
        own_files::is_closed(&self.root) && MANIFESTS.iter().all(|name| self.root.join(name).is_file())
    }

    /// Builds the lab next to the program with cargo, in the same profile; cargo does nothing if it is up to
    /// date.
    ///
    /// A user who may not write there, or has no cargo, uses the existing build.
    ///
    /// # Errors
    /// It does not build; cargo has printed the reason.
    pub(super) fn build(&self) -> Result<()> {
        if access(&self.folder, Access::WRITE_OK).is_err() {
            return Ok(());
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--package", PACKAGE, "--bin", PROGRAM, "--profile", &self.profile]);
        build.arg("--target-dir").arg(self.root.join(TARGET));
        // On a terminal cargo shows its progress, as for any build; scripts should not see that.
        build.args((!io::stderr().is_terminal()).then_some("--quiet"));
        match build.current_dir(&self.root).stdin(Stdio::null()).status() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // If standard error is closed there is nothing left to do.
                let _ = writeln!(io::stderr(), "ringroad: no cargo is here; the lab is as it was built");
                Ok(())
            }
            status => {
                let status = status.context("cannot start cargo, which builds the lab in a source tree")?;
                ensure!(status.success(), "the lab does not build in {} ({status})", self.root.display());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
