//! Forwarder of a room: the command with one of its engines, or the host's kernel in namespaces that were created with ip(8).

use config::Engine;

use crate::device;
use crate::experiment::Options;

/// Forwarder of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarder {
    /// The command, with this engine.
    Command(Engine),
    /// The host's kernel, in network namespaces that are set up by hand, without a program of ringroad.
    Hand,
}

impl Forwarder {
    /// Returns the command with the engine of the options.
    pub(crate) fn of(options: &Options) -> Self {
        Self::Command(device::engine(options))
    }

    /// Returns true if the host's kernel forwards, in a network namespace for each router.
    pub(crate) const fn is_kernel(self) -> bool {
        match self {
            Self::Command(engine) => engine.is_kernel(),
            Self::Hand => true,
        }
    }

    /// Returns true if Linux guests forward, which set themselves up.
    pub(crate) const fn is_linux_guest(self) -> bool {
        matches!(self, Self::Command(Engine::Linux))
    }

    /// Name in cases.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command(engine) => engine.name(),
            Self::Hand => "by-hand",
        }
    }
}
