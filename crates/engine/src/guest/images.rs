//! Files of a Linux guest, opened in advance: a confined process could not open them.

mod room;

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use attach::safe_open;
use config::{Linux, Router};
use vmm::linux;

/// Kernel, initramfs, and output of the console.
#[derive(Debug)]
pub struct Images {
    /// The configuration that they were opened for.
    of: Linux,
    kernel: File,
    initrd: Option<File>,
    console: Option<File>,
}

impl Images {
    /// Opens the files that the configuration names.
    ///
    /// # Errors
    /// One line that names the file that cannot be opened.
    pub fn open(linux: &Linux) -> Result<Self> {
        Ok(Self {
            of: linux.clone(),
            kernel: read("kernel", &linux.kernel)?,
            initrd: linux.initrd.as_deref().map(|path| read("initrd", path)).transpose()?,
            console: linux.console.as_deref().map(write).transpose()?,
        })
    }

    /// Returns the descriptors in the order that [`Images::adopt`] expects: kernel, initramfs, console;
    /// missing ones are skipped.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let more = self.initrd.iter().chain(&self.console);
        std::iter::once(&self.kernel).chain(more).map(AsFd::as_fd)
    }

    /// Takes over descriptors that another process has opened for this guest; returns `None` if there are too
    /// few.
    pub fn adopt(linux: &Linux, descriptors: &mut dyn Iterator<Item = OwnedFd>) -> Option<Self> {
        let kernel = descriptors.next()?.into();
        let mut next = |wanted: bool| Some(if wanted { Some(descriptors.next()?.into()) } else { None });
        let (initrd, console) = (next(linux.initrd.is_some())?, next(linux.console.is_some())?);
        Some(Self { of: linux.clone(), kernel, initrd, console })
    }

    /// Returns the configuration for which they were opened.
    pub(crate) const fn linux(&self) -> &Linux {
        &self.of
    }

    /// Returns true if they were opened for this configuration.
    pub fn are_of(&self, linux: &Linux) -> bool {
        self.of == *linux
    }

    /// Returns the guest's configuration, except for the name of its memory.
    pub(super) fn config(&self, plan: &Router) -> Result<linux::Config> {
        let copy = |file: &Option<File>| file.as_ref().map(File::try_clone).transpose();
        let none = "no descriptors are left";
        Ok(linux::Config {
            name: String::new(),
            ram: usize::try_from(plan.memory).context("more memory than this machine can address")?,
            vcpus: plan.vcpus as usize,
            kernel: self.kernel.try_clone().context(none)?,
            initrd: copy(&self.initrd).context(none)?,
            append: self.of.append.clone(),
            console: copy(&self.console).context(none)?,
        })
    }
}

fn read(what: &str, path: &Path) -> Result<File> {
    let why = || format!("{what}: cannot read {}", path.display());
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).with_context(why)?;
    ensure!(file.metadata().with_context(why)?.is_file(), "{}: it is no regular file", why());
    Ok(file)
}

/// Opens without blocking: a terminal or pipe that nobody reads delays neither us nor the guest.
fn write(path: &Path) -> Result<File> {
    room::make(path).with_context(|| format!("console: cannot make room in {}", path.display()))?;
    safe_open::append(path).with_context(|| format!("console: cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn nobody_is_waited_for_who_would_write_into_a_pipe() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("kernel");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let linux = Linux { kernel: pipe, initrd: None, append: String::new(), console: None };
        let error = format!("{:#}", Images::open(&linux).expect_err("no image"));
        assert!(
            error.starts_with("kernel: cannot read ") && error.ends_with(": it is no regular file"),
            "{error}"
        );
    }
}
