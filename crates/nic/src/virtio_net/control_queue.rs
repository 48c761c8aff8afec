//! Commands of the control queue (virtio 1.2, section 5.1.6.5).
//!
//! ```text
//! driver writes: | class | command | data of the command ... |      device writes: | ack |
//! ```

/// Class of commands about pairs of queues.
pub const CLASS_MQ: u8 = 4;
/// Command of [`CLASS_MQ`]: use so many pairs; data: 16 bits.
pub const MQ_VQ_PAIRS_SET: u8 = 0;
/// Octets of the longest command that the device knows. Longer ones may be cut to one octet more.
pub const COMMAND_LEN_MAX: usize = 4;

/// The device's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ack {
    /// Done.
    Ok = 0,
    /// Not known, malformed or out of range; nothing has changed.
    Error = 1,
}

/// A command that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Use so many pairs of queues.
    UsePairs(u16),
}

impl Command {
    /// Understands a command's octets.
    pub(super) fn parse(octets: &[u8]) -> Option<Self> {
        match *octets {
            [CLASS_MQ, MQ_VQ_PAIRS_SET, low, high] => Some(Self::UsePairs(u16::from_le_bytes([low, high]))),
            _ => None,
        }
    }
}
