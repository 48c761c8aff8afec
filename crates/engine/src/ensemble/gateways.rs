//! Reachability of the gateways of routes with several, if members share one route table: checked here for all members, and reported to
//! the supervisor, which alone writes the table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use config::Group;
use frame::Mac;
use router::Ip;
use vmm::NeighbourTable;

use super::Core;
use super::link::Interface;
use super::neighbours::Members;

/// Interval of requests for a gateway that is not known.
const PAUSE: Duration = Duration::from_secs(1);
/// Requests without an answer after which it is avoided.
const REQUESTS: u32 = 3;
/// Requests sent in one check: the others follow in the next ones.
const AT_ONCE: u32 = 64;

/// Maximum number of watched gateways, unless the plan itself has more: each unknown one costs a request a second.
const MOST: usize = 1024;

/// A gateway: the number of its NIC or interface, and its address.
pub(crate) type Gateway = (usize, IpAddr);

/// The gateways of a group.
#[derive(Default)]
pub(super) struct Gateways {
    all: BTreeMap<Gateway, Health>,
    /// Gateways of the plan.
    of_plan: BTreeSet<Gateway>,
    /// Gateways of routes that a control plane has learned.
    learned: BTreeSet<Gateway>,
    /// Gateways last reported as to be avoided; `None`: none was reported yet.
    told: Option<BTreeSet<Gateway>>,
}

/// State of a gateway.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    /// Time of the last request, while it is not known.
    asked: Option<Duration>,
    /// Requests without an answer.
    unanswered: u32,
    /// True if it is down; `None`: this is not known yet.
    is_down: Option<bool>,
}

impl Health {
    /// Creates the state of one that is known to be down or up.
    fn found(is_down: bool) -> Self {
        Self { is_down: Some(is_down), ..Self::default() }
    }

    /// Handles that it is not in the neighbour table; returns true if a request is due.
    fn miss(&mut self, now: Duration) -> bool {
        let is_due = self.asked.is_none_or(|asked| now.saturating_sub(asked) >= PAUSE);
        if is_due && self.unanswered >= REQUESTS {
            self.is_down = Some(true);
        }
        is_due
    }

    /// Notes a request.
    fn note_request(&mut self, now: Duration) {
        self.asked = Some(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }
}

impl Gateways {
    /// Watches the gateways of the plan, those of learned routes up to the maximum, and no others.
    fn renew(&mut self) {
        let room = MOST.saturating_sub(self.of_plan.len());
        let others = self.learned.difference(&self.of_plan).take(room);
        let wanted: BTreeSet<Gateway> = self.of_plan.iter().chain(others).copied().collect();
        self.all.retain(|gateway, _| wanted.contains(gateway));
        for gateway in wanted {
            self.all.entry(gateway).or_default();
        }
    }

    /// Returns the gateways to be avoided, if they have changed since the last report. The first report waits until the state of all is
    /// known: until then members avoid those of the table of an earlier data plane or group.
    fn news(&mut self) -> Option<BTreeSet<Gateway>> {
        if self.all.is_empty() && self.told.as_ref().is_none_or(BTreeSet::is_empty) {
            return None;
        }
        if self.told.is_none() && self.all.values().any(|health| health.is_down.is_none()) {
            return None;
        }
        let is_down = |(_, health): &(&Gateway, &Health)| health.is_down == Some(true);
        let down = self.all.iter().filter(is_down).map(|(gateway, _)| *gateway);
        let down: BTreeSet<Gateway> = down.collect();
        if self.told.as_ref() == Some(&down) {
            return None;
        }
        self.told = Some(down.clone());
        Some(down)
    }
}

impl Core {
    fn gateways(&self) -> MutexGuard<'_, Gateways> {
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the watched gateways of a group's plan.
    pub(super) fn set_gateways(&self, group: &Group) {
        let mut gateways = self.gateways();
        gateways.of_plan = group.common_gateways();
        gateways.renew();
    }

    /// Sets the watched gateways of learned routes.
    pub(super) fn watch_gateways(&self, mut learned: BTreeSet<Gateway>) {
        learned.retain(|(number, _)| self.interface(*number).is_some());
        let mut gateways = self.gateways();
        gateways.learned = learned;
        gateways.renew();
    }

    /// Checks which gateways are in the neighbour table, and sends requests for the others.
    pub(super) fn attend_gateways(&self, table: &NeighbourTable, (members, now): (&Members, Duration)) {
        let mut left = AT_ONCE;
        for ((number, ip), health) in &mut self.gateways().all {
            let Some(interface @ (_, link, segment)) = self.interface(*number) else { continue };
            // Without an own IPv6 address no request is possible, so no member reaches it.
            let is_mute = ip.is_ipv6() && !segment.nodes().takes_part();
            if is_mute || !link.is_usable(now) {
                *health = Health::found(true);
            } else if table.find(segment.number, neighbour(*ip)).is_some() {
                *health = Health::found(false);
            } else if health.miss(now) && left > 0 {
                left -= 1;
                // A request that no member could send does not count.
                if self.ask_gateway(*ip, interface, (members, now)) {
                    health.note_request(now);
                }
            }
        }
    }

    /// Sends a request for a gateway behind an interface; returns true if it was sent.
    fn ask_gateway(
        &self,
        ip: IpAddr,
        interface: Interface<'_>,
        (members, now): (&Members, Duration),
    ) -> bool {
        let (_, link, segment) = interface;
        match ip {
            IpAddr::V4(ip) => {
                let mut question = {
                    let mut hosts = segment.hosts();
                    hosts.expect(ip.to_bits(), now);
                    hosts.question(ip.to_bits(), Mac::BROADCAST)
                };
                self.send_question((interface, &link.counters.arp_asked), &mut question, members)
            }
            IpAddr::V6(ip) => {
                let mut question = {
                    let mut nodes = segment.nodes();
                    nodes.expect(ip.to_bits(), now);
                    nodes.question(ip.to_bits(), Mac::BROADCAST)
                };
                self.send_question((interface, &link.counters.nd_asked), &mut question, members)
            }
        }
    }

    /// Returns the gateways that members should avoid, if they have changed since the last call.
    pub(super) fn take_gateways(&self) -> Option<BTreeSet<Gateway>> {
        self.gateways().news()
    }

    /// Forgets the last report, because another group with this name reports now: if this one stays instead, it reports its own again.
    pub(super) fn forget_told_gateways(&self) {
        self.gateways().told = None;
    }
}

/// Converts the address of a gateway to the neighbour table's type.
const fn neighbour(ip: IpAddr) -> Ip {
    match ip {
        IpAddr::V4(ip) => Ip::v4(ip.to_bits()),
        IpAddr::V6(ip) => Ip::v6(ip.to_bits()),
    }
}
