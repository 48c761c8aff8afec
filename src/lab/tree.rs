//! The source tree in which this program was built.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use host::own_files;
use rustix::fs::{Access, access};

use super::{PACKAGE, PROGRAM};

/// Where cargo puts what it builds, if nobody says otherwise.
const TARGET: &str = "target";
/// Files that the tree of this program has.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "lab/Cargo.toml"];

/// A workspace, and a folder of programs in it: `ROOT/target/PROFILE`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    root: PathBuf,
    folder: PathBuf,
    profile: String,
}

impl Tree {
    /// The one that a program at this path was built in, as far as a path can tell; none: it was not built there.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let folder = program.parent()?;
        let root = folder.parent().filter(|target| target.ends_with(TARGET))?.parent()?;
        let profile = match folder.file_name()?.to_str()? {
            "debug" => "dev",
            name => name,
        };
        Some(Self { root: root.to_owned(), folder: folder.to_owned(), profile: profile.to_owned() })
    }

    /// Whether it is a source tree of ours, and none that anybody may have laid around the program.
    pub(super) fn is_there(&self) -> bool {
        own_files::is_closed(&self.root) && MANIFESTS.iter().all(|name| self.root.join(name).is_file())
    }

    /// Has cargo build the lab beside the program, in its profile; of what is up to date cargo leaves everything as it is.
    ///
    /// A user who may not write there, or has no cargo, takes what was built before.
    ///
    /// # Errors
    /// It does not build; cargo has said why.
    pub(super) fn build(&self) -> Result<()> {
        if access(&self.folder, Access::WRITE_OK).is_err() {
            return Ok(());
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--package", PACKAGE, "--bin", PROGRAM, "--profile", &self.profile]);
        build.arg("--target-dir").arg(self.root.join(TARGET));
        // At a terminal it tells how far it is, as at any other build; no script is to hear of that.
        build.args((!io::stderr().is_terminal()).then_some("--quiet"));
        match build.current_dir(&self.root).stdin(Stdio::null()).status() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Nothing is left to be done where stderr is closed.
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
