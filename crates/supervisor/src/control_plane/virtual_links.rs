//! Interfaces of VRRP in the namespace of a control plane: a macvlan for each virtual router, with its Ethernet address, on top of the
//! router's own interface. vrrpd keeps it down (`protodown`), except at the master.
//!
//! The virtual addresses are added when vrrpd has taken an interface over, which it begins by keeping it down. Before that
//! they must have no answer. Each of them is alone in its network (/32, /128): the network's route is that of the router's own interface.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use anyhow::{Context, Result};
use frr::VirtualRouter;
use netlink::{Change, Kind, Link, MacvtapMode, Netlink, News, Prefix, Settings};
use netns::Namespace;
use rustix::io::Errno;

use super::settle::unless;

/// Parameters of such an interface and of the one below it: each answers ARP for its own addresses, and for no other's.
const ARP: [(&str, &str); 1] = [("net/ipv4/conf/{}/arp_ignore", "1")];
/// Parameters of the one below it, for IPv4: vrrpd hears the router that owns the addresses, which speaks from one of them. Not where
/// the kernel forwards, which would pass on what others send in the router's name.
const BELOW_FOUR: [(&str, &str); 1] = [("net/ipv4/conf/{}/accept_local", "1")];
/// Parameters of one for IPv4. What arrives there has its way back by the interface below: a strict filter of sources would take
/// nothing.
const OF_FOUR: [(&str, &str); 2] =
    [("net/ipv4/conf/{}/rp_filter", "2"), ("net/ipv6/conf/{}/disable_ipv6", "1")];
/// Parameters of one for IPv6. Its link-local address, from which vrrpd speaks, is its own and not that of all routers (mode 3:
/// random); the others are those of all, so that looking for duplicates would find them.
const OF_SIX: [(&str, &str); 5] = [
    ("net/ipv6/conf/{}/disable_ipv6", "0"),
    ("net/ipv6/conf/{}/addr_gen_mode", "3"),
    ("net/ipv6/conf/{}/accept_ra", "0"),
    ("net/ipv6/conf/{}/accept_dad", "0"),
    ("net/ipv6/conf/{}/dad_transmits", "0"),
];

/// See the module.
#[derive(Default)]
pub(super) struct VirtualLinks {
    /// By name.
    made: BTreeMap<String, VirtualLink>,
}

struct VirtualLink {
    of: VirtualRouter,
    /// Index of the interface below.
    lower: u32,
    index: u32,
    /// True if it has its addresses.
    is_armed: bool,
}

impl VirtualLinks {
    /// Has there be interfaces for these virtual routers, and for no others.
    ///
    /// # Errors
    /// One line: what the kernel refuses.
    pub(super) fn follow(&mut self, namespace: &Namespace, wanted: &[VirtualRouter]) -> Result<()> {
        if self.made.is_empty() && wanted.is_empty() {
            return Ok(());
        }
        let kernel = namespace.netlink()?;
        let is_kept = |name: &str, made: &VirtualLink| {
            wanted.iter().any(|own| made.is_for(own)) && made.is_there(name, &kernel)
        };
        let gone: Vec<_> = self.made.extract_if(.., |name, made| !is_kept(name, made)).collect();
        for (name, _) in gone {
            unless(kernel.delete_link(name.as_str()), Errno::NODEV)
                .with_context(|| format!("deleting the interface {name}"))?;
        }
        for own in wanted {
            let doing = || format!("VRRP's virtual router {} at {}", own.id, own.interface);
            match self.made.values_mut().find(|made| made.is_for(own)) {
                Some(made) => made.follow(own, &kernel).with_context(doing)?,
                None => {
                    let (name, made) = make(namespace, &kernel, own).with_context(doing)?;
                    self.made.insert(name, made);
                }
            }
        }
        Ok(())
    }

    /// Takes changes of the namespace. Returns true if an interface has gone that is to be there.
    pub(super) fn watch(&mut self, namespace: &Namespace, news: &[News]) -> bool {
        let mut has_lost = false;
        for one in news {
            let News::Link(change) = one else { continue };
            match change {
                Change::Gone(link) => has_lost |= self.made.values().any(|own| own.index == link.index),
                Change::Set(link) => self.arm(namespace, link),
            }
        }
        has_lost
    }

