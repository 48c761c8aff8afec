//! A router of a plan as `show` and `check --json` tell it: by the keys of its file, with the values in use.

use std::collections::BTreeMap;

use api::{NeighbourShown, NicShown, RouteShown, Value};
use config::{CpuSet, Engine, Itr, Nic, NicModel, QueueLen, Role, Router, Spin, TransmitMode};

/// Settings by their keys.
pub type Settings = BTreeMap<String, Value>;

/// What a file says of a router, as it would be written there.
pub fn settings(router: &Router) -> Settings {
    let role = match router.role {
        Role::Router => "router",
        Role::Echo => "echo",
        Role::Hostile(_) => "hostile",
    };
    let spin = match router.spin {
        Spin::Always => "always".to_owned(),
        Spin::For(time) => format!("{}us", time.as_micros()),
    };
    let any = |cpus: &Option<CpuSet>| cpus.as_ref().map_or("any".to_owned(), ToString::to_string);
    let mut settings: BTreeMap<&str, Value> = BTreeMap::from([
        ("engine", router.engine.map_or("", Engine::name).into()),
        ("memory", format!("{}M", router.memory >> 20).into()),
        ("pin.vcpu", any(&router.pin.vcpu).into()),
        ("pin.vhost", any(&router.pin.vhost).into()),
        ("restart", router.restart.name().into()),
        ("role", role.into()),
        ("spin", spin.into()),
        ("vcpus", router.vcpus.into()),
        ("vhost", router.vhost.name().into()),
    ]);
    if let Some(limit) = router.limit {
        settings.insert("limit", limit.to_string().into());
    }
    if let Role::Hostile(misdeed) = router.role {
        settings.insert("misdeed", misdeed.name().into());
    }
    owned(settings)
}

/// A NIC with what its file says.
pub fn nic(nic: &Nic) -> NicShown {
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let mut settings: BTreeMap<&str, Value> = BTreeMap::from([
        ("deliver", word(&nic.deliver).into()),
        ("hash", word(&nic.hash).into()),
        ("itr", itr(nic.itr)),
        ("model", nic.model.name().into()),
        ("mtu", nic.mtu.into()),
        ("queue_len", queue_len(nic.queue_len)),
        ("queues", nic.queues.into()),
        ("ring", nic.ring.into()),
    ]);
    if nic.model == NicModel::E1000 {
        settings.insert("mode", nic.mode.name().into());
    }
    if nic.mode == TransmitMode::SendCombining && nic.combine > 0 {
        settings.insert("combine", nic.combine.into());
    }
    if nic.mode == TransmitMode::SendCombining && nic.combine_above > 0 {
        settings.insert("combine_above", nic.combine_above.into());
    }
    NicShown {
        name: nic.name.clone(),
        attach: nic.attach.to_string(),
        mac: nic.mac.to_string(),
        addresses: nic.addresses.iter().map(ToString::to_string).collect(),
        settings: owned(settings),
    }
}

fn itr(itr: Itr) -> Value {
    match itr {
        Itr::Every(units) => u32::from(units).into(),
        Itr::Adaptive => itr.to_string().into(),
    }
}

fn queue_len(length: QueueLen) -> Value {
    match length {
        QueueLen::Frames(frames) => frames.into(),
        QueueLen::Auto => length.to_string().into(),
    }
}

fn owned(settings: BTreeMap<&str, Value>) -> Settings {
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Its static routes, in the order of the file.
pub fn routes(router: &Router) -> Vec<RouteShown> {
    let shown = router.routes.iter().map(|route| RouteShown {
        to: route.to.to_string(),
        via: route.via.map(|via| via.to_string()),
        nic: nic_name(router, route.nic),
    });
    shown.collect()
}

/// Its static neighbours.
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
