//! Location of the control sockets: `RUNS/NAME/control`, in a folder that only the owner may enter.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;

use crate::Error;

/// Name of the socket in the folder of its run.
pub const SOCKET: &str = "control";

/// Name of the file, in the same folder, that is locked as long as the name of the run is taken; the process
/// number of the run is in it. It is the last that a run removes.
pub const LOCK: &str = "lock";

/// Base folder of runs and locks: `/run/ringroad` for root, else in the user's own runtime folder. The
/// folders of runs are in its subfolder `runs`.
///
/// # Errors
/// In one line, that the user has no runtime folder.
pub fn base() -> Result<PathBuf, Error> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/run/ringroad"));
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let none = || Error::new("no place for the run's lock: run as root, or set XDG_RUNTIME_DIR");
    Ok(folder.ok_or_else(none)?.join("ringroad"))
}

/// Sockets of all runs below `runs`, with the names of their folders, in order of the names.
///
/// # Errors
/// `runs` exists but cannot be read.
pub fn sockets(runs: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(runs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let socket = entry.path().join(SOCKET);
            let there = fs::symlink_metadata(&socket).ok()?.file_type().is_socket();
            there.then(|| (entry.file_name().to_string_lossy().into_owned(), socket))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// A listening socket that appears atomically: once its path exists it has the right mode and accepts
/// connections.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file, to recognize it.
    identity: (u64, u64),
}

impl ListeningSocket {
    /// Makes the folder, if it does not exist, and the socket in it.
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(SOCKET);
        let failed = |what: &str, error: io::Error| Error::new(format!("{what} {}: {error}", path.display()));
        close_off(folder)?;
        // AGAIN: a run listens, but its accept queue is full.
        if matches!(door::dial(&path), Ok(_) | Err(Errno::AGAIN)) {
            return Err(Error::new(format!("a run answers at {} already: stop it first", path.display())));
        }
        let (listener, identity) = bind(folder, &path).map_err(|error| failed("cannot listen at", error))?;
        Ok(Self { listener, path, identity })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        let same =
            fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.identity);
        if same {
            // If it is gone already, that is fine.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds under a temporary name, and renames the socket once everything is set up. The rename replaces a
/// stale file of a killed run.
fn bind(folder: &Path, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let draft = folder.join(format!(".{SOCKET}.{}", std::process::id()));
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&draft)?;
    let finish = || {
        listener.set_nonblocking(true)?;
        fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
        fs::rename(&draft, path)?;
        let there = fs::symlink_metadata(path)?;
        Ok((there.dev(), there.ino()))
    };
    match finish() {
        Ok(identity) => Ok((listener, identity)),
        Err(error) => {
            // No other process knows this name.
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

/// Makes the folder, or revokes other users' access to it.
fn close_off(folder: &Path) -> Result<(), Error> {
    let failed =
        |error: io::Error| Error::new(format!("cannot use the folder {}: {error}", folder.display()));
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let there = fs::symlink_metadata(folder).map_err(failed)?;
    if !there.is_dir() || there.uid() != geteuid().as_raw() {
        let what = format!("{} is not a folder of this user: remove it", folder.display());
        return Err(Error::new(what));
    }
    fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)
}
