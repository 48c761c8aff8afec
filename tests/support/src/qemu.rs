//! Stock QEMU with one e1000: a device that is not ours, for a driver that is. It uses software emulation, so it shows
//! what happens but not how fast. Its trace records each register access; frames that the device sends are in a capture, or
//! arrive at a socket, by which frames are sent to it as well.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::running::Running;

/// Timeout for QEMU to end after being told to.
const END: Duration = Duration::from_secs(60);
/// Size of the register window, which is aligned to its size.
const WINDOW: u64 = 0x2_0000;
/// Octets of a capture's header, and of the header before each frame.
const CAPTURE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;

/// Machine for QEMU to run, in memory that remains ours, with its e1000 in slot 1 (`vmm::pc` makes such machines).
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The boot ROM.
    pub rom: &'a [u8],
    /// The RAM.
    pub ram: BorrowedFd<'a>,
    /// Length of the RAM in octets.
    pub ram_len: usize,
    /// CPUs.
    pub vcpus: u32,
    /// The e1000's Ethernet address.
    pub mac: [u8; 6],
    /// True if the device follows ITR.
    pub moderates: bool,
    /// True if it is linked to this process, by [`Qemu::send`] and [`Qemu::receive`]; QEMU waits while frames are not received.
    pub linked: bool,
}

/// Kind of register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read access.
    Read,
    /// Write access.
    Write,
}

/// Running QEMU.
pub struct Qemu {
    running: Running,
    folder: TempDir,
    link: Option<UnixDatagram>,
}

/// Names of the sockets at both ends of the link.
const OURS: &str = "ours";
const THEIRS: &str = "theirs";
/// Time for QEMU to take a frame: it leaves frames where they are until its device receives.
const TAKEN: Duration = Duration::from_millis(500);
/// Longest frame that is received.
const LONGEST: usize = 1 << 16;

/// Observations of a QEMU run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Frames that the device sent.
    pub frames: Vec<Vec<u8>>,
    /// Accesses to the device's registers, by their offset.
    pub accesses: BTreeMap<(Access, u64), u64>,
}

impl Qemu {
    /// Starts it; `qemu-system-x86_64` must be installed.
    pub fn start(machine: &Machine<'_>) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let file = |name: &str| folder.path().join(name).display().to_string();
        fs::write(file("rom"), machine.rom).context("cannot write the boot ROM")?;
        let (ram, len) = (format!("/proc/{}/fd/{}", process::id(), machine.ram.as_raw_fd()), machine.ram_len);
        let mac = machine.mac.map(|octet| format!("{octet:02x}")).join(":");
        let moderates = if machine.moderates { "on" } else { "off" };
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-nodefaults", "-no-reboot", "-display", "none", "-cpu", "max"]);
        command.args(["-accel", "tcg,thread=multi", "-smp", &machine.vcpus.to_string()]);
        command.args(["-machine", "q35,memory-backend=ram", "-m", &format!("{len}b"), "-bios", &file("rom")]);
        command.args(["-object", &format!("memory-backend-file,id=ram,share=on,size={len},mem-path={ram}")]);
        let link = machine.linked.then(|| UnixDatagram::bind(file(OURS))).transpose();
        let link = link.context("cannot bind a socket")?;
        link.iter().try_for_each(|link| link.set_write_timeout(Some(TAKEN)))?;
        let netdev = match &link {
            Some(_) => format!(
                "dgram,id=net,local.type=unix,local.path={},remote.type=unix,remote.path={}",
                file(THEIRS),
                file(OURS)
            ),
            None => "hubport,id=net,hubid=0".to_owned(),
        };
        command.args(["-netdev", &netdev]);
        command
            .args(["-device", &format!("e1000,netdev=net,addr=1,romfile=,mac={mac},mitigation={moderates}")]);
        command.args(["-object", &format!("filter-dump,id=dump,netdev=net,file={}", file("frames"))]);
        command.args(["-trace", "memory_region_ops_read", "-trace", "memory_region_ops_write"]);
        command.args(["-D", &file("accesses")]);
        Ok(Self { running: Running::start(&mut command)?, folder, link })
    }

