//! A network namespace of the test's own.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::running::run;

/// `ip` answers within this time.
const LIMIT: Duration = Duration::from_secs(10);

/// A named network namespace, removed on drop with all links in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Adds a namespace, its loopback up; the name carries the id of this process, so that two runs do not meet.
    pub fn add(name: &str) -> Result<Self> {
        let namespace = Self { name: format!("{name}-{}", std::process::id()) };
        ip(&["netns", "add", &namespace.name])?;
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that will run inside it, under the process id of the child that is started.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `ip` with these words inside it.
    pub fn ip(&self, words: &[&str]) -> Result<String> {
        ip(&[&["-n", &self.name], words].concat())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(words: &[&str]) -> Result<String> {
    let done = run(Command::new("ip").args(words), LIMIT)?;
    ensure!(done.status.success(), "ip {}: {}", words.join(" "), done.stderr);
    Ok(done.stdout)
}
