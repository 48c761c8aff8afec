//! Virtual routers of VRRP (RFC 5798). On Linux each needs an interface with its Ethernet address, on top of the router's own one:
//! vrrpd does not make it, and does without a virtual router that has none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Virtual router at an interface, for one family of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualRouter {
    /// Interface of the router.
    pub interface: String,
    /// Number (VRID), 1 to 255.
    pub id: u8,
    /// True if its addresses are those of IPv6.
    pub is_six: bool,
    /// Its addresses, all of this family; at least one.
    pub addresses: BTreeSet<IpAddr>,
}

impl VirtualRouter {
    /// Ethernet address, which moves to whoever is the master (RFC 5798, 7.3).
    pub const fn mac(&self) -> [u8; 6] {
        [0x00, 0x00, 0x5e, 0x00, if self.is_six { 2 } else { 1 }, self.id]
    }
}

/// Virtual routers that the lines of a configuration ask for.
#[derive(Debug, Default)]
pub(crate) struct VirtualRouters<'t> {
    /// Interface that the lines are about.
    interface: Option<&'t str>,
    found: BTreeMap<(&'t str, u8, bool), BTreeSet<IpAddr>>,
}

impl<'t> VirtualRouters<'t> {
    /// Takes the words of a line. What vrrpd will refuse asks for nothing.
    pub(crate) fn take(&mut self, words: &[&'t str]) {
        match words {
            ["interface", name, ..] => self.interface = Some(*name),
            ["vrrp", id, "ip", address] => self.add(id, address.parse().ok().map(IpAddr::V4)),
            ["vrrp", id, "ipv6", address] => self.add(id, address.parse().ok().map(IpAddr::V6)),
            _ => {}
        }
    }

    fn add(&mut self, id: &str, address: Option<IpAddr>) {
        let id = id.parse::<u8>().ok().filter(|id| *id != 0);
        if let (Some(interface), Some(id), Some(address)) = (self.interface, id, address) {
            self.found.entry((interface, id, address.is_ipv6())).or_default().insert(address);
        }
    }

    /// Returns what was asked for.
    pub(crate) fn into_all(self) -> Vec<VirtualRouter> {
        let all = self.found.into_iter();
        let own = |((interface, id, is_six), addresses): ((&str, u8, bool), BTreeSet<IpAddr>)| {
            VirtualRouter { interface: interface.to_owned(), id, is_six, addresses }
        };
        all.map(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Content;

    #[test]
    fn each_has_the_ethernet_address_of_its_number_and_family() {
        let text = "interface wan\n vrrp 5 version 3\n vrrp 5 ip 192.0.2.100\n vrrp 5 ip 192.0.2.101\n\
                    exit\ninterface lan\n vrrp 5 ip 198.51.100.100\n vrrp 7 ipv6 2001:db8::100\nexit\n";
        let content = Content::read(text).expect("a good file");
        let seen: Vec<_> = content
            .virtual_routers()
            .iter()
            .map(|one| (one.interface.as_str(), one.addresses.len(), one.mac()))
            .collect();
        let mac = |family, id| [0, 0, 0x5e, 0, family, id];
        assert_eq!(seen, [("lan", 1, mac(1, 5)), ("lan", 1, mac(2, 7)), ("wan", 2, mac(1, 5))]);
    }

    #[test]
    fn what_vrrpd_refuses_asks_for_nothing() {
        let lines = ["vrrp 5 ip 2001:db8::1", "vrrp 0 ip 192.0.2.1", "vrrp 256 ip 192.0.2.1", "vrrp 5 ip"];
        for line in lines.into_iter().chain(["vrrp 5 priority 200", "no vrrp 5 ip 192.0.2.1"]) {
            let content = Content::read(&format!("interface wan\n {line}\n")).expect("a file");
            assert!(content.virtual_routers().is_empty(), "{line}");
        }
        let content = Content::read("vrrp 5 ip 192.0.2.1\n").expect("a file");
        assert!(content.virtual_routers().is_empty(), "at no interface");
    }
}
