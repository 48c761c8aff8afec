//! What arrives at an interface, written down by tcpdump.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{Namespace, Running, Signal};

/// tcpdump starts and ends long before this.
const LIMIT: Duration = Duration::from_secs(60);

/// What comes in 50 ms as fast as a TAP takes it.
const BUFFER_KIB: &str = "196608";

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
}

impl Capture {
    /// Writes every frame that comes from now on out of the router into `file`.
    pub fn start(host: &Namespace, interface: &str, file: &Path) -> Result<Self> {
        let mut command = host.command("tcpdump");
        command
            .args([
                "-i",
                interface,
                "-Q",
                "in",
                "--immediate-mode",
                "-U",
                "-s",
                "2048",
                "-B",
                BUFFER_KIB,
                "-Z",
                "root",
                "-w",
            ])
            .arg(file);
        let mut tcpdump = Running::start(&mut command)?;
        tcpdump.wait_for_line(LIMIT, |line| line.contains("listening on"))?;
        Ok(Self { tcpdump })
    }

    /// Ends it; the file is complete then.
    pub fn stop(mut self) -> Result<()> {
        self.tcpdump.signal(Signal::INT)?;
        let done = self.tcpdump.wait(LIMIT)?;
        ensure!(done.status.success(), "tcpdump: {}", done.stderr);
        ensure!(done.stderr.contains("0 packets dropped by kernel"), "tcpdump: {}", done.stderr);
        Ok(())
    }
}
