//! ICMPv6 (RFC 4443).

use crate::{Error, checksum, ipv6, octets::be32};

/// Length of the header in octets: type, code, checksum and four octets that depend on the type.
pub const HEADER: usize = 8;
/// Type of a destination unreachable message.
pub const UNREACHABLE: u8 = 1;
/// Type of a packet too big message.
pub const TOO_BIG: u8 = 2;
/// Type of a time exceeded message.
pub const TIME_EXCEEDED: u8 = 3;
/// Type of a parameter problem message.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type of a redirect, in response to which no error may be sent.
pub const REDIRECT: u8 = 137;

/// Codes of [`UNREACHABLE`].
pub mod unreachable {
    /// There is no route.
    pub const NO_ROUTE: u8 = 0;
    /// Communication is prohibited.
    pub const PROHIBITED: u8 = 1;
    /// The destination is beyond the scope of the source address.
    pub const SCOPE: u8 = 2;
    /// The last hop cannot reach the host.
    pub const ADDRESS: u8 = 3;
    /// No socket listens at the port.
    pub const PORT: u8 = 4;
}

/// Codes of [`PARAMETER_PROBLEM`].
pub mod problem {
    /// A header field is wrong.
    pub const FIELD: u8 = 0;
    /// The kind of a header is not known.
    pub const NEXT_HEADER: u8 = 1;
    /// An option is not known.
    pub const OPTION: u8 = 2;
    /// A first fragment does not contain all headers (RFC 7112).
    pub const HEADER_CHAIN: u8 = 3;
}

/// Header of a message, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// The four octets that depend on the type: identifier and sequence number, MTU, pointer, flags.
    pub rest: u32,
}

impl Header {
    /// Parses a complete message between two addresses and verifies its checksum; returns the header with the payload.
    pub fn parse(message: &[u8], (source, destination): (u128, u128)) -> Result<(Self, &[u8]), Error> {
        let parsed = Self::parse_quoted(message)?;
        let pseudo = checksum::pseudo6(source, destination, message.len() as u32, ipv6::next::ICMP);
        if checksum::sum(pseudo, message) != 0xffff {
            return Err(Error::Checksum);
        }
        Ok(parsed)
    }

    /// Parses the header without verifying the checksum.
    pub fn parse_quoted(message: &[u8]) -> Result<(Self, &[u8]), Error> {
        let header = message.first_chunk::<HEADER>().ok_or(Error::Short)?;
        let parsed = Self { kind: header[0], code: header[1], rest: be32(header, 4) };
        Ok((parsed, &message[HEADER..]))
    }

    /// Writes the header at the start of `message`, with the checksum over the whole message between these addresses:
    /// the payload must already be in place.
    pub fn write(&self, message: &mut [u8], (source, destination): (u128, u128)) -> Result<(), Error> {
        if message.len() < HEADER {
            return Err(Error::Short);
        }
        message[0] = self.kind;
        message[1] = self.code;
        message[2..4].fill(0);
        message[4..8].copy_from_slice(&self.rest.to_be_bytes());
        let pseudo = checksum::pseudo6(source, destination, message.len() as u32, ipv6::next::ICMP);
        let sum = !checksum::sum(pseudo, message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }

    /// Returns true if no error may be sent in response to the message: it is an error itself, or a redirect (RFC 4443,
    /// 2.4 (e)).
    pub const fn is_error(&self) -> bool {
        self.kind < 128 || self.kind == REDIRECT
    }
}
