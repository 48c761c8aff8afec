//! ICMP (RFC 792).

use crate::{Error, checksum, octets::be32};

/// Octets of the header: type, code, checksum and four octets that depend on the type.
pub const HEADER: usize = 8;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of a destination unreachable message.
pub const UNREACHABLE: u8 = 3;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type of a time exceeded message.
pub const TIME_EXCEEDED: u8 = 11;

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// No route.
    pub const NET: u8 = 0;
    /// The last hop cannot reach the host.
    pub const HOST: u8 = 1;
    /// The host does not speak the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nothing listens at the port.
    pub const PORT: u8 = 3;
    /// The packet is larger than the next link's MTU and must not be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
}

/// A message's header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What kind of message.
    pub kind: u8,
    /// Which of its kind.
    pub code: u8,
    /// Identifier and sequence of an echo, or the MTU of the next link in its low half (RFC 1191).
    pub rest: u32,
}

impl Header {
    /// Checks the checksum of a whole message; returns its header with what follows.
    pub fn parse(message: &[u8]) -> Result<(Self, &[u8]), Error> {
        let parsed = Self::parse_quoted(message)?;
        if !checksum::holds(message) {
            return Err(Error::Checksum);
        }
        Ok(parsed)
    }

    /// Reads the header without its checksum: as ICMP errors quote messages, and as a router looks at those it forwards.
    pub fn parse_quoted(message: &[u8]) -> Result<(Self, &[u8]), Error> {
        let header = message.first_chunk::<HEADER>().ok_or(Error::Short)?;
        let parsed = Self { kind: header[0], code: header[1], rest: be32(header, 4) };
        Ok((parsed, &message[HEADER..]))
    }

    /// Writes the header at the start of `message`, with the checksum over all of it: the payload must stand there.
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

    /// Whether the message reports an error, about which no error may be sent (RFC 1122, 3.2.2).
    pub const fn is_error(&self) -> bool {
        // Unreachable, source quench, redirect, time exceeded, parameter problem.
        matches!(self.kind, 3 | 4 | 5 | 11 | 12)
    }
}
