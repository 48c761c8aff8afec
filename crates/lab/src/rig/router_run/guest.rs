//! Routers that are Linux guests. Their initramfs is given from outside: its init runs the words of `run=` on the kernel's command line as
//! a shell script, with `+` in the place of blanks, and so the guest sets itself up as a router.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};

use super::text::{ENDS, neighbours};
use super::{LOOK, Probe, RouterRun};
use crate::device;
use crate::experiment::Options;

/// Words before the script. Interfaces keep the kernel's names, `eth0` and `eth1` in the order of the NICs. On some CPUs of AMD a kernel
/// would look for AGP bridges at 8192 places, twice.
const WORDS: &str = "console=ttyS0 quiet panic=-1 pci=noearly net.ifnames=0";
/// Longest time from the start of a guest that has a CPU for itself to its first frame, and interval between two probes.
const BOOT: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(50);
/// Lines of a console, and characters of each, in the error of a guest that forwards nothing.
const LINES: usize = 4;
const LONGEST: usize = 200;

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

/// Returns the file to which the console of a guest of this name is written.
fn console(place: &Path, name: &str) -> PathBuf {
    place.join(format!("{name}.console"))
}

/// Formats the keys of a guest: its kernel, its initramfs, its console, and the command line that has it set itself up.
pub(super) fn lines(options: &Options, (name, place): (&str, &Path)) -> String {
    let file = |key: &str, path: Option<&Path>| path.map(|path| format!("{key} = '{}'\n", path.display()));
    let console = console(place, name);
    let files = [
        file("kernel", options.kernel.as_deref()),
        file("initrd", options.initrd.as_deref()),
        file("console", Some(console.as_path())),
    ];
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
    /// One of them does not in time; the error has the end of its console.
    pub(super) fn await_guests(&self) -> Result<()> {
        // They may boot on one CPU, where the first one takes nearly as long as all of them.
        let most = BOOT * u32::try_from(self.lanes.len()).unwrap_or(1);
        let end = Instant::now() + most;
        for router in 0..self.lanes.len() {
            let mut probe = Probe::new(self, router, EVERY)?;
            while probe.took.is_empty() {
                if Instant::now() >= end {
                    return Err(self.silent_guest(router, most));
                }
                sleep(LOOK);
                probe.turn();
            }
        }
        Ok(())
    }

    /// Error of a guest that forwards nothing.
    fn silent_guest(&self, router: usize, most: Duration) -> Error {
        let name = self.router(router);
        let said = last_lines(&fs::read(console(&self.folder.path, &name)).unwrap_or_default());
        anyhow!(
            "the Linux guest {name} has forwarded nothing within {} s: does its initramfs run the words of run=? Its console ends with: {said}",
            most.as_secs()
        )
    }
}

/// Returns the last lines of a console as one line.
fn last_lines(console: &[u8]) -> String {
    let text = String::from_utf8_lossy(console);
    let plain =
        |line: &str| line.chars().filter(|letter| !letter.is_control()).take(LONGEST).collect::<String>();
    let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.is_empty()).collect();
    match lines.get(lines.len().saturating_sub(LINES)..) {
        None | Some([]) => "nothing".to_owned(),
        Some(last) => last.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_console_is_one_line() {
        assert_eq!(last_lines(b""), "nothing");
        assert_eq!(last_lines(b"\r\n \x1b\n\n"), " ");
        let said = last_lines(b"a\r\nb\r\nguest: up\r\n\nip: \x1b[1mno eth1\xff\r\n/ # ");
        assert_eq!(said, "b; guest: up; ip: [1mno eth1\u{fffd}; / # ");
        assert_eq!(last_lines("x".repeat(1000).as_bytes()).len(), LONGEST);
    }
}
