//! Recordings: what zebra has sent on a connection, octet by octet, taken down by a [`Recorder`] that listens in our place, and sent
//! again by a [`Player`] in zebra's.
//!
//! A file of it contains the frames of FPM, one after the other, as FRR 8.4.4 wrote them, and nothing else. The indices of
//! interfaces in it are those of the namespace in which it was recorded: [`Recording::rename`] makes others of them.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use fpm::wire::{
    ATTRIBUTE_HEADER, ATTRIBUTE_NUMBER, FRAME_HEADER, HOP_HEADER, MESSAGE_HEADER, NEXT_HOP_HEADER,
    ROUTE_HEADER, length, next_hop, route, types,
};
use fpm::{Broken, Message, messages};

/// Octets read at once.
const READ: usize = 256 << 10;
/// Time after which a recorder looks whether it has what is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// What a recording contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Frames.
    pub frames: usize,
    /// Routes added or replaced.
    pub added: usize,
    /// Routes deleted, the first half of each replacement included.
    pub deleted: usize,
    /// Next-hop objects added or replaced.
    pub groups: usize,
    /// Messages of other types, and those that are not understood.
    pub others: usize,
}

impl Content {
    fn count(&mut self, payload: &[u8]) {
        self.frames += 1;
        for message in messages(payload) {
            let counter = match message {
                Ok((Message::Route(_), _)) => &mut self.added,
                Ok((Message::NoRoute(_), _)) => &mut self.deleted,
                Ok((Message::Group(_), _)) => &mut self.groups,
                _ => &mut self.others,
            };
            *counter += 1;
        }
    }
}

/// Recorded stream of whole frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    octets: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
    content: Content,
}

impl Recording {
    /// Takes recorded octets. A frame that was cut off at the end is left out.
    ///
    /// # Errors
    /// They are no frames of FPM.
    pub fn new(octets: Vec<u8>) -> Result<Self, Broken> {
        let mut recording = Self { octets, ..Self::default() };
        recording.find_frames()?;
        recording.octets.truncate(recording.whole());
        Ok(recording)
    }

    /// Octets, to be kept in a file.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// What it contains.
    pub const fn content(&self) -> Content {
        self.content
    }

    /// Indices of the interfaces that its routes and next-hop objects name.
    pub fn interfaces(&self) -> BTreeSet<u32> {
        self.indices().into_iter().filter_map(|at| self.index(at)).collect()
    }

    /// Has it name other interfaces: those of the namespace in which it will be played.
    pub fn rename(&mut self, other: impl Fn(u32) -> u32) {
        for at in self.indices() {
            let index = self.index(at).map(&other);
            if let (Some(index), Some(place)) = (index, self.octets.get_mut(at..at + 4)) {
                place.copy_from_slice(&index.to_ne_bytes());
            }
        }
    }

