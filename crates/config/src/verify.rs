//! Checks across tables: names, addresses and interfaces that must differ.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use crate::fault::Fault;
use crate::forwarding::{Destination, own_addresses, own_networks};
use crate::group::{outside, verify_tunnels};
use crate::plan::{Nic, Plan, Router};
use crate::{affinity, forwarding, memory, napi, rate};

/// Faults of the plan as a whole, whether it comes from a file or from a change while it runs.
pub(crate) fn verify(plan: &Plan) -> Vec<Fault> {
    let mut faults = Vec::new();
    router_names(plan, &mut faults);
    nic_names(plan, &mut faults);
    uplinks(plan, &mut faults);
    verify_tunnels(plan, &mut faults);
    made_interfaces(plan, &mut faults);
    moved_interfaces(plan, &mut faults);
    macs(plan, &mut faults);
    networks(plan, &mut faults);
    addresses_on_switches(plan, &mut faults);
    memory(plan, &mut faults);
    for (index, router) in plan.routers.iter().enumerate() {
        rate::verify(index, router, &mut faults);
        forwarding::verify(index, router, &mut faults);
        affinity::verify(index, router, &mut faults);
        napi::verify(index, router, &mut faults);
    }
    faults
}

/// Checks that rings and buffers fit into a router's memory.
fn memory(plan: &Plan, faults: &mut Vec<Fault>) {
    for (index, router) in plan.routers.iter().enumerate() {
        // A Linux guest's memory is checked with its own keys, and a kernel router has no guest memory.
        let needed = if router.linux.is_some() || router.is_in_kernel() { 0 } else { memory::needed(router) };
        if needed > router.memory {
            let what = format!(
                "{} MiB cannot hold {}; {}",
                router.memory >> 20,
                memory::shape(router),
                memory::remedy(needed)
            );
            faults.push(Fault::new(index, "memory", what));
        }
    }
}

/// A NIC with its location.
#[derive(Clone, Copy)]
struct Located<'p> {
    router: &'p Router,
    nic: &'p Nic,
    index: (usize, usize),
}

impl Located<'_> {
    fn label(&self) -> String {
        format!("{}.{}", self.router.name, self.nic.name)
    }

    fn line(&self, plan: &Plan, key: &'static str) -> u32 {
        plan.places.line(self.index.0, Some(self.index.1), key)
    }

    fn fault(&self, key: &'static str, what: String) -> Fault {
        Fault::of_nic(self.index.0, self.index.1, key, what)
    }
}

fn located(plan: &Plan) -> impl Iterator<Item = Located<'_>> {
    outside(plan).flat_map(|(r, router)| {
        router.nics.iter().enumerate().map(move |(n, nic)| Located { router, nic, index: (r, n) })
    })
}

/// Finds values that occurred before.
struct Unique<V> {
    seen: HashMap<V, u32>,
}

impl<V: Eq + Hash> Unique<V> {
    fn new() -> Self {
        Self { seen: HashMap::new() }
    }

    /// Records a value. Returns the line of an earlier equal one.
    fn earlier(&mut self, value: V, line: u32) -> Option<u32> {
        match self.seen.get(&value) {
            Some(first) => Some(*first),
            None => {
                self.seen.insert(value, line);
                None
            }
        }
    }
}

fn taken(value: impl Display, first: u32) -> String {
    format!("{value} is taken in line {first} already; choose another")
}

fn router_names(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut names = Unique::new();
    for (index, router) in outside(plan) {
        let line = plan.places.line(index, None, "name");
        if router.name.is_empty() {
            continue;
        }
        if let Some(first) = names.earlier(&router.name, line) {
            faults.push(Fault::new(index, "name", taken(format_args!("{:?}", router.name), first)));
        }
    }
}

fn nic_names(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut names = Unique::new();
    for at in located(plan).filter(|at| !at.nic.name.is_empty()) {
        let line = at.line(plan, "name");
        if let Some(first) = names.earlier((at.index.0, &at.nic.name), line) {
            faults.push(at.fault("name", taken(format_args!("{:?}", at.nic.name), first)));
        }
    }
}

