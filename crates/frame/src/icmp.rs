//! ICMP (RFC 792).

use crate::{Error, checksum, octets::be32};

/// Length of the header in octets: type, code, checksum and four octets that depend on the type.
pub const HEADER: usize = 8;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of a destination unreachable message.
pub const UNREACHABLE: u8 = 3;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type of a redirect.
pub const REDIRECT: u8 = 5;
/// Type of a time exceeded message.
pub const TIME_EXCEEDED: u8 = 11;
/// Type of a parameter problem message.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// There is no route.
    pub const NET: u8 = 0;
    /// The last hop cannot reach the host.
    pub const HOST: u8 = 1;
    /// The host does not support the protocol.
    pub const PROTOCOL: u8 = 2;
    /// No socket listens at the port.
    pub const PORT: u8 = 3;
    /// The packet is larger than the next link's MTU and must not be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Communication is prohibited by an administrator (RFC 1812, 5.2.7.1).
    pub const PROHIBITED: u8 = 13;
}

/// Header of a message, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Identifier and sequence number of an echo, or the MTU of the next link in the low half (RFC 1191).
    pub rest: u32,
}

impl Header {
    /// Parses a complete message and verifies its checksum; returns the header with the payload.
    pub fn parse(message: &[u8]) -> Result<(Self, &[u8]), Error> {
        let parsed = Self::parse_quoted(message)?;
        if !checksum::holds(message) {
            return Err(Error::Checksum);
        }
        Ok(parsed)
    }

    /// Parses the header without verifying the checksum: for messages quoted in ICMP errors, and messages that a router
    /// forwards.
    pub fn parse_quoted(message: &[u8]) -> Result<(Self, &[u8]), Error> {
        let header = message.first_chunk::<HEADER>().ok_or(Error::Short)?;
        let parsed = Self { kind: header[0], code: header[1], rest: be32(header, 4) };
        Ok((parsed, &message[HEADER..]))
    }

    /// Writes the header at the start of `message`, with the checksum over the whole message: the payload must already
    /// be in place.
    pub fn write(&self, message: &mut [u8]) -> Result<(), Error> {
        if message.len() < HEADER {
            return Err(Error::Short);
        }
        message[0] = self.kind;
        message[1] = self.code;
        message[2..4].fill(0);
        message[4..8].copy_from_slice(&self.rest.to_be_bytes());
        let sum = checksum::of(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }

    /// Returns true if the message reports an error, in response to which no error may be sent (RFC 1122, 3.2.2).
    pub const fn is_error(&self) -> bool {
        // Unreachable, source quench, redirect, time exceeded, parameter problem.
        matches!(self.kind, 3 | 4 | 5 | 11 | 12)
    }
}
