//! Planner: steps from the observed state to the desired one. Pure.
//!
//! Everything that is not wanted is removed first; then everything that is missing is added. Objects that the kernel would
//! remove as a side effect get explicit steps: they are removed before and added after. So every step has an inverse, and a
//! refused change can be undone. Side effects are:
//!
//! * an interface that goes down, or is deleted, loses its routes, its neighbours and its IPv6 addresses;
//! * a VLAN goes down, or is deleted, with the interface below it, which may be a VLAN itself, and so goes before that and comes
//!   after it;
//! * an interface whose MTU is lowered below that of a VLAN on it lowers that, too, so the VLAN's is lowered before it and raised after it;
//! * an interface that loses its last IPv4 address loses its IPv4 routes and neighbours (`fib_disable_ip`);
//! * an interface whose Ethernet address changes loses its neighbours (`neigh_changeaddr`);
//! * an interface that goes down or loses its carrier loses its next hops of groups: they are planned only where there is carrier,
//!   so that a second plan lays the routes of interfaces that the first one has created;
//! * an interface that becomes a port of a VRF, or is one no longer, loses its routes and its IPv6 addresses (`cycle_netdev` of
//!   drivers/net/vrf.c), and so it is down meanwhile, with the VLANs on it;
//! * a VRF that is deleted loses its ports, which leave it before;
//! * a namespace in which IPv6 is disabled loses its IPv6 routes that forward nothing, because they belong to `lo`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use netlink::Prefix;

use crate::config::{FORWARD, interface_of};
use crate::six::{self, NO_IPV6};
use crate::{
    Interface, Neighbour, NewInterface, Object, ObservedInterface, ObservedState, Origin, Route,
    RouterConfig, Setting, SpreadRoute, Step, TypedRoute,
};

/// Reason for which the observed state cannot become the desired one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// An interface that others were to provide does not exist.
    #[error("the interface `{interface}` is not in its namespace: it was not put there, or was removed")]
    Missing {
        /// Name of the interface.
        interface: String,
    },
    /// An interface that the router has not created has the name.
    #[error(
        "its namespace has another interface `{interface}`, which ringroad has not created: delete or rename it"
    )]
    Taken {
        /// The name.
        interface: String,
    },
}

/// Plans the steps from the observed state to the desired one; there are none if both agree. `wanted` has passed
/// [`crate::check()`].
///
/// # Errors
/// An interface that others provide does not exist, or one to be created exists already.
pub fn steps(wanted: &RouterConfig, seen: &ObservedState) -> Result<Vec<Step>, Obstacle> {
    let mut now = wanted.applicable();
    now.interfaces.iter().try_for_each(|interface| obstacle(interface, seen))?;
    now.spread = connected(&now, seen);
    let (routes, neighbours) = (now.routes.iter().collect(), now.neighbours.iter().collect());
    let (spread, typed) = (now.spread.iter().collect(), now.typed.iter().collect());
    let mut plan = Plan { now: &now, seen, routes, spread, typed, neighbours, steps: Vec::new() };
    plan.remove_dependents();
    plan.remove_interfaces();
    plan.set_parameters();
    plan.add_interfaces();
    plan.add_dependents();
    Ok(plan.steps)
}

/// Returns the observed and the desired interface, if it stays. A VLAN goes with the interface below it.
fn staying<'a>(
    now: &'a RouterConfig,
    seen: &'a ObservedState,
    name: &str,
) -> Option<(&'a ObservedInterface, &'a Interface)> {
    let (present, interface) = (seen.interfaces.get(name)?, now.interface(name)?);
    let is_same = present.origin.as_ref() == Some(&interface.origin);
    let stays = is_same && interface.lower().is_none_or(|lower| staying(now, seen, lower).is_some());
    stays.then_some((present, interface))
}

/// Returns true if an interface stays in the VRF in which it is, or in none.
fn keeps_vrf(now: &RouterConfig, seen: &ObservedState, name: &str) -> bool {
    let Some((present, interface)) = staying(now, seen, name) else { return false };
    let stays = |table: u32| now.vrf(table).is_some_and(|vrf| staying(now, seen, &vrf.name).is_some());
    present.vrf == interface.vrf && interface.vrf.is_none_or(stays)
}

