//! Configuration of a router.

use arrayvec::ArrayVec;
use frame::Mac;
use frame::nd::PrefixInfo;
use frame::vlan::{self, Tag};
use ledger::{RouterCounters, VlanCounters};

use crate::adjacency::Adjacencies;
use crate::neighbours::Neighbours;
use crate::rate::ErrorBucket;
use crate::reverse_path::ReversePath;
use crate::router::Waiting;
use crate::six::own::Six;

/// Maximum number of NICs of one router, a power of two.
pub const MAX_NICS: usize = 32;
/// Maximum number of interfaces of one router: its NICs, and VLANs on them.
pub const MAX_INTERFACES: usize = 64;
/// Maximum number of addresses of one NIC; further ones are ignored.
pub const MAX_ADDRESSES: usize = 8;
/// Maximum number of prefixes, and of DNS servers, in the router advertisements of one NIC; further ones are left out.
pub const MAX_PREFIXES: usize = 8;
/// See [`MAX_PREFIXES`].
pub const MAX_DNS: usize = 4;
/// Minimum MTU of IPv4 in octets (RFC 791).
pub const SMALLEST_MTU: u16 = 68;

/// One of the router's own addresses, with the length of its network's prefix (0 to 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address, in host byte order.
    pub ip: u32,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl Address {
    /// Returns the network mask.
    const fn mask(self) -> u32 {
        match self.prefix {
            0 => 0,
            1..=31 => u32::MAX << (32 - self.prefix),
            _ => u32::MAX,
        }
    }

    /// Returns true if `ip` lies in the network of this address.
    pub const fn covers(self, ip: u32) -> bool {
        (ip ^ self.ip) & self.mask() == 0
    }

    /// Returns the first address of its network.
    pub(crate) const fn network(self) -> u32 {
        self.ip & self.mask()
    }

    /// Returns the last address of its network.
    pub(crate) const fn broadcast(self) -> u32 {
        self.ip | !self.mask()
    }

    /// Returns true if `ip` is the broadcast address of the network, or the network itself, and thus no single host
    /// (RFC 1812, 5.3.5; networks of one or two addresses have neither, RFC 3021).
    pub const fn is_network_wide(self, ip: u32) -> bool {
        let host = !self.mask();
        self.prefix < 31 && self.covers(ip) && (ip & host == host || ip & host == 0)
    }
}

/// One of the router's own IPv6 addresses, with the length of its network's prefix (0 to 128).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address6 {
    /// The address, in host byte order.
    pub ip: u128,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl Address6 {
    /// Returns true if `ip` lies in the network of this address.
    pub const fn covers(self, ip: u128) -> bool {
        (ip ^ self.ip) & frame::ipv6::mask(self.prefix) == 0
    }

    /// Returns true if `ip` is the first address of the network, which all its routers have (RFC 4291, 2.6.1; not in
    /// networks of two addresses, RFC 6164).
    pub const fn is_anycast(self, ip: u128) -> bool {
        self.prefix < 127 && ip == self.ip & frame::ipv6::mask(self.prefix)
    }
}

/// What a NIC advertises as a router (RFC 4861, 6.2.1).
#[derive(Clone, Copy, Debug)]
pub struct Advertise<'c> {
    /// All fields but the options.
    pub advert: frame::nd::RouterAdvert,
    /// Smallest and largest number of seconds between advertisements that nothing has caused.
    pub interval: (u16, u16),
    /// True if the MTU of the NIC is told.
    pub tells_mtu: bool,
    /// Prefixes of the link.
    pub prefixes: &'c [PrefixInfo],
    /// DNS servers (RFC 8106), used for three times the largest interval.
    pub dns: &'c [u128],
}

/// A VLAN of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Number of the NIC.
    pub nic: u8,
    /// Number in the service tag in front of the other one (QinQ); `None`: there is only one tag.
    pub outer: Option<u16>,
    /// Number of the VLAN, 1 to 4094.
    pub id: u16,
}

/// One NIC, or a VLAN of one, which is a NIC of its own to the rest of the router. Its number is its index in
/// [`Config::interfaces`].
#[derive(Clone, Copy, Debug)]
pub struct Interface<'c> {
    /// Ethernet address.
    pub mac: Mac,
    /// Maximum length of an IP packet in octets; a value below [`SMALLEST_MTU`] counts as that.
    pub mtu: u16,
    /// The router's own IPv4 addresses on it.
    pub addresses: &'c [Address],
    /// The router's own IPv6 addresses on it. Without any it does not take part in IPv6. Its link-local address need not
    /// be among them: it is derived from the Ethernet address then.
    pub addresses6: &'c [Address6],
    /// Its router advertisements; `None`: it sends none.
    pub advertise: Option<&'c Advertise<'c>>,
    /// The VLAN that it is; `None`: a NIC.
    pub vlan: Option<Vlan>,
    /// Filter of sources.
    pub reverse_path: ReversePath,
}

