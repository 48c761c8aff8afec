//! Autogroups: the kernel's scheduling group of each session, switched off while programs run.
//!
//! Linux 6.18 places the scheduling entity of a group wrongly when the group's weight changes while it runs (commit 6d71a9c61604, reverted
//! by 101f3498b4bd): a session whose threads come and go does not age against the threads beside it, among them the kernel's own.
//! Measured with 90 threads that sleep and wake on two CPUs: one grace period (RCU) took until these ended, 10 s, and 20 ms at most
//! without autogroups. A test that waits for the kernel then fails, and a measurement tells nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// `1` if each session is a scheduling group of its own, else `0` (`Documentation/admin-guide/sysctl/kernel.rst`).
const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Autogroups are off until this is dropped, which switches them on again.
#[derive(Debug)]
pub(crate) struct AutogroupsOff {
    setting: PathBuf,
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
        if let Err(error) = fs::write(setting, "0") {
            eprintln!("{path} stays 1: {error}; the kernel's own threads may get no CPU for seconds");
            return None;
        }
        println!("{path}: 0 meanwhile");
        Some(Self { setting: setting.to_owned() })
    }
}

impl Drop for AutogroupsOff {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.setting, "1") {
            eprintln!("{} stays 0: {error}", self.setting.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autogroups_are_on_again_afterwards_only_if_they_were() {
        let folder = std::env::temp_dir().join(format!("ringroad-autogroup-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let setting = folder.join("sched_autogroup_enabled");
        let read = || fs::read_to_string(&setting).expect("the setting");
        assert!(AutogroupsOff::at(&setting).is_none(), "this kernel has none");

        fs::write(&setting, "1\n").expect("a setting");
        let off = AutogroupsOff::at(&setting).expect("they were on");
        assert_eq!(read(), "0");
        assert!(AutogroupsOff::at(&setting).is_none(), "somebody else switches them back");
        assert_eq!(read(), "0");
        drop(off);
        assert_eq!(read(), "1");
        fs::remove_dir_all(&folder).expect("it goes");
    }
}