/// Returns the observed and the desired interface, if it stays, and is not set down for another VRF: its own or that of an interface
/// below it.
fn undisturbed<'a>(
    now: &'a RouterConfig,
    seen: &'a ObservedState,
    name: &str,
) -> Option<(&'a ObservedInterface, &'a Interface)> {
    let (present, interface) = staying(now, seen, name).filter(|_| keeps_vrf(now, seen, name))?;
    let is_held = interface.lower().is_none_or(|lower| undisturbed(now, seen, lower).is_some());
    is_held.then_some((present, interface))
}

/// Returns the number of interfaces below an observed one.
fn depth(seen: &ObservedState, name: &str) -> usize {
    let below = |name: &str| seen.interfaces.get(name)?.origin.as_ref()?.lower();
    std::iter::successors(below(name), |lower| below(lower)).take(seen.interfaces.len()).count()
}

/// Returns the routes with several gateways that can be laid: by the interfaces that have carrier, and have existed before.
fn connected(now: &RouterConfig, seen: &ObservedState) -> Vec<SpreadRoute> {
    let is_usable = |name: &str| undisturbed(now, seen, name).is_some_and(|(present, _)| present.carrier);
    let mut all = now.spread.clone();
    all.iter_mut().for_each(|route| route.ways.retain(|way| is_usable(&way.interface)));
    all.retain(|route| !route.ways.is_empty());
    all
}

fn obstacle(interface: &Interface, seen: &ObservedState) -> Result<(), Obstacle> {
    let name = || interface.name.clone();
    let is_given = |origin: &Origin| *origin == Origin::External;
    match seen.interfaces.get(&interface.name).map(|present| &present.origin) {
        Some(Some(origin)) if is_given(origin) == is_given(&interface.origin) => Ok(()),
        None if !is_given(&interface.origin) => Ok(()),
        Some(Some(origin)) if !is_given(origin) => Err(Obstacle::Missing { interface: name() }),
        None => Err(Obstacle::Missing { interface: name() }),
        Some(_) => Err(Obstacle::Taken { interface: name() }),
    }
}

struct Plan<'a> {
    /// The part of the desired configuration that can be in force at once.
    now: &'a RouterConfig,
    seen: &'a ObservedState,
    /// Its routes and neighbours as sets, for look-ups: there may be many.
    routes: BTreeSet<&'a Route>,
    spread: BTreeSet<&'a SpreadRoute>,
    typed: BTreeSet<&'a TypedRoute>,
    neighbours: BTreeSet<&'a Neighbour>,
    steps: Vec<Step>,
}

impl<'a> Plan<'a> {
    /// Returns the observed and the desired interface, if it stays.
    fn staying(&self, name: &str) -> Option<(&'a ObservedInterface, &'a Interface)> {
        staying(self.now, self.seen, name)
    }

    /// Returns the observed and the desired interface, if it stays, and is not set down for another VRF.
    fn undisturbed(&self, name: &str) -> Option<(&'a ObservedInterface, &'a Interface)> {
        undisturbed(self.now, self.seen, name)
    }

    /// Returns true if the routes and neighbours of this family survive the changes of an interface.
    fn holds(&self, name: &str, is_v4: bool) -> bool {
        let Some((present, interface)) = self.undisturbed(name) else { return false };
        let [before, after] = [has_v4(present.addresses.iter()), has_v4(interface.addresses.iter())];
        let is_kept = has_v4(present.addresses.iter().filter(|own| interface.addresses.contains(own)));
        // Undoing a change that adds the first IPv4 address removes the last one.
        present.up && interface.up && (!is_v4 || is_kept || !before && !after)
    }

    /// Returns true if an interface keeps its Ethernet address.
    fn keeps_mac(&self, name: &str) -> bool {
        let staying = self.staying(name);
        staying.is_some_and(|(present, interface)| interface.mac.is_none_or(|mac| present.mac == Some(mac)))
    }

    /// Returns true if a route exists and stays.
    fn has_route(&self, route: &Route) -> bool {
        self.seen.routes.contains(route)
            && self.routes.contains(route)
            && self.holds(&route.interface, route.to.ip.is_ipv4())
    }

