//! Folders and files that FRR's daemons expect. With `-N NAME` they use `/etc/frr/NAME` and `/run/frr/NAME`; both belong to user
//! `frr`, which the daemons become.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::Daemon;

/// Longest name: the socket of the daemon with the longest name has to fit into an address of a Unix socket (108 octets).
const LONGEST_NAME: usize = 64;

/// User and group of the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
}

impl Owner {
    /// Finds the user `frr` in the text of `/etc/passwd` (passwd(5)).
    pub fn find(passwd: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some("frr");
            let [user, group] = [fields.nth(1)?, fields.next()?];
            is_it.then_some(Self { user: user.parse().ok()?, group: group.parse().ok()? })
        })
    }
}

/// Folders and files of one control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    name: String,
    configuration: PathBuf,
    sockets: PathBuf,
}

impl Layout {
    /// Folders of a control plane with this name, below `root`, which is `/` except in tests. Returns `None` if the name
    /// cannot be one: 1 to 64 letters, digits, `-` and `_`.
    pub fn new(root: &Path, name: &str) -> Option<Self> {
        let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
            return None;
        }
        let folder = |parent: &str| root.join(parent).join("frr").join(name);
        Some(Self { name: name.to_owned(), configuration: folder("etc"), sockets: folder("run") })
    }

    /// Name, as after `-N`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Folders, each to be made for the owner alone.
    pub fn folders(&self) -> [&Path; 2] {
        [&self.configuration, &self.sockets]
    }

    /// Files for a configuration, each with its content.
    fn files(&self, configuration: &str) -> [(PathBuf, String); 2] {
        let file = |name: &str, text: String| (self.configuration.join(name), text);
        // One file for all daemons, and questions of vtysh without a pager.
        [
            file("frr.conf", with_end(configuration)),
            file("vtysh.conf", "service integrated-vtysh-config\n".to_owned()),
        ]
    }

    /// Socket at which `vtysh` reaches a daemon: it is there when the daemon can be configured.
    pub fn vty(&self, daemon: Daemon) -> PathBuf {
        self.sockets.join(format!("{daemon}.vty"))
    }

    /// Socket at which bfdd waits for the data plane.
    pub fn data_plane_of_bfd(&self) -> PathBuf {
        self.sockets.join("bfdd_dplane.sock")
    }

    /// Makes the folders and writes the files, for this owner if there is one.
    ///
    /// # Errors
    /// A folder or file cannot be made, written or given away.
    pub fn write(&self, configuration: &str, owner: Option<Owner>) -> io::Result<()> {
        for folder in self.folders() {
            fs::create_dir_all(folder)?;
            hand_over(folder, 0o750, owner)?;
        }
        for (path, text) in self.files(configuration) {
            fs::write(&path, text)?;
            hand_over(&path, 0o640, owner)?;
        }
        Ok(())
    }

    /// Removes the sockets of former daemons: one that is left makes a dead daemon look alive.
    ///
    /// # Errors
    /// A socket is there and cannot be removed.
    pub fn forget(&self, daemon: Daemon) -> io::Result<()> {
        let more = (daemon == Daemon::Bfd).then(|| self.data_plane_of_bfd());
        [self.vty(daemon)].into_iter().chain(more).try_for_each(|socket| match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }
}

fn hand_over(path: &Path, mode: u32, owner: Option<Owner>) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    owner.map_or(Ok(()), |owner| chown(path, Some(owner.user), Some(owner.group)))
}

/// A configuration that ends with a line end: FRR ignores a last line without.
fn with_end(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests;
