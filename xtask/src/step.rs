//! Commands started by a task: printed, limited in time, without standard input.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Root folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // The manifest of this package is one folder below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Target folder of the workspace's builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Package of the command.
pub(crate) const COMMAND: &str = "ringroad";
/// Package of the lab, and its program, which is in the same folder as the command. It is built alone: in a source tree the command
/// itself has it built in this way, and then finds it up to date.
pub(crate) const LAB: (&str, &str) = ("ringroad-lab-program", "ringroad-lab");

/// Builds the command in the release profile; returns its path.
///
/// # Errors
/// It does not build.
pub(crate) fn release_build() -> Result<String> {
    released(COMMAND, COMMAND)
}

/// Builds the lab in the release profile, and the command, by which it runs routers; returns the path of the lab.
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

/// Returns true if a program of this name is in `PATH`.
pub(crate) fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// Returns true if a command can be started and succeeds; its output is discarded.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}

/// Returns the output of a command, trimmed; empty if it fails.
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
    /// Creates a command that runs this program.
    pub(crate) fn new(program: &str) -> Self {
        Self::of(vec![program.to_owned()])
    }

    /// Creates a command of these words.
    pub(crate) fn of(words: Vec<String>) -> Self {
        Self { words, environment: Vec::new(), folder: root(), limit: Duration::from_secs(1800) }
    }

    /// Sets the working folder, instead of the root of the workspace.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// Adds arguments, without quoting.
    pub(crate) fn args<S: AsRef<str>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.words.extend(words.into_iter().map(|w| w.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_string_lossy().into_owned()));
        self
    }

    /// Terminates the command, and all that it started, after this time.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Formats the command as one would type it.
    pub(crate) fn shown(&self) -> String {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        variables.chain(self.words.iter().map(|w| quoted(w))).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        // `timeout` puts the command into a process group of its own and terminates the whole group. At a terminal it must not, or
        // Ctrl-C would not reach the command.
        let mut command = Command::new("timeout");
        if std::io::stdin().is_terminal() {
            command.arg("--foreground");
        }
        command.arg("--kill-after=10").arg(self.limit.as_secs().to_string()).args(&self.words);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it; returns true if it succeeded.
    pub(crate) fn run(&self) -> Result<bool> {
        println!("$ {}", self.shown());
        let status = self.command().status().with_context(|| format!("cannot start `{}`", self.shown()))?;
        if let Some(late) = self.late(status) {
            println!("{late}");
        }
        Ok(status.success())
    }

    /// Runs it and passes each line of its output, on either stream, to `line`; returns true if it succeeded.
    pub(crate) fn lines(&self, line: &mut dyn FnMut(&str)) -> Result<bool> {
        println!("$ {}", self.shown());
        self.quietly(line)
    }

    /// Runs it without printing it, and passes each line of its output, on either stream, to `line`; returns true if it succeeded.
    pub(crate) fn quietly(&self, line: &mut dyn FnMut(&str)) -> Result<bool> {
        // One pipe for both streams keeps their lines in order.
        let (reader, writer) = std::io::pipe()?;
        let mut command = self.command();
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", self.shown()))?;
        drop(command); // the only remaining writers are the child's
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

    /// Message about a command that did not end in time.
    fn late(&self, status: ExitStatus) -> Option<String> {
        // `timeout` exits with 124 if it had to terminate the command, with 137 if it took SIGKILL.
        let late = matches!(status.code(), Some(124 | 137));
        late.then(|| format!("ended after {} s: {}", self.limit.as_secs(), self.shown()))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}
