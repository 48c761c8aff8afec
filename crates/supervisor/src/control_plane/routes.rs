//! Routes of a control namespace on their way to the data plane: those of zebra come by FPM, all others from the kernel. What has
//! changed is told in lessons, of which a few may be under way at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use config::Router;
use config::learned::{LearnedGateway, LearnedMac, LearnedNeighbour, Lesson};
use control::{Port, Ports, Translator};
use fpm::Session;
use netlink::{Change, Link, Mirror, News, NextHop, Object, Route, RouteId, RouteKind};

use super::counts::Counts;
use super::static_neighbours::static_neighbours;
use super::taught::{MAIN, Taught};

/// Most lessons under way, or written at a time.
pub(super) const MOST_LESSONS: usize = 4;
/// Index of `lo` in each namespace.
const LOOPBACK: u32 = 1;

/// Ethernet addresses of virtual routers without their numbers, for IPv4 and IPv6 (RFC 5798, 7.3).
const VIRTUAL: [[u8; 5]; 2] = [[0, 0, 0x5e, 0, 1], [0, 0, 0x5e, 0, 2]];

/// Key of a route in a mirror.
type RouteKey = (RouteId, (RouteKind, Option<u32>, Vec<NextHop>));

/// Routes and addresses of a control namespace.
pub(super) struct Routes {
    pub(super) session: Session,
    ports: Ports,
    /// Number of the NIC of each link.
    nics: Vec<u8>,
    translator: Translator,
    table: Taught,
    /// Routes of the kernel that are in the session's table.
    followed: BTreeMap<RouteKey, Route>,
    /// Indices of interfaces without carrier: nothing goes by routes out of them.
    down: BTreeSet<u32>,
    /// Next hops of which BFD says that they do not answer.
    silent: BTreeSet<(u32, IpAddr)>,
    /// True if something was taken since the last batch.
    is_changed: bool,
    /// Addresses as they were told last.
    addresses: Vec<IpAddr>,
    /// Ethernet addresses beside those of NICs, as they were told last.
    macs: Vec<LearnedMac>,
    /// Static neighbours, as they were told last.
    neighbours: Vec<LearnedNeighbour>,
    telling: Telling,
    counts: Counts,
}

/// What is to be told, and may be.
#[derive(Default)]
struct Telling {
    /// Lessons that may be sent.
    credit: usize,
    /// True if everything is being told, from the beginning or further.
    begins: bool,
    is_anew: bool,
    addresses: bool,
    macs: bool,
    neighbours: bool,
    /// Next hops that do not answer.
    silent: bool,
}

impl Routes {
    /// Starts with what is there.
    pub(super) fn new(router: &Router, mirror: &Mirror, counts: Counts) -> Self {
        let mut routes = Self {
            // Which FRR it is becomes known when it is to run.
            session: Session::new(false).counted_by(counts.fpm.clone()),
            ports: Ports::default(),
            nics: Vec::new(),
            translator: Translator::counted_by(counts.routes.clone()),
            table: Taught::default(),
            followed: BTreeMap::new(),
            down: BTreeSet::new(),
            silent: BTreeSet::new(),
            is_changed: false,
            addresses: Vec::new(),
            macs: Vec::new(),
            neighbours: Vec::new(),
            telling: Telling::default(),
            counts,
        };
        routes.follow(router, mirror);
        routes.resynchronize(mirror);
        routes
    }

    /// Takes everything that a mirror shows: changes may have been missed.
    pub(super) fn resynchronize(&mut self, mirror: &Mirror) {
        for link in mirror.links().iter() {
            self.ports.take(&Change::Set(link.clone()));
            self.note_carrier(link, true);
        }
        self.ports_have_changed();
        self.take_all_routes(&mirror.routes().iter().collect::<Vec<_>>());
        self.note_addresses(mirror);
    }

    /// Takes these routes of the kernel, and forgets all others.
    fn take_all_routes(&mut self, all: &[&Route]) {
        let there: BTreeSet<RouteKey> = all.iter().map(|route| route.key()).collect();
        let gone: Vec<Route> = self
            .followed
            .iter()
            .filter(|(key, _)| !there.contains(*key))
            .map(|(_, route)| route.clone())
            .collect();
        gone.iter().for_each(|route| self.forget(route));
        all.iter().for_each(|route| self.take_route(route));
    }

    /// Follows other NICs.
    pub(super) fn follow(&mut self, router: &Router, mirror: &Mirror) {
        let links = links(router);
        let port = |(number, (name, _)): (usize, &(&str, usize))| {
            let port = Port { nic: u8::try_from(number).ok()?, vlan: 0 };
            Some(((*name).to_owned(), port))
        };
        self.ports = Ports::new(links.iter().enumerate().filter_map(port));
        self.nics = links.iter().map(|(_, nic)| u8::try_from(*nic).unwrap_or(u8::MAX)).collect();
        for link in mirror.links().iter() {
            self.ports.take(&Change::Set(link.clone()));
        }
        self.ports_have_changed();
        self.note_addresses(mirror);
    }