    /// Returns true if a route with several gateways exists and stays.
    fn has_spread(&self, route: &SpreadRoute) -> bool {
        let is_held = route.ways.iter().all(|way| self.holds(&way.interface, way.via.is_ipv4()));
        self.seen.spread.contains(route) && self.spread.contains(route) && is_held
    }

    /// Returns true if a route by which nothing is forwarded exists and stays.
    fn has_typed(&self, route: &TypedRoute) -> bool {
        let [was, is] = [&self.seen.sysctls, &self.now.sysctls].map(|all| all.get(NO_IPV6[0]));
        // Undoing a change that enables IPv6 disables it.
        let is_held = route.to.ip.is_ipv4() || was == is;
        self.seen.typed.contains(route) && self.typed.contains(route) && is_held
    }

    /// Returns true if a neighbour exists and stays.
    fn has_neighbour(&self, neighbour: &Neighbour) -> bool {
        let Neighbour { interface, ip, mac } = neighbour;
        self.seen.neighbours.get(&(interface.clone(), *ip)) == Some(mac)
            && self.neighbours.contains(neighbour)
            && self.keeps_mac(interface)
            && self.holds(interface, ip.is_ipv4())
    }

    /// Removes objects that depend on interfaces: neighbours, routes, addresses.
    fn remove_dependents(&mut self) {
        let neighbours = self.seen.neighbours.iter().map(|((interface, ip), mac)| Neighbour {
            interface: interface.clone(),
            ip: *ip,
            mac: *mac,
        });
        let neighbours = neighbours.filter(|neighbour| !self.has_neighbour(neighbour)).map(Object::Neighbour);
        let mut routes: Vec<&Route> =
            self.seen.routes.iter().filter(|route| !self.has_route(route)).collect();
        // A gateway may be in a network that is on the link by another route, so routes with gateways are removed first.
        routes.sort_by_key(|route| route.via.is_none());
        let routes = routes.into_iter().cloned().map(Object::Route);
        let spread = self.seen.spread.iter().filter(|route| !self.has_spread(route));
        let spread = spread.cloned().map(Object::SpreadRoute);
        let typed = self.seen.typed.iter().filter(|route| !self.has_typed(route));
        let typed = typed.copied().map(Object::TypedRoute);
        let lifted = neighbours.chain(spread).chain(routes).chain(typed).map(Step::Remove);
        let lifted: Vec<Step> = lifted.collect();
        self.steps.extend(lifted);
        let seen = self.seen;
        for (name, present) in &seen.interfaces {
            let wanted = self.staying(name).map(|(_, interface)| interface);
            let is_undisturbed = self.undisturbed(name).is_some();
            let is_left = |own: &Prefix| {
                let is_held = is_undisturbed || own.ip.is_ipv4();
                is_held && wanted.is_some_and(|interface| interface.addresses.contains(own))
            };
            let left = present.addresses.iter().filter(|own| !is_left(own));
            self.steps.extend(left.map(|own| Step::Remove(address(name, *own))));
        }
    }

