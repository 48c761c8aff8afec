//! Commands that a task starts: shown, bounded in time, without standard input.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // The manifest of this package lies in a folder of the root's.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Where cargo puts what it builds for the workspace.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The package of the command.
pub(crate) const COMMAND: &str = "ringroad";
/// The package of the lab, and its program, which lies beside the command. Nothing else is built with it: in a source tree the command
/// has it built in this way, and is to find it so.
pub(crate) const LAB: (&str, &str) = ("ringroad-lab-program", "ringroad-lab");

/// Builds the command as it is released; where it lies.
///
/// # Errors
/// It does not build.
pub(crate) fn release_build() -> Result<String> {
    released(COMMAND, COMMAND)
}

/// Builds the lab as it is released, and the command, by which it runs routers; where the lab lies.
///
/// # Errors
/// One of them does not build.
pub(crate) fn release_lab() -> Result<String> {
    release_build()?;
    released(LAB.0, LAB.1)
}

fn released(package: &str, program: &str) -> Result<String> {
    let build = Step::new("cargo").args(["build", "--release", "--package", package]);
    ensure!(build.run()?, "the release build failed");
    Ok(target_dir().join("release").join(program).to_string_lossy().into_owned())
}

/// Whether a program of this name is in `PATH`.
pub(crate) fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// Whether a command can be started and ends well; it prints nothing.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}

/// What a command prints, trimmed; empty if it fails.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).current_dir(root()).stdin(Stdio::null()).output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

/// A command to run from the root of the workspace.
pub(crate) struct Step {
    words: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
    limit: Duration,
}

impl Step {
    /// A command of this program.
    pub(crate) fn new(program: &str) -> Self {
        Self::of(vec![program.to_owned()])
    }

    /// A command of these words.
    pub(crate) fn of(words: Vec<String>) -> Self {
        Self { words, environment: Vec::new(), folder: root(), limit: Duration::from_secs(1800) }
    }

    /// Lets it run in this folder instead of the root of the workspace.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// Adds words, as they are.
    pub(crate) fn args<S: AsRef<str>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.words.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_string_lossy().into_owned()));
        self
    }

    /// Ends the command, and all that it started, after this time.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The command as one would type it.
    pub(crate) fn shown(&self) -> String {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        variables.chain(self.words.iter().map(|w| quoted(w))).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        // `timeout` puts the command into a process group of its own and ends the whole group. At a terminal it must
        // not, or Ctrl-C would not reach the command.
        let mut command = Command::new("timeout");
        if std::io::stdin().is_terminal() {
            command.arg("--foreground");
        }
        command.arg("--kill-after=10").arg(self.limit.as_secs().to_string()).args(&self.words);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it; true if it ended well.
    pub(crate) fn run(&self) -> Result<bool> {
        println!("$ {}", self.shown());
        let status = self.command().status().with_context(|| format!("cannot start `{}`", self.shown()))?;
        if let Some(late) = self.late(status) {
            println!("{late}");
        }
        Ok(status.success())
    }

    /// Runs it and gives each line that it prints, on either stream, to `line`; true if it ended well.
    pub(crate) fn lines(&self, line: &mut dyn FnMut(&str)) -> Result<bool> {
        println!("$ {}", self.shown());
        self.quietly(line)
    }

    /// Runs it without a word, and gives each line that it prints, on either stream, to `line`; true if it ended well.
    pub(crate) fn quietly(&self, line: &mut dyn FnMut(&str)) -> Result<bool> {
        // One pipe for both streams keeps their lines in order.
        let (reader, writer) = std::io::pipe()?;
        let mut command = self.command();
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", self.shown()))?;
        drop(command); // the last writers left are the child's
        let mut reader = BufReader::new(reader);
        let mut octets = Vec::new();
        while reader.read_until(b'\n', &mut octets)? > 0 {
            line(String::from_utf8_lossy(&octets).trim_end_matches(['\n', '\r']));
            octets.clear();
        }
        let status = child.wait()?;
        if let Some(late) = self.late(status) {
            line(&late);
        }
        Ok(status.success())
    }

    /// What is said of a command that did not end in time.
    fn late(&self, status: ExitStatus) -> Option<String> {
        // 124 is what `timeout` answers when it had to end the command, 137 when it had to do so by SIGKILL.
        let late = matches!(status.code(), Some(124 | 137));
        late.then(|| format!("ended after {} s: {}", self.limit.as_secs(), self.shown()))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}
