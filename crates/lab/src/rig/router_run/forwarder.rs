//! The forwarder of a room: the command with one of its engines, or the host's kernel in namespaces that ip(8) makes.

use config::Engine;

use crate::device;
use crate::experiment::Options;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarder {
    /// The command, with this engine.
    Command(Engine),
    /// The host's kernel, in network namespaces that are set up by hand. No program of ours takes part.
    Hand,
}

impl Forwarder {
    /// The command with the engine of the options.
    pub(crate) fn of(options: &Options) -> Self {
        Self::Command(device::engine(options))
    }

    /// Whether the host's kernel forwards, with a network namespace for each router.
    pub(crate) const fn is_kernel(self) -> bool {
        match self {
            Self::Command(engine) => engine.is_kernel(),
            Self::Hand => true,
        }
    }

    /// The name in cases.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command(engine) => engine.name(),
            Self::Hand => "by-hand",
        }
    }
}