    /// Turns off threaded NAPI, sets interfaces down, lets them leave their VRFs, and removes interfaces, with the queues at their other
    /// ends.
    fn remove_interfaces(&mut self) {
        let seen = self.seen;
        let mut all: Vec<(&String, &ObservedInterface)> = seen.interfaces.iter().collect();
        // VLANs before the interfaces below them, VRFs after their ports.
        let is_vrf = |present: &ObservedInterface| matches!(present.origin, Some(Origin::Vrf { .. }));
        all.sort_by_key(|(name, present)| (is_vrf(present), Reverse(depth(seen, name))));
        for (name, present) in all {
            let staying = self.staying(name).map(|(_, interface)| interface);
            let undisturbed = self.undisturbed(name).map(|(_, interface)| interface);
            let mut unset = |is_on: bool, stays_on: bool, setting: fn(bool) -> Setting| {
                if is_on && !stays_on {
                    self.steps.push(set(name, setting(true), setting(false)));
                }
            };
            unset(
                present.threaded,
                undisturbed.is_some_and(|interface| interface.threaded),
                Setting::Threaded,
            );
            unset(present.up, undisturbed.is_some_and(|interface| interface.up), Setting::Up);
            if present.vrf.is_some() && !keeps_vrf(self.now, seen, name) {
                self.steps.push(set(name, Setting::Vrf(present.vrf), Setting::Vrf(None)));
            }
            if staying.is_none() && present.queue.is_some() {
                self.steps.push(set(name, Setting::Queue(present.queue), Setting::Queue(None)));
            }
            if let Some(origin) = present.origin.as_ref().filter(|_| staying.is_none())
                && *origin != Origin::External
            {
                let made = NewInterface {
                    interface: name.clone(),
                    origin: origin.clone(),
                    mac: present.mac,
                    mtu: Some(present.mtu),
                };
                self.steps.push(Step::Remove(Object::Interface(made)));
            }
        }
        let rules = self.misplaced_rules(false).into_iter().map(Step::Remove);
        self.steps.extend(rules);
    }

    /// Returns the rules of table `local` that should be behind those of VRFs and are not, or that are and should not be.
    fn misplaced_rules(&self, should_be: bool) -> Vec<Object> {
        let is_misplaced = |is_ipv4: &bool| {
            let is_moved = self.seen.moved_rules.contains(is_ipv4);
            self.now.moves_rule(*is_ipv4) == should_be && is_moved != should_be
        };
        let families = [true, false].into_iter().filter(is_misplaced);
        families.map(|is_ipv4| Object::LocalRule { is_ipv4 }).collect()
    }

    /// Sets the parameters of the whole namespace, and the places of its rules.
    fn set_parameters(&mut self) {
        let (now, seen) = (self.now, self.seen);
        let first = now.sysctls.get_key_value(FORWARD);
        let others = now.sysctls.iter().filter(|(key, _)| *key != FORWARD);
        for (key, value) in first.into_iter().chain(others) {
            let is = seen.sysctls.get(key);
            // A kernel without IPv6 has nothing to disable.
            let is_needless = NO_IPV6.contains(&key.as_str()) && is.is_none();
            if interface_of(key).is_none() && is != Some(value) && !is_needless {
                self.steps.push(Step::Parameter { key: key.clone(), from: is.cloned(), to: value.clone() });
            }
        }
        let rules = self.misplaced_rules(true).into_iter().map(Step::Add);
        self.steps.extend(rules);
    }

    /// Adds interfaces, and sets their properties.
    fn add_interfaces(&mut self) {
        let now = self.now;
        self.lower_vlans();
        let (vrfs, others): (Vec<&Interface>, Vec<_>) =
            now.interfaces.iter().partition(|interface| interface.is_vrf());
        for interface in vrfs.into_iter().chain(others) {
            let name = &interface.name;
            match self.staying(name) {
                Some((present, _)) => self.change(interface, present),
                None => self.steps.push(Step::Add(Object::Interface(NewInterface {
                    interface: name.clone(),
                    origin: interface.origin.clone(),
                    mac: interface.mac,
                    mtu: interface.mtu,
                }))),
            }
            self.set_parameters_of(interface);
            let has = self.staying(name).and_then(|(present, _)| present.queue);
            if has != interface.queue {
                self.steps.push(set(name, Setting::Queue(has), Setting::Queue(interface.queue)));
            }
            if interface.vrf.is_some() && !keeps_vrf(now, self.seen, name) {
                self.steps.push(set(name, Setting::Vrf(None), Setting::Vrf(interface.vrf)));
            }
            if interface.up && !self.undisturbed(name).is_some_and(|(present, _)| present.up) {
                self.steps.push(set(name, Setting::Up(false), Setting::Up(true)));
            }
        }
    }

    /// Lowers the MTUs of VLANs, before those of the interfaces below them, which come before them in the configuration.
    fn lower_vlans(&mut self) {
        let now = self.now;
        for interface in now.interfaces.iter().rev().filter(|interface| interface.is_vlan()) {
            let Some((present, _)) = self.staying(&interface.name) else { continue };
            if let Some(to) = interface.mtu.filter(|mtu| *mtu < present.mtu) {
                self.steps.push(set(&interface.name, Setting::Mtu(present.mtu), Setting::Mtu(to)));
            }
        }
    }

