//! Encoding and decoding of generic netlink messages: `struct nlmsghdr`, `struct genlmsghdr`, attributes.
//! Pure.

use std::io;

use netlink_packet_core::{NLM_F_DUMP_INTR, NLM_F_REQUEST};

use crate::attribute::Attributes;

/// Octets of the netlink header and of the generic netlink header.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// Message types below the families (`NLMSG_ERROR`, `NLMSG_DONE`), and the first type of a family
/// (`NLMSG_MIN_TYPE`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FIRST_FAMILY: u16 = 16;
/// Version of each family used here.
const VERSION: u8 = 1;

/// Header fields of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestHeader {
    pub(super) family: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) command: u8,
}

impl RequestHeader {
    /// Encodes the whole request.
    pub(super) fn octets(self, attributes: &Attributes) -> Vec<u8> {
        let body = attributes.octets();
        // No overflow: requests are about a hundred octets long.
        let len = (HEADER + GENERIC_HEADER + body.len()) as u32;
        let mut octets = len.to_ne_bytes().to_vec();
        octets.extend(self.family.to_ne_bytes());
        octets.extend((self.flags | NLM_F_REQUEST).to_ne_bytes());
        octets.extend(self.sequence.to_ne_bytes());
        octets.extend([0; 4]);
        octets.extend([self.command, VERSION, 0, 0]);
        octets.extend(body);
        octets
    }
}

/// A message of an answer.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// A requested object.
    Body {
        /// Its attributes.
        attributes: &'a [u8],
        /// True if the table changed while it was dumped, so the dump may lack rows.
        is_interrupted: bool,
    },
    /// End of the answer, with its outcome.
    End(io::Result<()>),
}

/// Decodes the messages of a datagram that answer the request with this sequence number.
///
/// # Errors
/// `InvalidData`: a message has a wrong length; decoding stops there.
pub(super) fn parts(datagram: &[u8], sequence: u32) -> impl Iterator<Item = io::Result<Part<'_>>> {
    let mut rest = datagram;
    let messages = std::iter::from_fn(move || {
        let len = rest.first_chunk().map(|octets| u32::from_ne_bytes(*octets) as usize)?;
        if len < HEADER || len > rest.len() {
            rest = &[];
            return Some(Err(damaged(len)));
        }
        let message = &rest[..len];
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(message))
    });
    messages.filter_map(move |message| match message {
        Ok(message) => read(message, sequence).transpose(),
        Err(e) => Some(Err(e)),
    })
}

/// Returns `None` for a message that answers another request, or is of another type.
fn read(message: &[u8], sequence: u32) -> io::Result<Option<Part<'_>>> {
    let (header, body) = message.split_at(HEADER);
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    if header[8..12] != sequence.to_ne_bytes() {
        return Ok(None);
    }
    match word(4) {
        ERROR | DONE => Ok(Some(Part::End(outcome(body)))),
        family if family >= FIRST_FAMILY => {
            let attributes = body.get(GENERIC_HEADER..).ok_or_else(|| damaged(message.len()))?;
            Ok(Some(Part::Body { attributes, is_interrupted: word(6) & NLM_F_DUMP_INTR != 0 }))
        }
        _ => Ok(None),
    }
}

/// Outcome of a request: a negative error number, or 0. A missing number means success.
fn outcome(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map_or(0, |octets| i32::from_ne_bytes(*octets)) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.saturating_abs())),
    }
}

fn damaged(len: usize) -> io::Error {
    let what = format!("the kernel's answer cannot be read: a message of {len} octets");
    io::Error::new(io::ErrorKind::InvalidData, what)
}
