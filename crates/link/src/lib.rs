//! Protocol between supervisor and data plane: frames of JSON over a socket pair, with descriptors attached.
//!
//! ```text
//!  octets   0..4             4..8                    8..
//!           length of JSON   number of descriptors   JSON
//! ```
//!
//! Both numbers are little-endian. Descriptors are sent as `SCM_RIGHTS`, at most 128 with one piece of a
//! frame, and belong to the frame whose octets they accompany. Neither end waits for the other: what does not
//! fit into the socket is queued. A peer that sends too much or does not read causes an error, after which
//! the link is dead.
#![forbid(unsafe_code)]

mod message;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use message::{PlanWithSupplies, Supply, SupplyKind, ToPlane, ToSupervisor, TracedPacket};

/// Maximum octets of a frame. The longest frame in use contains all counters of some thousand routers.
const LONGEST: usize = 16 << 20;
/// Maximum octets queued for a peer that does not read.
const MOST_WAITING: usize = 4 * LONGEST;
/// Maximum number of descriptors of a frame.
pub const MOST_DESCRIPTORS: usize = 4096;
/// Maximum number of descriptors in one piece of a frame; the kernel accepts 253 (`SCM_MAX_FD`).
const MOST_IN_A_PIECE: usize = 128;
/// Octets of one read.
const READ: usize = 64 << 10;
/// Maximum number of reads in a row, so that a peer that sends continuously does not block others.
const MOST_READS: usize = 64;
const HEADER: usize = 8;

/// One end of the link.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    pieces: VecDeque<Piece>,
    waiting: usize,
    input: Vec<u8>,
    descriptors: Descriptors,
    ended: bool,
}

/// Received descriptors whose frame is not complete yet. The last octet of a read belongs to the frame of its
/// descriptors; so each is kept with the number of octets in `input` at the end of its read.
#[derive(Debug, Default)]
struct Descriptors {
    received: VecDeque<(usize, OwnedFd)>,
    /// Ends of reads that lack descriptors, because too many files are open in this process.
    incomplete: Vec<usize>,
}

/// Octets to be sent with these descriptors, which leave with the first octet.
#[derive(Debug)]
struct Piece {
    octets: Vec<u8>,
    sent: usize,
    descriptors: Vec<Arc<OwnedFd>>,
}

/// A message and its descriptors.
pub type Received<M> = (M, Vec<OwnedFd>);

impl Link {
    /// Creates a link: this end, and the socket of the other end.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn pair() -> Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().context("cannot make a socket pair for the data plane")?;
        Ok((Self::new(ours.into()), theirs.into()))
    }

    /// Creates the end of a link with this socket, a connected stream.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            pieces: VecDeque::new(),
            waiting: 0,
            input: Vec::new(),
            descriptors: Descriptors::default(),
            ended: false,
        }
    }

    /// Sends a message, or queues what does not fit into the socket for [`Link::flush`].
    ///
    /// # Errors
    /// The message is too long, the peer does not read, or the connection is closed.
    pub fn send(&mut self, message: &impl Serialize, descriptors: Vec<OwnedFd>) -> Result<()> {
        self.put(message, descriptors)?;
        self.flush()
    }

    /// Sends a message with a descriptor that the caller keeps and closes itself, because that may block; once
    /// it was sent, or cannot be sent any more, the caller is the only one that has it.
    ///
    /// # Errors
    /// As for [`Link::send`].
    pub fn lend(&mut self, message: &impl Serialize, descriptor: Arc<OwnedFd>) -> Result<()> {
        self.queue(message, vec![descriptor])?;
        self.flush()
    }

    /// Queues a message for the next [`Link::flush`].
    ///
    /// # Errors
    /// The message is too long, or the peer does not read.
    pub fn put(&mut self, message: &impl Serialize, descriptors: Vec<OwnedFd>) -> Result<()> {
        self.queue(message, descriptors.into_iter().map(Arc::new).collect())
    }

    fn queue(&mut self, message: &impl Serialize, descriptors: Vec<Arc<OwnedFd>>) -> Result<()> {
        let json = serde_json::to_vec(message).context("a message cannot be written")?;
        ensure!(json.len() <= LONGEST, "a message of {} octets; at most {LONGEST} can be sent", json.len());
        let count = descriptors.len();
        ensure!(count <= MOST_DESCRIPTORS, "a message with {count} descriptors, at most {MOST_DESCRIPTORS}");
        self.waiting += HEADER + json.len();
        ensure!(self.waiting <= MOST_WAITING, "the other side does not listen");
        self.pieces.extend(pieces(&json, descriptors));
        Ok(())
    }

    /// Returns true if octets are queued until the socket is writable.
    pub fn wants_to_write(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Sends queued octets, as far as the socket accepts them.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn flush(&mut self) -> Result<()> {
        while let Some(piece) = self.pieces.front_mut() {
            match piece.send(self.socket.as_fd()) {
                Ok(n) => self.waiting = self.waiting.saturating_sub(n),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("the other side is gone"),
            }
            if piece.sent == piece.octets.len() {
                self.pieces.pop_front();
            }
        }
        Ok(())
    }

    /// Returns the messages that were received completely; empty if there are none. Never blocks. If no more
    /// files can be opened in this process, a message is returned without its descriptors.
    ///
    /// # Errors
    /// The peer violates the protocol.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Result<Vec<Received<M>>> {
        for _ in 0..MOST_READS {
            if !self.read()? {
                break;
            }
        }
        let mut messages = Vec::new();
        let mut at = 0;
        while let Some((json, count)) = frame(self.input.get(at..).unwrap_or_default())? {
            let message = serde_json::from_slice(json).context("a message that is not understood")?;
            at += HEADER + json.len();
            messages.push((message, self.descriptors.take(at, count)?));
        }
        self.input.drain(..at);
        self.descriptors.advance(at);
        Ok(messages)
    }

    /// Returns true if the peer has closed its end. Messages that were sent before may still be received.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Reads once; returns true if there may be more.
    fn read(&mut self) -> Result<bool> {
        let mut octets = [0; READ];
        let read = fd_passing::receive(&self.socket, &mut octets, MOST_IN_A_PIECE, RecvFlags::DONTWAIT);
        let read = match read {
            Ok(read) => read,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            // A process that is killed with unread messages resets the connection instead of closing it.
            Err(Errno::CONNRESET) => {
                self.ended = true;
                return Ok(false);
            }
            Err(error) => return Err(error).context("cannot read from the other side"),
        };
        self.ended = read.octets == 0;
        self.input.extend_from_slice(octets.get(..read.octets).unwrap_or_default());
        self.descriptors.add(self.input.len(), read)?;
        Ok(!self.ended)
    }
}

