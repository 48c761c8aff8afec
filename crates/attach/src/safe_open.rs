//! Opens files that the owner has named for writing: captures, consoles.
//!
//! The program may write where other users may not, especially as root, and a path may lead through folders
//! that other users can write to. So a path is walked name by name, and each file is examined before it is
//! opened, by the same descriptor: a symbolic link placed by another user is not followed, and another user's
//! file in such a folder is left alone. The kernel does this for the last name in sticky folders if
//! `fs.protected_symlinks` and similar settings say so; this code does it on every host.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fcntl_getfl, fcntl_setfl, fstat, fstatfs, open,
    openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Maximum number of links in a path, as in the kernel.
const MOST_LINKS: u32 = 40;
/// Attempts in a race with another program that creates and removes the file.
const TRIES: u32 = 10;

/// Creates a file, or truncates the existing one. Does not wait for the reader of a pipe: without one it is
/// an error.
///
/// # Errors
/// It cannot be written, or another user has placed the existing file.
pub fn create(path: &Path) -> io::Result<File> {
    let file = written(path, OFlags::TRUNC | OFlags::NONBLOCK)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Creates a file, or opens the existing one without truncating it. Waits for the reader of a pipe.
///
/// # Errors
/// See [`create`].
pub fn create_patiently(path: &Path) -> io::Result<File> {
    written(path, OFlags::empty())
}

/// Creates a file, or appends to the existing one. If a terminal or pipe is not read, what is written is
/// lost.
///
/// # Errors
/// See [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    written(path, OFlags::APPEND | OFlags::NONBLOCK)
}

fn written(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mode = Mode::from_raw_mode(0o666);
    for _ in 0..TRIES {
        let Walked { folder, name, found } = walk(path)?;
        if let Some(found) = found {
            may_be_written(&fstat(&folder)?, &fstat(&found)?)?;
            // Opens exactly that file, even if the name refers to another one by now.
            return Ok(open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?.into());
        }
        match openat(&folder, &name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Err(Errno::EXIST) => {}
            made => return Ok(made?.into()),
        }
    }
    Err(refused("it comes and goes: somebody else uses it"))
}

/// Result of walking a path.
struct Walked {
    folder: OwnedFd,
    name: OsString,
    /// The file of this name, if it exists. It is not a symbolic link.
    found: Option<OwnedFd>,
}

fn walk(path: &Path) -> io::Result<Walked> {
    let mut folder = opened(CWD, OsStr::new("."))?;
    let mut left: VecDeque<OsString> = names(path);
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        let is_last = left.is_empty() && !matches!(name.as_encoded_bytes(), b"/" | b"." | b"..");
        let found = match opened(&folder, &name) {
            Err(Errno::NOENT) if is_last => return Ok(Walked { folder, name, found: None }),
            found => found?,
        };
        let facts = fstat(&found)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Symlink => {
                may_be_followed(&fstat(&folder)?, &facts, is_last)?;
                if is_last && fstatfs(&folder)?.f_type == PROC_SUPER_MAGIC {
                    // `/dev/stdout` leads here: to an open file of a process, which may have no path.
                    let found = openat(&folder, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                    return Ok(Walked { folder, name, found: Some(found) });
                }
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&found, "", Vec::new())?.into_bytes();
                let target = names(&PathBuf::from(OsString::from_vec(target)));
                target.into_iter().rev().for_each(|name| left.push_front(name));
            }
            _ if is_last => return Ok(Walked { folder, name, found: Some(found) }),
            FileType::Directory => folder = found,
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Err(Errno::ISDIR.into())
}

/// Returns the components of a path, including the root.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components().map(Component::as_os_str).map(OsStr::to_owned).collect()
}

/// Opens a file or link without access to its content (O_PATH).
fn opened(folder: impl std::os::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Returns true if the owner is this user or root.
fn is_trusted(owner: u32) -> bool {
    owner == geteuid().as_raw() || owner == 0
}

/// Returns true if other users may create files in a folder.
fn is_shared(folder: &Stat) -> bool {
    !is_trusted(folder.st_uid) || folder.st_mode & 0o022 != 0
}

/// A link to a folder is also followed in a folder of the same owner, because that user could as well have
/// put files there.
fn may_be_followed(folder: &Stat, link: &Stat, is_last: bool) -> io::Result<()> {
    if is_trusted(link.st_uid) || (!is_last && link.st_uid == folder.st_uid) {
        return Ok(());
    }
    Err(refused(format!(
        "a link of user {} is on the way, and is not followed: name the file itself",
        link.st_uid
    )))
}

fn may_be_written(folder: &Stat, file: &Stat) -> io::Result<()> {
    if !is_shared(folder) {
        return Ok(());
    }
    if !is_trusted(file.st_uid) && file.st_uid != folder.st_uid {
        let what = "it is there, in a folder that others may write to, and is user";
        return Err(refused(format!("{what} {}'s: remove it, or name another file", file.st_uid)));
    }
    if file.st_nlink > 1 && FileType::from_raw_mode(file.st_mode) == FileType::RegularFile {
        let what = "it is there, in a folder that others may write to, and has another name";
        return Err(refused(format!("{what}: remove it, or name another file")));
    }
    Ok(())
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

#[cfg(test)]
mod tests;
