//! Key `rpf` of a NIC or interface: the reverse-path filter (RFC 3704).

use serde::{Deserialize, Serialize};

use crate::keys::{Change, Entry, Value};
use crate::plan::Nic;
use crate::section::Keywords;

/// Route that must lead back to the source of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReversePath {
    /// None.
    #[default]
    Off,
    /// Any one.
    Loose,
    /// One by the NIC from which the packet came.
    Strict,
}

impl ReversePath {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Loose => "loose",
            Self::Strict => "strict",
        }
    }
}

pub(crate) const FILTERS: Keywords<ReversePath> = Keywords {
    noun: ("filter of sources", "filters"),
    now: &[
        (ReversePath::Off.name(), ReversePath::Off),
        (ReversePath::Loose.name(), ReversePath::Loose),
        (ReversePath::Strict.name(), ReversePath::Strict),
    ],
    later: &[],
};

/// Key `rpf` of a NIC.
pub(crate) const KEY: Entry<Nic> = Entry::new(
    "rpf",
    ("off, loose, strict", "off"),
    "drop packets whose source has no way back (RFC 3704): by any NIC, or by this one",
    Change::Replaces,
    |nic| (nic.reverse_path != ReversePath::Off).then(|| Value::Text(nic.reverse_path.name().to_owned())),
);