    /// Notes that an index means another port, or none any more.
    fn ports_have_changed(&mut self) {
        self.translator.ports_changed(&self.ports, &mut self.table);
        self.is_changed = true;
        // Gateways are told by their ports. What was to be told before is still to be told.
        self.telling.silent |= !self.silent.is_empty();
    }

    /// Takes a change of what `mirror` shows.
    pub(super) fn take(&mut self, news: &News, mirror: &Mirror) {
        match news {
            News::Link(change) => self.take_link(change, mirror),
            News::Route(Change::Set(route)) => self.take_route(route),
            News::Route(Change::Gone(route)) => self.forget(route),
            News::Address(_) => self.note_addresses(mirror),
            News::Neighbour(_) | News::Rule(_) => {}
        }
    }

    fn take_link(&mut self, change: &Change<Link>, mirror: &Mirror) {
        if self.ports.take(change) {
            self.ports_have_changed();
        }
        let (link, is_there) = match change {
            Change::Set(link) => (link, true),
            Change::Gone(link) => (link, false),
        };
        if self.note_carrier(link, is_there) {
            let is_by_it = |route: &&Route| route.next_hops.iter().any(|hop| hop.index == link.index);
            mirror.routes().iter().filter(is_by_it).for_each(|route| self.take_route(route));
        }
        if is_virtual(link) {
            self.note_addresses(mirror);
        }
    }

    /// Notes whether a link has carrier. Returns true if that is new.
    fn note_carrier(&mut self, link: &Link, is_there: bool) -> bool {
        if is_there && !link.running { self.down.insert(link.index) } else { self.down.remove(&link.index) }
    }

    /// Takes a route of the kernel. Without carrier it makes way for other routes to its network.
    fn take_route(&mut self, route: &Route) {
        let mut hops = route.next_hops.iter();
        let has_carrier = route.next_hops.is_empty() || hops.any(|hop| !self.down.contains(&hop.index));
        if !is_followed(route) || !has_carrier {
            return self.forget(route);
        }
        self.session.rib_mut().add_local(route);
        self.followed.insert(route.key(), route.clone());
        self.is_changed = true;
    }

    fn forget(&mut self, route: &Route) {
        if let Some(route) = self.followed.remove(&route.key()) {
            self.session.rib_mut().remove_local(&route);
            self.is_changed = true;
        }
    }

    /// Notes which addresses are the router's: not those of a virtual router of which another one is the master.
    fn note_addresses(&mut self, mirror: &Mirror) {
        let link = |index: u32| mirror.links().of(&index).next();
        let is_held = |index: u32| link(index).is_none_or(|link| !is_virtual(link) || is_master(link));
        let own = mirror.addresses().iter().filter(|address| is_held(address.index));
        let ips: BTreeSet<IpAddr> =
            own.map(|address| address.prefix.ip).filter(|ip| !ip.is_loopback()).collect();
        // One without addresses was not taken over by vrrpd yet.
        let with_addresses = mirror.addresses().iter().filter(|address| !is_of_link(address.prefix.ip));
        let virtuals = with_addresses
            .filter_map(|address| Some((self.virtual_mac(link(address.index)?)?, address.prefix.ip)));
        let (ips, macs) = (ips.into_iter().collect::<Vec<_>>(), learned_macs(virtuals));
        if ips != self.addresses {
            (self.addresses, self.telling.addresses) = (ips, true);
        }
        if macs != self.macs {
            (self.macs, self.telling.macs) = (macs, true);
        }
    }

    /// Notes which static neighbours somebody has entered in the namespace.
    pub(super) fn note_neighbours(&mut self, router: &Router, mirror: &Mirror) {
        let found = static_neighbours(&self.ports, router, mirror.neighbours().iter());
        if found != self.neighbours {
            (self.neighbours, self.telling.neighbours) = (found, true);
        }
    }

    /// Number of the NIC, and Ethernet address, of a virtual router of which this one is the master.
    fn virtual_mac(&self, link: &Link) -> Option<(u8, [u8; 6])> {
        let mac = link.mac.filter(|_| is_virtual(link) && is_master(link))?;
        let below = self.ports.get(link.lower?)?;
        Some((*self.nics.get(usize::from(below.nic))?, mac))
    }

    /// Takes a verdict of BFD: the next hop at this address of an interface answers, or does not. Index 0: of any.
    pub(super) fn judge(&mut self, (index, via): (u32, IpAddr), is_alive: bool, mirror: &Mirror) {
        match index {
            0 => self.judge_at(mirror.links().iter().map(|link| link.index), via, is_alive),
            index => self.judge_at([index], via, is_alive),
        }
    }

    fn judge_at(&mut self, indices: impl IntoIterator<Item = u32>, via: IpAddr, is_alive: bool) {
        for index in indices {
            if self.session.rib_mut().judge(index, via, is_alive) {
                (self.is_changed, self.telling.silent) = (true, true);
            }
            if is_alive {
                self.silent.remove(&(index, via))
            } else {
                self.silent.insert((index, via))
            };
        }
    }

    /// Nobody judges next hops any more.
    pub(super) fn forget_verdicts(&mut self) {
        self.silent.clear();
        if self.session.rib_mut().forget_verdicts() {
            (self.is_changed, self.telling.silent) = (true, true);
        }
    }

