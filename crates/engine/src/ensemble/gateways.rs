//! Gateways of routes that have several, where members have one route table: whether they answer is seen here for all members, and told
//! to the supervisor, which alone writes the table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use config::Group;
use frame::Mac;
use router::Ip;
use vmm::NeighbourTable;

use super::Core;
use super::neighbours::Members;

/// Between two requests for a gateway that is not known.
const PAUSE: Duration = Duration::from_secs(1);
/// Requests without an answer after which it is avoided.
const REQUESTS: u32 = 3;

/// A gateway: the number of its NIC, and its address.
pub(crate) type Gateway = (usize, Ipv4Addr);

/// The gateways of a group.
#[derive(Default)]
pub(super) struct Gateways {
    all: BTreeMap<Gateway, Health>,
    /// Those that were told to be avoided; none: nothing was told yet.
    told: Option<BTreeSet<Gateway>>,
}

/// What is known of a gateway.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    /// When it was asked for last, as it is not known.
    asked: Option<Duration>,
    /// Requests without an answer.
    unanswered: u32,
    is_down: bool,
}

impl Health {
    /// It is not known now; whether it is to be asked for.
    fn miss(&mut self, now: Duration) -> bool {
        let is_due = self.asked.is_none_or(|asked| now.saturating_sub(asked) >= PAUSE);
        self.is_down |= is_due && self.unanswered >= REQUESTS;
        is_due
    }

    /// It was asked for.
    fn note_request(&mut self, now: Duration) {
        self.asked = Some(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }
}

impl Gateways {
    /// Those that are to be avoided, where they are others than were told last.
    fn news(&mut self) -> Option<BTreeSet<Gateway>> {
        if self.all.is_empty() && self.told.as_ref().is_none_or(BTreeSet::is_empty) {
            return None;
        }
        let down = self.all.iter().filter(|(_, health)| health.is_down).map(|(gateway, _)| *gateway);
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

    /// Has the gateways of a group be watched, and no other ones.
    pub(super) fn set_gateways(&self, group: &Group) {
        let wanted = group.common_gateways();
        let mut gateways = self.gateways();
        gateways.all.retain(|gateway, _| wanted.contains(gateway));
        for gateway in wanted {
            gateways.all.entry(gateway).or_default();
        }
    }

    /// Looks which gateways are known, and asks for the others.
    pub(super) fn attend_gateways(&self, table: &NeighbourTable, (members, now): (&Members, Duration)) {
        for ((nic, ip), health) in &mut self.gateways().all {
            let Some(link) = self.links.get(*nic) else { continue };
            let ip = ip.to_bits();
            if !link.is_usable(now) {
                *health = Health { is_down: true, ..Health::default() };
            } else if table.find(*nic as u8, Ip::v4(ip)).is_some() {
                *health = Health::default();
            } else if health.miss(now) {
                let mut question = {
                    let mut hosts = link.hosts();
                    hosts.expect(ip, now);
                    hosts.question(ip, Mac::BROADCAST)
                };
                // What no member could send is no request.
                if self.send_question((*nic, &link.counters.arp_asked), &mut question, members) {
                    health.note_request(now);
                }
            }
        }
    }

    /// The gateways that members are to avoid, where they are others than at the last call.
    pub(super) fn take_gateways(&self) -> Option<BTreeSet<Gateway>> {
        self.gateways().news()
    }
}
