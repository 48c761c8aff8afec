//! ARP for IPv4 over Ethernet (RFC 826).

use crate::{
    Error, Mac,
    octets::{array, be16, be32, first_mut},
};

/// Length of a packet in octets.
pub const LEN: usize = 28;
/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const SPACES: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Asks for the owner of the target address.
    Request,
    /// The sender owns the sender address.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// Hardware address of the sender.
    pub sender_mac: Mac,
    /// Protocol address of the sender.
    pub sender_ip: u32,
    /// Hardware address of the target; undefined in a request.
    pub target_mac: Mac,
    /// Protocol address of the target.
    pub target_ip: u32,
}

impl Packet {
    /// Parses a packet; ignores octets after it (Ethernet padding).
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let packet = octets.first_chunk::<LEN>().ok_or(Error::Short)?;
        if packet[..6] != SPACES {
            return Err(Error::Kind);
        }
        let operation = match be16(packet, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Error::Kind),
        };
        Ok(Self {
            operation,
            sender_mac: Mac(array(packet, 8)?),
            sender_ip: be32(packet, 14),
            target_mac: Mac(array(packet, 18)?),
            target_ip: be32(packet, 24),
        })
    }

    /// Writes the packet at the start of `octets`.
    pub fn write(&self, octets: &mut [u8]) -> Result<(), Error> {
        let packet = first_mut::<LEN>(octets)?;
        packet[..6].copy_from_slice(&SPACES);
        packet[6] = 0;
        packet[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        packet[8..14].copy_from_slice(&self.sender_mac.0);
        packet[14..18].copy_from_slice(&self.sender_ip.to_be_bytes());
        packet[18..24].copy_from_slice(&self.target_mac.0);
        packet[24..28].copy_from_slice(&self.target_ip.to_be_bytes());
        Ok(())
    }
}
