//! Character device of a macvtap. Its device number is in sysfs, of which each network namespace sees only
//! its own part; its node is in devtmpfs, which has no namespaces, or missing. So both file systems are
//! mounted anew, without a mount point: a sysfs of the current namespace to find the number, and a tmpfs to
//! create a node. Both disappear with their descriptors.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::Error;

/// A device that can be opened repeatedly.
#[derive(Debug)]
pub(super) struct Device {
    folder: OwnedFd,
}

/// Name of the node.
const NODE: &str = "macvtap";

/// Finds the device of the macvtap `name`, whose interface has this index.
pub(super) fn find(name: &str, index: u32) -> Result<Device, Error> {
    let path = format!("class/net/{name}/tap{index}/dev");
    let number = number(&path)
        .map_err(|e| Error::system(format!("finding the device of the macvtap `{name}` in sysfs"), e))?;
    let made = mount("tmpfs").and_then(|folder| {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(&folder, NODE, FileType::CharacterDevice, mode, number).map_err(io::Error::from)?;
        Ok(Device { folder })
    });
    made.map_err(|e| Error::system(format!("making the device of the macvtap `{name}`"), e))
}

impl Device {
    /// Opens one more queue.
    pub(super) fn open(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.folder, NODE, flags, Mode::empty())
            .map_err(|e| Error::system("opening the device of a macvtap", e.into()))
    }
}

fn number(path: &str) -> io::Result<u64> {
    // If sysfs cannot be mounted anew, the mounted one may be that of our namespace.
    let opened = match mount("sysfs") {
        Ok(sysfs) => openat(&sysfs, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
        Err(_) => openat(CWD, format!("/sys/{path}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
    };
    let mut octets = [0; 32];
    let len = rustix::io::read(opened?, &mut octets)?;
    parse(octets.get(..len).unwrap_or_default()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses `MAJOR:MINOR`.
fn parse(text: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(text).ok()?.trim_end().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Mounts a file system of this type, without a mount point.
fn mount(kind: &str) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_two_numbers() {
        assert_eq!(parse(b"250:3\n"), Some(makedev(250, 3)));
        for text in [&b""[..], b"250", b"250:", b":3", b"a:b", b"\xff:1"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
