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
    /// They go the way of the group with this number.
    Group(u64),
    /// They are for the router itself.
    Local,
    /// They are dropped, and nobody is told.
    Blackhole,
    /// They are dropped, and their sender is told that there is no way.
    Unreachable,
    /// They are dropped, and their sender is told that it is prohibited.
    Prohibit,
}

/// A group of next hops, which any number of routes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedGroup {
    /// Its number. None is used twice between two lessons that begin.
    pub number: u64,
    /// Where its packets go; `None`: no route follows it any more.
    pub way: Option<LearnedWay>,
}

/// Where the packets of a group go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearnedWay {
    /// To these next hops by weight; none: there is no way, and their sender is told.
    Hops(Vec<LearnedHop>),
    /// Nowhere, and nobody is told.
    Blackhole,
}

/// A next hop of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedHop {
    /// Number of the link that packets leave by: NICs in the order of the file, then interfaces for VLANs.
    pub link: u8,
    /// Gateway; absent: the destinations themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Its part of the flows, in relation to those of the others; at least 1.
    pub weight: u8,
}

/// A gateway behind a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedGateway {
    /// Number of the link, as in [`LearnedHop`].
    pub link: u8,
    /// Address.
    pub ip: IpAddr,
}

/// An Ethernet address that is the router's for a while, beside that of its NIC: that of a virtual router of which it is the master.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LearnedMac {
    /// Number of the NIC.
    pub nic: u8,
    /// Address.
    pub mac: [u8; 6],
    /// Addresses of that virtual router, in order: neighbours are to know them by this Ethernet address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<IpAddr>,
}

/// A static neighbour that somebody has entered in the control plane's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LearnedNeighbour {
    /// Number of the link, as in [`LearnedHop`].
    pub link: u8,
    /// Address.
    pub ip: IpAddr,
    /// Ethernet address.
    pub mac: [u8; 6],
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
    /// Groups that are new, changed or gone. The first two come before the routes, those that are gone after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<LearnedGroup>,
    /// Routes that are new, changed or gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<LearnedRoute>,
    /// All gateways that do not answer, if they have changed: groups avoid them from now on, whatever else is said of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Vec<LearnedGateway>>,
    /// All addresses of the control plane, if they have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpAddr>>,
    /// All Ethernet addresses of virtual routers that are the router's now, if they have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs: Option<Vec<LearnedMac>>,
    /// All static neighbours of the control plane, if they have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Vec<LearnedNeighbour>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesson_is_short_and_comes_as_it_went() {
        let via = Some(IpAddr::from([192, 0, 2, 2]));
        let hops = vec![LearnedHop { link: 1, via, weight: 3 }, LearnedHop { link: 2, via: None, weight: 1 }];
        let to = IpAddr::from([10, 0, 0, 0]);
        let lesson = Lesson {
            groups: vec![
                LearnedGroup { number: 7, way: Some(LearnedWay::Hops(hops)) },
                LearnedGroup { number: 8, way: None },
            ],
            routes: vec![LearnedRoute { to, len: 8, fate: Some(LearnedFate::Group(7)) }],
            down: Some(vec![LearnedGateway { link: 1, ip: [192, 0, 2, 2].into() }]),
            macs: Some(vec![LearnedMac { nic: 1, mac: [0, 0, 0x5e, 0, 1, 5], ips: vec![to] }]),
            neighbours: Some(vec![LearnedNeighbour { link: 1, ip: to, mac: [2, 0, 0, 0, 0, 9] }]),
            ..Lesson::default()
        };
        let text = serde_json::to_string(&lesson).expect("text");
        assert!(text.contains(r#""routes":[{"to":"10.0.0.0","len":8,"fate":{"group":7}}]"#), "{text}");
        assert_eq!(serde_json::from_str::<Lesson>(&text).expect("a lesson"), lesson);
        assert_eq!(serde_json::to_string(&Lesson::default()).expect("text"), "{}");
    }
}
