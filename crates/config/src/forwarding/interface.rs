//! `[[router.interface]]`: a VLAN of a NIC as an interface with addresses of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FILTERS, ReversePath, links, own_networks, vrf};
use crate::address::Address;
use crate::nic::own_addresses;
use crate::plan::{Nic, NicModel};
use crate::read::required_name;
use crate::route::nic_named;
use crate::section::Section;
use crate::six::{self, Six};
use crate::values;

/// Most interfaces of a router, those for VLANs of all NICs together, as the firmware's tables have room for.
const MOST_INTERFACES: usize = bootinfo::MAX_VLANS;
/// Smallest MTU (RFC 791).
const LEAST_MTU: u32 = 68;
/// Octets of a tag.
const TAG: u32 = 4;
/// Largest number of a VLAN (IEEE 802.1Q: 0 is a priority only, 4095 is reserved).
const LARGEST_ID: u32 = 4094;

/// Tags of the frames of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tags {
    /// Service tag in front of the other one (QinQ, IEEE 802.1ad); `None`: there is only one tag.
    pub outer: Option<u16>,
    /// Number of the VLAN.
    pub id: u16,
}

impl fmt::Display for Tags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outer {
            Some(outer) => write!(out, "{outer}.{}", self.id),
            None => self.id.fmt(out),
        }
    }
}

/// An interface for a VLAN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name, unique among the NICs and interfaces of its router.
    pub name: String,
    /// Index of its NIC.
    pub nic: usize,
    /// Tags of its frames.
    pub tags: Tags,
    /// Router's own IPv4 addresses on it.
    pub addresses: Vec<Address>,
    /// IPv6 addresses and router advertisements.
    pub six: Six,
    /// Largest IP packet, in octets: at most that of its NIC.
    pub mtu: u32,
    /// Filter of sources.
    pub reverse_path: ReversePath,
    /// Its VRF, whose other NICs and interfaces share its route table; `None`: it is in none.
    pub vrf: Option<String>,
}

/// Reads all interfaces of a router with these NICs.
pub(super) fn read(router: &Section<'_>, nics: &[Nic]) -> Vec<Interface> {
    let sections = router.tables("interface");
    if let Some(extra) = sections.get(MOST_INTERFACES) {
        let what = format!("{} are too many; a router has at most {MOST_INTERFACES}", sections.len());
        router.fault(extra.line, "interface", what);
    }
    let mut interfaces: Vec<Interface> = Vec::new();
    for section in sections.iter().take(MOST_INTERFACES) {
        let Some(interface) = interface(section, nics) else { continue };
        distinguish(section, &interface, (nics, &interfaces));
        verify_networks(section, &interface, (nics, &interfaces));
        interfaces.push(interface);
    }
    let vrfs = nics.iter().map(|nic| &nic.vrf).chain(interfaces.iter().map(|own| &own.vrf));
    let vrfs = vrf::names(vrfs.map(Option::as_deref)).len();
    if vrfs >= bootinfo::MAX_TABLES {
        let what = format!("{vrfs} VRFs are too many; a router has at most {}", bootinfo::MAX_TABLES - 1);
        router.fault(router.line, "interface", what);
    }
    interfaces
}

fn interface(section: &Section<'_>, nics: &[Nic]) -> Option<Interface> {
    section.expect_keys(&["name", "nic", "vlan", "outer", "address", "mtu", "vrf", "rpf", "ra"], &[]);
    let name = required_name(section, "\"guests\"", values::name);
    let nic = section.required_text("nic", "\"lan\"");
    if !section.has("vlan") {
        section.missing("vlan", "100");
    }
    let id = section.number("vlan", 1..=LARGEST_ID, 1) as u16;
    let outer = section.has("outer").then(|| section.number("outer", 1..=LARGEST_ID, 1) as u16);
    let nic = nic_named(section, nic?, &links(nics, &[]))?;
    let most = largest_packet(&nics[nic], outer.is_some());
    let mtu = section.number("mtu", LEAST_MTU..=most, most);
    let (addresses, six) = (own_addresses(section), six::read(section, mtu));
    let reverse_path = section.word("rpf", &FILTERS);
    let vrf = if section.has("vrf") { vrf::named(section) } else { nics[nic].vrf.clone() };
    Some(Interface { name, nic, tags: Tags { outer, id }, addresses, six, mtu, reverse_path, vrf })
}

/// Largest packet of a VLAN: an 82540EM has room for one tag beyond the MTU.
fn largest_packet(nic: &Nic, has_outer: bool) -> u32 {
    let is_tight = has_outer && nic.model == NicModel::E1000;
    if is_tight { (nic.mtu - TAG).max(LEAST_MTU) } else { nic.mtu }
}

/// Reports a name or a VLAN that is taken already.
fn distinguish(section: &Section<'_>, new: &Interface, (nics, before): (&[Nic], &[Interface])) {
    let mut names = nics.iter().map(|nic| &nic.name).chain(before.iter().map(|known| &known.name));
    if !new.name.is_empty() && names.any(|name| *name == new.name) {
        let what = format!("{:?} is taken already; choose another", new.name);
        section.fault(section.line_of("name"), "name", what);
    }
    if let Some(known) = before.iter().find(|known| (known.nic, known.tags) == (new.nic, new.tags)) {
        let what = format!("VLAN {} of NIC {:?} is {:?} already", new.tags, nics[new.nic].name, known.name);
        section.fault(section.line_of("vlan"), "vlan", what);
    }
}

/// Reports a network that a NIC or another interface has: routing between them would be ambiguous.
fn verify_networks(section: &Section<'_>, new: &Interface, (nics, before): (&[Nic], &[Interface])) {
    let before = before.iter().filter(|known| known.vrf == new.vrf);
    let before = before.map(|known| (&known.name, own_networks(&known.addresses, &known.six)));
    let nics = nics.iter().filter(|nic| nic.vrf == new.vrf);
    let nics = nics.map(|nic| (&nic.name, own_networks(&nic.addresses, &nic.six)));
    let own = own_networks(&new.addresses, &new.six);
    for (name, networks) in nics.chain(before) {
        for held in networks {
            if let Some(own) = own.iter().find(|own| own.network.overlaps(held.network)) {
                let what = format!("{own} overlaps {} of {name:?}; use a network of its own", held.network);
                section.fault(section.line_of("address"), "address", what);
            }
        }
    }
}
