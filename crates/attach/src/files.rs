//! Checks of files and sockets named in a configuration, before they are opened.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Access, access};

/// Unix sockets of this network namespace, with flags and paths.
const SOCKETS: &str = "/proc/net/unix";
/// `__SO_ACCEPTCON` of `linux/net.h`: it listens.
const LISTENS: u32 = 0x1_0000;

/// Checks a file to be written; says what happens to it.
///
/// # Errors
/// It cannot be written, in one line.
pub fn written(file: &Path) -> Result<&'static str, String> {
    let Some(folder) = folder(file).filter(|folder| folder.is_dir()) else {
        return Err(format!("{} lies in no folder that is there", file.display()));
    };
    if file.is_dir() {
        return Err(format!("{} is a folder: name a file", file.display()));
    }
    let (written, what) =
        if file.exists() { (file, "overwrites the file") } else { (folder, "makes the file") };
    match access(written, Access::WRITE_OK) {
        Ok(()) => Ok(what),
        Err(error) => Err(format!("cannot write {}: {error}", written.display())),
    }
}

/// Checks that a socket can be at a path. Does not connect: a listening program would take that for its peer.
///
/// # Errors
/// The reason why it cannot, in one line.
pub fn socket(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let folder = folder(path).ok_or_else(|| format!("{shown} names no file"))?;
    if !folder.is_dir() {
        return Err(format!("there is no folder {0}: mkdir -p {0}", folder.display()));
    }
    match is_socket(path) {
        Some(false) => Err(format!("{shown} is there and no socket: remove it, or choose another path")),
        Some(true) | None => Ok(()),
    }
}

/// Returns whether the file at a path is a socket; `None`: there is no file.
pub(crate) fn is_socket(path: &Path) -> Option<bool> {
    fs::symlink_metadata(path).ok().map(|file| file.file_type().is_socket())
}

/// Returns true if a program in this network namespace listens there. Others are not visible.
pub fn is_served(path: &Path) -> bool {
    let (Ok(list), Some(path)) = (fs::read_to_string(SOCKETS), path.to_str()) else { return false };
    let absolute = std::path::absolute(path).unwrap_or_default();
    list.lines().any(|line| listens_at(line).is_some_and(|at| at == path || Path::new(at) == absolute))
}

/// Returns the path of a line if its socket listens: number, count, protocol, flags, type, state, inode,
/// path.
fn listens_at(line: &str) -> Option<&str> {
    let (flags, at) = (line.split_whitespace().nth(3)?, line.split_whitespace().nth(7)?);
    // The path may contain spaces.
    let path = line.find(at).and_then(|begin| line.get(begin..)).unwrap_or(at);
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0).then_some(path)
}

/// Returns the folder of a file, which need not exist.
pub fn folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

#[cfg(test)]
mod tests;
