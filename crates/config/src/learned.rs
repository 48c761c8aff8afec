//! Routes that a router learns from its control plane while it runs. They are no part of a file.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What a control plane says of a network: its only route, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedRoute {
    /// First address of the network.
    pub to: IpAddr,
    /// Prefix length.
    pub len: u8,
    /// What happens to packets there; `None`: there is no such route any more.
    pub fate: Option<LearnedFate>,
}

/// What happens to the packets of a learned route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearnedFate {
    /// They leave by the link with this number: NICs in the order of the file, then interfaces for VLANs. With a gateway they
    /// go to it, otherwise to their destination.
    Hop(u8, Option<IpAddr>),
    /// They are for the router itself.
    Local,
    /// They are dropped, and nobody is told.
    Blackhole,
    /// They are dropped, and their sender is told that there is no way.
    Unreachable,
    /// They are dropped, and their sender is told that it is prohibited.
    Prohibit,
}

/// News from the control plane of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// True if all routes follow, in this lesson and the next ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins: bool,
    /// True if all routes have come: those learned before that have not come again are gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// Routes that are new, changed or gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<LearnedRoute>,
    /// All addresses of the control plane, if they have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpAddr>>,
}
