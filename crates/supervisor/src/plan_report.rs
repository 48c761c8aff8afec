//! A plan's router as `show` and `check --json` present it: by the keys of its file, with the values in use.

use std::collections::BTreeMap;

use api::{NeighbourShown, NicDetails, RouteShown, Value};
use config::keys::{self, Entry};
use config::six::Six;
use config::{Address, Nic, Router};

/// Settings by their keys.
pub type Settings = BTreeMap<String, Value>;

/// Keys of a NIC that have fields of their own.
const ISOLATED: [&str; 3] = ["attach", "mac", "address"];

/// Settings of a router, in the notation of the file.
pub fn settings(router: &Router) -> Settings {
    values(keys::ROUTER, router)
}

/// A NIC with its settings.
pub fn nic(nic: &Nic) -> NicDetails {
    let mut settings = values(&keys::nic(), nic);
    settings.retain(|key, _| !ISOLATED.contains(&key.as_str()));
    NicDetails {
        name: nic.name.clone(),
        attach: nic.attach.to_string(),
        mac: nic.mac.to_string(),
        addresses: addresses(&nic.addresses, &nic.six),
        settings,
    }
}

/// Addresses of a NIC or interface: IPv4, then IPv6.
fn addresses(four: &[Address], six: &Six) -> Vec<String> {
    let six = six.addresses.iter().map(ToString::to_string);
    four.iter().map(ToString::to_string).chain(six).collect()
}

fn values<T>(entries: &[Entry<T>], of: &T) -> Settings {
    let value = |value| match value {
        keys::Value::Number(number) => number.into(),
        keys::Value::Text(text) => text.into(),
    };
    let all = entries.iter().filter_map(|entry| Some((entry.name.to_owned(), value(entry.value(of)?))));
    all.collect()
}

/// Static routes of a router: IPv4 destinations by IPv4 gateways, then all others, then those of a type; each in the order of
/// the file.
pub fn routes(router: &Router) -> Vec<RouteShown> {
    let four = router.routes.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: route.via.map(|via| via.to_string()),
        nic: nic_name(router, route.nic),
    });
    let six = router.forwarding.routes6.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: route.via.map(|via| via.to_string()),
        nic: nic_name(router, route.nic),
    });
    let refused = router.forwarding.refused.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: None,
        nic: route.kind.name().to_owned(),
    });
    four.chain(six).chain(refused).collect()
}

/// Static neighbours of a router: IPv4, then IPv6.
pub fn neighbours(router: &Router) -> Vec<NeighbourShown> {
    let four = router.neighbours.iter().map(|known| NeighbourShown {
        address: known.address.to_string(),
        mac: known.mac.to_string(),
        nic: nic_name(router, known.nic),
    });
    let six = router.forwarding.neighbours6.iter().map(|known| NeighbourShown {
        address: known.address.to_string(),
        mac: known.mac.to_string(),
        nic: nic_name(router, known.nic),
    });
    four.chain(six).collect()
}

fn nic_name(router: &Router, index: usize) -> String {
    router.link_name(index).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests;
