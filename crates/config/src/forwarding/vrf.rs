//! Key `vrf`: NICs, and interfaces for VLANs, with route tables of their own (VRF). Nothing leads from one VRF to another.

use std::net::IpAddr;

use super::link::{Elsewhere, Link};
use super::{Destination, own_networks};
use crate::address::Prefix;
use crate::keys::{Change, Entry, Value};
use crate::plan::{Nic, Role, Router};
use crate::section::{Section, WithLine};
use crate::six::Prefix6;
use crate::values;

/// Key `vrf` of a NIC.
pub(crate) const KEY: Entry<Nic> = Entry::new(
    "vrf",
    ("a word", "none"),
    "its VRF: a route table that only the NICs and VLANs of this name share",
    Change::Replaces,
    |nic| nic.vrf.clone().map(Value::Text),
);

impl Router {
    /// Names of its VRFs, in the order in which its NICs and then its interfaces have them.
    pub fn vrfs(&self) -> Vec<&str> {
        let nics = self.nics.iter().map(|nic| &nic.vrf);
        let all = nics.chain(self.forwarding.interfaces.iter().map(|own| &own.vrf));
        names(all.map(Option::as_deref))
    }

    /// Number of its route tables: one for each VRF, and the first one for NICs without any.
    pub fn tables(&self) -> usize {
        self.vrfs().len() + 1
    }

    /// Number of the route table of a NIC or interface.
    pub fn table_of(&self, link: usize) -> usize {
        let vrf = match link.checked_sub(self.nics.len()) {
            None => self.nics.get(link).map(|nic| &nic.vrf),
            Some(at) => self.forwarding.interfaces.get(at).map(|own| &own.vrf),
        };
        number(&self.vrfs(), vrf.and_then(Option::as_deref))
    }

    /// Name of the VRF whose route table has this number; `None`: that of NICs without any.
    pub fn vrf_name(&self, table: usize) -> Option<&str> {
        self.vrfs().get(table.checked_sub(1)?).copied()
    }
}

/// Returns the names of VRFs, each once.
pub(super) fn names<'n>(all: impl Iterator<Item = Option<&'n str>>) -> Vec<&'n str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all.flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn number(names: &[&str], vrf: Option<&str>) -> usize {
    names.iter().position(|name| Some(*name) == vrf).map_or(0, |at| at + 1)
}

/// Reads the VRF of a NIC.
pub(crate) fn of_nic(section: &Section<'_>, router: &Router) -> Option<String> {
    let name = named(section)?;
    if router.role != Role::Router {
        let what = "only a router that routes has VRFs; remove it, or remove role";
        section.fault(section.line_of("vrf"), "vrf", what);
        return None;
    }
    Some(name)
}

/// Reads the name of a VRF.
pub(super) fn named(section: &Section<'_>) -> Option<String> {
    let WithLine { value, line } = section.text("vrf", "\"red\"")?;
    if let Err(what) = values::name(value) {
        section.fault(line, "vrf", what);
        return None;
    }
    Some(value.to_owned())
}

/// Returns the links as a route or neighbour of the file sees them: those of other VRFs than its own have no addresses.
/// `None`: there is no such VRF, which is reported.
pub(crate) fn visible(section: &Section<'_>, links: &[Link]) -> Option<Vec<Link>> {
    let own = section.text("vrf", "\"red\"");
    let known = names(links.iter().map(|link| link.vrf.as_deref()));
    if let Some(WithLine { value, line }) = own.filter(|own| !known.contains(&own.value)) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        section.fault(line, "vrf", format!("no NIC of the router is in a VRF {value:?}; its VRFs: {known}"));
        return None;
    }
    let own = own.map(|own| own.value);
    Some(links.iter().map(|link| seen_from(own, link)).collect())
}

fn seen_from(own: Option<&str>, link: &Link) -> Link {
    if link.vrf.as_deref() == own {
        return link.clone();
    }
    let networks = own_networks(&link.addresses, &link.six).into_iter().map(|own| own.network).collect();
    let (name, vrf) = (link.name.clone(), link.vrf.clone());
    Link { elsewhere: Some(Elsewhere { networks }), name, vrf, ..Link::default() }
}

/// Number of the route table of a route or neighbour of the file.
pub(crate) fn table(section: &Section<'_>, links: &[Link]) -> usize {
    let names = names(links.iter().map(|link| link.vrf.as_deref()));
    number(&names, section.peek_text("vrf"))
}

/// Returns why a NIC cannot be used here, if it cannot.
pub(crate) fn foreign(link: &Link) -> Option<String> {
    let (name, place, remedy) = (&link.name, place(link), remedy(link));
    link.elsewhere.as_ref().map(|_| format!("NIC {name:?} is in {place}; {NO_LEAK}{remedy}"))
}

/// Returns why an address cannot be used here, if it is behind a NIC of another VRF.
pub(crate) fn leak(ip: IpAddr, links: &[Link]) -> Option<String> {
    let host = match ip {
        IpAddr::V4(ip) => Destination::V4(Prefix::containing(ip, 32)),
        IpAddr::V6(ip) => Destination::V6(Prefix6 { network: ip, len: 128 }),
    };
    let holds = |link: &&Link| {
        link.elsewhere.as_ref().is_some_and(|own| own.networks.iter().any(|network| network.overlaps(host)))
    };
    let link = links.iter().find(holds)?;
    Some(format!("{ip} is behind NIC {:?} in {}; {NO_LEAK}{}", link.name, place(link), remedy(link)))
}

const NO_LEAK: &str = "nothing leads from one VRF to another; ";

fn place(link: &Link) -> String {
    link.vrf.as_ref().map_or_else(|| "no VRF".to_owned(), |vrf| format!("VRF {vrf:?}"))
}

fn remedy(link: &Link) -> String {
    link.vrf.as_ref().map_or_else(|| "remove vrf".to_owned(), |vrf| format!("write vrf = {vrf:?}"))
}

#[cfg(test)]
mod tests;
