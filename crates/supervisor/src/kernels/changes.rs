//! Differences of kernel routers between two plans, as `apply` reports them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::Change;
use config::forwarding::Interface;
use config::keys::{self, Change as Cost};
use config::six::Six;
use config::{Key, Nic, Plan, Router};
use netlink::QueueKind;

/// Consequence of removing a router.
const GONE: &str = "what it has not yet forwarded is lost";
/// Value of a property that is not there.
const NONE: &str = "none";

/// Properties of a router in words, for comparison with those of another plan.
#[derive(Default)]
struct Properties {
    /// Values by property name: `mtu of wan`.
    values: BTreeMap<String, String>,
    /// Items that exist or not: `address 192.0.2.1/24 of wan`.
    things: BTreeSet<String>,
}

/// Lists the changes of kernel routers.
pub(crate) fn changes(from: &Plan, to: &Plan) -> Vec<Change> {
    let find = |plan: &Plan, name: &str| plan.in_kernel().find(|router| router.name == name).cloned();
    let gone = from.in_kernel().filter(|old| find(to, &old.name).is_none());
    let gone = gone.map(|old| lossy(format!("router {} removed", old.name), GONE));
    let stays = to.in_kernel().flat_map(|new| match find(from, &new.name) {
        None => vec![hitless(format!("router {} added", new.name))],
        Some(old) => of_router(&old, new),
    });
    gone.chain(stays).collect()
}

fn of_router(old: &Router, new: &Router) -> Vec<Change> {
    let name = &new.name;
    let mut changes = Vec::new();
    match (old.is_stopped(), new.is_stopped()) {
        (false, true) => {
            let why = "what arrives while it is stopped is lost";
            changes.push(lossy(format!("router {name} is stopped"), why));
        }
        (true, false) => changes.push(hitless(format!("router {name} runs"))),
        _ => {}
    }
    let (before, now) = (told(old), told(new));
    for (key, value) in &now.values {
        let was = before.values.get(key);
        // A new NIC has no queueing discipline and no VRF and advertises nothing unless it is said.
        if was != Some(value) && !(was.is_none() && value == NONE) {
            changes.push(of_value(name, key, (was.map(String::as_str), value.as_str())));
        }
    }
    let removed = before.things.difference(&now.things);
    let why = "packets that use it are lost";
    changes.extend(removed.map(|thing| lossy(format!("router {name}: {thing} removed"), why)));
    let added = now.things.difference(&before.things);
    changes.extend(added.map(|thing| hitless(format!("router {name}: {thing} added"))));
    changes
}

fn of_value(router: &str, key: &str, (was, value): (Option<&str>, &str)) -> Change {
    let what = format!("router {router}: {key} = {value}");
    let why = match (key, value) {
        ("forwarding", "false") => "packets to be forwarded are lost",
        (key, "down") if key.starts_with("link of ") => "what arrives while it is down is lost",
        (key, _) if key.starts_with("mac of ") => "packets on their way to the old address are lost",
        (key, _) if key.starts_with("vrf of ") && was.is_some() => "packets on their way through it are lost",
        (key, _) if key.starts_with("qdisc of ") && may_drop(was.unwrap_or(NONE), value) => {
            "frames that wait in it may be lost"
        }
        _ => return hitless(what),
    };
    lossy(what, why)
}

/// Returns true if the change of a queueing discipline may drop frames that wait in it. The limit of a pfifo or bfifo applies to new
/// frames only.
fn may_drop(was: &str, value: &str) -> bool {
    let (from, to) = (was.split(' ').next(), value.split(' ').next());
    was != NONE && (from != to || from == Some(QueueKind::FqCodel.name()))
}

/// Returns true for keys of a router whose changes are reported here, and not with the placement of threads.
fn is_followed_here(key: Key) -> bool {
    key.is_of_kernel() || matches!(key, Key::Restart | Key::Limit)
}

