//! Addresses of interfaces.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};

use crate::prefix::family;
use crate::{Netlink, Object, Prefix};

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface.
    pub index: u32,
    /// Address with the prefix length of its network.
    pub prefix: Prefix,
    /// True if it may be used: an IPv6 address is tentative until duplicate address detection has succeeded
    /// (RFC 4862).
    pub usable: bool,
    /// True if that detection has found it at another station.
    pub is_duplicate: bool,
}

/// `IFA_F_TENTATIVE` and `IFA_F_DADFAILED` of `linux/if_addr.h`.
const TENTATIVE: u8 = 0x40;
const DUPLICATE: u8 = 0x08;

impl Netlink {
    /// Adds an address to an interface; the kernel adds the route to its network on its own.
    ///
    /// # Errors
    /// ENODEV: there is no such interface. EEXIST: it has the address. EPERM.
    pub fn add_address(&self, index: u32, prefix: Prefix) -> io::Result<()> {
        let mut message = of(index, prefix);
        message.attributes.extend(prefix.broadcast().map(AddressAttribute::Broadcast));
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an address from an interface.
    ///
    /// # Errors
    /// EADDRNOTAVAIL: it has no such address. EPERM.
    pub fn delete_address(&self, index: u32, prefix: Prefix) -> io::Result<()> {
        self.change(RouteNetlinkMessage::DelAddress(of(index, prefix)), 0)
    }
}

fn of(index: u32, prefix: Prefix) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(prefix.ip);
    message.header.prefix_len = prefix.len;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(prefix.ip), AddressAttribute::Address(prefix.ip)];
    message
}

impl Object for Address {
    /// Index of the interface, and the address.
    type Id = (u32, Prefix);
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetAddress(AddressMessage::default())
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        match message {
            RouteNetlinkMessage::NewAddress(message) => Some((true, Self::of(&message)?)),
            RouteNetlinkMessage::DelAddress(message) => Some((false, Self::of(&message)?)),
            _ => None,
        }
    }

    fn key(&self) -> ((u32, Prefix), ()) {
        ((self.index, self.prefix), ())
    }
}

impl Address {
    fn of(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut address) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                _ => {}
            }
        }
        // On a point-to-point link `Address` is the peer's; elsewhere IPv6 has no `Local`.
        let ip: IpAddr = local.or(address)?;
        let prefix = Prefix::new(ip, message.header.prefix_len)?;
        let flags = message.header.flags.bits();
        let (usable, is_duplicate) = (flags & (TENTATIVE | DUPLICATE) == 0, flags & DUPLICATE != 0);
        Some(Self { index: message.header.index, prefix, usable, is_duplicate })
    }
}
