//! Control packets (RFC 5880, section 4.1).
//!
//! ```text
//!  0                   1                   2                   3
//! |Vers |  Diag   |Sta|P|F|C|A|D|M|  Detect Mult  |    Length     |
//! |                       My Discriminator                        |
//! |                      Your Discriminator                       |
//! |                    Desired Min TX Interval                    |
//! |                   Required Min RX Interval                    |
//! |                 Required Min Echo RX Interval                 |
//! ```

/// Octets of a packet without authentication.
pub const LEN: usize = 24;
/// Octets of the shortest packet with authentication.
const AUTHENTICATED_LEN: usize = 26;
/// Version of the protocol.
const VERSION: u8 = 1;

const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const INDEPENDENT: u8 = 0x08;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

/// State of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Held down by its administrator.
    AdminDown = 0,
    /// Down, or being made.
    #[default]
    Down = 1,
    /// The other side is heard, and does not hear us yet.
    Init = 2,
    /// Both sides hear each other.
    Up = 3,
}

impl State {
    const fn of(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::AdminDown,
            1 => Self::Down,
            2 => Self::Init,
            _ => Self::Up,
        }
    }

    /// Name as in RFC 5880.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdminDown => "AdminDown",
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Up => "Up",
        }
    }
}

/// Reason of the last change of a session's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic(pub u8);

impl Diagnostic {
    /// None.
    pub const NONE: Self = Self(0);
    /// Nothing was received within the detection time.
    pub const EXPIRED: Self = Self(1);
    /// The other side has said that the session is down.
    pub const NEIGHBOUR_DOWN: Self = Self(3);
    /// The administrator holds the session down.
    pub const ADMINISTRATIVE: Self = Self(7);

    /// Meaning, in words of RFC 5880.
    pub const fn meaning(self) -> &'static str {
        match self.0 {
            0 => "no diagnostic",
            1 => "control detection time expired",
            2 => "echo function failed",
            3 => "neighbor signaled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            _ => "reserved",
        }
    }
}

/// Control packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Reason of the sender's last change of state.
    pub diagnostic: Diagnostic,
    /// State of the sender.
    pub state: State,
    /// The sender asks for an answer (Poll).
    pub is_poll: bool,
    /// This is the answer (Final).
    pub is_final: bool,
    /// The sender's BFD does not share the fate of its control plane.
    pub is_independent: bool,
    /// The packet carries authentication, which is not among these fields.
    pub is_authenticated: bool,
    /// The sender works in demand mode.
    pub is_demand: bool,
    /// Detection multiplier.
    pub multiplier: u8,
    /// Number of the session at the sender; not 0.
    pub mine: u32,
    /// Number of the session at the receiver, or 0 if the sender does not know it.
    pub yours: u32,
    /// Least interval, in microseconds, at which the sender would like to send.
    pub desired_tx: u32,
    /// Least interval, in microseconds, at which the sender can receive; 0: do not send.
    pub required_rx: u32,
    /// Least interval, in microseconds, at which the sender returns echo packets; 0: it does not return them.
    pub required_echo_rx: u32,
}

/// Reason why octets are no control packet that may be taken (RFC 5880, 6.8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are fewer octets than its length says or needs.
    #[error("the packet is shorter than its length field says or a control packet is")]
    Short,
    /// It is of another version.
    #[error("the packet is not of version 1")]
    Version,
    /// Its multiplier is 0.
    #[error("the detection multiplier is 0")]
    Multiplier,
    /// It is for several receivers.
    #[error("the multipoint bit is set")]
    Multipoint,
    /// It names no session of its sender, or none of ours though it is up.
    #[error("a discriminator is 0 that must not be")]
    Discriminator,
}

impl Packet {
    /// Reads the payload of a UDP datagram.
    ///
    /// # Errors
    /// It is no packet that may be taken.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let octets = payload.first_chunk::<LEN>().ok_or(Error::Short)?;
        let flags = octets[1];
        if octets[0] >> 5 != VERSION {
            return Err(Error::Version);
        }
        let least = if flags & AUTHENTICATED != 0 { AUTHENTICATED_LEN } else { LEN };
        if !(least..=payload.len()).contains(&octets[3].into()) {
            return Err(Error::Short);
        }
        let packet = Self {
            diagnostic: Diagnostic(octets[0] & 0x1f),
            state: State::of(flags >> 6),
            is_poll: flags & POLL != 0,
            is_final: flags & FINAL != 0,
            is_independent: flags & INDEPENDENT != 0,
            is_authenticated: flags & AUTHENTICATED != 0,
            is_demand: flags & DEMAND != 0,
            multiplier: octets[2],
            mine: word(octets, 4),
            yours: word(octets, 8),
            desired_tx: word(octets, 12),
            required_rx: word(octets, 16),
            required_echo_rx: word(octets, 20),
        };
        packet.checked(flags & MULTIPOINT != 0)
    }

    fn checked(self, is_multipoint: bool) -> Result<Self, Error> {
        let knows_us = self.yours != 0 || matches!(self.state, State::Down | State::AdminDown);
        match self {
            Self { multiplier: 0, .. } => Err(Error::Multiplier),
            _ if is_multipoint => Err(Error::Multipoint),
            Self { mine: 0, .. } => Err(Error::Discriminator),
            _ if !knows_us => Err(Error::Discriminator),
            _ => Ok(self),
        }
    }

    /// Octets of the packet, without authentication.
    pub fn octets(&self) -> [u8; LEN] {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let mut octets = [0; LEN];
        octets[0] = VERSION << 5 | self.diagnostic.0 & 0x1f;
        octets[1] = (self.state as u8) << 6
            | flag(self.is_poll, POLL)
            | flag(self.is_final, FINAL)
            | flag(self.is_independent, INDEPENDENT)
            | flag(self.is_demand, DEMAND);
        octets[2] = self.multiplier;
        octets[3] = LEN as u8;
        let words = [self.mine, self.yours, self.desired_tx, self.required_rx, self.required_echo_rx];
        for (place, word) in octets[4..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        octets
    }
}

fn word(octets: &[u8; LEN], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

#[cfg(test)]
mod tests;
