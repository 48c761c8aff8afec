//! What a NIC can be plugged into.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How the macvtaps of one interface reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MacvtapMode {
    /// Directly.
    #[default]
    Bridge,
    /// Not at all.
    Private,
    /// By the switch outside, which sends frames back (IEEE 802.1Qbg).
    Vepa,
    /// There is only one, and it takes over the interface.
    Passthru,
}

impl MacvtapMode {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Private => "private",
            Self::Vepa => "vepa",
            Self::Passthru => "passthru",
        }
    }
}

/// How fast the frames of a file come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReplayPace {
    /// As fast as the router takes them.
    #[default]
    Fast,
    /// As they were captured.
    Recorded,
}

impl ReplayPace {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Recorded => "recorded",
        }
    }
}

/// A file whose frames come in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Replay {
    /// The file.
    pub file: PathBuf,
    /// How fast.
    pub pace: ReplayPace,
}

/// Which side makes a socket, and which one connects to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SocketSide {
    /// We make the socket, and the other side connects.
    #[default]
    Listen,
    /// The other side makes the socket.
    Connect,
}

impl SocketSide {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
        }
    }
}

/// What a NIC is plugged into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Attach {
    /// A switch: index into [`Plan::switches`](crate::Plan::switches).
    Switch(usize),
    /// A TAP interface of the host with this name; made if it does not exist.
    Tap(String),
    /// Nothing: what is sent is counted and dropped, and nothing comes.
    Null,
    /// A TAP in this bridge of the host.
    Bridge(String),
    /// A TAP in this bridge of Open vSwitch.
    Ovs(String),
    /// A macvtap on an interface of the host.
    Macvtap {
        /// The interface.
        interface: String,
        /// How macvtaps of that interface reach each other.
        mode: MacvtapMode,
    },
    /// An interface of the host, by AF_XDP.
    Xdp(String),
    /// A capture file that everything sent is written to.
    Pcap {
        /// The file.
        file: PathBuf,
        /// A file whose frames come in; none: nothing comes.
        replay: Option<Replay>,
    },
    /// A virtual machine of another program, whose virtio-net device we are (vhost-user).
    VhostUserBackend {
        /// The socket.
        path: PathBuf,
        /// Which side makes it.
        side: SocketSide,
    },
    /// Another program that is handed the NIC's rings and is the device (vhost-user).
    VhostUserFrontend {
        /// The socket.
        path: PathBuf,
        /// Which side makes it.
        side: SocketSide,
    },
}

impl Attach {
    /// Its word in files, before the colon.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Switch(_) => "switch",
            Self::Tap(_) => "tap",
            Self::Null => "null",
            Self::Bridge(_) => "bridge",
            Self::Ovs(_) => "ovs",
            Self::Macvtap { .. } => "macvtap",
            Self::Xdp(_) => "xdp",
            Self::Pcap { .. } => "pcap",
            Self::VhostUserBackend { .. } => "vhost-user-backend",
            Self::VhostUserFrontend { .. } => "vhost-user-frontend",
        }
    }

    /// What its other keys say of it, in words that follow its name; often nothing.
    pub fn detail(&self) -> String {
        match self {
            Self::Macvtap { mode, .. } => format!(" ({})", mode.name()),
            Self::Pcap { replay: Some(replay), .. } => {
                format!(" (replays {}, {})", replay.file.display(), replay.pace.name())
            }
            Self::VhostUserBackend { side, .. } | Self::VhostUserFrontend { side, .. } => {
                format!(" ({})", side.name())
            }
            _ => String::new(),
        }
    }

    /// Whether several NICs may be plugged into it.
    pub const fn is_common(&self) -> bool {
        match self {
            Self::Switch(_) | Self::Null | Self::Bridge(_) | Self::Ovs(_) => true,
            Self::Macvtap { mode, .. } => !matches!(mode, MacvtapMode::Passthru),
            Self::Tap(_)
            | Self::Xdp(_)
            | Self::Pcap { .. }
            | Self::VhostUserBackend { .. }
            | Self::VhostUserFrontend { .. } => false,
        }
    }
}
