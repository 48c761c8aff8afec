//! What members are plugged into by one NIC of their group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use attach::Attachment;
use config::{Group, Nic};
use switch::Switch;

use super::hosts::{Hosts, Own};
use super::nodes::Nodes;
use super::voice::Voice;
use super::{GroupNicCounters, Way};
use crate::control::Shadow;
use crate::supplies::HostServices;

/// After this time members know that a cable is in again, and forward what comes by it.
const SETTLES: Duration = Duration::from_millis(500);

/// Whether a group has the cable of a NIC out; any thread may ask.
#[derive(Clone, Default)]
pub(super) struct IsPulled(Arc<AtomicBool>);

impl IsPulled {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, is_pulled: bool) {
        self.0.store(is_pulled, Ordering::Release);
    }
}

/// What goes on from the link that one takes the place of.
#[derive(Default)]
pub(super) struct Held {
    /// What it is plugged into.
    pub(super) at: Option<Arc<dyn Attachment>>,
    /// Its shadow in a control plane.
    pub(super) shadow: Option<Arc<Shadow>>,
}

/// The link of a NIC.
pub(super) struct Link {
    /// Name of the NIC.
    pub(super) nic: String,
    pub(super) mac: frame::Mac,
    /// Number of its VRF.
    pub(super) vrf: usize,
    pub(super) way: Way,
    /// Addresses of neighbours there that the group need not ask for.
    pub(super) fixed: Vec<frame::Mac>,
    /// The group's control plane there, if it has one.
    pub(super) voice: Option<Voice>,
    is_pulled: IsPulled,
    cable: Mutex<Cable>,
    hosts: Mutex<Hosts>,
    /// Whether it takes part in IPv6.
    pub(super) has_six: bool,
    nodes: Mutex<Nodes>,
    pub(super) counters: GroupNicCounters,
}

/// The cable of a link.
#[derive(Default)]
struct Cable {
    /// When it was seen out last.
    out: Option<Duration>,
}

impl Link {
    /// That of a NIC of a group: what is held for it, or else what is supplied.
    pub(super) fn new(
        (group, nic): (&Group, &Nic),
        held: Held,
        switches: &[Arc<Switch>],
        supplies: &mut HostServices,
    ) -> Result<Self> {
        let wanted = group.wanted(nic);
        let label = wanted.label();
        let at = match supplies.plugs.remove(&label).or(held.at) {
            Some(at) => at,
            None => wanted.serve(supplies.opened.remove(&label), switches, supplies.confinement)?,
        };
        let own = nic.addresses.iter().map(|address| Own {
            ip: address.ip.to_bits(),
            mask: u32::MAX.checked_shl(32 - u32::from(address.len)).unwrap_or(0),
        });
        let six: Vec<_> = nic.six.addresses.iter().map(|own| (own.ip.to_bits(), own.len)).collect();
        let mac = frame::Mac(nic.mac.0);
        let number = group.pattern.nics.iter().position(|own| own.name == nic.name);
        let four = group.pattern.neighbours.iter().map(|known| (known.nic, known.mac));
        let others = group.pattern.forwarding.neighbours6.iter().map(|known| (known.nic, known.mac));
        let fixed = four.chain(others).filter(|(nic, _)| Some(*nic) == number);
        let is_pulled = IsPulled::default();
        is_pulled.set(nic.is_pulled());
        Ok(Self {
            nic: nic.name.clone(),
            mac,
            vrf: number.map_or(0, |number| group.pattern.table_of(number)),
            way: Way::new(group, at, wanted),
            fixed: fixed.map(|(_, mac)| frame::Mac(mac.0)).collect(),
            voice: Voice::new((group, nic), supplies, held.shadow, &is_pulled)?,
            is_pulled,
            cable: Mutex::default(),
            hosts: Mutex::new(Hosts::new(mac, own.collect())),
            has_six: !six.is_empty(),
            nodes: Mutex::new(Nodes::new(mac, &six)),
            counters: GroupNicCounters::default(),
        })
    }

    /// The IPv4 neighbours there.
    pub(super) fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The IPv6 neighbours there.
    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cable(&self) -> MutexGuard<'_, Cable> {
        self.cable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the group has its cable out.
    pub(super) fn set_pulled(&self, is_pulled: bool) {
        self.is_pulled.set(is_pulled);
    }

    /// Whether what enters members by it can be expected to leave them: its cable is in, and has been for a moment.
    pub(super) fn is_usable(&self, now: Duration) -> bool {
        let mut cable = self.cable();
        if self.is_pulled.get() || self.way.link() == Some(false) {
            cable.out = Some(now);
        }
        cable.out.is_none_or(|out| now.saturating_sub(out) >= SETTLES)
    }
}
