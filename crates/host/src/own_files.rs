//! Files that belong to this program: nobody could write them who could not have written the program itself.
//!
//! What is started from a file has the rights of whoever started this program, root's often. The folder of the program is no proof: in
//! one that is open to all (a folder for temporary files, say) anybody may place a program beside it.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The file of the program that runs, whatever has become of its name.
const OWN: &str = "/proc/self/exe";
const ROOT: u32 = 0;
/// Bits of a file's mode: its group, and all others, may write it.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Users that may write a file, root aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writers {
    owner: u32,
    group: Option<u32>,
    others: bool,
}

impl Writers {
    fn of(file: &Metadata) -> Self {
        let mode = file.mode();
        Self {
            owner: file.uid(),
            group: (mode & GROUP_WRITES != 0).then(|| file.gid()),
            others: mode & OTHERS_WRITE != 0,
        }
    }

    /// Whether all of them may write what `own` may write.
    fn are_among(self, own: Self) -> bool {
        let owner = self.owner == ROOT || self.owner == own.owner;
        let group = self.group.is_none() || self.group == own.group;
        owner && group && !self.others
    }
}

/// The program of this name in the folder of the one that runs; none: there is none.
///
/// # Errors
/// One line: it is no file (a link to one is none either), or somebody else may have written it.
pub fn beside(name: &str) -> Result<Option<PathBuf>> {
    let own = std::env::current_exe().context("the file of this program is not known")?;
    let path = own.with_file_name(name);
    let file = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.with_context(|| format!("cannot look at {}", path.display()))?,
    };
    let writers = Writers::of(&fs::metadata(OWN).with_context(|| format!("cannot look at {OWN}"))?);
    ensure!(
        file.is_file() && Writers::of(&file).are_among(writers),
        "{} is not started: expected a file that nobody may write but root and those who may write {}; \
         see who made it, and give it to root (chown root, chmod 755)",
        path.display(),
        own.display()
    );
    Ok(Some(path))
}

/// Whether this is a folder in which not everybody may make files.
pub fn is_closed(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.mode() & OTHERS_WRITE == 0)
}

#[cfg(test)]
mod tests;
