//! File tree of a package as it will be installed, with modes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::answer;
use super::facts::names_in;

/// Folder that stands for a host's root directory.
pub(super) struct Tree {
    top: PathBuf,
}

impl Tree {
    /// Creates an empty tree, replacing any existing one.
    pub(super) fn new(top: PathBuf) -> Result<Self> {
        match fs::remove_dir_all(&top) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {}", top.display()));
            }
            _ => {}
        }
        fs::create_dir_all(&top).with_context(|| format!("cannot make {}", top.display()))?;
        permit(&top, 0o755)?;
        Ok(Self { top })
    }

    /// Creates a folder and its parents.
    pub(super) fn folder(&self, path: &str) -> Result<()> {
        let mut folder = self.top.clone();
        for name in Path::new(path) {
            folder.push(name);
            if !folder.is_dir() {
                fs::create_dir(&folder)?;
            }
            // Independent of the umask.
            permit(&folder, 0o755)?;
        }
        Ok(())
    }

    fn place(&self, path: &str) -> Result<PathBuf> {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder)?;
        }
        Ok(self.top.join(path))
    }

    pub(super) fn copy(&self, from: &Path, path: &str, mode: u32) -> Result<PathBuf> {
        let place = self.place(path)?;
        fs::copy(from, &place).with_context(|| format!("cannot copy {}", from.display()))?;
        permit(&place, mode)?;
        Ok(place)
    }

    pub(super) fn write(&self, path: &str, text: &str, mode: u32) -> Result<()> {
        let place = self.place(path)?;
        fs::write(&place, text)?;
        permit(&place, mode)
    }

    /// Writes a compressed file, without a timestamp in it.
    pub(super) fn write_packed(&self, path: &str, text: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        let file = fs::File::create(&place)?;
        let mut gzip = Command::new("gzip").arg("-9n").stdin(Stdio::piped()).stdout(file).spawn()?;
        gzip.stdin.take().context("gzip has an input")?.write_all(text)?;
        ensure!(gzip.wait()?.success(), "gzip failed");
        permit(&place, 0o644)
    }

    /// Lists all files, sorted.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let (mut files, mut folders) = (Vec::new(), vec![self.top.clone()]);
        while let Some(folder) = folders.pop() {
            for path in names_in(&folder)?.iter().map(|name| folder.join(name)) {
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Installed size as Debian counts it: whole KiB per file.
    pub(super) fn kib(&self) -> Result<u64> {
        let size = |path: &PathBuf| Ok(fs::metadata(path)?.len().div_ceil(1024));
        self.files()?.iter().map(size).sum()
    }

    /// Content of the md5sums file, by which dpkg verifies installed files.
    pub(super) fn md5sums(&self) -> Result<String> {
        let mut command = Command::new("md5sum");
        for path in self.files()? {
            command.arg(path.strip_prefix(&self.top)?);
        }
        answer(command.current_dir(&self.top))
    }
}

fn permit(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}
