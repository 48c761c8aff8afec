//! Neighbours: which Ethernet address has which IP address.

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
    /// Its address.
    pub ip: IpAddr,
    /// Its Ethernet address, once it is known.
    pub mac: Option<Mac>,
    /// What the kernel knows of it.
    pub state: State,
}

/// What the kernel knows of a neighbour (NUD_* of `linux/neighbour.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Told by somebody, and never asked for (NUD_PERMANENT, NUD_NOARP).
    Permanent,
    /// It answered, and may be used: reachable, stale, or being asked whether it is still there.
    Known,
    /// It is being asked for the first time.
    Incomplete,
    /// It does not answer.
    Failed,
}

impl Netlink {
    /// Adds a neighbour that is never asked for, or changes the address of one.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. EPERM.
    pub fn add_neighbour(&self, index: u32, ip: IpAddr, mac: Mac) -> io::Result<()> {
        let mut message = of(index, ip);
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Forgets a neighbour.
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
    /// None: the message is about an entry of a bridge's table, or about an address that the host answers for.
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
