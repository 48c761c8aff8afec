//! UDP headers (RFC 768).

use crate::{
    Error, checksum,
    octets::{be16, first_mut},
};

/// Length of the header in octets.
pub const HEADER: usize = 8;

/// Header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Length of header and payload in octets.
    pub len: u16,
    /// Checksum over pseudo header, header and payload; 0 if the sender computed none.
    pub checksum: u16,
}

impl Header {
    /// Parses the header of a datagram; returns it with the payload.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Error> {
        let header = datagram.first_chunk::<HEADER>().ok_or(Error::Short)?;
        let parsed = Self {
            source: be16(header, 0),
            destination: be16(header, 2),
            len: be16(header, 4),
            checksum: be16(header, 6),
        };
        let len = usize::from(parsed.len);
        if len < HEADER {
            return Err(Error::Length);
        }
        Ok((parsed, datagram.get(HEADER..len).ok_or(Error::Short)?))
    }

    /// Writes the header at the start of `datagram`.
    pub fn write(&self, datagram: &mut [u8]) -> Result<(), Error> {
        let header = first_mut::<HEADER>(datagram)?;
        header[0..2].copy_from_slice(&self.source.to_be_bytes());
        header[2..4].copy_from_slice(&self.destination.to_be_bytes());
        header[4..6].copy_from_slice(&self.len.to_be_bytes());
        header[6..8].copy_from_slice(&self.checksum.to_be_bytes());
        Ok(())
    }
}

/// Returns the checksum of a datagram (header and payload) whose checksum field is zero; never 0, which would mean that
/// there is none.
pub fn checksum(source: u32, destination: u32, datagram: &[u8]) -> u16 {
    let mut pseudo = [0; 12];
    pseudo[0..4].copy_from_slice(&source.to_be_bytes());
    pseudo[4..8].copy_from_slice(&destination.to_be_bytes());
    pseudo[9] = crate::ipv4::UDP;
    pseudo[10..12].copy_from_slice(&(datagram.len() as u16).to_be_bytes());
    match !checksum::sum(checksum::sum(0, &pseudo), datagram) {
        0 => 0xffff,
        sum => sum,
    }
}

/// Returns the checksum of a datagram over IPv6 whose checksum field is zero; never 0, which is not allowed there
/// (RFC 8200, 8.1).
pub fn checksum6(source: u128, destination: u128, datagram: &[u8]) -> u16 {
    let pseudo = checksum::pseudo6(source, destination, datagram.len() as u32, crate::ipv4::UDP);
    match !checksum::sum(pseudo, datagram) {
        0 => 0xffff,
        sum => sum,
    }
}
