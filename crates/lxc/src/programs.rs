//! LXC's programs, each run with a time limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::Error;

/// Programs that are used.
const NEEDED: [&str; 3] = ["lxc-start", "lxc-info", "lxc-stop"];
/// Maximum octets of a program's output that are read.
const HEARD: u64 = 64 << 10;
/// Interval between two checks for its exit.
const LOOK: Duration = Duration::from_millis(2);

/// Location of LXC's programs.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `None`: the search path of the system (`PATH`).
    folder: Option<PathBuf>,
}

/// Output and exit status of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramOutput {
    pub(crate) well: bool,
    pub(crate) output: String,
}

impl Programs {
    /// Uses the programs in a directory.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// Checks that all needed programs are installed.
    ///
    /// # Errors
    /// The first missing program; the message names the package.
    pub fn look(&self) -> Result<(), Error> {
        match NEEDED.into_iter().find(|program| !self.has(program)) {
            Some(program) => Err(Error::Missing { program }),
            None => Ok(()),
        }
    }

    fn has(&self, program: &str) -> bool {
        let in_folder = |folder: &Path| folder.join(program).is_file();
        match &self.folder {
            Some(folder) => in_folder(folder),
            None => std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|folder| in_folder(&folder))),
        }
    }

    /// Prepares a program without input or output, in a process group of its own, so that signals of our
    /// terminal do not reach it.
    pub(crate) fn command(&self, program: &'static str) -> Command {
        let path = self.folder.as_ref().map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        let mut command = Command::new(path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command
    }

    /// Runs a program to its end. `None`: it did not end in time and was killed.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        program: &'static str,
        arguments: &[A],
        patience: Duration,
    ) -> Result<Option<ProgramOutput>, Error> {
        let failed = |answer: io::Error| failed(program, answer);
        // Output goes to a memfd, not a pipe: a process that the program leaves behind cannot block us by
        // holding a pipe open.
        let mut output = File::from(memfd_create("lxc", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?);
        let mut command = self.command(program);
        command.args(arguments).stdout(Stdio::from(output.try_clone().map_err(failed)?));
        let mut child = command.spawn().map_err(failed)?;
        let end = Instant::now() + patience;
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break status,
                None if Instant::now() < end => sleep(LOOK),
                None => {
                    child.kill().and_then(|()| child.wait()).map_err(failed)?;
                    return Ok(None);
                }
            }
        };
        let mut octets = Vec::new();
        output.rewind().and_then(|()| output.take(HEARD).read_to_end(&mut octets)).map_err(failed)?;
        let output = String::from_utf8_lossy(&octets).into_owned();
        Ok(Some(ProgramOutput { well: status.success(), output }))
    }
}

/// Error for a program that cannot be started.
pub(crate) fn failed(program: &'static str, answer: io::Error) -> Error {
    match answer.kind() {
        io::ErrorKind::NotFound => Error::Missing { program },
        _ => Error::system(format!("running `{program}`"), answer),
    }
}
