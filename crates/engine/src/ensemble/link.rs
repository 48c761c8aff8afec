//! What members are plugged into by one NIC of their group.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use attach::Attachment;
use config::forwarding::{Interface, ReversePath};
use config::{Group, Nic};
use group::probe;
use switch::Switch;

use super::hosts::Hosts;
use super::nodes::Nodes;
use super::segment::Segment;
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
    /// The source of probes that enter members by it: one that their reverse-path filter lets in.
    pub(super) probes_from: u32,
    pub(super) way: Way,
    /// Addresses of neighbours there that the group need not ask for, each with the number of its segment in [`Link::segments`].
    pub(super) fixed: Vec<(usize, frame::Mac)>,
    /// The group's control plane there, if it has one.
    pub(super) voice: Option<Voice>,
    is_pulled: IsPulled,
    cable: Mutex<Cable>,
    /// Whether it was carried when this was noted last.
    was_carried: AtomicBool,
    /// What is heard in frames without a tag.
    pub(super) plain: Segment,
    /// What is heard in those of VLANs.
    pub(super) vlans: Vec<Segment>,
    pub(super) counters: GroupNicCounters,
}

/// The cable of a link.
#[derive(Default)]
struct Cable {
    /// When it was seen out last.
    out: Option<Duration>,
}

/// Addresses of the static neighbours at a NIC of a group, each with the number of its segment: without a tag, or in one of the VLANs.
fn fixed(group: &Group, nic: usize) -> Vec<(usize, frame::Mac)> {
    let (nics, interfaces) = (group.pattern.nics.len(), &group.pattern.forwarding.interfaces);
    let vlans = (nics..).zip(interfaces).filter(|(_, own)| own.nic == nic).map(|(place, _)| place);
    let segments: Vec<usize> = iter::once(nic).chain(vlans).collect();
    let of = |(_, mac, place): (_, config::Mac, usize)| {
        let number = segments.iter().position(|segment| *segment == place)?;
        Some((number, frame::Mac(mac.0)))
    };
    group.pattern.all_neighbours().filter_map(of).collect()
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
        let mac = frame::Mac(nic.mac.0);
        let number = group.pattern.nics.iter().position(|own| own.name == nic.name);
        let vlans = group.pattern.forwarding.interfaces.iter().filter(|own| Some(own.nic) == number);
        let segment =
            |own: &Interface| Segment::new(mac, Segment::tags_of(own.tags), (&own.addresses, &own.six));
        let is_pulled = IsPulled::default();
        is_pulled.set(nic.is_pulled());
        Ok(Self {
            nic: nic.name.clone(),
            mac,
            vrf: number.map_or(0, |number| group.pattern.table_of(number)),
            probes_from: match (nic.reverse_path, number) {
                (ReversePath::Strict, Some(number)) => probe::strict_source(number as u8),
                _ => probe::SOURCE,
            },
            way: Way::new(group, at, wanted),
            fixed: number.map_or_else(Vec::new, |number| fixed(group, number)),
            voice: Voice::new((group, nic), supplies, held.shadow, &is_pulled)?,
            is_pulled,
            cable: Mutex::default(),
            was_carried: AtomicBool::new(false),
            plain: Segment::new(mac, Vec::new(), (&nic.addresses, &nic.six)),
            vlans: vlans.map(segment).collect(),
            counters: GroupNicCounters::default(),
        })
    }

    /// The IPv4 neighbours there without a tag.
    pub(super) fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.plain.hosts()
    }

    /// The IPv6 neighbours there without a tag.
    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.plain.nodes()
    }

    /// What is heard there: without a tag, and in each VLAN.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        iter::once(&self.plain).chain(&self.vlans)
    }

    fn cable(&self) -> MutexGuard<'_, Cable> {
        self.cable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the group has its cable out.
    pub(super) fn set_pulled(&self, is_pulled: bool) {
        self.is_pulled.set(is_pulled);
    }

    /// Notes whether a balancer carries it and its cable is in; whether that was not so before.
    pub(super) fn begins(&self, is_carried: bool) -> bool {
        !self.was_carried.swap(is_carried, Ordering::AcqRel) && is_carried
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
