//! DPDK's testpmd, with private memory and only the devices passed to it.

use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;

use crate::{Running, Signal};

/// Folder in which DPDK creates, and leaves, a folder for each of its programs.
const FOLDERS: &str = "/var/run/dpdk";
/// Timeout for a killed program to disappear.
const GONE: Duration = Duration::from_secs(60);

/// Running testpmd; on drop it is killed and its leftovers are removed.
#[derive(Debug)]
pub struct Testpmd {
    run: Running,
    prefix: String,
}

impl Testpmd {
    /// Starts it with this device (`net_virtio_user0,path=…`) and these arguments of its own.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, device: &str, arguments: &[&str]) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("rr-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        command.args(["--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--file-prefix", &prefix]);
        command.args(["--lcores", "(0,1)@0", "--vdev", device, "--"]).args(arguments);
        Ok(Self { run: Running::start(command)?, prefix })
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be killed.
    pub fn kill(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.run.signal(Signal::KILL)?;
        self.run.wait(GONE).map(drop)
    }
}

impl Deref for Testpmd {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.run
    }
}

impl DerefMut for Testpmd {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.run
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.end();
        let _ = std::fs::remove_dir_all(format!("{FOLDERS}/{}", self.prefix));
    }
}
