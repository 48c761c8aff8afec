//! Files that belong to this program: only users who could have written the program itself could have written
//! them.
//!
//! A program started from a file has the rights of the user who started this program, often root's. Being in
//! the same folder proves nothing: in a folder that everyone may write (one for temporary files, for example)
//! anyone may place a program next to it.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Executable of this process, even if its file was renamed or deleted.
const OWN: &str = "/proc/self/exe";
const ROOT: u32 = 0;
/// Mode bits: the file's group, and all others, may write it.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Users other than root who may write a file.
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

    /// Returns true if all of them may also write the file whose writers are `own`.
    fn are_among(self, own: Self) -> bool {
        let owner = self.owner == ROOT || self.owner == own.owner;
        let group = self.group.is_none() || self.group == own.group;
        owner && group && !self.others
    }
}

/// Path of the program of this name in the folder of this one; `None`: there is no such file.
///
/// # Errors
/// In one line, that it is no regular file (symbolic links are refused), or that another user may have
/// written it.
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

/// Returns true if this is a folder that not everyone may write.
pub fn is_closed(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.mode() & OTHERS_WRITE == 0)
}

#[cfg(test)]
mod tests;