/// Checks that attachments for a single NIC are used once.
fn uplinks(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut uplinks = Unique::new();
    for at in located(plan).filter(|at| !at.nic.attach.traits().is_common) {
        let (line, name) = (at.line(plan, "attach"), at.nic.attach.to_string());
        let fault = uplinks.earlier(name.clone(), line).map(|first| taken(format_args!("{name:?}"), first));
        if let Some(what) = fault {
            faults.push(at.fault("attach", what));
        }
    }
}

/// Checks that interfaces that attachments of different kinds make on the host have different names. Two of one kind are reported by
/// [`uplinks`].
fn made_interfaces(plan: &Plan, faults: &mut Vec<Fault>) {
    let makes = |at: &Located<'_>| {
        let traits = at.nic.attach.traits();
        traits.is_made && !traits.is_common && !traits.is_on_interface
    };
    let mut makers: HashMap<&str, Located<'_>> = HashMap::new();
    for at in located(plan).filter(makes) {
        let attach = &at.nic.attach;
        let first = *makers.entry(attach.name()).or_insert(at);
        if first.nic.attach.kind() != attach.kind() {
            let (maker, line) = (first.nic.attach.to_string(), first.line(plan, "attach"));
            let what = format!(
                "{maker:?} in line {line} makes an interface of that name already; choose another name"
            );
            faults.push(at.fault("attach", what));
        }
    }
}

/// Checks that nothing is based on an interface that is moved into the namespace of a router. Two routers that move one interface are
/// reported by [`uplinks`].
fn moved_interfaces(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut movers: HashMap<&str, Located<'_>> = HashMap::new();
    for at in located(plan).filter(|at| at.nic.attach.traits().is_moved) {
        movers.entry(at.nic.attach.name()).or_insert(at);
    }
    for at in located(plan).filter(|at| !at.nic.attach.traits().is_moved) {
        let Some(mover) = at.nic.attach.lower().and_then(|name| movers.get(name)) else { continue };
        let (moved, line) = (mover.nic.attach.to_string(), mover.line(plan, "attach"));
        let what = format!("{moved:?} in line {line} moves this interface away; choose another interface");
        faults.push(at.fault("attach", what));
    }
}

/// Equal names are reported elsewhere; that they yield equal addresses is no second fault.
fn macs(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut owners: HashMap<_, Located<'_>> = HashMap::new();
    for at in located(plan) {
        let owner = *owners.entry(at.nic.mac).or_insert(at);
        if owner.index != at.index && owner.label() != at.label() {
            let what = taken(at.nic.mac, owner.line(plan, "mac"));
            faults.push(at.fault("mac", what));
        }
    }
}

/// Checks that the networks of two NICs of a router do not overlap, since routing between them would be
/// ambiguous. Those of different VRFs may.
fn networks(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut before: Vec<(Located<'_>, Destination)> = Vec::new();
    for at in located(plan) {
        before.retain(|(other, _)| other.index.0 == at.index.0);
        for own in own_networks(&at.nic.addresses, &at.nic.six) {
            let network = own.network;
            let is_near = |other: &Located<'_>| other.index != at.index && other.nic.vrf == at.nic.vrf;
            let clash = before.iter().find(|(other, held)| is_near(other) && held.overlaps(network));
            if let Some((other, held)) = clash {
                let what =
                    format!("{own} overlaps {held} of NIC {:?}; use a network of its own", other.nic.name);
                faults.push(at.fault("address", what));
            }
            before.push((at, network));
        }
    }
}

/// Checks that an address is used only once on a switch.
fn addresses_on_switches(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut owners: HashMap<_, Located<'_>> = HashMap::new();
    for at in located(plan) {
        let Some(switch) = at.nic.attach.switch() else { continue };
        for own in own_addresses(&at.nic.addresses, &at.nic.six) {
            let owner = *owners.entry((switch, own.ip)).or_insert(at);
            if owner.index.0 != at.index.0 {
                let what = format!(
                    "{} is the address of {} on {:?} already; choose another",
                    own.ip,
                    owner.label(),
                    at.nic.attach.to_string()
                );
                faults.push(at.fault("address", what));
            }
        }
    }
}
