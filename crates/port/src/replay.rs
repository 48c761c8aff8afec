//! Replay of a capture file: classic pcap (draft-ietf-opsawg-pcap), of either byte order, in microseconds or
//! nanoseconds, Ethernet. The file is untrusted: each number in it is checked before it is used.

use std::io::{self, Read};
use std::time::Duration;

/// Magic numbers: microseconds, nanoseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Type of the first block of a pcapng file, the same in either byte order.
const PCAPNG: u32 = 0x0a0d_0d0a;
/// LINKTYPE_ETHERNET, in the lower half of the last word of the file header.
const ETHERNET: u32 = 1;
const LINK_TYPE: u32 = 0xffff;
/// Bit of that word that says that its upper four bits are the length of the FCS behind each frame, in units of two octets.
const HAS_FCS_LENGTH: u32 = 1 << 26;
const FCS_SHIFT: u32 = 28;
/// Sizes of the file header, and of the header of each record, in octets.
const HEAD: usize = 24;
const RECORD: usize = 16;
/// Maximum length of a frame in octets, as in tcpdump.
const LONGEST: u32 = 262_144;
/// Octets read at once.
const READ: usize = 256 << 10;

/// Reason why a file cannot be replayed, or no further.
#[derive(Debug, thiserror::Error)]
pub enum BadCapture {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It does not begin with a pcap header.
    #[error("it is no pcap file")]
    NotPcap,
    /// It is in the newer pcapng format.
    #[error("it is a pcapng file; make a pcap file of it, e.g. by `editcap -F pcap`")]
    Pcapng,
    /// It has an unsupported version.
    #[error("it is a pcap file of version {0}.{1}, not 2.4")]
    Version(u16, u16),
    /// Its frames are not Ethernet frames.
    #[error("its frames are of link type {0}, not 1 (Ethernet)")]
    LinkType(u32),
    /// A frame exceeds the maximum length.
    #[error("frame {number} is said to have {octets} octets: the file is damaged")]
    Length {
        /// Number of the frame, from 1.
        number: u64,
        /// Length stated by the file.
        octets: u32,
    },
    /// The file ends within a frame.
    #[error("it ends in the middle of frame {0}")]
    Cut(u64),
}

/// A frame of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Recorded<'r> {
    /// Time of capture, since 1970.
    pub at: Duration,
    /// Captured octets, without the FCS.
    pub octets: &'r mut [u8],
    /// True if these are all octets of the frame.
    pub whole: bool,
}

/// Reader of a capture file.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    swapped: bool,
    /// Nanoseconds per unit of the fractional time.
    unit: u32,
    /// Length of the FCS behind each frame, in octets.
    fcs: u32,
    /// Number of frames read.
    count: u64,
    buffer: Vec<u8>,
    /// Range of the buffer that is not consumed yet.
    rest: std::ops::Range<usize>,
}

impl<R: Read> Reader<R> {
    /// Reads the file header.
    ///
    /// # Errors
    /// The file is not a capture of Ethernet frames in this format.
    pub fn new(input: R) -> Result<Self, BadCapture> {
        let mut reader =
            Self { input, swapped: false, unit: 1, fcs: 0, count: 0, buffer: vec![0; READ], rest: 0..0 };
        if !reader.fill(HEAD)? {
            return Err(BadCapture::NotPcap);
        }
        let magic = reader.word(0);
        (reader.swapped, reader.unit) = match (magic, magic.swap_bytes()) {
            (MICROSECONDS, _) => (false, 1000),
            (NANOSECONDS, _) => (false, 1),
            (_, MICROSECONDS) => (true, 1000),
            (_, NANOSECONDS) => (true, 1),
            (PCAPNG, _) => return Err(BadCapture::Pcapng),
            _ => return Err(BadCapture::NotPcap),
        };
        let versions = reader.word(4);
        let (low, high) = (versions as u16, (versions >> 16) as u16);
        let (major, minor) = if reader.swapped { (high, low) } else { (low, high) };
        if (major, minor) != (2, 4) {
            return Err(BadCapture::Version(major, minor));
        }
        let link = reader.word(20);
        match link & LINK_TYPE {
            ETHERNET => {}
            other => return Err(BadCapture::LinkType(other)),
        }
        reader.fcs = if link & HAS_FCS_LENGTH == 0 { 0 } else { (link >> FCS_SHIFT) * 2 };
        reader.rest.start += HEAD;
        Ok(reader)
    }

    /// Returns the number of frames read so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// The file is damaged here.
    pub fn next_frame(&mut self) -> Result<Option<Recorded<'_>>, BadCapture> {
        let number = self.count + 1;
        if !self.fill(RECORD)? {
            return if self.rest.is_empty() { Ok(None) } else { Err(BadCapture::Cut(number)) };
        }
        let [seconds, fraction, kept, whole] = [0, 4, 8, 12].map(|at| self.word(at));
        if kept > LONGEST {
            return Err(BadCapture::Length { number, octets: kept });
        }
        let len = RECORD + kept as usize;
        if !self.fill(len)? {
            return Err(BadCapture::Cut(number));
        }
        let start = self.rest.start;
        self.rest.start += len;
        self.count = number;
        let at = Duration::from_secs(seconds.into())
            + Duration::from_nanos(u64::from(fraction) * u64::from(self.unit));
        // The lengths include the FCS. Of a frame that was cut, the FCS is missing first.
        let frame = whole.max(kept).saturating_sub(self.fcs);
        let end = start + RECORD + kept.min(frame) as usize;
        let octets = self.buffer.get_mut(start + RECORD..end).unwrap_or_default();
        Ok(Some(Recorded { at, octets, whole: kept >= frame }))
    }

    /// Returns the word at this offset in the unconsumed part; 0 if there is none.
    fn word(&self, at: usize) -> u32 {
        let octets = self.buffer.get(self.rest.start + at..).and_then(|rest| rest.first_chunk::<4>());
        let word = octets.map_or(0, |octets| u32::from_le_bytes(*octets));
        if self.swapped { word.swap_bytes() } else { word }
    }

    /// Reads until at least `wanted` octets are available; returns false if the file ends before.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.rest.len() >= wanted {
            return Ok(true);
        }
        self.buffer.copy_within(self.rest.clone(), 0);
        self.rest = 0..self.rest.len();
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.rest.len() < wanted {
            let room = self.buffer.get_mut(self.rest.end..).unwrap_or_default();
            match self.input.read(room) {
                Ok(0) => return Ok(false),
                Ok(n) => self.rest.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
