//! The fields of TCP (RFC 9293) that a router or a test reads.

use crate::{Error, octets::be16};

/// Length of a header without options in octets.
pub const HEADER: usize = 20;
/// Flag: the sender has no more data.
pub const FIN: u8 = 0x01;
/// Flag: opens a connection.
pub const SYN: u8 = 0x02;
/// Flag: the connection is refused or aborted.
pub const RST: u8 = 0x04;
/// Flag: the acknowledgement number is valid.
pub const ACK: u8 = 0x10;

/// Ports and flags of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Flags: [`SYN`], [`ACK`] and so on.
    pub flags: u8,
}

impl Header {
    /// Parses the start of a segment.
    pub fn parse(segment: &[u8]) -> Result<Self, Error> {
        let header = segment.first_chunk::<HEADER>().ok_or(Error::Short)?;
        if header[12] >> 4 < 5 {
            return Err(Error::Length);
        }
        Ok(Self { source: be16(header, 0), destination: be16(header, 2), flags: header[13] })
    }
}