    /// Gateways that do not answer.
    fn silent_gateways(&self) -> Vec<LearnedGateway> {
        let gateway =
            |(index, ip): &(u32, IpAddr)| Some(LearnedGateway { link: self.ports.get(*index)?.nic, ip: *ip });
        self.silent.iter().filter_map(gateway).collect()
    }

    /// zebra will not come back: its routes go.
    pub(super) fn forget_zebra(&mut self) {
        self.session.closed();
        self.session.rib_mut().mark();
        self.session.rib_mut().sweep(true);
        self.is_changed = true;
    }

    /// Notes that zebra has said something.
    pub(super) const fn has_changed(&mut self) {
        self.is_changed = true;
    }

    /// Ends a batch: what has changed is to be told.
    pub(super) fn flush(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let Self { session, ports, translator, table, .. } = self;
        session.changes(&mut |change| translator.take(&change, ports, table));
        translator.publish(ports, table);
        session.published();
    }

    /// Notes how much there is, for others to read.
    pub(super) fn count(&self) {
        let (routes, groups) = self.table.size();
        self.counts.sizes.note(routes, groups, self.session.rib().stale());
    }

    /// A new data plane knows nothing: it is told everything.
    pub(super) fn tell_anew(&mut self) {
        self.table.tell_anew();
        self.telling = Telling {
            credit: MOST_LESSONS,
            begins: true,
            is_anew: true,
            addresses: true,
            macs: true,
            neighbours: true,
            silent: true,
        };
    }

    /// A new data plane knows nothing: it is told what it is to know where routes are written here.
    pub(super) const fn tell_names(&mut self) {
        (self.telling.addresses, self.telling.macs) = (true, true);
    }

    /// A lesson was taken.
    pub(super) fn has_learned(&mut self) {
        self.telling.credit = (self.telling.credit + 1).min(MOST_LESSONS);
    }

    /// The next lesson, if there is something to tell and it may be sent.
    pub(super) fn lesson(&mut self) -> Option<Lesson> {
        let Telling { credit, begins, is_anew, addresses, macs, neighbours, silent } = self.telling;
        let is_due = is_anew || addresses || macs || neighbours || silent || !self.table.is_told();
        if !is_due || credit == 0 {
            return None;
        }
        (self.telling.credit, self.telling.silent) = (credit - 1, false);
        let down = silent.then(|| self.silent_gateways());
        if silent && !begins {
            // Alone and first: what follows from it may be the change of many routes.
            return Some(Lesson { down, ..Lesson::default() });
        }
        let (groups, routes) = self.table.take();
        let ends = is_anew && self.table.is_told();
        let addresses = addresses.then(|| self.addresses.clone());
        let macs = macs.then(|| self.macs.clone());
        let neighbours = neighbours.then(|| self.neighbours.clone());
        let Telling { credit, silent, .. } = self.telling;
        self.telling = Telling { credit, silent, is_anew: is_anew && !ends, ..Telling::default() };
        Some(Lesson { begins, ends, groups, routes, down, addresses, macs, neighbours })
    }
}

/// Ethernet addresses of virtual routers at the NICs with these numbers, each with its addresses.
fn learned_macs(virtuals: impl Iterator<Item = ((u8, [u8; 6]), IpAddr)>) -> Vec<LearnedMac> {
    let mut found = BTreeMap::<_, BTreeSet<IpAddr>>::new();
    virtuals.for_each(|(key, ip)| _ = found.entry(key).or_default().insert(ip));
    let found = found.into_iter().map(|(key, ips)| (key, ips.into_iter().collect()));
    found.map(|((nic, mac), ips)| LearnedMac { nic, mac, ips }).collect()
}

/// NICs of a router, and then its interfaces for VLANs: the name of each, and the number of its NIC.
pub(super) fn links(router: &Router) -> Vec<(&str, usize)> {
    let nics = router.nics.iter().enumerate().map(|(number, nic)| (nic.name.as_str(), number));
    let vlans = router.forwarding.interfaces.iter().map(|own| (own.name.as_str(), own.nic));
    nics.chain(vlans).collect()
}

/// Returns true if a link has the Ethernet address of a virtual router.
fn is_virtual(link: &Link) -> bool {
    let number_of = |mac: &[u8; 6]| VIRTUAL.iter().any(|known| mac.starts_with(known));
    link.lower.is_some() && link.mac.as_ref().is_some_and(number_of)
}

/// Returns true if vrrpd does not keep the link of a virtual router down.
const fn is_master(link: &Link) -> bool {
    link.running && !link.proto_down
}

/// Returns true for addresses that mean something on one link only.
const fn is_of_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Returns true for routes of the kernel that packets of others may follow.
fn is_followed(route: &Route) -> bool {
    let to = route.id.to.ip;
    let is_of_host =
        route.kind == RouteKind::Unicast && route.next_hops.iter().any(|hop| hop.index == LOOPBACK);
    route.id.table == MAIN && !is_of_link(to) && !is_of_host && !to.is_loopback() && !to.is_multicast()
}

#[cfg(test)]
mod tests;
