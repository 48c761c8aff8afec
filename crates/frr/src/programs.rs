//! Programs of FRR on this host, and their command lines.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Daemon, Layout};

/// Folders, relative to the root, in which Debian and others have the daemons.
const DAEMONS: [&str; 3] = ["usr/lib/frr", "usr/libexec/frr", "usr/sbin"];
/// Folders of `vtysh`.
const TOOLS: [&str; 2] = ["usr/bin", "usr/local/bin"];
/// Port of the forwarding plane manager.
const FPM: u16 = 2620;
/// Seconds for which a zebra that was restarted keeps the routes of the one before, unless they come again.
const KEEPS: u32 = 120;
/// Octets of zebra's netlink buffer: room for the changes of a link that takes thousands of routes along.
const NETLINK_BUFFER: u32 = 16 << 20;
/// First version whose zebra reads what the forwarding plane manager answers.
const READS_ANSWERS: (u32, u32) = (8, 5);

/// Programs of FRR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    daemons: PathBuf,
    vtysh: PathBuf,
}

/// Program that was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected FRR's `{program}` in {looked_in}, found none: install the Debian package `frr`")]
pub struct Missing {
    program: String,
    looked_in: String,
}

/// Command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Program.
    pub program: PathBuf,
    /// Words after it.
    pub words: Vec<String>,
}

/// What of a data path the daemons use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Routes go to a data path by FPM; otherwise the kernel forwards.
    pub fpm: bool,
    /// BFD sessions go to a data path, too.
    pub bfd: bool,
}

impl Programs {
    /// Finds the programs below `root`, which is `/` except in tests.
    ///
    /// # Errors
    /// The first one that is missing.
    pub fn find(root: &Path, daemons: impl IntoIterator<Item = Daemon>) -> Result<Self, Missing> {
        let folder = folder_of(root, &DAEMONS, Daemon::Zebra.name())?;
        for daemon in daemons {
            if !folder.join(daemon.name()).is_file() {
                return Err(Missing {
                    program: daemon.name().to_owned(),
                    looked_in: folder.display().to_string(),
                });
            }
        }
        let vtysh = folder_of(root, &TOOLS, "vtysh")?.join("vtysh");
        Ok(Self { daemons: folder, vtysh })
    }

    /// Major and minor version, as zebra tells them; `None`: it does not. Waits for zebra to end.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut command = Command::new(self.daemon(Daemon::Zebra));
        let done = command.arg("--version").stdin(Stdio::null()).output().ok()?;
        version_in(&String::from_utf8_lossy(&done.stdout))
    }

    /// Returns true if zebra reads which routes a data path forwards by, for `bgp suppress-fib-pending`: from 8.5 on. Waits as
    /// [`Programs::version`] does.
    pub fn reads_answers(&self) -> bool {
        self.version().is_some_and(|version| version >= READS_ANSWERS)
    }

    /// Program of a daemon.
    pub fn daemon(&self, daemon: Daemon) -> PathBuf {
        self.daemons.join(daemon.name())
    }

    /// Command line that starts a daemon in the foreground, with its log on standard output. It reads no file: `vtysh` brings
    /// the configuration ([`Programs::load`]).
    pub fn start(&self, daemon: Daemon, layout: &Layout, options: Options) -> CommandLine {
        let common =
            ["-N", layout.name(), "-A", "127.0.0.1", "-f", "/dev/null", "--log", "stdout", "--log-level"];
        let mut words: Vec<String> = common.map(str::to_owned).to_vec();
        words.push("informational".to_owned());
        match daemon {
            Daemon::Zebra => words.extend(of_zebra(options)),
            Daemon::Bfd if options.bfd => {
                let socket = layout.data_plane_of_bfd();
                words.extend(["--dplaneaddr".to_owned(), format!("unix:{}", socket.display())]);
            }
            _ => {}
        }
        CommandLine { program: self.daemon(daemon), words }
    }

    /// Command line that brings the configuration to all daemons, or to one that was restarted. It adds and changes lines; what a
    /// daemon has and the file does not stays.
    pub fn load(&self, layout: &Layout, only: Option<Daemon>) -> CommandLine {
        let mut words = vec!["-N".to_owned(), layout.name().to_owned(), "-b".to_owned()];
        words.extend(only.into_iter().flat_map(|daemon| ["-d".to_owned(), daemon.name().to_owned()]));
        CommandLine { program: self.vtysh.clone(), words }
    }

    /// Command line that asks a question.
    pub fn ask(&self, layout: &Layout, question: &str) -> CommandLine {
        let words = ["-N", layout.name(), "-c", question].map(str::to_owned).to_vec();
        CommandLine { program: self.vtysh.clone(), words }
    }

    /// Command line of an interactive shell.
    pub fn shell(&self, layout: &Layout) -> CommandLine {
        CommandLine { program: self.vtysh.clone(), words: ["-N", layout.name()].map(str::to_owned).to_vec() }
    }
}

fn of_zebra(options: Options) -> Vec<String> {
    // -r: routes stay in the kernel when zebra ends; -K: and for a while after its restart.
    let mut words = vec![
        "-r".to_owned(),
        "-K".to_owned(),
        KEEPS.to_string(),
        "-s".to_owned(),
        NETLINK_BUFFER.to_string(),
    ];
    if options.fpm {
        words.extend(["-M".to_owned(), "dplane_fpm_nl".to_owned()]);
    }
    words
}

/// Line of zebra's configuration that connects it to the data path; it precedes the user's.
fn connects() -> String {
    format!("fpm address 127.0.0.1 port {FPM}\n")
}

impl Options {
    /// Lines that have to precede the user's configuration.
    pub fn preamble(self) -> String {
        if self.fpm { connects() } else { String::new() }
    }
}

/// Reads a line like `zebra version 8.4.4`.
fn version_in(text: &str) -> Option<(u32, u32)> {
    let (_, version) = text.lines().next()?.split_once(" version ")?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn folder_of(root: &Path, folders: &[&str], program: &str) -> Result<PathBuf, Missing> {
    let mut candidates = folders.iter().map(|folder| root.join(folder));
    candidates.find(|folder| folder.join(program).is_file()).ok_or_else(|| Missing {
        program: program.to_owned(),
        looked_in: folders.iter().map(|folder| format!("/{folder}")).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests;