    /// Octets of the whole frames.
    fn whole(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Finds the frames that have become whole, and counts what they contain.
    fn find_frames(&mut self) -> Result<(), Broken> {
        let mut start = self.whole();
        while let Some(len) = length(&self.octets[start..])? {
            self.content.count(&self.octets[start + FRAME_HEADER..start + len]);
            start += len;
            self.ends.push(start);
        }
        Ok(())
    }

    fn index(&self, at: usize) -> Option<u32> {
        self.octets.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
    }

    /// Where indices of interfaces are.
    fn indices(&self) -> Vec<usize> {
        let (mut found, mut start) = (Vec::new(), 0);
        for end in &self.ends {
            in_frame(&self.octets, start + FRAME_HEADER..*end, &mut found);
            start = *end;
        }
        found
    }
}

fn in_frame(octets: &[u8], mut rest: Range<usize>, found: &mut Vec<usize>) {
    while rest.len() >= MESSAGE_HEADER {
        let len = octets[rest.start..].first_chunk().map_or(0, |len| u32::from_ne_bytes(*len) as usize);
        if len < MESSAGE_HEADER || len > rest.len() {
            return;
        }
        let (body, end) = (rest.start + MESSAGE_HEADER, rest.start + len);
        match short(octets, rest.start + 4) {
            types::NEW_ROUTE | types::DEL_ROUTE => {
                in_attributes(octets, body + ROUTE_HEADER..end, route::OIF, found);
            }
            types::NEW_NEXT_HOP | types::DEL_NEXT_HOP => {
                in_attributes(octets, body + NEXT_HOP_HEADER..end, next_hop::OIF, found);
            }
            _ => {}
        }
        rest.start += len.next_multiple_of(4);
    }
}

/// Looks for the attribute with this number, and if it is a route's, among several next hops as well.
fn in_attributes(octets: &[u8], mut rest: Range<usize>, index: u16, found: &mut Vec<usize>) {
    while rest.len() >= ATTRIBUTE_HEADER {
        let len = usize::from(short(octets, rest.start));
        if len < ATTRIBUTE_HEADER || len > rest.len() {
            return;
        }
        let value = rest.start + ATTRIBUTE_HEADER..rest.start + len;
        match short(octets, rest.start + 2) & ATTRIBUTE_NUMBER {
            number if number == index && value.len() == 4 => found.push(value.start),
            route::MULTIPATH if index == route::OIF => in_hops(octets, value, found),
            _ => {}
        }
        rest.start += len.next_multiple_of(4);
    }
}

fn in_hops(octets: &[u8], mut rest: Range<usize>, found: &mut Vec<usize>) {
    while rest.len() >= HOP_HEADER {
        let len = usize::from(short(octets, rest.start));
        if len < HOP_HEADER {
            return;
        }
        found.push(rest.start + 4);
        rest.start += len.next_multiple_of(4);
    }
}

fn short(octets: &[u8], at: usize) -> u16 {
    octets.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |octets| u16::from_ne_bytes(*octets))
}

/// Listens in our place, and takes down what zebra sends.
#[derive(Debug)]
pub struct Recorder {
    stream: TcpStream,
    recording: Recording,
    buffer: Vec<u8>,
}

impl Recorder {
    /// Waits until zebra connects to a listening socket.
    ///
    /// # Errors
    /// It does not within `patience`, or the socket fails.
    pub fn accept(listener: &TcpListener, patience: Duration) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let end = Instant::now() + patience;
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                    std::thread::sleep(LOOK);
                }
                Err(error) => return Err(error),
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Self { stream, recording: Recording::default(), buffer: vec![0; READ] })
    }

    /// Takes what comes until the recording is as wanted; returns false if it is not within `patience`.
    ///
    /// # Errors
    /// The connection ends before, fails, or carries no frames of FPM.
    pub fn take(&mut self, patience: Duration, wanted: impl Fn(&Content) -> bool) -> io::Result<bool> {
        let end = Instant::now() + patience;
        while !wanted(&self.recording.content) {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.recording.octets.extend_from_slice(&self.buffer[..len]);
                    let found = self.recording.find_frames();
                    found.map_err(|broken| io::Error::new(ErrorKind::InvalidData, broken))?;
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                return Ok(wanted(&self.recording.content));
            }
        }
        Ok(true)
    }

    /// What there is so far.
    pub const fn content(&self) -> Content {
        self.recording.content
    }

    /// Ends it. A frame that is under way is left out.
    pub fn finish(mut self) -> Recording {
        self.recording.octets.truncate(self.recording.whole());
        self.recording
    }
}

/// Test peer in zebra's place: it sends the frames of a recording, in order.
#[derive(Clone, Debug)]
pub struct Player<'r> {
    recording: &'r Recording,
    next: usize,
}

impl<'r> Player<'r> {
    /// Begins with the first frame.
    pub const fn new(recording: &'r Recording) -> Self {
        Self { recording, next: 0 }
    }

    /// Sends at most so many frames; returns their number: 0 at the end.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn play(&mut self, frames: usize, to: &mut dyn Write) -> io::Result<usize> {
        let ends = &self.recording.ends;
        let last = self.next.saturating_add(frames).min(ends.len());
        let place = |frame: usize| frame.checked_sub(1).map_or(0, |frame| ends[frame]);
        to.write_all(&self.recording.octets[place(self.next)..place(last)])?;
        let sent = last - self.next;
        self.next = last;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests;
