//! The sysfs of a namespace. A sysfs instance shows the interfaces of the namespace in which it was mounted. A thread inside the
//! namespace therefore mounts one, detached from any mount tree: it disappears with its descriptor.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Longest file of sysfs, in octets: a page.
const LONGEST: u64 = 4096;

/// A detached sysfs mount, held by a descriptor.
#[derive(Debug)]
pub struct Sysfs {
    root: OwnedFd,
}

impl Sysfs {
    /// Mounts the sysfs of the calling thread's namespace.
    pub(crate) fn mount() -> io::Result<Self> {
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let safe = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        Ok(Self { root: fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, safe)? })
    }

    /// Reads a file in it, such as `class/net/eth0/threaded`. Trailing whitespace is removed.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read at present.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        self.open(path, OFlags::RDONLY)?.take(LONGEST).read_to_string(&mut text)?;
        Ok(text.trim_end().to_owned())
    }

    /// Writes to a file in it.
    ///
    /// # Errors
    /// There is no such file, or it rejects the value.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        self.open(path, OFlags::WRONLY)?.write_all(value.as_bytes())
    }

    /// Returns true if there is a file at this path.
    pub fn exists(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH).is_ok()
    }

    fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let relative = path.trim_start_matches('/');
        Ok(openat(&self.root, relative, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}
