//! A plan's router as `show` and `check --json` present it: by the keys of its file, with the values in use.

use std::collections::BTreeMap;

use api::{InterfaceShown, NeighbourShown, NicDetails, RouteShown, Value};
use config::forwarding::{Interface, ReversePath, SpreadRoute};
use config::keys::{self, Entry};
use config::six::Six;
use config::{Address, Group, Nic, Router};

/// Settings by their keys.
pub type Settings = BTreeMap<String, Value>;

/// Keys of a NIC that have fields of their own.
const ISOLATED: [&str; 3] = ["attach", "mac", "address"];

/// Settings of a router, in the notation of the file.
pub fn settings(router: &Router) -> Settings {
    let mut settings = values(keys::ROUTER, router);
    forget_foreign(router, &mut settings);
    settings
}

/// What a file says of a group beside what its members are like.
pub fn group(group: &Group) -> Settings {
    values(config::GROUP, group)
}

/// Returns a NIC of a router with its settings.
pub fn nic(router: &Router, nic: &Nic) -> NicDetails {
    let mut settings = values(&keys::nic(), nic);
    settings.retain(|key, _| !ISOLATED.contains(&key.as_str()));
    forget_foreign(router, &mut settings);
    NicDetails {
        name: nic.name.clone(),
        attach: nic.attach.to_string(),
        mac: nic.mac.to_string(),
        addresses: addresses(&nic.addresses, &nic.six),
        settings,
    }
}

/// Returns the interfaces of a router for VLANs.
pub fn interfaces(router: &Router) -> Vec<InterfaceShown> {
    let shown = |own: &Interface| InterfaceShown {
        name: own.name.clone(),
        nic: nic_name(router, own.nic),
        vlan: own.tags.to_string(),
        addresses: addresses(&own.addresses, &own.six),
        settings: settings_of(own),
    };
    router.forwarding.interfaces.iter().map(shown).collect()
}

fn settings_of(own: &Interface) -> Settings {
    let filter = Some(own.reverse_path).filter(|filter| *filter != ReversePath::Off);
    let filter = filter.map(|filter| ("rpf", Value::from(filter.name())));
    let vrf = own.vrf.as_deref().map(|vrf| ("vrf", Value::from(vrf)));
    let all = [("mtu", Value::from(own.mtu))].into_iter().chain(filter).chain(vrf);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Addresses of a NIC or interface: IPv4, then IPv6.
fn addresses(four: &[Address], six: &Six) -> Vec<String> {
    let six = six.addresses.iter().map(ToString::to_string);
    four.iter().map(ToString::to_string).chain(six).collect()
}

/// Removes settings that do not apply to this router.
fn forget_foreign(router: &Router, settings: &mut Settings) {
    let is_foreign = |key: &str| {
        let table = key.split('.').next().unwrap_or_default();
        keys::inapplicable(router).any(|foreign| foreign == table || foreign == key)
    };
    settings.retain(|key, _| !is_foreign(key));
}

fn values<T>(entries: &[Entry<T>], of: &T) -> Settings {
    let all = entries.iter().filter_map(|entry| Some((entry.name.to_owned(), told(entry.value(of)?))));
    all.collect()
}

fn told(value: keys::Value) -> Value {
    match value {
        keys::Value::Number(number) => number.into(),
        keys::Value::Text(text) => text.into(),
    }
}

/// Static routes of a router: IPv4 destinations by IPv4 gateways, then all others, then those with several gateways, then those
/// of a type; each in the order of the file.
pub fn routes(router: &Router) -> Vec<RouteShown> {
    let single = router.single_routes().map(|(to, via, nic)| RouteShown {
        to: to.to_string(),
        via: via.map(|via| via.to_string()),
        nic: nic_name(router, nic),
        vrf: vrf(router, router.table_of(nic)),
    });
    let spread = router.forwarding.spread.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: Some(route.gateways()),
        nic: nic_names(router, route),
        vrf: route.ways.first().and_then(|way| vrf(router, router.table_of(way.nic))),
    });
    let refused = router.forwarding.refused.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: None,
        nic: route.kind.name().to_owned(),
        vrf: vrf(router, route.table),
    });
    single.chain(spread).chain(refused).collect()
}

/// Static neighbours of a router: IPv4, then IPv6.
pub fn neighbours(router: &Router) -> Vec<NeighbourShown> {
    let shown = router.all_neighbours().map(|(address, mac, nic)| NeighbourShown {
        address: address.to_string(),
        mac: mac.to_string(),
        nic: nic_name(router, nic),
    });
    shown.collect()
}

fn vrf(router: &Router, table: usize) -> Option<String> {
    router.vrf_name(table).map(str::to_owned)
}

/// Names of the NICs or interfaces of a route with several gateways.
pub fn nic_names(router: &Router, route: &SpreadRoute) -> String {
    let names: Vec<String> = route.links().into_iter().map(|link| nic_name(router, link)).collect();
    names.join(", ")
}

fn nic_name(router: &Router, index: usize) -> String {
    router.link_name(index).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests;
