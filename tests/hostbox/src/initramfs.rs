//! Initial files of a machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cpio::{Archive, Kind};
use crate::kernel::Kernel;
use crate::programs;

/// Folder of the modules inside, and of the list of their names in load order.
const MODULES: &str = "modules";
/// Script that a machine runs before the script of its owner.
const FIRST: &str = include_str!("first.sh");

/// Files, folders, links: by their path inside, without the leading `/`.
#[derive(Debug)]
pub struct Initramfs {
    entries: BTreeMap<String, Entry>,
    modules: Vec<String>,
}

#[derive(Clone, Debug)]
enum Entry {
    Folder,
    Link(String),
    Device(u32, u32),
    Text { text: String, executable: bool },
    File { path: PathBuf, executable: bool },
}

impl Default for Initramfs {
    fn default() -> Self {
        Self::new()
    }
}

impl Initramfs {
    /// Creates the folders that every host has, and a console.
    pub fn new() -> Self {
        let mut new = Self { entries: BTreeMap::new(), modules: Vec::new() };
        for folder in ["dev", "etc", "proc", "run", "sys", "tmp", "var/tmp", "root", "usr/lib64", MODULES] {
            new.add(folder, Entry::Folder);
        }
        for folder in ["bin", "sbin", "lib", "lib64"] {
            new.add(&format!("usr/{folder}"), Entry::Folder);
            new.add(folder, Entry::Link(format!("usr/{folder}")));
        }
        new.add("var/run", Entry::Link("/run".to_owned()));
        new.add("dev/console", Entry::Device(5, 1));
        new.add("dev/null", Entry::Device(1, 3));
        new.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
        new.text("etc/group", "root:x:0:\n");
        new
    }

    /// Adds a program of this host under its own path, with the libraries that it needs.
    ///
    /// # Errors
    /// It is not installed.
    pub fn program(&mut self, program: &str) -> Result<&mut Self> {
        let path = programs::find(program)?;
        let inside = path.to_string_lossy().into_owned();
        self.program_as(&path, &inside)
    }

    /// Adds a program of this host under another path, with the libraries that it needs.
    ///
    /// # Errors
    /// The program or a library does not exist.
    pub fn program_as(&mut self, path: &Path, inside: &str) -> Result<&mut Self> {
        // The loader is one of them, and must be executable.
        for library in programs::libraries(path)? {
            self.executable(&library, &library.to_string_lossy())?;
        }
        self.executable(path, inside)
    }

    /// Adds a file of this host.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn file(&mut self, path: &Path, inside: &str) -> Result<&mut Self> {
        self.host_file(path, inside, false)
    }

    /// Adds an executable file of this host, without its libraries.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn executable(&mut self, path: &Path, inside: &str) -> Result<&mut Self> {
        self.host_file(path, inside, true)
    }

    fn host_file(&mut self, path: &Path, inside: &str, executable: bool) -> Result<&mut Self> {
        ensure!(path.is_file(), "there is no file {}", path.display());
        self.add(inside, Entry::File { path: path.to_path_buf(), executable });
        Ok(self)
    }

    /// Adds a file with this text.
    pub fn text(&mut self, inside: &str, text: &str) -> &mut Self {
        self.add(inside, Entry::Text { text: text.to_owned(), executable: false });
        self
    }

    /// Adds a script with this text.
    pub fn script(&mut self, inside: &str, text: &str) -> &mut Self {
        self.add(inside, Entry::Text { text: text.to_owned(), executable: true });
        self
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, inside: &str, to: &str) -> &mut Self {
        self.add(inside, Entry::Link(to.to_owned()));
        self
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, inside: &str) -> &mut Self {
        self.add(inside, Entry::Folder);
        self
    }

    /// Adds modules with their dependencies; they are loaded, in this order, before the script of [`Initramfs::init`].
    ///
    /// # Errors
    /// The kernel has no such module.
    pub fn modules(&mut self, kernel: &Kernel, names: &[&str]) -> Result<&mut Self> {
        for module in kernel.modules(names)? {
            let inside = format!("{MODULES}/{}.ko", module.name);
            self.file(&module.path, &inside)?;
            if !self.modules.contains(&module.name) {
                self.modules.push(module.name);
            }
        }
        Ok(self)
    }

    /// Sets the script that runs once the file systems are mounted and the modules are loaded: a script for busybox'
    /// `sh` (so [`Initramfs::program`] must have added `busybox`), in which every applet of busybox is a command. When
    /// it ends, the machine ends with its status ([`crate::End::Status`]).
    pub fn init(&mut self, script: &str) -> &mut Self {
        self.script("init", FIRST).script("init.script", script)
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// A file cannot be read, or the archive cannot be written.
    pub fn write(&self, to: &Path) -> Result<()> {
        let file = File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
        let mut archive = Archive::new(BufWriter::new(file));
        for (inside, entry) in &self.entries {
            entry.write(inside, &mut archive)?;
        }
        let list: String = self.modules.iter().map(|name| format!("{name}\n")).collect();
        archive.add(&format!("{MODULES}/list"), Kind::File { octets: list.as_bytes(), executable: false })?;
        archive.finish().with_context(|| format!("cannot write {}", to.display()))?;
        Ok(())
    }

    /// Adds an entry and its parent folders. `/bin`, `/sbin` and `/lib` are links inside, as on a Debian host, so
    /// entries below them are placed below `/usr`.
    fn add(&mut self, inside: &str, entry: Entry) {
        let inside = inside.trim_start_matches('/');
        let (top, below) = inside.split_once('/').unwrap_or((inside, ""));
        let merged = ["bin", "sbin", "lib", "lib64"].contains(&top) && !below.is_empty();
        let inside = if merged { format!("usr/{inside}") } else { inside.to_owned() };
        for (at, _) in inside.match_indices('/') {
            let above = inside.get(..at).unwrap_or_default();
            self.entries.entry(above.to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(inside, entry);
    }
}

impl Entry {
    fn write(&self, inside: &str, archive: &mut Archive<impl std::io::Write>) -> Result<()> {
        let read;
        let kind = match self {
            Self::Folder => Kind::Folder,
            Self::Link(to) => Kind::Link(to),
            Self::Device(major, minor) => Kind::Device { major: *major, minor: *minor },
            Self::Text { text, executable } => {
                Kind::File { octets: text.as_bytes(), executable: *executable }
            }
            Self::File { path, executable } => {
                read = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                Kind::File { octets: &read, executable: *executable }
            }
        };
        archive.add(inside, kind).with_context(|| format!("cannot add {inside}"))
    }
}
