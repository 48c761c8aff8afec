//! Creation of interfaces, here or in another namespace, and moves between namespaces.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoMacVlan, InfoMacVtap, InfoVeth, InfoVlan, InfoVrf, LinkAttribute, LinkInfo,
    LinkMessage, MacVlanMode, VlanProtocol,
};

use crate::{Netlink, Settings, Which};

/// Mode in which the macvtaps and macvlans of one interface reach each other (`linux/if_link.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacvtapMode {
    /// They do not reach each other.
    Private,
    /// Through the external switch, which reflects frames (IEEE 802.1Qbg).
    Vepa,
    /// They reach each other directly.
    #[default]
    Bridge,
    /// There is only one, which takes over the interface with its address.
    Passthru,
}

/// Kind of interface that can be created: on top of another one, or for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A macvtap.
    Macvtap {
        /// Index of its lower interface.
        lower: u32,
        /// Mode in which it reaches its neighbours there.
        mode: MacvtapMode,
    },
    /// A macvlan: like a macvtap, but its frames go to the network stack of the kernel.
    Macvlan {
        /// Index of its lower interface.
        lower: u32,
        /// Mode in which it reaches its neighbours there.
        mode: MacvtapMode,
    },
    /// A VLAN (IEEE 802.1Q).
    Vlan {
        /// Index of its lower interface.
        lower: u32,
        /// Number of the VLAN.
        id: u16,
    },
    /// A service VLAN (IEEE 802.1ad), which carries other VLANs.
    ServiceVlan {
        /// Index of its lower interface.
        lower: u32,
        /// Number of the VLAN.
        id: u16,
    },
    /// A VRF: packets that arrive at its ports, of which it is the master, are routed by its table.
    Vrf {
        /// Number of the table.
        table: u32,
    },
}

impl Netlink {
    /// Creates an interface with these settings.
    ///
    /// # Errors
    /// EEXIST: the name is in use. EOPNOTSUPP: the kernel does not know this kind. Others if the driver rejects a setting.
    pub fn make_link(&self, kind: Kind, settings: &Settings) -> io::Result<()> {
        self.make(kind.message(settings))
    }

    /// Creates an interface directly in another namespace, on a lower interface of this one, if it has any. Kernels before 6.15
    /// also look for its name in this namespace, so the caller should use a unique name here and rename the interface there.
    ///
    /// # Errors
    /// See [`Netlink::make_link`].
    pub fn make_link_in(&self, kind: Kind, settings: &Settings, namespace: BorrowedFd<'_>) -> io::Result<()> {
        let mut message = kind.message(settings);
        message.attributes.push(inside(namespace));
        self.make(message)
    }

    /// Creates a veth pair: frames sent into one end are received at the other. One end is here; the other one is in the
    /// namespace `peer_namespace`, or also here. Both are created with their settings; only the first one can be created up,
    /// because the kernel brings the peer up before it knows the first one (ENOTCONN).
    ///
    /// # Errors
    /// EEXIST: one of the names is in use in its namespace. EOPNOTSUPP: the kernel has no veth. EPERM. No end exists then.
    pub fn make_veth(
        &self,
        settings: &Settings,
        peer: &Settings,
        peer_namespace: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut other = peer.message(None);
        other.attributes.extend(peer_namespace.map(inside));
        let mut message = settings.message(None);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.make(message)
    }

    /// Moves an interface into another namespace and applies settings to it there; the name can be changed if the interface is
    /// selected by index. Afterwards it is down, without addresses and routes, unless `settings` set it up. Its index may change.
    ///
    /// # Errors
    /// ENODEV: there is none. EINVAL: this kind of interface cannot leave its namespace. EEXIST: the name is in use there; the
    /// interface may have been moved already, under its former name.
    pub fn move_link<'a>(
        &self,
        which: impl Into<Which<'a>>,
        namespace: BorrowedFd<'_>,
        settings: &Settings,
    ) -> io::Result<()> {
        let mut message = settings.message(Some(which.into()));
        message.attributes.push(inside(namespace));
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    fn make(&self, message: LinkMessage) -> io::Result<()> {
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }
}

impl Kind {
    fn message(self, settings: &Settings) -> LinkMessage {
        let (lower, kind, data) = match self {
            Self::Macvtap { lower, mode } => {
                (Some(lower), InfoKind::MacVtap, InfoData::MacVtap(vec![InfoMacVtap::Mode(mode.into())]))
            }
            Self::Macvlan { lower, mode } => {
                (Some(lower), InfoKind::MacVlan, InfoData::MacVlan(vec![InfoMacVlan::Mode(mode.into())]))
            }
            Self::Vlan { lower, id } => (Some(lower), InfoKind::Vlan, InfoData::Vlan(vec![InfoVlan::Id(id)])),
            Self::ServiceVlan { lower, id } => {
                let protocol = InfoVlan::Protocol(VlanProtocol::Ieee8021Ad);
                (Some(lower), InfoKind::Vlan, InfoData::Vlan(vec![InfoVlan::Id(id), protocol]))
            }
            Self::Vrf { table } => (None, InfoKind::Vrf, InfoData::Vrf(vec![InfoVrf::TableId(table)])),
        };
        let mut message = settings.message(None);
        message.attributes.extend(lower.map(LinkAttribute::Link));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind), LinkInfo::Data(data)]));
        message
    }
}

fn inside(namespace: BorrowedFd<'_>) -> LinkAttribute {
    LinkAttribute::NetNsFd(namespace.as_raw_fd())
}

impl From<MacvtapMode> for MacVlanMode {
    fn from(mode: MacvtapMode) -> Self {
        match mode {
            MacvtapMode::Private => Self::Private,
            MacvtapMode::Vepa => Self::Vepa,
            MacvtapMode::Bridge => Self::Bridge,
            MacvtapMode::Passthru => Self::Passthrough,
        }
    }
}
