//! Next hops of groups that a router does not reach: its table is told, so that their flows take others.
//!
//! A firmware reports a next hop whose neighbour does not answer, a control plane one that BFD does not hear; that a cable was
//! pulled is known here. Each is one word of the table, however many routes there are.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use bootinfo::NumberedHop;
use config::Router;
use fib::NextHop;

use crate::guest::Guest;

/// A gateway and the number of the NIC or interface that it is behind.
type Gateway = (usize, IpAddr);

/// The next hops of a router's groups that are down.
#[derive(Debug, Default)]
pub(crate) struct NextHops(BTreeSet<Gateway>);

impl NextHops {
    /// Marks in the table of a router which next hops of groups are down, among them those of which its control plane says that
    /// they do not answer; returns the lines that are to be reported.
    pub(crate) fn look(&mut self, plan: &Router, guest: &Guest, silent: &BTreeSet<Gateway>) -> Vec<String> {
        if plan.forwarding.spread.is_empty() && plan.control.is_none() {
            return Vec::new();
        }
        let failed: Vec<NumberedHop> = guest.machine().shared().failed.read().collect();
        let is_unheard =
            |gateway: &Gateway| silent.contains(gateway) || !guest.is_plugged(nic_of(plan, gateway.0));
        let down = RefCell::new(BTreeSet::new());
        guest.table().set_down(|table, six, number, hop| {
            let Some(gateway) = gateway(hop) else { return false };
            let has_failed = failed.contains(&(table as u8, six, number));
            let is_down = has_failed || is_unheard(&gateway);
            if is_down {
                down.borrow_mut().insert(gateway);
            }
            is_down
        });
        let mut down = down.into_inner();
        // A control plane takes such a next hop out of its groups, which does not mean that it is reached again.
        down.extend(self.0.iter().copied().filter(is_unheard));
        let before = std::mem::replace(&mut self.0, down);
        told(plan, &before, &self.0)
    }
}

/// Returns the gateway of a next hop; groups have no others.
pub(crate) fn gateway(hop: NextHop) -> Option<Gateway> {
    match hop {
        NextHop::Gateway { nic, gateway } => Some((nic.into(), IpAddr::V4(gateway.into()))),
        NextHop::Gateway6 { nic, gateway } => Some((nic.into(), IpAddr::V6(gateway.into()))),
        _ => None,
    }
}

/// Returns the number of the NIC that has this NIC or interface.
pub(crate) fn nic_of(plan: &Router, link: usize) -> usize {
    let vlan = link.checked_sub(plan.nics.len()).and_then(|at| plan.forwarding.interfaces.get(at));
    vlan.map_or(link, |own| own.nic)
}

/// Lines for gateways that are avoided now and were not before, and the reverse; a gateway is an address behind a NIC or interface of
/// this number.
pub fn told<Ip: Ord + Display>(
    plan: &Router,
    before: &BTreeSet<(usize, Ip)>,
    now: &BTreeSet<(usize, Ip)>,
) -> Vec<String> {
    let name = |(link, ip): &(usize, Ip)| format!("{ip} behind {}", plan.link_name(*link).unwrap_or("?"));
    let lost = now.difference(before).map(|gateway| {
        format!("next hop {} is not reached: its flows take the others of their routes", name(gateway))
    });
    let back = before
        .difference(now)
        .map(|gateway| format!("next hop {} is reached again and has its flows back", name(gateway)));
    lost.chain(back).collect()
}

#[cfg(test)]
mod tests;
