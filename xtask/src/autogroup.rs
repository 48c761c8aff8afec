//! Autogroups: the kernel's scheduling group of each session, switched off while programs run.
//!
//! Linux 6.18 places the scheduling entity of a group wrongly when the group's weight changes while it runs (commit 6d71a9c61604, reverted
//! by 101f3498b4bd): a session whose threads come and go does not age against the threads beside it, among them the kernel's own.
//! Measured with 90 threads that sleep and wake on two CPUs: one grace period (RCU) took until these ended, 10 s, and 20 ms at most
//! without autogroups. A test that waits for the kernel then fails, and a measurement tells nothing.
//!
//! A process of its own switches them on again: it waits for the end of a pipe, so it does that however the task ends.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `1` if each session is a scheduling group of its own, else `0` (`Documentation/admin-guide/sysctl/kernel.rst`).
const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";
/// Script that waits for the end of its input and then switches autogroups on; signals that end a task do not end it.
const RESTORER: &str = "trap '' HUP INT QUIT TERM; read -r word; echo 1 > \"$0\"";

/// Autogroups are off until this is dropped, or its process ends, however it does.
#[derive(Debug)]
pub(crate) struct AutogroupsOff {
    setting: PathBuf,
    /// Runs the script. Only this process has the other end of its input.
    restorer: Child,
}

impl AutogroupsOff {
    /// Switches autogroups off; `None` if they are off, or this user may not.
    pub(crate) fn here() -> Option<Self> {
        Self::at(Path::new(SETTING))
    }

    fn at(setting: &Path) -> Option<Self> {
        if fs::read_to_string(setting).ok()?.trim() != "1" {
            return None;
        }
        let path = setting.display();
        match Self::switch_off(setting) {
            Ok(off) => {
                println!("{path}: 0 meanwhile");
                Some(off)
            }
            Err(error) => {
                eprintln!("{path} stays 1: {error}; the kernel's own threads may get no CPU for seconds");
                None
            }
        }
    }

    fn switch_off(setting: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(setting)?;
        // In a process group of its own, which Ctrl-C does not reach; before the change, so that there is no moment without it.
        let mut command = Command::new("sh");
        command.args(["-c", RESTORER]).arg(setting).process_group(0);
        let restorer = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let off = Self { setting: setting.to_owned(), restorer };
        file.write_all(b"0\n")?;
        Ok(off)
    }
}

impl Drop for AutogroupsOff {
    fn drop(&mut self) {
        drop(self.restorer.stdin.take());
        if !self.restorer.wait().is_ok_and(|status| status.success()) {
            eprintln!("{} stays 0", self.setting.display());
        }
    }
}

#[cfg(test)]
#[path = "autogroup_tests.rs"]
mod tests;
