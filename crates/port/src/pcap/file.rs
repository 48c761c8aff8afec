//! Records on their way into a capture file, and how many octets of them were written.

use std::io::{self, Write};

use super::RECORD;

/// Offset in a record header of the number of octets kept of the frame.
const KEPT: usize = 8;

/// A file to which complete records are appended. If it cannot be written, the incomplete record stays here, records
/// after it are lost, and writing resumes with the rest of that record.
pub(super) struct File<W> {
    writer: W,
    /// Records to write, the first of which may be a remainder.
    octets: Vec<u8>,
    /// Number of these octets that are in the file.
    written: usize,
    /// Length of the first part: the file header, or the rest of a record.
    first: usize,
    /// True if the first part is a frame.
    first_is_frame: bool,
    captured: u64,
    lost: u64,
}

impl<W: Write> File<W> {
    pub(super) fn new(writer: W, head: &[u8], capacity: usize) -> Self {
        let mut octets = Vec::with_capacity(capacity);
        octets.extend(head);
        let first = octets.len();
        Self { writer, octets, written: 0, first, first_is_frame: false, captured: 0, lost: 0 }
    }

    /// Takes all records of a buffer, which is empty afterwards; all earlier records must be in the file.
    pub(super) fn take(&mut self, waiting: &mut Vec<u8>) {
        std::mem::swap(&mut self.octets, waiting);
    }

    pub(super) fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Writes the records.
    ///
    /// # Errors
    /// The file cannot be written at present.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        let outcome = self.write();
        match outcome {
            Ok(()) => self.finish(),
            Err(_) => self.stop(),
        }
        outcome
    }

    /// Returns how many frames were written, and how many were lost, since the last call.
    pub(super) fn tally(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.captured), std::mem::take(&mut self.lost))
    }

    fn write(&mut self) -> io::Result<()> {
        while let Some(rest) = self.octets.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.writer.flush()
    }

    fn finish(&mut self) {
        self.captured += self.parts().filter(|part| part.is_frame).count() as u64;
        self.octets.clear();
        (self.written, self.first, self.first_is_frame) = (0, 0, false);
    }

    /// Keeps the part at which writing stopped: all parts before it are in the file, all after it are lost.
    fn stop(&mut self) {
        let (mut captured, mut lost, mut kept) = (0, 0, None);
        for part in self.parts() {
            let frames = u64::from(part.is_frame);
            match &kept {
                _ if part.end <= self.written => captured += frames,
                None => kept = Some(part),
                Some(_) => lost += frames,
            }
        }
        (self.captured, self.lost) = (self.captured + captured, self.lost + lost);
        let (end, is_frame) = kept.map_or((self.written, false), |part| (part.end, part.is_frame));
        self.octets.truncate(end);
        self.octets.drain(..self.written.min(end));
        (self.written, self.first, self.first_is_frame) = (0, self.octets.len(), is_frame);
    }

    fn parts(&self) -> Parts<'_> {
        Parts { octets: &self.octets, at: 0, first: self.first, first_is_frame: self.first_is_frame }
    }
}

/// One part of the octets to write.
struct Part {
    /// Offset at which the next part begins.
    end: usize,
    is_frame: bool,
}

struct Parts<'a> {
    octets: &'a [u8],
    at: usize,
    first: usize,
    first_is_frame: bool,
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let rest = self.octets.get(self.at..).filter(|rest| !rest.is_empty())?;
        let is_first = self.at == 0 && self.first > 0;
        let octets = if is_first {
            self.first
        } else {
            let kept = rest.get(KEPT..KEPT + 4)?;
            RECORD + u32::from_le_bytes(kept.try_into().ok()?) as usize
        };
        self.at += octets;
        Some(Part { end: self.at, is_frame: if is_first { self.first_is_frame } else { true } })
    }
}
