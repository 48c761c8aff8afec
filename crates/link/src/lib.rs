//! What supervisor and data plane say to each other: frames of JSON over a socket pair, with descriptors attached.
//!
//! ```text
//!  octets   0..4             4..8                    8..
//!           length of JSON   number of descriptors   JSON
//! ```
//!
//! Both numbers are little-endian. Descriptors travel as `SCM_RIGHTS`, at most 128 with one piece of a
//! frame, and belong to the frame whose octets they came with. Neither end waits for the other: what does not fit into
//! the socket is kept, and a peer that says too much or does not listen is an error, after which the link is dead.
#![forbid(unsafe_code)]

mod message;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use message::{Need, Orders, Supply, ToPlane, ToSupervisor};

/// Octets of the longest frame. The longest there is tells all counters of some thousand routers.
const LONGEST: usize = 16 << 20;
/// Octets that wait at most for a peer that does not listen.
const MOST_WAITING: usize = 4 * LONGEST;
/// Descriptors that one frame may carry.
pub const MOST_DESCRIPTORS: usize = 4096;
/// Descriptors in one piece of a frame; the kernel takes 253 (`SCM_MAX_FD`).
const MOST_IN_A_PIECE: usize = 128;
/// Octets read at once.
const READ: usize = 64 << 10;
/// Reads in one go, so that a peer that never stops talking does not keep others waiting.
const MOST_READS: usize = 64;
const HEADER: usize = 8;

/// One end of the link.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    pieces: VecDeque<Piece>,
    waiting: usize,
    input: Vec<u8>,
    /// Descriptors that came and whose frame is not complete yet.
    came: VecDeque<OwnedFd>,
    /// Some of them could not be taken, because too many files are open here.
    lost: bool,
    ended: bool,
}

/// Octets that are sent with these descriptors: with the first octet that leaves.
#[derive(Debug)]
struct Piece {
    octets: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

/// A message and what was attached to it.
pub type Received<M> = (M, Vec<OwnedFd>);

impl Link {
    /// Both ends of a new link.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn pair() -> Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().context("cannot make a socket pair for the data plane")?;
        Ok((Self::new(ours.into()), theirs.into()))
    }

    /// The end that has this socket, a connected stream.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            pieces: VecDeque::new(),
            waiting: 0,
            input: Vec::new(),
            came: VecDeque::new(),
            lost: false,
            ended: false,
        }
    }

    /// Sends a message, or keeps what does not fit into the socket for [`Link::flush`].
    ///
    /// # Errors
    /// The message is too long, the peer does not listen, or it is gone.
    pub fn send(&mut self, message: &impl Serialize, descriptors: Vec<OwnedFd>) -> Result<()> {
        self.put(message, descriptors)?;
        self.flush()
    }

    /// Leaves a message for the next [`Link::flush`].
    ///
    /// # Errors
    /// The message is too long, or the peer does not listen.
    pub fn put(&mut self, message: &impl Serialize, descriptors: Vec<OwnedFd>) -> Result<()> {
        let json = serde_json::to_vec(message).context("a message cannot be written")?;
        ensure!(json.len() <= LONGEST, "a message of {} octets; at most {LONGEST} can be sent", json.len());
        let count = descriptors.len();
        ensure!(count <= MOST_DESCRIPTORS, "a message with {count} descriptors, at most {MOST_DESCRIPTORS}");
        self.waiting += HEADER + json.len();
        ensure!(self.waiting <= MOST_WAITING, "the other side does not listen");
        self.pieces.extend(pieces(&json, descriptors));
        Ok(())
    }

    /// Whether something waits until the socket is writable.
    pub fn wants_to_write(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Sends what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// The peer is gone.
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

    /// The messages that have come whole; none where there are none. Does not wait. Where no more files can be opened
    /// here, a message comes without its descriptors.
    ///
    /// # Errors
    /// The peer breaks the rules.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Result<Vec<Received<M>>> {
        for _ in 0..MOST_READS {
            if !self.read()? {
                break;
            }
        }
        let mut messages = Vec::new();
        let mut at = 0;
        while let Some((json, count)) = frame(self.input.get(at..).unwrap_or_default())? {
            if count > 0 && std::mem::take(&mut self.lost) {
                // Whose they were cannot be told any more. The message comes without them, and can be refused.
                self.came.clear();
            } else {
                ensure!(count <= self.came.len(), "a message without its descriptors");
            }
            let message = serde_json::from_slice(json).context("a message that is not understood")?;
            at += HEADER + json.len();
            messages.push((message, self.came.drain(..count.min(self.came.len())).collect()));
        }
        self.input.drain(..at);
        Ok(messages)
    }

    /// Whether the peer has closed its end. Messages that came before may still be received.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Reads once; whether there may be more.
    fn read(&mut self) -> Result<bool> {
        let mut octets = [0; READ];
        let read = fd_passing::receive(&self.socket, &mut octets, MOST_IN_A_PIECE, RecvFlags::DONTWAIT);
        let read = match read {
            Ok(read) => read,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            // Whoever was killed with unread messages resets the connection instead of closing it.
            Err(Errno::CONNRESET) => {
                self.ended = true;
                return Ok(false);
            }
            Err(error) => return Err(error).context("cannot read from the other side"),
        };
        self.came.extend(read.descriptors);
        self.lost |= read.truncated;
        ensure!(self.came.len() <= 2 * MOST_DESCRIPTORS, "descriptors that belong to nothing");
        self.ended = read.octets == 0;
        self.input.extend_from_slice(octets.get(..read.octets).unwrap_or_default());
        Ok(!self.ended)
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
        // They have left with the first octet.
        self.descriptors.clear();
        self.sent += n;
        Ok(n)
    }
}

/// A frame in pieces: one octet with each group of descriptors but the last, which goes with the rest.
fn pieces(json: &[u8], descriptors: Vec<OwnedFd>) -> Vec<Piece> {
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

/// The JSON of the first frame, if it is there as a whole, and the number of its descriptors.
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
