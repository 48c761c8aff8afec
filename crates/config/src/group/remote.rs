//! Files of back ends on other hosts: each describes a router with the group's addresses, MTU, routes and neighbours, the Ethernet
//! addresses that the group expects of it, and the routes by which it forwards probes. The next hops of probes are resolved by ARP, which
//! the group answers, since a file cannot name neighbours outside of the router's own networks. Of the members' router advertisements the
//! group sends only those of the first member that gets frames.

use std::fmt::{Display, Write};
use std::net::IpAddr;

use super::{Group, tunnels};
use crate::forwarding::{Destination, Forwarding, RefusedRoute, SpreadRoute};
use crate::mac::Mac;
use crate::plan::{Attach, Nic, Plan, Router};
use crate::six::Advertise;
use crate::values::BadValue;

impl Plan {
    /// Returns the file for the other host of a back end with this name (`core_63`).
    ///
    /// # Errors
    /// No group expects such a back end.
    pub fn remote_file(&self, member: &str) -> Result<String, BadValue> {
        let groups = self.groups.iter();
        let all: Vec<(&Group, u32)> =
            groups.flat_map(|group| group.remote_members().map(move |number| (group, number))).collect();
        if let Some((group, number)) = all.iter().find(|(group, number)| group.member(*number) == member) {
            return Ok(group.remote_file(*number));
        }
        let names: Vec<String> = all.iter().map(|(group, number)| group.member(*number)).collect();
        let known = if names.is_empty() {
            "the groups of the file have none; write remote = 1, or tunnels".to_owned()
        } else {
            format!("write one of {}", names.join(", "))
        };
        Err(BadValue(format!("{member:?} is no back end on another host; {known}")))
    }
}

impl Group {
    fn remote_file(&self, number: u32) -> String {
        let (name, router) = (self.member(number), self.router(number));
        let mut text = format!("# {name}, which the group {} expects on this host.\n[[router]]\n", self.name);
        text += &key("name", format!("{}-{number}", self.name));
        text += &settings(&router.forwarding);
        for (at, own) in router.nics.iter().enumerate() {
            let tunnel = self.tunnel(number, at).and_then(|tunnel| tunnels::reversed(&tunnel));
            text += &nic(own, tunnel.as_ref().unwrap_or(&own.attach));
        }
        let forwarding = &router.forwarding;
        router.single_routes().for_each(|own| text += &route(&router, own));
        forwarding.spread.iter().for_each(|own| text += &spread(&router, own));
        forwarding.refused.iter().for_each(|own| text += &refused(&router, own));
        self.pattern.all_neighbours().for_each(|own| text += &neighbour(&router, own));
        text
    }
}

/// Formats a key with a text.
fn key(name: &str, value: impl Display) -> String {
    format!("{name} = {}\n", quoted(value))
}

/// Quotes a text. Of the characters in names and addresses that a file accepts only these two have a meaning in TOML.
fn quoted(value: impl Display) -> String {
    format!("\"{}\"", value.to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

/// Formats a key with a list of texts.
fn list<T: Display>(name: &str, values: impl Iterator<Item = T>) -> String {
    format!("{name} = [{}]\n", values.map(quoted).collect::<Vec<_>>().join(", "))
}

/// Formats the router's forwarding settings that differ from the defaults.
fn settings(own: &Forwarding) -> String {
    let (usual, mut text) = (Forwarding::default(), String::new());
    // Writing to a string cannot fail.
    if own.neighbours != usual.neighbours {
        let _ = writeln!(text, "neighbours = {}", own.neighbours);
    }
    if let Some(long_routes) = own.long_routes {
        let _ = writeln!(text, "long_routes = {long_routes}");
    }
    if own.redirects {
        text += "redirects = true\n";
    }
    text
}

fn nic(nic: &Nic, attach: &Attach) -> String {
    let mut text = "\n[[router.nic]]\n".to_owned();
    text += &(key("name", &nic.name) + &key("attach", attach) + &key("mac", nic.mac));
    // The group's link-local address is among them.
    let six = nic.six.addresses.iter().map(ToString::to_string);
    let addresses: Vec<String> = nic.addresses.iter().map(ToString::to_string).chain(six).collect();
    if !addresses.is_empty() {
        text += &list("address", addresses.iter());
    }
    text += &format!("mtu = {}\n", nic.mtu);
    text += &nic.vrf.as_ref().map_or_else(String::new, |vrf| key("vrf", vrf));
    text += if nic.offload { "" } else { "offload = false\n" };
    text + &nic.six.advertise.as_ref().map_or_else(String::new, ra)
}

fn ra(own: &Advertise) -> String {
    let numbers = [
        ("interval", own.interval),
        ("lifetime", own.lifetime),
        ("hop_limit", own.hop_limit),
        ("valid", own.valid),
        ("preferred", own.preferred),
    ];
    let flags = [("managed", own.managed), ("other", own.other), ("mtu", own.mtu)];
    let numbers = numbers.into_iter().map(|(name, number)| format!("{name} = {number}\n"));
    let keys: String = numbers.chain(flags.map(|(name, flag)| format!("{name} = {flag}\n"))).collect();
    format!("[router.nic.ra]\n{keys}") + &list("prefix", own.prefixes.iter()) + &list("dns", own.dns.iter())
}

/// Formats the NIC of a route or a neighbour.
fn by(router: &Router, link: usize) -> String {
    router.link_name(link).map_or_else(String::new, |name| key("nic", name))
}

/// Formats the VRF of a NIC, if it is in one.
fn vrf(router: &Router, link: usize) -> String {
    of_table(router, router.table_of(link))
}

fn of_table(router: &Router, table: usize) -> String {
    router.vrf_name(table).map_or_else(String::new, |vrf| key("vrf", vrf))
}

fn route(router: &Router, (to, via, link): (Destination, Option<IpAddr>, usize)) -> String {
    let via = via.map_or_else(String::new, |via| key("via", via));
    "\n[[router.route]]\n".to_owned() + &key("to", to) + &via + &by(router, link) + &vrf(router, link)
}

fn neighbour(router: &Router, (ip, mac, link): (IpAddr, Mac, usize)) -> String {
    // The NIC of an IPv4 neighbour follows from its address.
    let by = if ip.is_ipv6() { by(router, link) } else { String::new() };
    "\n[[router.neighbour]]\n".to_owned() + &key("address", ip) + &key("mac", mac) + &by + &vrf(router, link)
}

fn spread(router: &Router, route: &SpreadRoute) -> String {
    let weights: Vec<String> = route.ways.iter().map(|way| way.weight.to_string()).collect();
    let table = route.ways.first().map_or(0, |way| router.table_of(way.nic));
    "\n[[router.route]]\n".to_owned()
        + &key("to", route.to)
        + &list("via", route.ways.iter().map(|way| way.via))
        + &list("nic", route.ways.iter().filter_map(|way| router.link_name(way.nic)))
        + &format!("weights = [{}]\n", weights.join(", "))
        + &of_table(router, table)
}

fn refused(router: &Router, route: &RefusedRoute) -> String {
    let (to, kind) = (key("to", route.to), key("type", route.kind.name()));
    "\n[[router.route]]\n".to_owned() + &to + &kind + &of_table(router, route.table)
}
