//! One message of the protocol: a header of 12 octets, a body, and descriptors that come with its first octet.
//!
//! ```text
//!  octets  0..4      4..8                                8..12           12..
//!          request   version, reply, reply is wanted     octets of body  body
//! ```
//!
//! A peer may stop in the middle of a message, send several at once, or never read an answer. Nothing here waits for it.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, send};
use vhost::vhost_user::message::FrontendReq;
use vm_memory::ByteValued;

use super::Fault;

/// Octets of the header.
pub const HEADER: usize = 12;
/// Octets of the longest body: a memory table with all its ranges takes 1,032.
pub const LONGEST: usize = 4096;
/// Descriptors with one message: a memory table has one for each of its ranges.
const MOST_DESCRIPTORS: usize = 32;

/// Bits of the header's second word.
const VERSION_MASK: u32 = 3;
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// A message that is complete.
#[derive(Debug)]
pub struct Message {
    /// What is asked for.
    pub request: FrontendReq,
    /// Whether the peer waits for an answer to a request that has none of its own.
    pub need_reply: bool,
    /// The body.
    pub body: Vec<u8>,
    /// The descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// What the first octets of a message say.
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
    /// The body as this structure, which it is exactly as long as.
    pub fn body_as<T: ByteValued + Default>(&self) -> Result<T, Fault> {
        structure(&self.body).ok_or(Fault::Size { request: self.request, size: self.body.len() })
    }

    /// That it has no body.
    pub fn expect_empty(&self) -> Result<(), Fault> {
        let size = self.body.len();
        if size == 0 { Ok(()) } else { Err(Fault::Size { request: self.request, size }) }
    }

    /// Its only descriptor, if it has just one.
    pub fn one_descriptor(&mut self) -> Option<OwnedFd> {
        if self.descriptors.len() == 1 { self.descriptors.pop() } else { None }
    }
}

/// These octets as a structure of that length.
pub fn structure<T: ByteValued + Default>(octets: &[u8]) -> Option<T> {
    let mut value = T::default();
    let place = value.as_mut_slice();
    (place.len() == octets.len()).then(|| place.copy_from_slice(octets))?;
    Some(value)
}

/// The octets of an answer.
pub fn answer(request: FrontendReq, body: &[u8]) -> Vec<u8> {
    let words = [u32::from(request), VERSION | REPLY, body.len() as u32];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(body.iter().copied()).collect()
}

/// A connection, and what has come of the next message.
#[derive(Debug)]
pub struct Line {
    socket: UnixStream,
    octets: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// What one look at a connection showed.
#[derive(Debug)]
pub enum Heard {
    /// A whole message.
    Message(Message),
    /// Nothing, or only a part.
    Nothing,
    /// The peer is gone.
    End,
}

impl Line {
    /// Takes over a connection.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, octets: Vec::new(), descriptors: Vec::new() }
    }

    /// The connection.
    pub const fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Whether a message has begun and not ended.
    pub fn is_within(&self) -> bool {
        !self.octets.is_empty()
    }

    /// Reads what there is of the next message, and nothing beyond it: descriptors belong to what they came with.
    pub fn hear(&mut self) -> Result<Heard, Fault> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                return self.complete().map(Heard::Message);
            }
            match self.read(missing) {
                Ok(0) if self.is_within() => return Err(Fault::Torn),
                Ok(0) => return Ok(Heard::End),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(Heard::Nothing),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(Heard::End),
                Err(errno) => return Err(Fault::Socket(errno.into())),
            }
            if self.descriptors.len() > MOST_DESCRIPTORS {
                return Err(Fault::TooManyDescriptors);
            }
        }
    }

    /// Octets that are missing of its header or, where that is there, of the whole.
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
            // More than any message has, or than this process may open.
            return Err(Errno::MFILE);
        }
        self.octets.extend_from_slice(octets.get(..got.octets).unwrap_or_default());
        Ok(got.octets)
    }

    /// Sends an answer; a peer that reads none of them is told no more.
    pub fn say(&self, octets: &[u8]) -> Result<(), Fault> {
        // Not by sendmsg(2), by which descriptors could leave as well: the thread's class has none.
        match send(&self.socket, octets, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) if sent == octets.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(Fault::Deaf),
            Err(errno) => Err(Fault::Socket(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests;