    /// Gives an interface its addresses if vrrpd has it.
    fn arm(&mut self, namespace: &Namespace, link: &Link) {
        let mut own = self.made.values_mut().filter(|own| own.index == link.index && !own.is_armed);
        if let Some(own) = own.next()
            && link.proto_down
        {
            // It is tried again at the next change if this fails.
            own.is_armed = add_addresses(namespace, own).is_ok();
        }
    }
}

impl VirtualLink {
    /// Returns true if it is that of a virtual router, whatever addresses that has.
    fn is_for(&self, own: &VirtualRouter) -> bool {
        let key = |of: &VirtualRouter| (of.id, of.is_six);
        key(&self.of) == key(own) && self.of.interface == own.interface
    }

    /// Has it have the addresses that its virtual router has now.
    fn follow(&mut self, own: &VirtualRouter, kernel: &Netlink) -> io::Result<()> {
        if self.is_armed {
            for ip in own.addresses.difference(&self.of.addresses) {
                unless(alone(*ip).map_or(Ok(()), |ip| kernel.add_address(self.index, ip)), Errno::EXIST)?;
            }
            for ip in self.of.addresses.difference(&own.addresses) {
                let gone = alone(*ip).map_or(Ok(()), |ip| kernel.delete_address(self.index, ip));
                unless(gone, Errno::ADDRNOTAVAIL)?;
            }
        }
        self.of.addresses.clone_from(&own.addresses);
        Ok(())
    }

    /// Returns true if the interface is there, on the one that it was made on.
    fn is_there(&self, name: &str, kernel: &Netlink) -> bool {
        let is_it = |link: Link| link.index == self.index && link.lower == Some(self.lower);
        kernel.link(name).is_ok_and(is_it) && kernel.link(self.lower).is_ok()
    }
}

fn make(namespace: &Namespace, kernel: &Netlink, own: &VirtualRouter) -> Result<(String, VirtualLink)> {
    let lower = kernel.link(own.interface.as_str())?.index;
    let name = format!("vrrp{}-{lower}-{}", if own.is_six { 6 } else { 4 }, own.id);
    // One that a former control plane has left.
    unless(kernel.delete_link(name.as_str()), Errno::NODEV)?;
    let kind = Kind::Macvlan { lower, mode: MacvtapMode::Bridge };
    kernel.make_link(kind, &Settings::default().name(&name).mac(own.mac()))?;
    let of_family: &[(&str, &str)] = if own.is_six { &OF_SIX } else { &OF_FOUR };
    let forwards = namespace.sysctl("net/ipv4/ip_forward")?.is_some_and(|value| value.trim() != "0");
    let below: &[(&str, &str)] = if own.is_six || forwards { &[] } else { &BELOW_FOUR };
    let both = [own.interface.as_str(), name.as_str()].into_iter().flat_map(|link| named(&ARP, link));
    for (key, value) in both.chain(named(below, &own.interface)).chain(named(of_family, &name)) {
        // A kernel without IPv6 has no such parameters, and needs none.
        if namespace.sysctl(&key)?.is_some() {
            namespace.set_sysctl(&key, value)?;
        }
    }
    let index = kernel.link(name.as_str())?.index;
    kernel.set_link(index, &Settings::default().up(true))?;
    Ok((name, VirtualLink { of: own.clone(), lower, index, is_armed: false }))
}

fn add_addresses(namespace: &Namespace, own: &VirtualLink) -> Result<()> {
    let kernel = namespace.netlink()?;
    for ip in &own.of.addresses {
        unless(alone(*ip).map_or(Ok(()), |ip| kernel.add_address(own.index, ip)), Errno::EXIST)?;
    }
    Ok(())
}

/// An address alone in its network.
fn alone(ip: IpAddr) -> Option<Prefix> {
    Prefix::new(ip, if ip.is_ipv4() { 32 } else { 128 })
}

/// Parameters with the name of an interface in their keys.
fn named<'p>(
    parameters: &'p [(&'p str, &'p str)],
    link: &str,
) -> impl Iterator<Item = (String, &'p str)> + use<'p> {
    let link = link.to_owned();
    parameters.iter().map(move |(key, value)| (key.replace("{}", &link), *value))
}
