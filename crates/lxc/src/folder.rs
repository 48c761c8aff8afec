//! The directory of a container, and what LXC leaves elsewhere: control groups and a lock.
//!
//! ```text
//!   HOME/NAME/config    configuration for lxc-start
//!   HOME/NAME/log       LXC's log
//!   HOME/NAME/root      root of a container with programs of the host: mount points, and links like those of the host
//! ```

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::{Container, Error, Root, groups, text};

/// Directories of programs and libraries, on hosts that have them.
const PROGRAMS: [&str; 7] = ["bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"];
/// Directories that LXC, or this crate, populates.
const OWN: [&str; 8] = ["dev", "etc", "proc", "root", "run", "sys", "tmp", "var"];
/// Debian's list of system calls that LXC denies to every container.
const SECCOMP: &str = "/usr/share/lxc/config/common.seccomp";
/// Directory of LXC's locks, for root.
const LOCKS: &str = "/run/lxc/lock";

/// Paths that a container's configuration refers to: its directory, and those parts of the host that it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// Directory of the container.
    pub folder: PathBuf,
    /// Directories of the host that are mounted in the container, by their names below `/`.
    pub mounted: Vec<String>,
    /// Symbolic links of the host's root to recreate: name and target.
    pub links: Vec<(String, PathBuf)>,
    /// System call list for LXC's seccomp filter, if the host has it.
    pub seccomp: Option<PathBuf>,
}

impl HostPaths {
    /// Determines the paths from a host's root directory, for a container in `folder`.
    pub fn look(host: &Path, folder: PathBuf) -> Self {
        let mut ground = Self { folder, mounted: Vec::new(), links: Vec::new(), seccomp: None };
        for name in PROGRAMS {
            let path = host.join(name);
            match fs::read_link(&path) {
                Ok(to) => ground.links.push((name.to_owned(), to)),
                Err(_) if path.is_dir() => ground.mounted.push(name.to_owned()),
                Err(_) => {}
            }
        }
        let seccomp = PathBuf::from(SECCOMP);
        ground.seccomp = host.join(SECCOMP.trim_start_matches('/')).is_file().then_some(seccomp);
        ground
    }

    /// Root of a container with programs of the host.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Creates the directory with all files that LXC reads.
    ///
    /// # Errors
    /// See [`crate::check()`]. Also if the file system is full or permissions are missing.
    pub(crate) fn make(&self, container: &Container) -> Result<(), Error> {
        let text = text(container, self)?;
        let made = self.build(container, &text);
        made.map_err(|answer| Error::system(format!("making the folder {}", self.folder.display()), answer))
    }

    fn build(&self, container: &Container, text: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        if container.root == Root::Programs {
            let root = self.root();
            let mounted = self.mounted.iter().map(String::as_str);
            for name in [""].into_iter().chain(OWN).chain(mounted) {
                make_folder(&root.join(name))?;
            }
            for (name, to) in &self.links {
                symlink(to, root.join(name))?;
            }
            make_file(&root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
            make_file(&root.join("etc/group"), "root:x:0:\n")?;
        }
        fs::write(self.config(), text)
    }
}

/// Creates a directory that everybody may enter and list, regardless of the umask.
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Creates a file that everybody may read, regardless of the umask.
fn make_file(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// Removes the directory of a container that has ended, unless something is mounted in it.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if is_mounted_below(&mounts, folder) {
        return Err(Error::Mounted { path: folder.display().to_string() });
    }
    match fs::remove_dir_all(folder) {
        Err(answer) if answer.kind() != io::ErrorKind::NotFound => {
            Err(Error::system(format!("removing the folder {}", folder.display()), answer))
        }
        _ => Ok(()),
    }
}

/// Returns true if there is a mount point at or below a directory, according to `/proc/self/mountinfo`
/// (proc_pid_mountinfo(5)).
pub(crate) fn is_mounted_below(mounts: &str, folder: &Path) -> bool {
    let place = |line: &str| Some(plain(line.split(' ').nth(4)?));
    mounts.lines().filter_map(place).any(|place| Path::new(&place).starts_with(folder))
}

/// Decodes the octal escapes of a path in mountinfo, such as `\040` for a blank.
fn plain(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(path.to_owned(), |path, (written, meant)| path.replace(written, meant))
}

/// Removes a container's control groups and its LXC lock. A group stays if it still has processes after a while.
pub(crate) fn sweep(home: &Path, name: &str) {
    groups::remove_all(name);
    let locks = Path::new(LOCKS);
    let lock = locks.join(home.strip_prefix("/").unwrap_or(home));
    let _ = fs::remove_file(lock.join(format!(".{name}")));
    // A directory with other locks is not empty, and stays.
    lock.ancestors().take_while(|folder| *folder != locks).for_each(|folder| drop(fs::remove_dir(folder)));
}
