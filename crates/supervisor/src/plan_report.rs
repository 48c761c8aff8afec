//! A plan's router as `show` and `check --json` present it: by the keys of its file, with the values in use.

use std::collections::BTreeMap;

use api::{NeighbourShown, NicDetails, RouteShown, Value};
use config::keys::{self, Entry};
use config::{Group, Nic, Router};

/// Settings by their keys.
pub type Settings = BTreeMap<String, Value>;

/// Keys of a NIC that have fields of their own.
const ISOLATED: [&str; 3] = ["attach", "mac", "address"];

/// Settings of a router, in the notation of the file.
pub fn settings(router: &Router) -> Settings {
    values(keys::ROUTER, router)
}

/// What a file says of a group beside what its members are like.
pub fn group(group: &Group) -> Settings {
    let value = |key: &config::GroupKey| Some((key.name.to_owned(), told(key.value(group)?)));
    config::GROUP.iter().filter_map(value).collect()
}

/// A NIC with its settings.
pub fn nic(nic: &Nic) -> NicDetails {
    let mut settings = values(&keys::nic(), nic);
    settings.retain(|key, _| !ISOLATED.contains(&key.as_str()));
    NicDetails {
        name: nic.name.clone(),
        attach: nic.attach.to_string(),
        mac: nic.mac.to_string(),
        addresses: nic.addresses.iter().map(ToString::to_string).collect(),
        settings,
    }
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

/// Static routes of a router, in the order of the file.
pub fn routes(router: &Router) -> Vec<RouteShown> {
    let shown = router.routes.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: route.via.map(|via| via.to_string()),
        nic: nic_name(router, route.nic),
    });
    shown.collect()
}

/// Static neighbours of a router.
pub fn neighbours(router: &Router) -> Vec<NeighbourShown> {
    let shown = router.neighbours.iter().map(|neighbour| NeighbourShown {
        address: neighbour.address.to_string(),
        mac: neighbour.mac.to_string(),
        nic: nic_name(router, neighbour.nic),
    });
    shown.collect()
}

fn nic_name(router: &Router, index: usize) -> String {
    router.nics.get(index).map_or_else(|| "?".to_owned(), |nic| nic.name.clone())
}

#[cfg(test)]
mod tests;
