//! Files that an owner has named to be written: captures, consoles.
//!
//! The program may write everywhere where others may not, root's above all, and a path may lead through folders that others may write
//! to. So a path is walked name by name, and what lies there is looked at before it is opened, by the same descriptor: a link that
//! somebody else has placed leads nowhere, and a file of somebody else in such a folder is left alone. The kernel does so for the
//! last name in sticky folders where `fs.protected_symlinks` and its like say so; here it holds on every host.

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

/// Links that a path may lead through, as in the kernel.
const MOST_LINKS: u32 = 40;
/// Turns for the race with somebody who makes and removes the file.
const TRIES: u32 = 10;

/// Makes a file, or empties the one that is there. Nobody is waited for who would read a pipe: without one it is an error.
///
/// # Errors
/// It cannot be written, or somebody else has placed what lies there.
pub fn create(path: &Path) -> io::Result<File> {
    let file = written(path, OFlags::TRUNC | OFlags::NONBLOCK)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Makes the file as [`create`] does, but where a pipe lies there it waits for who reads it.
///
/// # Errors
/// As those of [`create`].
pub fn create_patiently(path: &Path) -> io::Result<File> {
    written(path, OFlags::TRUNC)
}

/// Makes a file, or goes on behind what is in the one that is there. A terminal or pipe that nobody reads loses what is written.
///
/// # Errors
/// As those of [`create`].
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
            // That very file, whatever has its name by now.
            return Ok(open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?.into());
        }
        match openat(&folder, &name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Err(Errno::EXIST) => {}
            made => return Ok(made?.into()),
        }
    }
    Err(refused("it comes and goes: somebody else uses it"))
}

/// Where a path leads.
struct Walked {
    folder: OwnedFd,
    name: OsString,
    /// What has this name there. It is no link.
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
                    // `/dev/stdout` leads here: to what a process has open, which may have no path.
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

/// The names that a path consists of, the root among them.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components().map(Component::as_os_str).map(OsStr::to_owned).collect()
}

/// A file or a link, of which nothing is asked but what it is.
fn opened(folder: impl std::os::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Whether it is ours or root's.
fn is_trusted(owner: u32) -> bool {
    owner == geteuid().as_raw() || owner == 0
}

/// Whether others may put something into a folder.
fn is_shared(folder: &Stat) -> bool {
    !is_trusted(folder.st_uid) || folder.st_mode & 0o022 != 0
}

/// A link to a folder is followed in a folder of the same owner as well, who could as well have put files there.
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
