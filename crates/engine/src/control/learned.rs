//! What routers have learned from their control planes. It outlives their restarts.

mod given;
mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use config::learned::{LearnedFate, LearnedMac, LearnedRoute, Lesson};
use fib::{Error, NextHop, Rib, six};
use given::Given;
use groups::{Groups, Known};
use vmm::{Machine, RouteTable};

use crate::routes::Hops;

/// Most looks between two attempts to write what did not fit: about six seconds.
const LONGEST_PAUSE: u32 = 63;

/// Number of the table of NICs without a VRF: a control plane knows no other.
const MAIN: usize = 0;

/// Network: first address, prefix length.
pub(crate) type Network = (IpAddr, u8);

/// Next hops that a network has where none were learned; `None`: no route.
pub(crate) type Below<'b> = &'b dyn Fn(&Network) -> Option<Hops>;

/// Below the routes of a single router: its control plane has those of the file in its namespace, and teaches them as well.
const NOTHING: Below<'static> = &|_: &Network| None;

/// Gateways that do not answer, by the number of their link.
pub(crate) type Silent = Arc<BTreeSet<(usize, IpAddr)>>;

/// What the routers of an instance have learned, by name.
#[derive(Clone, Default)]
pub struct Learning(Arc<Mutex<BTreeMap<String, Arc<Learned>>>>);

impl Learning {
    /// What a router has learned; nothing yet, if it is new.
    pub(crate) fn of(&self, router: &str) -> Arc<Learned> {
        self.lock().entry(router.to_owned()).or_default().clone()
    }

    /// Gateways of a router that do not answer, as its control plane says.
    pub(crate) fn silent(&self, router: &str) -> Silent {
        self.lock().get(router).map(|learned| learned.silent()).unwrap_or_default()
    }

