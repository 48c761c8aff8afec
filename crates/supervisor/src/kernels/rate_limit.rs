//! Rate limit of a kernel router: one token bucket for all its interfaces (`hooks::Limiter`), in packets per second.

use std::collections::BTreeMap;

use anyhow::Result;
use hooks::Limiter;
use kernel_router::Router;
use netns::Id;

use super::backend::Counted;

/// Number of interfaces for which the limiter has counters: twice the maximum number of NICs of a router.
const MOST: u32 = 16;

/// Rate limit of one router, and its attachment to interfaces.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    /// `None`: the router has never had a limit.
    limiter: Option<Limiter>,
    /// The limit in force, in packets per second.
    pps: Option<u64>,
    /// The namespace to which the interface indices belong.
    namespace: Option<Id>,
    /// Interfaces with counters, by name.
    guarded: BTreeMap<String, Guarded>,
}

/// An interface with counters.
#[derive(Clone, Copy, Debug)]
struct Guarded {
    /// Its NIC number in the limiter.
    number: u32,
    /// Index of the interface to which the program is attached; `None`: it is not attached.
    index: Option<u32>,
}

impl RateLimit {
    /// Applies the router's limit to its present interfaces; to be called after the router was created, changed or repaired.
    /// Without a limit no program is attached.
    ///
    /// # Errors
    /// One line: the kernel has no tcx, for example.
    pub(super) fn follow(&mut self, router: &Router, pps: Option<u64>) -> Result<()> {
        if self.limiter.is_none() && pps.is_some() {
            self.limiter = Some(Limiter::new(MOST)?);
        }
        let Some(limiter) = &mut self.limiter else { return Ok(()) };
        if self.pps != pps {
            limiter.set(pps)?;
            self.pps = pps;
        }
        // What enters a VLAN has entered the interface below it.
        let interfaces = || router.wanted().interfaces.iter().filter(|interface| interface.is_nic());
        let has = |name: &String| interfaces().any(|interface| interface.name == *name);
        let gone: Vec<String> = self.guarded.keys().filter(|name| !has(name)).cloned().collect();
        for known in gone.iter().filter_map(|name| self.guarded.remove(name)) {
            limiter.forget(known.number)?;
        }
        let namespace = Some(router.namespace().id()?);
        if pps.is_none() || self.namespace != namespace {
            for known in self.guarded.values_mut() {
                limiter.detach(known.number);
                known.index = None;
            }
            self.namespace = namespace;
        }
        if pps.is_none() {
            return Ok(());
        }
        let kernel = router.namespace().netlink()?;
        for interface in interfaces() {
            // A missing interface gets its program after it was repaired.
            let Ok(link) = kernel.link(interface.name.as_str()) else { continue };
            let known = self.guarded.get(&interface.name).copied();
            if known.is_some_and(|known| known.index == Some(link.index)) {
                continue;
            }
            let number = known.map_or_else(|| free(&self.guarded), |known| known.number);
            router.namespace().within(|| limiter.attach(number, link.index))??;
            self.guarded.insert(interface.name.clone(), Guarded { number, index: Some(link.index) });
        }
        Ok(())
    }

    /// Adds the counters of the limit, such as `edge.wan.limit.passed`.
    pub(super) fn count(&self, router: &str, counted: &mut Counted) {
        let Some(limiter) = &self.limiter else { return };
        for (nic, known) in &self.guarded {
            let Ok(limited) = limiter.counted(known.number) else { continue };
            for (name, value) in [
                ("in_frames", limited.in_frames),
                ("passed", limited.passed),
                ("drop_limit", limited.drop_limit),
            ] {
                counted.counters.insert(format!("{router}.{nic}.limit.{name}"), value);
            }
        }
    }
}

/// The smallest number that no interface uses.
fn free(guarded: &BTreeMap<String, Guarded>) -> u32 {
    let is_free = |number: &u32| guarded.values().all(|known| known.number != *number);
    (0..MOST).find(is_free).unwrap_or(MOST)
}
