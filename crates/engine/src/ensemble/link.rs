//! Link of a NIC of a group: the attachment that all members share, with its neighbours and its cable.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use attach::Attachment;
use config::forwarding::{self, ReversePath};
use config::{Group, Nic};
use group::probe;
use switch::Switch;

use super::segment::Segment;
use super::voice::Voice;
use super::{GroupNicCounters, Way};
use crate::control::Shadow;
use crate::supplies::HostServices;

/// Time after which members have noticed that a cable is in again, and forward frames from it.
const SETTLES: Duration = Duration::from_millis(500);

/// Flag that the cable of a NIC of a group is pulled, readable by any thread.
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

/// Parts of a replaced link that are kept in use by its successor.
#[derive(Default)]
pub(super) struct Held {
    /// Its attachment.
    pub(super) at: Option<Arc<dyn Attachment>>,
    /// Its shadow in a control plane.
    pub(super) shadow: Option<Arc<Shadow>>,
}

/// An interface of a group: the number of its NIC, the link there, and the segment of its frames.
pub(super) type Interface<'c> = (usize, &'c Link, &'c Segment);

/// The link of a NIC.
pub(super) struct Link {
    /// Name of the NIC.
    pub(super) nic: String,
    pub(super) mac: frame::Mac,
    /// True if members advertise the group as a default router in frames without a tag.
    pub(super) is_default_router: bool,
    /// Number of its VRF.
    pub(super) vrf: usize,
    /// Source address of probes that enter members by it, which their reverse-path filter accepts.
    pub(super) probes_from: u32,
    pub(super) way: Way,
    /// Ethernet addresses of static neighbours, each with the number of its segment in [`Link::segments`].
    pub(super) fixed: Vec<(usize, frame::Mac)>,
    /// The group's control plane there, if it has one.
    pub(super) voice: Option<Voice>,
    is_pulled: IsPulled,
    cable: Mutex<Cable>,
    /// True if a balancer carried it at the last note.
    was_carried: AtomicBool,
    /// Neighbours in frames without a tag.
    pub(super) plain: Segment,
    /// Neighbours in each VLAN.
    pub(super) vlans: Vec<Segment>,
    pub(super) counters: GroupNicCounters,
}

/// The cable of a link.
#[derive(Default)]
struct Cable {
    /// Last time at which it was seen pulled.
    out: Option<Duration>,
}

/// Returns the Ethernet addresses of the static neighbours at a NIC of a group, each with the number of its segment: without a tag, or a
/// VLAN.
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
    /// Creates the link of a NIC of a group, with the attachment that is held for it, or else the supplied one.
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
        let vlans = (group.pattern.nics.len()..).zip(&group.pattern.forwarding.interfaces);
        let vlans = vlans.filter(|(_, own)| Some(own.nic) == number);
        let segment = |(number, own): (usize, &forwarding::Interface)| {
            Segment::new(number, (mac, Segment::tags_of(own.tags)), (&own.addresses, &own.six))
        };
        let is_pulled = IsPulled::default();
        is_pulled.set(nic.is_pulled());
        Ok(Self {
            nic: nic.name.clone(),
            mac,
            is_default_router: nic.six.advertise.as_ref().is_some_and(|own| own.lifetime != 0),
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
            plain: Segment::new(number.unwrap_or_default(), (mac, Vec::new()), (&nic.addresses, &nic.six)),
            vlans: vlans.map(segment).collect(),
            counters: GroupNicCounters::default(),
        })
    }

    /// Returns its segments: without a tag, and each VLAN.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        iter::once(&self.plain).chain(&self.vlans)
    }

    fn cable(&self) -> MutexGuard<'_, Cable> {
        self.cable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether its cable is pulled.
    pub(super) fn set_pulled(&self, is_pulled: bool) {
        self.is_pulled.set(is_pulled);
    }

    /// Notes that it takes no frames, as a TAP that nobody has set up: as if its cable had been out until now.
    pub(super) fn takes_nothing(&self, now: Duration) {
        self.cable().out = Some(now);
    }

    /// Notes whether a balancer carries it and its cable is in; returns true if that has just become so.
    pub(super) fn begins(&self, is_carried: bool) -> bool {
        !self.was_carried.swap(is_carried, Ordering::AcqRel) && is_carried
    }

    /// Returns true if members can be expected to forward frames from it: its cable has been in for [`SETTLES`].
    pub(super) fn is_usable(&self, now: Duration) -> bool {
        let mut cable = self.cable();
        if self.is_pulled.get() || self.way.link() == Some(false) {
            cable.out = Some(now);
        }
        cable.out.is_none_or(|out| now.saturating_sub(out) >= SETTLES)
    }
}
