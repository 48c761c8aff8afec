//! Names of namespaces: files in /run/netns onto which namespaces are bind-mounted, the convention of ip-netns(8).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::{Error, Id, Namespace};

const FOLDER: &str = "/run/netns";
/// Longest file name, in octets.
const LONGEST: usize = 255;

/// The published name of a namespace. Dropping it removes the name.
#[derive(Debug)]
pub struct Published {
    name: String,
    id: Id,
    is_kept: bool,
}

impl Published {
    /// Returns the name, as `ip netns list` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identity of the namespace that the name refers to.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// Leaves the name in place; it has to be removed by [`unpublish`].
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        if !self.is_kept {
            // A name that cannot be removed is left to the cleaner, and the next attempt to publish it reports it.
            let _ = unpublish(&self.name, self.id);
        }
    }
}

impl Namespace {
    /// Publishes the namespace under a name, so that `ip netns exec NAME` finds it. The bind mount also reaches other
    /// mount namespaces that receive mount events from the caller's.
    ///
    /// # Errors
    /// The name is not valid or in use, or the caller may not mount. Nothing is left behind then.
    pub fn publish(&self, name: &str) -> Result<Published, Error> {
        check_name(name).map_err(|why| Error::Name { name: name.to_owned(), why })?;
        let (path, id) = (path_of(name), self.id()?);
        let naming = || format!("naming a network namespace {}", path.display());
        fs::create_dir_all(FOLDER).map_err(|e| Error::system(naming(), e))?;
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o444).open(&path) {
            Ok(file) => drop(file),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::InUse { name: name.to_owned() });
            }
            Err(e) => return Err(Error::system(naming(), e)),
        }
        // From here on the file is removed if a step fails.
        let published = Published { name: name.to_owned(), id, is_kept: false };
        let own = format!("/proc/thread-self/fd/{}", self.as_fd().as_raw_fd());
        mount_bind(own, &path).map_err(|e| Error::system(naming(), e))?;
        Ok(published)
    }
}

/// Removes the name of a namespace, if it still refers to the namespace `id` or was never bound. It is meant for the
/// cleaner of a killed process. The namespace itself persists while a process is inside it or holds a descriptor.
///
/// Returns true if there was a name to remove.
///
/// # Errors
/// The caller may not unmount or delete it.
pub fn unpublish(name: &str, id: Id) -> Result<bool, Error> {
    check_name(name).map_err(|why| Error::Name { name: name.to_owned(), why })?;
    let path = path_of(name);
    let taking = || format!("taking away the network namespace {}", path.display());
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(Error::system(taking(), e)),
    };
    let is_bound = Id::of(&found) == id;
    if !is_bound && !is_placeholder(&path, &found) {
        return Ok(false);
    }
    if is_bound {
        match unmount(&path, UnmountFlags::DETACH) {
            // Not a mount point: it was unmounted meanwhile.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(e) => return Err(Error::system(taking(), e)),
        }
    }
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(Error::system(taking(), e)),
    }
}

/// Returns true if the file is still waiting for its bind mount: an empty regular file on the directory's own file system.
fn is_placeholder(path: &Path, found: &fs::Metadata) -> bool {
    let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
    let is_in_it = folder.is_some_and(|folder| Id::of(&folder).device == Id::of(found).device);
    is_in_it && found.is_file() && found.len() == 0
}

/// Checks that a name is valid for a namespace: a file name without blanks.
///
/// # Errors
/// The rule that it violates.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > LONGEST {
        return Err("it is longer than 255 octets");
    }
    if matches!(name, "." | "..") || name.bytes().any(|octet| matches!(octet, b'/' | 0..=b' ' | 127)) {
        return Err("`.`, `..`, `/`, blanks and control characters are not allowed");
    }
    Ok(())
}

/// Path of the file of a namespace with this name.
pub(crate) fn path_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}