impl Descriptors {
    /// Adds those of a read that ends here.
    fn add(&mut self, end: usize, read: fd_passing::Received) -> Result<()> {
        self.received.extend(read.descriptors.into_iter().map(|descriptor| (end, descriptor)));
        if read.truncated {
            self.incomplete.push(end);
        }
        let most = self.received.len().max(self.incomplete.len());
        ensure!(most <= 2 * MOST_DESCRIPTORS, "descriptors that belong to nothing");
        Ok(())
    }

    /// Removes those of the first frame, which ends here and announces `count` of them. If some were lost,
    /// it has none, and can be refused.
    fn take(&mut self, end: usize, count: usize) -> Result<Vec<OwnedFd>> {
        let own = self.received.partition_point(|(place, _)| *place <= end);
        let descriptors: Vec<_> = self.received.drain(..own).map(|(_, descriptor)| descriptor).collect();
        let lacks = self.incomplete.partition_point(|place| *place <= end);
        if lacks > 0 {
            self.incomplete.drain(..lacks);
            return Ok(Vec::new());
        }
        let came = descriptors.len();
        ensure!(came == count, "a message of {count} descriptors with {came}");
        Ok(descriptors)
    }

    /// Notes that these octets were removed from the front of the input, with the frames in them.
    fn advance(&mut self, octets: usize) {
        self.received.iter_mut().for_each(|(end, _)| *end -= octets);
        self.incomplete.iter_mut().for_each(|end| *end -= octets);
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Piece {
    fn send(&mut self, socket: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let rest = self.octets.get(self.sent..).unwrap_or_default();
        if self.descriptors.len() > MOST_IN_A_PIECE {
            return Err(Errno::TOOBIG);
        }
        let n = fd_passing::send(socket, rest, &self.descriptors, SendFlags::DONTWAIT)?;
        // They have been sent with the first octet.
        self.descriptors.clear();
        self.sent += n;
        Ok(n)
    }
}

/// Splits a frame into pieces: one octet with each group of descriptors except the last group, which
/// accompanies the rest.
fn pieces(json: &[u8], descriptors: Vec<Arc<OwnedFd>>) -> Vec<Piece> {
    let mut octets = Vec::with_capacity(HEADER + json.len());
    octets.extend_from_slice(&(json.len() as u32).to_le_bytes());
    octets.extend_from_slice(&(descriptors.len() as u32).to_le_bytes());
    octets.extend_from_slice(json);
    let mut pieces = Vec::new();
    let mut left = descriptors.into_iter();
    while left.len() > MOST_IN_A_PIECE && octets.len() > 1 {
        let rest = octets.split_off(1);
        pieces.push(Piece { octets, sent: 0, descriptors: left.by_ref().take(MOST_IN_A_PIECE).collect() });
        octets = rest;
    }
    pieces.push(Piece { octets, sent: 0, descriptors: left.collect() });
    pieces
}

/// Returns the JSON of the first frame, if it is complete, and the number of its descriptors.
fn frame(input: &[u8]) -> Result<Option<(&[u8], usize)>> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER>() else { return Ok(None) };
    let [a, b, c, d, e, f, g, h] = *header;
    let (length, count) =
        (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
    if length > LONGEST || count > MOST_DESCRIPTORS {
        bail!("a message of {length} octets with {count} descriptors");
    }
    Ok(rest.get(..length).map(|json| (json, count)))
}

#[cfg(test)]
mod tests;