    /// Forgets all other routers.
    pub(crate) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        self.lock().retain(|name, _| is_kept(name));
    }

    /// Tries again what did not fit into the route tables.
    pub(crate) fn look_after(&self) {
        self.lock().values().for_each(|learned| learned.catch_up());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Learned>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a router has learned.
#[derive(Default)]
pub(crate) struct Learned {
    routes: Mutex<LearnedRoutes>,
    silent: Mutex<Silent>,
    /// Addresses of its control plane, in order.
    addresses: Mutex<Arc<Vec<IpAddr>>>,
    /// Ethernet addresses of virtual routers that are the router's now.
    macs: Mutex<Vec<LearnedMac>>,
    /// Static neighbours of its control plane, and the machines that have them.
    given: Mutex<Given>,
    /// Changes with the addresses of both kinds.
    version: AtomicU32,
}

/// Learned routes, and the tables that follow them.
#[derive(Default)]
pub(crate) struct LearnedRoutes {
    all: BTreeMap<Network, Known>,
    groups: Groups,
    /// Networks that had a learned route and have none any more, although there is one below: its way is not to be taken, e.g. because its
    /// link has no carrier. The word of a later plan counts again.
    withdrawn: BTreeSet<Network>,
    /// Networks for which a table may not be as it should.
    late: BTreeSet<Network>,
    attempts: Attempts,
    /// While all routes are told anew: those that have not come again yet.
    stale: BTreeSet<Network>,
    tables: Vec<Follower>,
}

/// When to try again to write what did not fit. As long as nothing of it fits, attempts become rare: each costs a look at all of it.
#[derive(Default)]
struct Attempts {
    /// Looks between the last attempt and the next one.
    pause: u32,
    /// How many of them are left.
    left: u32,
}

/// A route table that follows.
struct Follower {
    table: Weak<RouteTable>,
    /// Number of links of its router.
    links: usize,
}

impl Learned {
    /// Takes news. Returns how many networks are not in all tables as they should be, because these are full.
    pub(crate) fn take(&self, lesson: &Lesson) -> usize {
        if let Some(addresses) = &lesson.addresses {
            self.set_addresses(addresses.clone());
        }
        if let Some(macs) = &lesson.macs {
            self.macs.lock().unwrap_or_else(PoisonError::into_inner).clone_from(macs);
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(neighbours) = &lesson.neighbours {
            self.given().set(neighbours);
        }
        if let Some(down) = &lesson.down {
            let silent = down.iter().map(|gateway| (gateway.link.into(), gateway.ip)).collect();
            *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(silent);
        }
        self.routes().take(lesson, NOTHING)
    }

    fn silent(&self) -> Silent {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds all learned routes to the table of a machine that is being built, and has it follow from now on.
    pub(crate) fn adopt(&self, table: &Arc<RouteTable>, links: usize) {
        self.routes().adopt(table, links, NOTHING);
    }

    /// Gives the static neighbours to a machine that is being built, and those that follow.
    pub(crate) fn give_to(&self, machine: &Arc<Machine>) {
        self.given().adopt(machine);
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries again what did not fit, unless another thread fills the table of a machine: a look does not wait for that.
    fn catch_up(&self) {
        match self.routes.try_lock() {
            Ok(mut routes) => _ = routes.catch_up(NOTHING),
            Err(TryLockError::Poisoned(poisoned)) => _ = poisoned.into_inner().catch_up(NOTHING),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Returns a number that changes with the addresses.
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the addresses of the control plane, in order.
    pub(crate) fn addresses(&self) -> Arc<Vec<IpAddr>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the Ethernet addresses that are the router's at one of its NICs, beside that of the NIC.
    pub(crate) fn macs(&self, nic: u8) -> Vec<[u8; 6]> {
        let macs = self.macs.lock().unwrap_or_else(PoisonError::into_inner);
        macs.iter().filter(|own| own.nic == nic).map(|own| own.mac).collect()
    }

    /// Returns the addresses of virtual routers at one of the router's NICs, with the Ethernet addresses by which neighbours are to know
    /// them.
    pub(crate) fn names(&self, nic: u8) -> Vec<(IpAddr, [u8; 6])> {
        let macs = self.macs.lock().unwrap_or_else(PoisonError::into_inner);
        let own = macs.iter().filter(|own| own.nic == nic);
        own.flat_map(|own| own.ips.iter().map(move |ip| (*ip, own.mac))).collect()
    }

    fn set_addresses(&self, mut addresses: Vec<IpAddr>) {
        addresses.sort_unstable();
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(addresses);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    fn routes(&self) -> MutexGuard<'_, LearnedRoutes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LearnedRoutes {
    /// Takes the groups and routes of a lesson. Returns how many networks are not in all tables as they should be, because these are
    /// full.
    pub(crate) fn take(&mut self, lesson: &Lesson, below: Below<'_>) -> usize {
        if lesson.begins {
            self.stale = self.all.keys().copied().collect();
            self.groups.telling = self.groups.telling.wrapping_add(1);
        }
        let regrouped = self.groups.set(&lesson.groups);
        let mut changed: BTreeSet<Network> =
            lesson.routes.iter().map(|route| self.note(route, below)).collect();
        if !regrouped.is_empty() {
            changed.extend(self.followers(&regrouped));
        }
        if lesson.ends {
            changed.append(&mut self.forget_stale(below));
        }
        let late = self.rewrite(changed, below);
        self.groups.remove(&lesson.groups);
        late
    }

    /// Makes these networks, and those that were late, in all tables what they should be. Returns how many are late now.
    pub(crate) fn rewrite(&mut self, mut networks: BTreeSet<Network>, below: Below<'_>) -> usize {
        let before = self.late.len();
        networks.append(&mut self.late);
        self.late = self.write(&networks, below);
        self.attempts.note(before, self.late.len());
        self.late.len()
    }

    /// Returns true if there is a learned route to this network.
    pub(crate) fn has(&self, network: &Network) -> bool {
        self.all.contains_key(network)
    }

    /// Returns the networks of learned routes.
    pub(crate) fn networks(&self) -> impl ExactSizeIterator<Item = &Network> {
        self.all.keys()
    }

    /// Returns the gateways of groups that have several next hops, for a router with so many links.
    pub(crate) fn gateways(&self, links: usize) -> BTreeSet<(usize, IpAddr)> {
        self.groups.gateways(links)
    }

    /// Takes over what others have learned, and writes it into all tables.
    pub(crate) fn learn_as(&mut self, other: &Self, below: Below<'_>) {
        self.all.clone_from(&other.all);
        self.groups = other.groups.clone();
        self.stale.clone_from(&other.stale);
        self.withdrawn = other.withdrawn.iter().filter(|network| below(network).is_some()).copied().collect();
        let networks = self.all.keys().chain(&self.withdrawn).copied().collect();
        self.rewrite(networks, below);
    }

    fn note(&mut self, route: &LearnedRoute, below: Below<'_>) -> Network {
        let network = (route.to, route.len);
        self.stale.remove(&network);
        if let Some(fate) = route.fate {
            self.withdrawn.remove(&network);
            self.all.insert(network, Known { fate, telling: self.groups.telling });
        } else {
            self.withdraw(network, below);
        }
        network
    }

    /// There is no learned route to a network any more. An own address stays one.
    fn withdraw(&mut self, network: Network, below: Below<'_>) {
        let was_there = self.all.remove(&network).is_some();
        if was_there && below(&network).is_some_and(|hops| hops != Hops::One(NextHop::Local)) {
            self.withdrawn.insert(network);
        }
    }

    /// A plan says something else of a network: that counts, unless there is a learned route.
    pub(crate) fn allow(&mut self, network: &Network) {
        self.withdrawn.remove(network);
    }

    /// Returns how many routes below are not there, because a learned one went.
    pub(crate) fn hidden(&self) -> usize {
        self.withdrawn.len()
    }

    /// Networks of which the routes follow one of these groups. What routes share is found by looking at all of them, which costs
    /// no more than writing those that are found.
    fn followers(&self, groups: &BTreeSet<u64>) -> Vec<Network> {
        let telling = self.groups.telling;
        let follows = |known: &Known| match known.fate {
            LearnedFate::Group(number) => known.telling == telling && groups.contains(&number),
            _ => false,
        };
        self.all.iter().filter(|(_, known)| follows(known)).map(|(network, _)| *network).collect()
    }

    /// Forgets what has not come again; returns its networks.
    fn forget_stale(&mut self, below: Below<'_>) -> BTreeSet<Network> {
        let gone = std::mem::take(&mut self.stale);
        for network in &gone {
            self.withdraw(*network, below);
        }
        self.groups.forget_former();
        gone
    }

    /// Adds all learned routes to a table, and has it follow from now on.
    pub(crate) fn adopt(&mut self, table: &Arc<RouteTable>, links: usize, below: Below<'_>) {
        let all: BTreeSet<Network> = self.all.keys().copied().collect();
        let late = self.write_to((table, links), &all, below);
        self.late.extend(late);
        // Its router may be restarted any number of times without news.
        self.tables.retain(|follower| follower.table.strong_count() > 0);
        self.tables.push(Follower { table: Arc::downgrade(table), links });
    }

    /// Tries again what did not fit, if that is due at this look. Returns whether it was.
    pub(crate) fn catch_up(&mut self, below: Below<'_>) -> bool {
        let is_due = !self.late.is_empty() && self.attempts.is_due();
        if is_due {
            self.rewrite(BTreeSet::new(), below);
        }
        is_due
    }

    /// Makes these networks in all tables what they should be; returns those for which a table is full.
    fn write(&mut self, networks: &BTreeSet<Network>, below: Below<'_>) -> BTreeSet<Network> {
        self.tables.retain(|follower| follower.table.strong_count() > 0);
        let alive = self.tables.iter().filter_map(|one| Some((one.table.upgrade()?, one.links)));
        alive.flat_map(|(table, links)| self.write_to((&table, links), networks, below)).collect()
    }

    /// Makes these networks in a table what they should be, in one epoch for each family; returns those that it has no room for.
    fn write_to(
        &self,
        (table, links): (&RouteTable, usize),
        networks: &BTreeSet<Network>,
        below: Below<'_>,
    ) -> Vec<Network> {
        let hops = |network: &Network| match self.all.get(network) {
            Some(known) => Some(self.groups.hops(network.0, *known, links)),
            None if self.withdrawn.contains(network) => None,
            None => below(network),
        };
        let is_four = |(to, _): &Network| to.is_ipv4();
        let (four, six): (Vec<Network>, Vec<Network>) = networks.iter().copied().partition(is_four);
        let mut late = Vec::new();
        if !four.is_empty() {
            let write = |rib: &mut Rib<'static>| -> Vec<Network> {
                four.into_iter().filter(|one| is_late(write_four(rib, *one, hops(one)))).collect()
            };
            late.extend(table.change(MAIN, write).unwrap_or_default());
        }
        if !six.is_empty() {
            let write = |rib: &mut six::Rib<'static>| -> Vec<Network> {
                six.into_iter().filter(|one| is_late(write_six(rib, *one, hops(one)))).collect()
            };
            // Without an IPv6 table its router takes no part in IPv6.
            late.extend(table.change_six(MAIN, write).unwrap_or_default());
        }
        late
    }
}

impl Attempts {
    /// Returns true if an attempt is due at this look.
    const fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Notes an attempt: how many networks were late before, and are now.
    fn note(&mut self, before: usize, now: usize) {
        let is_full = before > 0 && now >= before;
        self.pause = if is_full { (2 * self.pause + 1).min(LONGEST_PAUSE) } else { 0 };
        self.left = self.pause;
    }
}

fn write_four(rib: &mut Rib<'_>, (to, len): Network, hops: Option<Hops>) -> Result<(), Error> {
    let IpAddr::V4(to) = to else { return Ok(()) };
    match hops {
        Some(Hops::One(hop)) => rib.add(to.to_bits(), len, hop),
        Some(Hops::Several(ways)) => rib.add_ways(to.to_bits(), len, &ways),
        None => rib.remove(to.to_bits(), len),
    }
}

fn write_six(rib: &mut six::Rib<'_>, (to, len): Network, hops: Option<Hops>) -> Result<(), Error> {
    let IpAddr::V6(to) = to else { return Ok(()) };
    match hops {
        Some(Hops::One(hop)) => rib.add(to.to_bits(), len, hop),
        Some(Hops::Several(ways)) => rib.add_ways(to.to_bits(), len, &ways),
        None => rib.remove(to.to_bits(), len),
    }
}

/// Returns true if a change is to be tried again.
const fn is_late(outcome: Result<(), Error>) -> bool {
    // A prefix with bits after its length never fits, and one that is to be removed may never have fitted.
    !matches!(outcome, Ok(()) | Err(Error::Prefix | Error::Absent))
}

#[cfg(test)]
mod tests;
