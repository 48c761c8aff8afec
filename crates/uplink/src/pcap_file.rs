//! A sink that keeps what it gets in a file: classic pcap (draft-ietf-opsawg-pcap), nanoseconds, Ethernet. To be read
//! with tcpdump or Wireshark.
//!
//! Meant for looking at traffic, not for speed: one lock and one system call or more a burst, one copy a frame. What has
//! been counted as kept survives the end of this process, however it ends.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use switch::{Frame, Sink};

use crate::Error;

/// Largest frame that is kept whole, in octets.
const LARGEST: usize = 65_535;
/// Marks a file with times in nanoseconds, in the writer's order of octets.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Data link type of Ethernet frames without FCS.
const ETHERNET: u32 = 1;

ledger::counters! {
    /// What became of the frames that a pcap file was given.
    pub struct PcapCounters {
        /// Frames in the file.
        frames,
        /// Octets of those frames.
        bytes,
        /// Frames lost because they are longer than a record of the file can be.
        drop_too_long,
        /// Frames lost because the file could not be written: disk full, for instance.
        drop_write_failed,
    }
}

/// A pcap file that takes frames.
#[derive(Debug)]
pub struct PcapFile {
    state: Mutex<State>,
    counters: PcapCounters,
}

#[derive(Debug)]
struct State {
    file: BufWriter<File>,
    /// Where a frame is put together before it is written: the sender may change its octets meanwhile.
    frame: Vec<u8>,
    trouble: Option<String>,
    broken: bool,
}

impl PcapFile {
    /// Makes the file, in place of any that is there, and writes its header.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let made = File::create(path).and_then(|file| {
            let mut file = BufWriter::new(file);
            file.write_all(&file_header())?;
            file.flush().map(|()| file)
        });
        let file = made.map_err(|e| Error::system(format!("writing the pcap file {}", path.display()), e))?;
        Ok(Self::after_header(file))
    }

    fn after_header(file: BufWriter<File>) -> Self {
        let state = State { file, frame: vec![0; LARGEST], trouble: None, broken: false };
        Self { state: Mutex::new(state), counters: PcapCounters::default() }
    }

    /// What it counts, to be read by anyone.
    pub fn counters(&self) -> &PcapCounters {
        &self.counters
    }

    /// Why the file could not be written, in one sentence; told once.
    pub fn take_trouble(&self) -> Option<String> {
        self.state().trouble.take()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A thread that panicked while it held the lock has at worst left half a record.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// How much of a burst went into the file.
#[derive(Default)]
struct Kept {
    frames: u64,
    bytes: u64,
}

impl State {
    /// Writes those frames of a burst that are not too long, and hands them to the kernel.
    fn write(&mut self, frames: &[Frame<'_>]) -> io::Result<Kept> {
        let time = now();
        let mut kept = Kept::default();
        for frame in frames.iter().filter(|frame| fits(frame)) {
            let len = frame.octets().copy_to_slice(&mut self.frame);
            let length = (len as u32).to_ne_bytes();
            self.file.write_all(&time)?;
            self.file.write_all(&length)?;
            self.file.write_all(&length)?;
            self.file.write_all(&self.frame[..len])?;
            kept.frames += 1;
            kept.bytes += len as u64;
        }
        self.file.flush().map(|()| kept)
    }

    /// The same, unless it has failed before: a record may be cut then, and what came after it could not be read.
    fn try_write(&mut self, frames: &[Frame<'_>]) -> Option<Kept> {
        if self.broken {
            return None;
        }
        let error = match self.write(frames) {
            Ok(kept) => return Some(kept),
            Err(error) => error,
        };
        self.broken = true;
        self.trouble = Some(format!("the pcap file cannot be written any more: {error}"));
        None
    }
}

impl Sink for PcapFile {
    /// All frames of a burst get the same time. A frame that is too long is counted and passed over, and is among
    /// those returned as taken. After a failed write nothing more is taken.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        // The counters are written under the lock: one writer at a time.
        let mut state = self.state();
        let too_long = frames.iter().filter(|frame| !fits(frame)).count() as u64;
        self.counters.drop_too_long.add(too_long);
        match state.try_write(frames) {
            Some(kept) => {
                self.counters.frames.add(kept.frames);
                self.counters.bytes.add(kept.bytes);
                frames.len()
            }
            None => {
                self.counters.drop_write_failed.add(frames.len() as u64 - too_long);
                0
            }
        }
    }
}

fn fits(frame: &Frame<'_>) -> bool {
    frame.len() <= LARGEST
}

fn file_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    header[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
    header[16..20].copy_from_slice(&(LARGEST as u32).to_ne_bytes());
    header[20..].copy_from_slice(&ETHERNET.to_ne_bytes());
    header
}

/// Seconds and nanoseconds since 1970, as a record has them.
fn now() -> [u8; 8] {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut time = [0; 8];
    time[..4].copy_from_slice(&(since.as_secs() as u32).to_ne_bytes());
    time[4..].copy_from_slice(&since.subsec_nanos().to_ne_bytes());
    time
}

#[cfg(test)]
mod tests;