/// Configuration of a router.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// The NICs, at most [`MAX_NICS`], and after them VLANs of them; those after the first [`MAX_INTERFACES`] are not
    /// served.
    pub interfaces: &'c [Interface<'c>],
    /// True for the one of several routers that share their [`Neighbours`] which announces their addresses at start and
    /// keeps the neighbours fresh.
    pub keeper: bool,
    /// True if the router answers ARP requests for its addresses (exactly one of the routers that see a request must).
    pub answers_arp: bool,
    /// True if the router sends redirects (RFC 1812, 5.2.7.2; RFC 4861, 8.2).
    pub redirects: bool,
    /// True if routers beside it have the same addresses and may have used them for long, as in a group: it uses its IPv6 addresses
    /// while another station may still object (RFC 4429).
    pub shares_addresses: bool,
    /// Number of its route table, which the platform is told of a next hop that fails.
    pub table: u8,
}

/// Resources of a router.
pub struct RouterResources<'a, B, R> {
    /// Route table. The router's own addresses must be in it: as local, or within a connected prefix.
    pub routes: R,
    /// Neighbour table, shared by all routers of one virtual machine or process.
    pub neighbours: &'a Neighbours<'a>,
    /// Memory for prepared headers, private to this router.
    pub adjacencies: &'a mut Adjacencies,
    /// Memory for the state of interfaces, private to this router.
    pub interfaces: &'a mut Interfaces,
    /// Memory for packets that wait, private to this router.
    pub waiting: &'a mut Waiting<B>,
    /// Counters of the outcome of each frame.
    pub counters: &'a RouterCounters,
    /// Counters of the interfaces for VLANs, in their order; without them their frames are not counted apart.
    pub vlans: &'a [VlanCounters],
}

/// Memory for the state of the interfaces of one router. About 60 KiB, of which a router touches as much as it has
/// interfaces.
#[derive(Default)]
pub struct Interfaces {
    nics: ArrayVec<Nic, MAX_INTERFACES>,
}

impl Interfaces {
    /// Creates empty memory.
    pub const fn new() -> Self {
        Self { nics: ArrayVec::new_const() }
    }

    /// Creates the state of these interfaces.
    pub(crate) fn fill(&mut self, wanted: &[Interface<'_>]) -> &mut [Nic] {
        self.nics.clear();
        for interface in wanted.iter().take(MAX_INTERFACES).enumerate() {
            self.nics.push(Nic::new(interface));
        }
        &mut self.nics
    }
}

/// State of a NIC.
pub(crate) struct Nic {
    pub(crate) mac: Mac,
    pub(crate) mtu: u16,
    pub(crate) addresses: ArrayVec<Address, MAX_ADDRESSES>,
    pub(crate) errors: ErrorBucket,
    pub(crate) six: Six,
    pub(crate) reverse_path: ReversePath,
    /// Number of the NIC by which frames leave, and the tags that they get there, the outer one first.
    pub(crate) port: u8,
    pub(crate) tags: ArrayVec<Tag, { vlan::MOST }>,
}

impl Nic {
    /// Creates the state of interface number `number`.
    pub(crate) fn new((number, interface): (usize, &Interface<'_>)) -> Self {
        let tags = interface.vlan.into_iter().flat_map(|own| {
            let inner = Some(Tag::new(vlan::CUSTOMER, own.id));
            [own.outer.map(|outer| Tag::new(vlan::SERVICE, outer)), inner].into_iter().flatten()
        });
        Self {
            port: interface.vlan.map_or(number as u8, |own| own.nic),
            tags: tags.collect(),
            mac: interface.mac,
            mtu: interface.mtu.max(SMALLEST_MTU),
            addresses: interface.addresses.iter().copied().take(MAX_ADDRESSES).collect(),
            errors: ErrorBucket::new(),
            six: Six::new(interface),
            reverse_path: interface.reverse_path,
        }
    }

    /// Returns true if it is a NIC, and not a VLAN of one.
    pub(crate) fn is_port(&self) -> bool {
        self.tags.is_empty()
    }

    /// Returns true if `ip` is the router's own address on this NIC.
    pub(crate) fn owns(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// Returns true if `ip` lies in a network on this NIC.
    pub(crate) fn covers(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.covers(ip))
    }

    /// Returns true if `ip` is a broadcast or network address of a network on this NIC.
    pub(crate) fn is_network_wide(&self, ip: u32) -> bool {
        self.addresses.iter().any(|address| address.is_network_wide(ip))
    }

    /// Returns the own address to use towards `peer`: one in its network if possible.
    pub(crate) fn address_towards(&self, peer: u32) -> Option<u32> {
        let near = self.addresses.iter().find(|address| address.covers(peer));
        near.or(self.addresses.first()).map(|address| address.ip)
    }
}
