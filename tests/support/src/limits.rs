//! Limited resources: descriptors, memory, room on a disk.
#![allow(unsafe_code)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

/// Resource limits of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Open descriptors (RLIMIT_NOFILE).
    pub descriptors: Option<u64>,
    /// Octets of address space (RLIMIT_AS).
    pub address_space: Option<u64>,
    /// Octets of a file that it writes (RLIMIT_FSIZE).
    pub file: Option<u64>,
}

impl Limits {
    /// Applies the limits to a command and everything that it starts.
    pub fn hold(self, command: &mut Command) -> &mut Command {
        let set = move || {
            for (resource, limit) in self.each() {
                setrlimit(resource, limit)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec `set` only makes system calls; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(set) }
    }

    /// Applies the limits to a running process; what it holds in excess it keeps. Runs prlimit(1) as the process's own user,
    /// because for another user's process CAP_SYS_RESOURCE would be needed.
    pub fn impose(self, pid: u32) -> Result<()> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| -> Result<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a user")?;
            Ok(line.split_whitespace().next().context("a number")?.parse()?)
        };
        let mut command = Command::new("prlimit");
        command.uid(number("Uid:")?).gid(number("Gid:")?).args(["--pid", &pid.to_string()]);
        let wanted = [("nofile", self.descriptors), ("as", self.address_space), ("fsize", self.file)];
        command.args(wanted.iter().filter_map(|(name, most)| Some(format!("--{name}={0}:{0}", (*most)?))));
        let done = command.output().context("cannot start prlimit")?;
        ensure!(done.status.success(), "process {pid}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }

    fn each(self) -> impl Iterator<Item = (Resource, Rlimit)> {
        let wanted = [
            (Resource::Nofile, self.descriptors),
            (Resource::As, self.address_space),
            (Resource::Fsize, self.file),
        ];
        let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
        wanted.into_iter().filter_map(move |(resource, most)| Some((resource, limit(most?))))
    }
}

/// Small private file system in memory, unmounted on drop.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts one with room for this many KiB.
    pub fn mount(kib: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = std::ffi::CString::new(format!("size={kib}k,mode=755"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount(c"small-disk", folder.path(), c"tmpfs", flags, &*options).context("cannot mount a tmpfs")?;
        Ok(Self { folder })
    }

    /// Its root folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills it to the last octet with a file, which can be removed to make room.
    pub fn fill(&self) -> Result<PathBuf> {
        let path = self.path().join("full");
        let mut file = fs::File::create(&path)?;
        while std::io::Write::write(&mut file, &[0; 4096]).is_ok_and(|written| written > 0) {}
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also works while a process that is about to end has a file of it open.
        let _ = unmount(self.folder.path(), UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests;