    fn change(&mut self, interface: &Interface, present: &ObservedInterface) {
        if let (Some(from), Some(to)) = (present.mac, interface.mac)
            && from != to
        {
            self.steps.push(set(&interface.name, Setting::Mac(from), Setting::Mac(to)));
        }
        let is_lowered = |mtu: u32| interface.is_vlan() && mtu < present.mtu;
        if let Some(to) = interface.mtu.filter(|mtu| *mtu != present.mtu && !is_lowered(*mtu)) {
            self.steps.push(set(&interface.name, Setting::Mtu(present.mtu), Setting::Mtu(to)));
        }
    }

    fn set_parameters_of(&mut self, interface: &Interface) {
        let (now, seen, is_old) = (self.now, self.seen, self.staying(&interface.name).is_some());
        let own = now.sysctls.iter().filter(|(key, _)| interface_of(key) == Some(interface.name.as_str()));
        for (key, value) in own {
            let is = seen.sysctls.get(key).filter(|_| is_old);
            let is_needless = is_old && is.is_none() && six::disables(key, value);
            let is_reset = is_old && self.resets(key);
            if (is != Some(value) || is_reset) && !is_needless {
                self.steps.push(Step::Parameter { key: key.clone(), from: is.cloned(), to: value.clone() });
            }
        }
    }

    /// Returns true if the kernel sets a parameter of an interface when that of the namespace changes (`inet_forward_change`).
    fn resets(&self, key: &str) -> bool {
        let is_changed = self.seen.sysctls.get(FORWARD) != self.now.sysctls.get(FORWARD);
        is_changed && key.starts_with("net/ipv4/conf/") && key.ends_with("/forwarding")
    }

    /// Adds addresses, neighbours and routes, and turns on threaded NAPI.
    fn add_dependents(&mut self) {
        let now = self.now;
        for interface in &now.interfaces {
            let has = self.staying(&interface.name).map(|(present, _)| &present.addresses);
            let is_undisturbed = self.undisturbed(&interface.name).is_some();
            let is_held = |own: &Prefix| is_undisturbed || own.ip.is_ipv4();
            let is_there = |own: &Prefix| is_held(own) && has.is_some_and(|has| has.contains(own));
            let new = interface.addresses.iter().filter(|own| !is_there(own));
            self.steps.extend(new.map(|own| Step::Add(address(&interface.name, *own))));
        }
        let neighbours = now.neighbours.iter().filter(|neighbour| !self.has_neighbour(neighbour));
        let neighbours = neighbours.cloned().map(Object::Neighbour);
        let mut routes: Vec<&Route> = now.routes.iter().filter(|route| !self.has_route(route)).collect();
        routes.sort_by_key(|route| route.via.is_some());
        let routes = routes.into_iter().cloned().map(Object::Route);
        let spread = now.spread.iter().filter(|route| !self.has_spread(route));
        let spread = spread.cloned().map(Object::SpreadRoute);
        let typed = now.typed.iter().filter(|route| !self.has_typed(route));
        let typed = typed.copied().map(Object::TypedRoute);
        let laid: Vec<Step> = neighbours.chain(routes).chain(spread).chain(typed).map(Step::Add).collect();
        self.steps.extend(laid);
        for interface in now.interfaces.iter().filter(|interface| interface.threaded) {
            if !self.undisturbed(&interface.name).is_some_and(|(present, _)| present.threaded) {
                self.steps.push(set(&interface.name, Setting::Threaded(false), Setting::Threaded(true)));
            }
        }
    }
}

fn has_v4<'p>(mut addresses: impl Iterator<Item = &'p Prefix>) -> bool {
    addresses.any(|own| own.ip.is_ipv4())
}

fn set(interface: &str, from: Setting, to: Setting) -> Step {
    Step::Set { interface: interface.to_owned(), from, to }
}

fn address(interface: &str, prefix: Prefix) -> Object {
    Object::Address { interface: interface.to_owned(), prefix }
}
