//! What members are plugged into by one NIC of their group.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use attach::Attachment;
use config::{Group, Nic};
use switch::Switch;

use super::hosts::{Hosts, Own};
use super::{GroupNicCounters, Way};
use crate::supplies::HostServices;

/// After this time members know that a cable is in again, and forward what comes by it.
const SETTLES: Duration = Duration::from_millis(500);

/// The link of a NIC.
pub(super) struct Link {
    /// Name of the NIC.
    pub(super) nic: String,
    pub(super) mac: frame::Mac,
    /// Number of its VRF.
    pub(super) vrf: usize,
    pub(super) way: Way,
    cable: Mutex<Cable>,
    hosts: Mutex<Hosts>,
    pub(super) counters: GroupNicCounters,
}

/// The cable of a link.
struct Cable {
    /// Whether the group has it out.
    is_pulled: bool,
    /// When it was seen out last.
    out: Option<Duration>,
}

impl Link {
    /// That of a NIC of a group: what is held for it, or else what is supplied.
    pub(super) fn new(
        (group, nic): (&Group, &Nic),
        held: Option<Arc<dyn Attachment>>,
        switches: &[Arc<Switch>],
        supplies: &mut HostServices,
    ) -> Result<Self> {
        let wanted = group.wanted(nic);
        let label = wanted.label();
        let at = match supplies.plugs.remove(&label).or(held) {
            Some(at) => at,
            None => wanted.serve(supplies.opened.remove(&label), switches, supplies.confinement)?,
        };
        let own = nic.addresses.iter().map(|address| Own {
            ip: address.ip.to_bits(),
            mask: u32::MAX.checked_shl(32 - u32::from(address.len)).unwrap_or(0),
        });
        let mac = frame::Mac(nic.mac.0);
        let number = group.pattern.nics.iter().position(|own| own.name == nic.name);
        Ok(Self {
            nic: nic.name.clone(),
            mac,
            vrf: number.map_or(0, |number| group.pattern.table_of(number)),
            way: Way::new(group, at, wanted),
            cable: Mutex::new(Cable { is_pulled: nic.is_pulled(), out: None }),
            hosts: Mutex::new(Hosts::new(mac, own.collect())),
            counters: GroupNicCounters::default(),
        })
    }

    /// The neighbours there.
    pub(super) fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cable(&self) -> MutexGuard<'_, Cable> {
        self.cable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the group has its cable out.
    pub(super) fn set_pulled(&self, is_pulled: bool) {
        self.cable().is_pulled = is_pulled;
    }

    /// Whether what enters members by it can be expected to leave them: its cable is in, and has been for a moment.
    pub(super) fn is_usable(&self, now: Duration) -> bool {
        let mut cable = self.cable();
        if cable.is_pulled || self.way.link() == Some(false) {
            cable.out = Some(now);
        }
        cable.out.is_none_or(|out| now.saturating_sub(out) >= SETTLES)
    }
}
