//! What routers have learned from their control planes. It outlives their restarts.

mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use config::learned::{LearnedFate, LearnedMac, LearnedRoute, Lesson};
use fib::{Error, Rib, six};
use groups::{Groups, Hops, Known};
use vmm::RouteTable;

/// Most looks between two attempts to write what did not fit: about six seconds.
const LONGEST_PAUSE: u32 = 63;

/// Number of the table of NICs without a VRF: a control plane knows no other.
const MAIN: usize = 0;

/// Network: first address, prefix length.
type Network = (IpAddr, u8);

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
    /// Changes with the addresses of both kinds.
    version: AtomicU32,
}

#[derive(Default)]
struct LearnedRoutes {
    all: BTreeMap<Network, Known>,
    groups: Groups,
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
        if let Some(down) = &lesson.down {
            let silent = down.iter().map(|gateway| (gateway.link.into(), gateway.ip)).collect();
            *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(silent);
        }
        self.routes().take(lesson)
    }

    fn silent(&self) -> Silent {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds all learned routes to the table of a machine that is being built, and has it follow from now on.
    pub(crate) fn adopt(&self, table: &Arc<RouteTable>, links: usize) {
        self.routes().adopt(table, links);
    }

    /// Tries again what did not fit, unless another thread fills the table of a machine: a look does not wait for that.
    fn catch_up(&self) {
        match self.routes.try_lock() {
            Ok(mut routes) => routes.catch_up(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().catch_up(),
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
    fn take(&mut self, lesson: &Lesson) -> usize {
        if lesson.begins {
            self.stale = self.all.keys().copied().collect();
            self.groups.telling = self.groups.telling.wrapping_add(1);
        }
        let regrouped = self.groups.set(&lesson.groups);
        let mut changed: BTreeSet<Network> = lesson.routes.iter().map(|route| self.note(route)).collect();
        if !regrouped.is_empty() {
            changed.extend(self.followers(&regrouped));
        }
        if lesson.ends {
            changed.append(&mut self.forget_stale());
        }
        let before = self.late.len();
        changed.append(&mut self.late);
        self.late = self.write(&changed);
        self.attempts.note(before, self.late.len());
        self.groups.remove(&lesson.groups);
        self.late.len()
    }

    fn note(&mut self, route: &LearnedRoute) -> Network {
        let network = (route.to, route.len);
        self.stale.remove(&network);
        match route.fate {
            Some(fate) => self.all.insert(network, Known { fate, telling: self.groups.telling }),
            None => self.all.remove(&network),
        };
        network
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
    fn forget_stale(&mut self) -> BTreeSet<Network> {
        let gone = std::mem::take(&mut self.stale);
        for network in &gone {
            self.all.remove(network);
        }
        self.groups.forget_former();
        gone
    }

    fn adopt(&mut self, table: &Arc<RouteTable>, links: usize) {
        let all: BTreeSet<Network> = self.all.keys().copied().collect();
        let late = self.write_to(table, links, &all);
        self.late.extend(late);
        self.tables.push(Follower { table: Arc::downgrade(table), links });
    }

    fn catch_up(&mut self) {
        if !self.late.is_empty() && self.attempts.is_due() {
            let late = std::mem::take(&mut self.late);
            self.late = self.write(&late);
            self.attempts.note(late.len(), self.late.len());
        }
    }

    /// Makes these networks in all tables what they should be; returns those for which a table is full.
    fn write(&mut self, networks: &BTreeSet<Network>) -> BTreeSet<Network> {
        self.tables.retain(|follower| follower.table.strong_count() > 0);
        let alive = self.tables.iter().filter_map(|one| Some((one.table.upgrade()?, one.links)));
        alive.flat_map(|(table, links)| self.write_to(&table, links, networks)).collect()
    }

    /// Makes these networks in a table what they should be, in one epoch for each family; returns those that it has no room for.
    fn write_to(&self, table: &RouteTable, links: usize, networks: &BTreeSet<Network>) -> Vec<Network> {
        let hops = |network: &Network| Some(self.groups.hops(network.0, *self.all.get(network)?, links));
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
