//! Neighbours: mappings of IP addresses to Ethernet addresses.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};

use crate::prefix::family;
use crate::{Mac, Netlink, Object};

/// A neighbour on the link of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub index: u32,
    /// IP address.
    pub ip: IpAddr,
    /// Ethernet address, if known.
    pub mac: Option<Mac>,
    /// Reachability state.
    pub state: State,
}

/// Reachability state of a neighbour (NUD_* of `linux/neighbour.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Configured, never resolved (NUD_PERMANENT, NUD_NOARP).
    Permanent,
    /// Resolved and usable: reachable, stale, or being probed.
    Known,
    /// Being resolved for the first time.
    Incomplete,
    /// It does not answer.
    Failed,
}

impl Netlink {
    /// Adds a permanent neighbour, or changes the Ethernet address of one.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. EPERM.
    pub fn add_neighbour(&self, index: u32, ip: IpAddr, mac: Mac) -> io::Result<()> {
        let mut message = of(index, ip);
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Deletes a neighbour.
    ///
    /// # Errors
    /// ENOENT: there is none. EPERM.
    pub fn delete_neighbour(&self, index: u32, ip: IpAddr) -> io::Result<()> {
        self.change(RouteNetlinkMessage::DelNeighbour(of(index, ip)), 0)
    }
}

fn of(index: u32, ip: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(ip);
    message.header.ifindex = index;
    message.attributes = vec![NeighbourAttribute::Destination(ip.into())];
    message
}

impl Object for Neighbour {
    /// Index of the interface, and the address.
    type Id = (u32, IpAddr);
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default())
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        match message {
            RouteNetlinkMessage::NewNeighbour(message) => Some((true, Self::of(&message)?)),
            RouteNetlinkMessage::DelNeighbour(message) => Some((false, Self::of(&message)?)),
            _ => None,
        }
    }

    fn key(&self) -> ((u32, IpAddr), ()) {
        ((self.index, self.ip), ())
    }
}

impl Neighbour {
    /// Returns `None` if the message is about an entry of a bridge's forwarding table or a proxy entry.
    fn of(message: &NeighbourMessage) -> Option<Self> {
        if message.header.flags.contains(NeighbourFlags::Proxy) {
            return None;
        }
        let (mut ip, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(found)) => ip = Some((*found).into()),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(found)) => ip = Some((*found).into()),
                NeighbourAttribute::LinkLayerAddress(octets) => mac = octets.as_slice().try_into().ok(),
                _ => {}
            }
        }
        let state = state(message.header.state, mac.is_some());
        Some(Self { index: message.header.ifindex, ip: ip?, mac, state })
    }
}

fn state(state: NeighbourState, has_mac: bool) -> State {
    match state {
        NeighbourState::Permanent | NeighbourState::Noarp => State::Permanent,
        NeighbourState::Incomplete => State::Incomplete,
        NeighbourState::Failed => State::Failed,
        _ if has_mac => State::Known,
        _ => State::Incomplete,
    }
}
