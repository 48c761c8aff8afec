//! Captures of an interface with tcpdump.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};

use crate::{Namespace, Running, Signal};

/// Timeout for tcpdump to start or end.
const LIMIT: Duration = Duration::from_secs(60);

/// Buffer size in KiB: the frames of 50 ms at a TAP's full rate.
const BUFFER_KIB: &str = "196608";

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
    file: PathBuf,
}

/// Octets of a pcap file's header, and of the header of each record.
const HEADS: (usize, usize) = (24, 16);

impl Capture {
    /// Writes every frame that leaves the router from now on into `file`.
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
        Ok(Self { tcpdump, file: file.to_owned() })
    }

    /// Waits until this many frames that satisfy `wanted` are in the file.
    ///
    /// # Errors
    /// They do not arrive within a minute.
    pub fn wait_for(&self, count: usize, wanted: impl Fn(&[u8]) -> bool) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let octets = fs::read(&self.file).with_context(|| self.file.display().to_string())?;
            let found = pcap_frames(&octets).0.iter().filter(|frame| wanted(frame)).count();
            if found >= count {
                return Ok(());
            }
            ensure!(Instant::now() < end, "{found} frames of {count} are in {}", self.file.display());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the capture; the file is then complete.
    pub fn stop(self) -> Result<()> {
        let said = self.end()?;
        ensure!(said.contains("0 packets dropped by kernel"), "tcpdump: {said}");
        Ok(())
    }

    /// Ends a capture of frames that may arrive faster than they can be written: some of them are in the file, each complete.
    pub fn stop_with_some(self) -> Result<()> {
        self.end().map(drop)
    }

    fn end(mut self) -> Result<String> {
        self.tcpdump.signal(Signal::INT)?;
        let done = self.tcpdump.wait(LIMIT)?;
        ensure!(done.status.success(), "tcpdump: {}", done.stderr);
        Ok(done.stderr)
    }
}

/// Returns the complete frames of a pcap file in native byte order, and the octets behind the last one.
pub fn pcap_frames(octets: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut rest = octets.get(HEADS.0..).unwrap_or_default();
    let mut frames = Vec::new();
    let length = |head: &[u8]| u32::from_ne_bytes([head[8], head[9], head[10], head[11]]) as usize;
    while let Some(frame) = rest.get(..HEADS.1).and_then(|head| rest.get(HEADS.1..HEADS.1 + length(head))) {
        frames.push(frame);
        rest = &rest[HEADS.1 + frame.len()..];
    }
    (frames, rest)
}
