//! A network namespace of the test's own.

use std::fs::{self, File};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::running::run;

/// `ip` answers within this time.
const LIMIT: Duration = Duration::from_secs(60);

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

    /// A command for a program that needs the host's control groups, which `ip netns exec` hides with all of `/sys`.
    pub fn command_with_groups(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(program);
        command
    }

    /// Runs `work` inside, in a thread of its own: sockets that it opens belong to the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let file = File::open(format!("/run/netns/{}", self.name))?;
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                anyhow::Ok(work())
            });
            thread.join().map_err(|_| anyhow!("a panic inside the namespace {}", self.name))?
        })
    }

    /// Sets one of its kernel parameters, such as `net.ipv4.ip_forward`.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.inside(|| fs::write(&path, value))?.with_context(|| format!("cannot write {path}"))
    }

    /// The names of its links.
    pub fn links(&self) -> Result<Vec<String>> {
        Ok(names(&self.ip(&["-o", "link", "show"])?))
    }

    /// The names of those that are up.
    pub fn links_up(&self) -> Result<Vec<String>> {
        Ok(names(&self.ip(&["-o", "link", "show", "up"])?))
    }

    /// Runs `ip` with these words inside it.
    pub fn ip(&self, words: &[&str]) -> Result<String> {
        ip(&[&["-n", &self.name], words].concat())
    }
}

/// The names in what `ip -o link show` prints.
fn names(text: &str) -> Vec<String> {
    let name = |line: &str| Some(line.split(": ").nth(1)?.split('@').next()?.to_owned());
    text.lines().filter_map(name).collect()
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
