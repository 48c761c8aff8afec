//! A plan's router as `show` and `check --json` present it: by the keys of its file, with the values in use.

use std::collections::BTreeMap;

use api::{NeighbourShown, NicDetails, RouteShown, Value};
use config::keys::{self, Entry};
use config::{Nic, Router};

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

/// Returns a NIC of a router with its settings.
pub fn nic(router: &Router, nic: &Nic) -> NicDetails {
    let mut settings = values(&keys::nic(), nic);
    settings.retain(|key, _| !ISOLATED.contains(&key.as_str()));
    forget_foreign(router, &mut settings);
    NicDetails {
        name: nic.name.clone(),
        attach: nic.attach.to_string(),
        mac: nic.mac.to_string(),
        addresses: nic.addresses.iter().map(ToString::to_string).collect(),
        settings,
    }
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
    let value = |value| match value {
        keys::Value::Number(number) => number.into(),
        keys::Value::Text(text) => text.into(),
    };
    let all = entries.iter().filter_map(|entry| Some((entry.name.to_owned(), value(entry.value(of)?))));
    all.collect()
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
