//! A message of the protocol: a header of 12 octets, a body, and descriptors that accompany its first octet.
//!
//! ```text
//!  octets  0..4      4..8                                8..12           12..
//!          request   version, reply, reply is wanted     octets of body  body
//! ```
//!
//! A peer may stop in the middle of a message, send several at once, or never read an answer. The code here
//! never blocks on it.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, send};
use vhost::vhost_user::message::FrontendReq;
use vm_memory::ByteValued;

use super::Fault;

/// Octets of the header.
pub const HEADER: usize = 12;
/// Maximum octets of a body: a memory table with the maximum number of ranges takes 1,032.
pub const LONGEST: usize = 4096;
/// Maximum number of descriptors of a message: a memory table has one for each range.
const MOST_DESCRIPTORS: usize = 32;

/// Bits of the header's second word (flags).
const VERSION_MASK: u32 = 3;
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// A complete message.
#[derive(Debug)]
pub struct Message {
    /// The request.
    pub request: FrontendReq,
    /// True if the peer waits for an acknowledgement of a request that has no answer of its own.
    pub need_reply: bool,
    /// The body.
    pub body: Vec<u8>,
    /// The descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Parsed header of a message.
struct Header {
    request: FrontendReq,
    need_reply: bool,
    size: usize,
}

impl Header {
    fn parse(octets: [u8; HEADER]) -> Result<Self, Fault> {
        let [request, flags, size] = words(octets);
        if flags & VERSION_MASK != VERSION {
            return Err(Fault::Version(flags & VERSION_MASK));
        }
        if size as usize > LONGEST {
            return Err(Fault::Long(size));
        }
        let known = FrontendReq::try_from(request).map_err(|_| Fault::Unknown(request))?;
        if flags & REPLY != 0 {
            return Err(Fault::Answer);
        }
        Ok(Self { request: known, need_reply: flags & NEED_REPLY != 0, size: size as usize })
    }
}

const fn words(octets: [u8; HEADER]) -> [u32; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = octets;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]), u32::from_le_bytes([i, j, k, l])]
}

impl Message {
    /// Returns the body as a structure, whose length it must have exactly.
    pub fn body_as<T: ByteValued + Default>(&self) -> Result<T, Fault> {
        structure(&self.body).ok_or(Fault::Size { request: self.request, size: self.body.len() })
    }

    /// Checks that the body is empty.
    pub fn expect_empty(&self) -> Result<(), Fault> {
        let size = self.body.len();
        if size == 0 { Ok(()) } else { Err(Fault::Size { request: self.request, size }) }
    }

    /// Returns its descriptor, if it has exactly one.
    pub fn one_descriptor(&mut self) -> Option<OwnedFd> {
        if self.descriptors.len() == 1 { self.descriptors.pop() } else { None }
    }
}

/// Returns the octets as a structure, if they have its length.
pub fn structure<T: ByteValued + Default>(octets: &[u8]) -> Option<T> {
    let mut value = T::default();
    let place = value.as_mut_slice();
    (place.len() == octets.len()).then(|| place.copy_from_slice(octets))?;
    Some(value)
}

/// Returns the octets of an answer.
pub fn answer(request: FrontendReq, body: &[u8]) -> Vec<u8> {
    let words = [u32::from(request), VERSION | REPLY, body.len() as u32];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(body.iter().copied()).collect()
}

/// A connection, and the part of the next message received so far.
#[derive(Debug)]
pub struct MessageStream {
    socket: UnixStream,
    octets: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// Result of one read of a connection.
#[derive(Debug)]
pub enum ReadResult {
    /// A whole message.
    Message(Message),
    /// No message, or only a part of one.
    Nothing,
    /// The peer has closed the connection.
    End,
}

impl MessageStream {
    /// Takes over a connection.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, octets: Vec::new(), descriptors: Vec::new() }
    }

    /// Returns the connection.
    pub const fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Returns true if a message has been received in part.
    pub fn is_within(&self) -> bool {
        !self.octets.is_empty()
    }

    /// Reads what is available of the next message, and nothing beyond it: descriptors belong to the message
    /// they accompany.
    pub fn read_message(&mut self) -> Result<ReadResult, Fault> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                return self.complete().map(ReadResult::Message);
            }
            match self.read(missing) {
                Ok(0) if self.is_within() => return Err(Fault::Torn),
                Ok(0) => return Ok(ReadResult::End),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(ReadResult::Nothing),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(ReadResult::End),
                Err(errno) => return Err(Fault::Socket(errno.into())),
            }
            if self.descriptors.len() > MOST_DESCRIPTORS {
                return Err(Fault::TooManyDescriptors);
            }
        }
    }

    /// Returns the octets missing of the header or, once that is complete, of the whole message.
    fn missing(&self) -> Result<usize, Fault> {
        match self.octets.first_chunk::<HEADER>() {
            None => Ok(HEADER - self.octets.len()),
            Some(header) => Ok((HEADER + Header::parse(*header)?.size).saturating_sub(self.octets.len())),
        }
    }

    fn complete(&mut self) -> Result<Message, Fault> {
        let octets = std::mem::take(&mut self.octets);
        let (header, body) = octets.split_first_chunk::<HEADER>().ok_or(Fault::Torn)?;
        let Header { request, need_reply, .. } = Header::parse(*header)?;
        let descriptors = std::mem::take(&mut self.descriptors);
        Ok(Message { request, need_reply, body: body.to_vec(), descriptors })
    }

    fn read(&mut self, most: usize) -> rustix::io::Result<usize> {
        let mut octets = [0; LONGEST];
        let octets = octets.get_mut(..most).ok_or(Errno::INVAL)?;
        let got = fd_passing::receive(&self.socket, octets, MOST_DESCRIPTORS + 1, RecvFlags::DONTWAIT)?;
        self.descriptors.extend(got.descriptors);
        if got.truncated {
            // More than any message has, or more than this process may open.
            return Err(Errno::MFILE);
        }
        self.octets.extend_from_slice(octets.get(..got.octets).unwrap_or_default());
        Ok(got.octets)
    }

    /// Sends an answer without blocking. Returns false if the peer has closed the connection, which it may do
    /// before it is answered.
    ///
    /// # Errors
    /// The peer does not read its answers, or the socket fails.
    pub fn send_reply(&self, octets: &[u8]) -> Result<bool, Fault> {
        // Not by sendmsg(2), which could also send descriptors: the seccomp class of the thread does not
        // permit it.
        match send(&self.socket, octets, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) if sent == octets.len() => Ok(true),
            Ok(_) | Err(Errno::AGAIN) => Err(Fault::Deaf),
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(false),
            Err(errno) => Err(Fault::Socket(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests;
