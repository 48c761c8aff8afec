//! Counters of the packets that the kernel drops, by its own reason, for the kernel routers whose file asks for them
//! (`drop_reasons`). One program at a tracepoint counts for all of them (`hooks::DropCounters`). It is attached while at least one
//! router asks: without, neither a packet nor a drop costs anything.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use hooks::{DropCounters, Interface};
use kernel_router::Router;

use super::backend::Counted;

/// Maximum number of interfaces of all routers together: NICs, VLANs, and VRFs, for which drops behind their ports count. Each takes
/// 2 KiB of the kernel's memory while drops are counted.
const MOST: u32 = 1024;

/// Drops of a router: their numbers by reason, by NIC.
pub(crate) type Drops = BTreeMap<String, BTreeMap<String, u64>>;

/// Interfaces of a router for which drops are counted, by name.
type Watched = BTreeMap<String, Interface>;

/// Drop counters of the routers of a run.
#[derive(Debug, Default)]
pub(super) struct DropReasons {
    /// The program with its counters; `None`: no router asks for it.
    counters: Option<DropCounters>,
    /// Watched interfaces by router.
    watched: BTreeMap<String, Watched>,
}

impl DropReasons {
    /// Counts for the present interfaces of a router, or for none of them; to be called after it was created, changed or repaired.
    /// An interface that was created again counts from zero.
    ///
    /// # Errors
    /// One line: this kernel exports no type information, for example.
    pub(super) fn follow(&mut self, router: &Router, is_on: bool) -> Result<()> {
        let name = &router.wanted().name;
        if !is_on {
            self.forget(name);
            return Ok(());
        }
        let present = interfaces(router)?;
        let before = self.watched.remove(name).unwrap_or_default();
        self.watch(name, &before, present).with_context(|| format!("router {name}: drop_reasons"))
    }

    fn watch(&mut self, router: &str, before: &Watched, now: Watched) -> Result<()> {
        if self.counters.is_none() {
            self.counters = Some(DropCounters::start(MOST)?);
        }
        let Some(counters) = &mut self.counters else { return Ok(()) };
        let goes = |interface: &&Interface| !now.values().any(|stays| stays == *interface);
        before.values().filter(goes).for_each(|interface| counters.forget(*interface));
        let outcome = now.values().try_for_each(|interface| counters.watch(*interface));
        self.watched.insert(router.to_owned(), now);
        if outcome.is_err() {
            self.forget(router);
        }
        Ok(outcome?)
    }

    /// Counts for a router no longer.
    pub(super) fn forget(&mut self, router: &str) {
        let watched = self.watched.remove(router).unwrap_or_default();
        if let Some(counters) = &mut self.counters {
            watched.into_values().for_each(|interface| counters.forget(interface));
        }
        if self.watched.is_empty() {
            self.counters = None;
        }
    }

    /// Returns the drops of a router so far; `None`: they are not counted. Reasons that have not occurred are left out.
    pub(super) fn of(&self, router: &str) -> Option<Drops> {
        let (counters, watched) = (self.counters.as_ref()?, self.watched.get(router)?);
        let of_nic = |(nic, interface): (&String, &Interface)| {
            let counted = counters.counted(*interface).ok().flatten()?;
            Some((nic.clone(), counted))
        };
        Some(watched.iter().filter_map(of_nic).collect())
    }

    /// Adds the drops of a router to its counters, such as `edge.wan.kernel.drop_no_socket`.
    pub(super) fn count(&self, router: &str, counted: &mut Counted) {
        for (nic, drops) in self.of(router).unwrap_or_default() {
            let named =
                |(reason, count): (String, u64)| (format!("{router}.{nic}.kernel.drop_{reason}"), count);
            counted.counters.extend(drops.into_iter().map(named));
        }
    }
}

/// Identities of the present interfaces of a router, by name. A missing one is added after it was repaired.
fn interfaces(router: &Router) -> Result<Watched> {
    // Numbers of namespaces have 32 bits (`ns.inum`).
    let namespace = router.namespace().id()?.inode as u32;
    let kernel = router.namespace().netlink()?;
    let interface = |name: &str| {
        let index = kernel.link(name).ok()?.index;
        Some((name.to_owned(), Interface { namespace, index }))
    };
    let wanted = router.wanted().interfaces.iter().filter(|wanted| !wanted.is_service());
    Ok(wanted.filter_map(|wanted| interface(&wanted.name)).collect())
}

/// Drops of a NIC in words: `neigh_failed 3, no_socket 5`, or `none`.
pub(super) fn words(drops: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests;
