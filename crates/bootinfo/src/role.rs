//! Role of a firmware, and the kinds of misbehaviour of a hostile one.

/// Task of a firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// Forwards IPv4 between its NICs.
    Router = 0,
    /// Sends pre-built frames out of NIC 0 as fast as the ring takes them.
    Source = 1,
    /// Receives and counts frames on every NIC.
    Sink = 2,
    /// Sends every frame back out of the NIC it came from, with source and destination address exchanged.
    Echo = 3,
    /// Source on NIC 0 and sink on every NIC, for frames that return by another path.
    SourceSink = 4,
    /// Misbehaves as [`crate::BootInfo::misdeed`] says, to test that the host withstands it.
    Hostile = 5,
    /// End station with a TCP/IP stack; [`crate::TrafficInfo::station`] gives its task.
    Station = 6,
    /// Application that takes frames one by one from a bounded queue, which the driver fills: demonstrates
    /// receive livelock.
    Application = 7,
    /// Spreads frames over the members of a group, as the host's orders say (`frame::order`), and sends those of members outside.
    Balancer = 8,
}

/// Misbehaviour of a hostile firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u32)]
pub enum Misdeed {
    /// Reads and writes registers and configuration space at random.
    Registers = 0,
    /// Publishes descriptors with random contents.
    Descriptors = 1,
    /// Publishes chains that never end.
    Loops = 2,
    /// Publishes buffers outside its memory.
    Addresses = 3,
    /// Lets ring indices jump.
    Indices = 4,
    /// Rings doorbells endlessly.
    Kicks = 5,
    /// Serves for a moment, then sleeps indefinitely and answers nothing.
    Sleep = 6,
    /// Serves for a moment, then spins indefinitely and answers nothing.
    Spin = 7,
    /// Causes a triple fault (as a process: a fatal signal).
    TripleFault = 8,
    /// Forwards, but never adopts a new epoch of the route table.
    OldEpoch = 9,
    /// Keeps its rings full of chains of maximum length, the same ones again and again; after a second they
    /// exceed the maximum.
    Chains = 10,
    /// Resets and reinitialises its NICs again and again, with buffers and frames in their rings.
    Resets = 11,
    /// Has its NICs execute commands endlessly: those of the control queue, with a full queue; on an e1000,
    /// those of its PHY.
    Commands = 12,
    /// Asks for neighbours without end, if it is a member of a group, and writes into a table that only the host may write: that of
    /// the group's neighbours, or the routes.
    Tables = 13,
}

impl Misdeed {
    /// All kinds of misbehaviour.
    pub const ALL: [Self; 14] = [
        Self::Registers,
        Self::Descriptors,
        Self::Loops,
        Self::Addresses,
        Self::Indices,
        Self::Kicks,
        Self::Sleep,
        Self::Spin,
        Self::TripleFault,
        Self::OldEpoch,
        Self::Chains,
        Self::Resets,
        Self::Commands,
        Self::Tables,
    ];

    /// Returns the misdeed with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Descriptors => "descriptors",
            Self::Loops => "loops",
            Self::Addresses => "addresses",
            Self::Indices => "indices",
            Self::Kicks => "kicks",
            Self::Sleep => "sleep",
            Self::Spin => "spin",
            Self::TripleFault => "triple-fault",
            Self::OldEpoch => "old-epoch",
            Self::Chains => "chains",
            Self::Resets => "resets",
            Self::Commands => "commands",
            Self::Tables => "tables",
        }
    }
}

impl Role {
    /// Returns the role with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Router),
            1 => Some(Self::Source),
            2 => Some(Self::Sink),
            3 => Some(Self::Echo),
            4 => Some(Self::SourceSink),
            5 => Some(Self::Hostile),
            6 => Some(Self::Station),
            7 => Some(Self::Application),
            8 => Some(Self::Balancer),
            _ => None,
        }
    }
}
