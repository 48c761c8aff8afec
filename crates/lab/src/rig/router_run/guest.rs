//! Routers that are Linux guests. Their initramfs is given from outside: its init runs the words of `run=` on the kernel's command line as
//! a shell script, with `+` in the place of blanks, and so the guest sets itself up as a router.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::text::{ENDS, neighbours};
use super::{LOOK, Probe, RouterRun};
use crate::device;
use crate::experiment::Options;

/// Words before the script. Interfaces keep the kernel's names, `eth0` and `eth1` in the order of the NICs.
const WORDS: &str = "console=ttyS0 quiet panic=-1 net.ifnames=0";
/// Longest time from the start of a guest to its first frame, and interval between two probes.
const BOOT: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(50);

/// Returns the options with absolute paths of the files of a Linux guest, which the command reads.
///
/// # Errors
/// One line: the options name no kernel, or there is no such file.
pub(crate) fn with_files(options: &Options) -> Result<Options> {
    let absolute = |path: &Path| fs::canonicalize(path).with_context(|| path.display().to_string());
    let kernel = options.kernel.as_deref().context(
        "no kernel of a Linux guest is given; write --kernel PATH --initrd PATH, with an initramfs that runs the words of run=",
    )?;
    let kernel = Some(absolute(kernel)?);
    let initrd = options.initrd.as_deref().map(absolute).transpose()?;
    Ok(Options { kernel, initrd, ..options.clone() })
}

/// Formats the keys of a guest: its kernel, its initramfs, and the command line that has it set itself up.
pub(super) fn lines(options: &Options) -> String {
    let file = |key: &str, path: Option<&Path>| path.map(|path| format!("{key} = '{}'\n", path.display()));
    let files = [file("kernel", options.kernel.as_deref()), file("initrd", options.initrd.as_deref())];
    let files: String = files.into_iter().flatten().collect();
    format!("{files}append = \"{WORDS} run={}\"\n", script())
}

/// Returns the script: addresses, static neighbours and the default route, as the files of other routers have them, and forwarding.
fn script() -> String {
    let mut script = String::new();
    // Writing to a string cannot fail.
    for (at, (_, _, address)) in ENDS.iter().enumerate() {
        let _ = write!(script, "ip+address+add+{address}/24+dev+eth{at};ip+link+set+eth{at}+up;");
    }
    for (address, mac) in neighbours() {
        let mac = frame::Mac(mac);
        // BusyBox's ip adds no neighbours.
        let _ = write!(script, "ip+neigh+add+{address}+lladdr+{mac}+dev+eth1||arp+-s+{address}+{mac};");
    }
    let _ = write!(script, "ip+route+add+default+via+{};", device::STATION);
    script.push_str("echo+1+>/proc/sys/net/ipv4/ip_forward");
    script
}

impl RouterRun {
    /// Waits until each guest has forwarded a frame: it is up for the command as soon as its kernel runs.
    ///
    /// # Errors
    /// One of them does not within a minute.
    pub(super) fn await_guests(&self) -> Result<()> {
        for router in 0..self.lanes.len() {
            let (mut probe, end) = (Probe::new(self, router, EVERY)?, Instant::now() + BOOT);
            while probe.took.is_empty() {
                ensure!(
                    Instant::now() < end,
                    "the Linux guest {} has forwarded nothing within {} s: does its initramfs run the words of run=?",
                    self.router(router),
                    BOOT.as_secs()
                );
                sleep(LOOK);
                probe.turn();
            }
        }
        Ok(())
    }
}