    /// Sends a frame to the device. Returns false if it was not sent: QEMU does not listen yet or takes no more, or there is no link.
    pub fn send(&self, frame: &[u8]) -> bool {
        let place = self.folder.path().join(THEIRS);
        self.link.as_ref().is_some_and(|link| link.send_to(frame, place).is_ok())
    }

    /// Receives a frame that the device has sent; `None`: there is none within this time.
    pub fn receive(&self, within: Duration) -> Result<Option<Vec<u8>>> {
        let link = self.link.as_ref().context("the device is not linked")?;
        link.set_read_timeout(Some(within))?;
        let mut frame = vec![0; LONGEST];
        Ok(link.recv(&mut frame).ok().map(|len| frame[..len].to_vec()))
    }

    /// Returns true if it has ended by itself.
    pub fn ended(&mut self) -> Result<bool> {
        self.running.ended()
    }

    /// Ends it, and returns the observations.
    pub fn end(mut self) -> Result<Seen> {
        self.running.signal(Signal::TERM)?;
        let finished = self.running.wait(END)?;
        ensure!(finished.status.success(), "QEMU ended in failure: {}", finished.stderr);
        let capture = fs::read(self.folder.path().join("frames")).context("QEMU left no capture")?;
        let trace = fs::read_to_string(self.folder.path().join("accesses")).context("QEMU left no trace")?;
        Ok(Seen { frames: frames(&capture), accesses: accesses(&trace)? })
    }
}

/// Counts the reads and writes of each e1000 register.
fn accesses(trace: &str) -> Result<BTreeMap<(Access, u64), u64>> {
    let mut counts = BTreeMap::new();
    for line in trace.lines().filter(|line| line.contains("'e1000-mmio'")) {
        let access = if line.starts_with("memory_region_ops_write") { Access::Write } else { Access::Read };
        let mut words = line.split_whitespace().skip_while(|word| *word != "addr");
        let address = words.nth(1).and_then(|word| word.strip_prefix("0x"));
        let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let address = address.with_context(|| format!("a line of QEMU's trace has no address: {line}"))?;
        *counts.entry((access, address % WINDOW)).or_default() += 1;
    }
    Ok(counts)
}

/// Returns the frames of a capture; one that was truncated when QEMU ended is omitted.
fn frames(capture: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut frames) = (capture.get(CAPTURE_HEADER..).unwrap_or_default(), Vec::new());
    while let Some((header, behind)) = rest.split_first_chunk::<FRAME_HEADER>() {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let Some((frame, next)) = behind.split_at_checked(len as usize) else { break };
        frames.push(frame.to_vec());
        rest = next;
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_the_device_alone_are_counted_by_register() {
        let trace = "memory_region_ops_write cpu 0 mr 0x5 addr 0xe0123818 value 0x1 size 4 name 'e1000-mmio'\n\
                     memory_region_ops_read cpu 1 mr 0x5 addr 0xe01200c0 value 0x3 size 4 name 'e1000-mmio'\n\
                     memory_region_ops_write cpu 0 mr 0x5 addr 0xe0123818 value 0x2 size 4 name 'e1000-mmio'\n\
                     memory_region_ops_write cpu 0 mr 0x7 addr 0xb0 value 0x0 size 4 name 'apic-msi'\n";
        let expected = BTreeMap::from([((Access::Write, 0x3818), 2), ((Access::Read, 0xc0), 1)]);
        assert_eq!(accesses(trace).unwrap(), expected);
        assert!(accesses("memory_region_ops_read cpu 1 name 'e1000-mmio'").is_err());
    }

    #[test]
    fn a_capture_is_read_up_to_a_frame_that_was_cut_off() {
        let mut capture = vec![0; CAPTURE_HEADER];
        for (len, octets) in [(3, &[1, 2, 3][..]), (2, &[4, 5]), (9, &[6])] {
            capture.extend([[0; 8], [len, 0, 0, 0, len, 0, 0, 0]].concat());
            capture.extend(octets);
        }
        assert_eq!(frames(&capture), [vec![1, 2, 3], vec![4, 5]]);
        assert_eq!(frames(&[]), Vec::<Vec<u8>>::new());
    }
}
