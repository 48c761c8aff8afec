//! Archives that the kernel unpacks into its first file system (initramfs): cpio in the "newc" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

/// File types in `mode`, as in stat(2).
const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const CHARACTERS: u32 = 0o020_000;

/// Alignment of every part of the archive.
const ALIGNMENT: usize = 4;
/// Octets of a header: a magic word of 6 octets, and 13 numbers of 8 hexadecimal digits.
const HEADER: usize = 6 + 13 * 8;
/// Name of the entry that ends an archive.
const LAST: &str = "TRAILER!!!";

/// Archive that is being written.
pub(crate) struct Archive<W> {
    to: W,
    entries: u32,
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// A folder.
    Folder,
    /// A file with this content.
    File { octets: &'a [u8], executable: bool },
    /// A symbolic link to this path.
    Link(&'a str),
    /// A character device.
    Device { major: u32, minor: u32 },
}

impl<W: Write> Archive<W> {
    /// Creates an empty archive.
    pub(crate) fn new(to: W) -> Self {
        Self { to, entries: 0 }
    }

    /// Adds an entry; `path` is its path inside, without the leading `/`.
    pub(crate) fn add(&mut self, path: &str, kind: Kind<'_>) -> io::Result<()> {
        let (mode, octets, device) = match kind {
            Kind::Folder => (FOLDER | 0o755, &[][..], (0, 0)),
            Kind::File { octets, executable: true } => (FILE | 0o755, octets, (0, 0)),
            Kind::File { octets, executable: false } => (FILE | 0o644, octets, (0, 0)),
            Kind::Link(to) => (LINK | 0o777, to.as_bytes(), (0, 0)),
            Kind::Device { major, minor } => (CHARACTERS | 0o600, &[][..], (major, minor)),
        };
        self.entry(path, mode, octets, device)
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entry(LAST, 0, &[], (0, 0))?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &str, mode: u32, octets: &[u8], device: (u32, u32)) -> io::Result<()> {
        self.entries += 1;
        let too_large = |_| io::Error::new(io::ErrorKind::FileTooLarge, path.to_owned());
        let size = u32::try_from(octets.len()).map_err(too_large)?;
        let name_size = u32::try_from(path.len() + 1).map_err(too_large)?;
        // Inode, mode, owner, group, links, time, size, device of the file system (2), device, length of the name,
        // checksum.
        let (major, minor) = device;
        let numbers = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.to.write_all(b"070701")?;
        for number in numbers {
            write!(self.to, "{number:08x}")?;
        }
        self.to.write_all(path.as_bytes())?;
        self.to.write_all(&[0])?;
        self.pad(HEADER + path.len() + 1)?;
        self.to.write_all(octets)?;
        self.pad(octets.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        let missing = written.next_multiple_of(ALIGNMENT) - written;
        self.to.write_all([0; ALIGNMENT].get(..missing).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