fn told(router: &Router) -> Properties {
    let mut told = Properties::default();
    let is_told = |cost: Cost| matches!(cost, Cost::Free(key) | Cost::Loses(key, _) if is_followed_here(key));
    for entry in keys::ROUTER.iter().filter(|entry| is_told(entry.change)) {
        let value = entry.value(router).map_or_else(|| NONE.to_owned(), |value| value.to_string());
        told.values.insert(entry.name.to_owned(), value);
    }
    told.things.extend(router.control.as_ref().map(|_| "control plane".to_owned()));
    router.nics.iter().for_each(|nic| tell_nic(&mut told, router, nic));
    router.forwarding.interfaces.iter().for_each(|vlan| tell_vlan(&mut told, router, vlan));
    tell_routes(&mut told, router);
    told
}

/// Adds the routes and neighbours of both families.
fn tell_routes(told: &mut Properties, router: &Router) {
    let nic = |index: usize| router.link_name(index).unwrap_or("?");
    let single = router.single_routes().map(|(to, via, index)| {
        let via = via.map_or_else(String::new, |via| format!(" via {via}"));
        format!("route {to}{via} out of {}", nic(index))
    });
    told.things.extend(single);
    let more = &router.forwarding;
    let spread = more.spread.iter().map(|one| {
        let links: Vec<&str> = one.links().into_iter().map(nic).collect();
        format!("route {} via {} out of {}", one.to, one.gateways(), links.join(", "))
    });
    told.things.extend(spread);
    let refused = more.refused.iter().map(|one| {
        let vrf = router.vrf_name(one.table).map_or_else(String::new, |vrf| format!(" in VRF {vrf}"));
        format!("route {} {}{vrf}", one.kind.name(), one.to)
    });
    told.things.extend(refused);
    let known = router.all_neighbours();
    told.things.extend(known.map(|(ip, mac, index)| format!("neighbour {ip} at {mac} on {}", nic(index))));
}

/// Adds a NIC. A different attachment makes it a different NIC.
fn tell_nic(told: &mut Properties, router: &Router, nic: &Nic) {
    let Nic { name, mac, mtu, .. } = nic;
    told.things.insert(format!("NIC {name} at {}{}", nic.attach, nic.attach.fixed_detail()));
    told.things.extend(nic.addresses.iter().map(|address| format!("address {address} of {name}")));
    told.things.extend(nic.six.addresses.iter().map(|address| format!("address {address} of {name}")));
    let link = if nic.is_pulled() { "down" } else { "up" };
    let queue = router.wanted(nic).queue();
    for (key, value) in [
        ("mac", mac.to_string()),
        ("mtu", mtu.to_string()),
        ("link", link.to_owned()),
        ("rpf", nic.reverse_path.name().to_owned()),
        ("vrf", vrf(nic.vrf.as_deref())),
        ("qdisc", queue.map_or_else(|| NONE.to_owned(), |queue| queue.to_string())),
        ("ra", advertised(&nic.six)),
    ] {
        told.values.insert(format!("{key} of {name}"), value);
    }
}

/// Adds a VLAN of a NIC as an interface.
fn tell_vlan(told: &mut Properties, router: &Router, vlan: &Interface) {
    let Interface { name, tags, mtu, .. } = vlan;
    let nic = router.link_name(vlan.nic).unwrap_or("?");
    told.things.insert(format!("VLAN {tags} of {nic} as {name}"));
    told.things.extend(vlan.addresses.iter().map(|address| format!("address {address} of {name}")));
    told.things.extend(vlan.six.addresses.iter().map(|address| format!("address {address} of {name}")));
    told.values.insert(format!("mtu of {name}"), mtu.to_string());
    told.values.insert(format!("rpf of {name}"), vlan.reverse_path.name().to_owned());
    told.values.insert(format!("vrf of {name}"), vrf(vlan.vrf.as_deref()));
    told.values.insert(format!("ra of {name}"), advertised(&vlan.six));
}

fn vrf(name: Option<&str>) -> String {
    name.unwrap_or(NONE).to_owned()
}

/// What an interface advertises.
fn advertised(six: &Six) -> String {
    six.advertise.as_ref().map_or_else(|| NONE.to_owned(), ToString::to_string)
}

fn hitless(what: String) -> Change {
    Change { what, hitless: true, why: None }
}

fn lossy(what: String, why: &str) -> Change {
    Change { what, hitless: false, why: Some(why.to_owned()) }
}

#[cfg(test)]
mod tests;
