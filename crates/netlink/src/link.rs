//! Interfaces.

use std::io;

use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage};

use crate::{Mac, Netlink, Object};

/// An interface as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Index in its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Ethernet address, where it has one.
    pub mac: Option<Mac>,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// True if it is administratively up (IFF_UP).
    pub up: bool,
    /// True if it has carrier (IFF_RUNNING).
    pub running: bool,
    /// True if a protocol keeps it down (IFLA_PROTO_DOWN), as VRRP does at those that are not the master.
    pub proto_down: bool,
    /// Index of the interface that it is a port of: a bridge, a bond, a datapath, a VRF.
    pub master: Option<u32>,
    /// Index of its lower interface or of its peer; for a pair of veths that may be in another namespace.
    pub lower: Option<u32>,
    /// True if it is a macvlan: what it sends is sent by its lower interface, unchanged.
    pub is_macvlan: bool,
    /// Length of its transmit queue, in frames.
    pub queue_len: u32,
    /// Interface group (`ip link show group N`).
    pub group: u32,
    /// Permanent Ethernet address of the hardware, if there is hardware.
    pub permanent_mac: Option<Mac>,
    /// Alias, which is shown beside its name; empty: none.
    pub alias: String,
}

/// Selects an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The interface with this index, whatever its present name.
    Index(u32),
    /// The interface that has this name now.
    Name(&'a str),
}

impl From<u32> for Which<'_> {
    fn from(index: u32) -> Self {
        Self::Index(index)
    }
}

impl<'a> From<&'a str> for Which<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

/// Settings of an interface, applied by one request. Settings not given stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    attributes: Vec<LinkAttribute>,
    flags: LinkFlags,
    /// Mask of the flags to change.
    meant: LinkFlags,
}

impl Settings {
    /// Sets the name. The interface has to be selected by index.
    pub fn name(self, name: &str) -> Self {
        self.with(LinkAttribute::IfName(name.to_owned()))
    }

    /// Sets the MTU in octets.
    pub fn mtu(self, octets: u32) -> Self {
        self.with(LinkAttribute::Mtu(octets))
    }

    /// Sets the length of the transmit queue, in frames.
    pub fn queue_len(self, frames: u32) -> Self {
        self.with(LinkAttribute::TxQueueLen(frames))
    }

    /// Sets the Ethernet address.
    pub fn mac(self, mac: Mac) -> Self {
        self.with(LinkAttribute::Address(mac.to_vec()))
    }

    /// Makes it a port of the bridge or VRF with this index; 0: of none.
    pub fn master(self, index: u32) -> Self {
        self.with(LinkAttribute::Controller(index))
    }

    /// Sets the alias, at most 255 octets, which is shown beside its name; empty: none.
    pub fn alias(self, alias: &str) -> Self {
        if alias.is_empty() {
            // The kernel takes no empty attribute; this one has a terminating NUL.
            return self.with(LinkAttribute::IfAlias(String::new()));
        }
        // Without a terminating NUL, which would count: the longest alias would be refused.
        self.with(LinkAttribute::Other(DefaultNla::new(libc::IFLA_IFALIAS, alias.as_bytes().to_vec())))
    }

    /// Sets the interface group.
    pub fn group(self, group: u32) -> Self {
        self.with(LinkAttribute::Group(group))
    }

    /// Sets it up or down.
    pub fn up(self, up: bool) -> Self {
        self.flag(LinkFlags::Up, up)
    }

    /// Makes it receive all multicast frames, or not.
    pub fn all_multicast(self, all: bool) -> Self {
        self.flag(LinkFlags::Allmulti, all)
    }

    fn with(mut self, attribute: LinkAttribute) -> Self {
        self.attributes.push(attribute);
        self
    }

    fn flag(mut self, flag: LinkFlags, on: bool) -> Self {
        self.flags.set(flag, on);
        self.meant.insert(flag);
        self
    }

    pub(crate) fn message(&self, which: Option<Which<'_>>) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.attributes.clone_from(&self.attributes);
        message.header.flags = self.flags;
        message.header.change_mask = self.meant;
        match which {
            Some(Which::Index(index)) => message.header.index = index,
            Some(Which::Name(name)) => message.attributes.push(LinkAttribute::IfName(name.to_owned())),
            None => {}
        }
        message
    }
}

impl Netlink {
    /// Queries an interface.
    ///
    /// # Errors
    /// ENODEV: there is none.
    pub fn link<'a>(&self, which: impl Into<Which<'a>>) -> io::Result<Link> {
        let mut message = Settings::default().message(Some(which.into()));
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        self.one(RouteNetlinkMessage::GetLink(message))
    }

    /// Changes an interface.
    ///
    /// # Errors
    /// ENODEV: there is none. EEXIST: the name is in use. EPERM. Others if the driver rejects a setting.
    pub fn set_link<'a>(&self, which: impl Into<Which<'a>>, settings: &Settings) -> io::Result<()> {
        self.change(RouteNetlinkMessage::SetLink(settings.message(Some(which.into()))), 0)
    }

    /// Deletes an interface.
    ///
    /// # Errors
    /// ENODEV: there is none. EOPNOTSUPP: it cannot be deleted.
    pub fn delete_link<'a>(&self, which: impl Into<Which<'a>>) -> io::Result<()> {
        self.change(RouteNetlinkMessage::DelLink(Settings::default().message(Some(which.into()))), 0)
    }
}

impl Object for Link {
    /// Interface index.
    type Id = u32;
    type Variant = ();

    fn wanted() -> RouteNetlinkMessage {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        RouteNetlinkMessage::GetLink(message)
    }

    fn read(message: RouteNetlinkMessage) -> Option<(bool, Self)> {
        match message {
            RouteNetlinkMessage::NewLink(message) => Some((true, Self::of(message)?)),
            RouteNetlinkMessage::DelLink(message) => Some((false, Self::of(message)?)),
            _ => None,
        }
    }

    fn key(&self) -> (u32, ()) {
        (self.index, ())
    }
}

impl Link {
    /// Returns `None` if the message is about a bridge port, which the kernel reports in messages of another
    /// family.
    fn of(message: LinkMessage) -> Option<Self> {
        if u8::from(message.header.interface_family) != libc::AF_UNSPEC as u8 {
            return None;
        }
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            running: flags.contains(LinkFlags::Running),
            ..Self::default()
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(octets) => link.mac = octets.try_into().ok(),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Controller(index) => link.master = Some(index).filter(|index| *index != 0),
                LinkAttribute::Link(index) => link.lower = Some(index).filter(|index| *index != 0),
                LinkAttribute::LinkInfo(all) => {
                    link.is_macvlan = all.contains(&LinkInfo::Kind(InfoKind::MacVlan));
                }
                LinkAttribute::TxQueueLen(frames) => link.queue_len = frames,
                LinkAttribute::Group(group) => link.group = group,
                LinkAttribute::ProtoDown(down) => link.proto_down = down != 0,
                LinkAttribute::PermAddress(octets) => link.permanent_mac = octets.try_into().ok(),
                LinkAttribute::IfAlias(alias) => link.alias = alias,
                _ => {}
            }
        }
        Some(link)
    }
}
