//! Copy of the kernel's tables, kept current by notifications; after an overrun the tables are dumped again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;

use crate::answers::{Content, answers};
use crate::socket::{self, DATAGRAM};
use crate::{Address, Change, Link, Neighbour, Netlink, Object, Route, RouteId, Rule, Table};

/// Notification groups (RTNLGRP_* of `linux/rtnetlink.h`): links, addresses, routes and rules of IPv4 and IPv6.
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];
/// Notification group of neighbours.
const NEIGHBOURS: u32 = 3;
/// Most datagrams handled by one [`Mirror::update`], so that a storm of changes does not block the caller.
const BUDGET: usize = 256;

/// Change of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Change of an interface.
    Link(Change<Link>),
    /// Change of an address.
    Address(Change<Address>),
    /// Change of a neighbour.
    Neighbour(Change<Neighbour>),
    /// Change of a route.
    Route(Change<Route>),
    /// Change of a rule.
    Rule(Change<Rule>),
}

/// Part of the tables that a mirror keeps, beside all interfaces, addresses and rules if it is not neighbours alone.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Says which routes. Those of a routing daemon may be a million, and known from the daemon itself.
    pub routes: fn(&Route) -> bool,
    /// True if neighbours are kept. Stations on the links may change them all the time.
    pub neighbours: bool,
    /// True if nothing else is kept: so many changes of neighbours that some are lost cost no dump of other tables.
    pub nothing_else: bool,
}

impl Default for Kept {
    /// All routes, and neighbours.
    fn default() -> Self {
        Self { routes: |_| true, neighbours: true, nothing_else: false }
    }
}

impl Kept {
    /// Neighbours alone.
    pub const fn neighbours() -> Self {
        Self { routes: |_| false, neighbours: true, nothing_else: true }
    }
}

/// Interfaces, addresses, neighbours, routes and rules of a namespace, as last reported by the kernel.
#[derive(Debug)]
pub struct Mirror {
    kernel: Netlink,
    notifications: Socket,
    buffer: Vec<u8>,
    tables: Tables,
    /// True if notifications were lost or could not be parsed: the tables must be dumped.
    overrun: bool,
}

impl Mirror {
    /// Creates a mirror of the calling thread's namespace, with the present content of its tables.
    ///
    /// # Errors
    /// The kernel has no rtnetlink, the process is out of descriptors, or a table changed during each of many
    /// dumps.
    pub fn open() -> io::Result<Self> {
        Self::open_with(Kept::default())
    }

    /// Creates a mirror that keeps a part of the tables.
    ///
    /// # Errors
    /// See [`Mirror::open`].
    pub fn open_with(kept: Kept) -> io::Result<Self> {
        let mut notifications = socket::open()?;
        // An unbound socket has port 0, which is the kernel's and receives no notifications.
        notifications.bind_auto()?;
        notifications.set_non_blocking(true)?;
        // Subscribing precedes the dump, so that no change is missed.
        let others = GROUPS.into_iter().filter(|_| !kept.nothing_else);
        let mut groups = others.chain(kept.neighbours.then_some(NEIGHBOURS));
        groups.try_for_each(|group| notifications.add_membership(group))?;
        let (kernel, buffer) = (Netlink::open()?, vec![0; DATAGRAM]);
        let tables = Tables { kept, ..Tables::default() };
        let mut mirror = Self { kernel, notifications, buffer, tables, overrun: true };
        while mirror.overrun {
            mirror.update()?;
        }
        Ok(mirror)
    }

    /// Handles the notifications since the last call, at most 256 datagrams, and returns the changes. Never
    /// waits for a notification. After an overrun it dumps the tables, once the socket is empty: until then the
    /// kernel discards all further notifications, without another error (`NETLINK_S_CONGESTED`).
    ///
    /// # Errors
    /// A table could not be dumped; the next update tries again. Earlier notifications are in the tables.
    pub fn update(&mut self) -> io::Result<Vec<News>> {
        let mut news = Vec::new();
        let is_empty = self.receive(&mut news);
        if self.overrun {
            if !is_empty {
                return Ok(news);
            }
            self.tables.dump(&self.kernel, &mut news)?;
            self.overrun = false;
        } else if self.tables.routes_are_old {
            self.tables.take_ipv4_routes(self.kernel.ipv4_routes(self.tables.kept.routes)?, &mut news);
        }
        Ok(news)
    }

    /// Descriptor that is readable when a notification has arrived.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }

    /// Socket for changes in its namespace.
    pub const fn kernel(&self) -> &Netlink {
        &self.kernel
    }

    /// Interfaces.
    pub const fn links(&self) -> &Table<Link> {
        &self.tables.links
    }

    /// Addresses.
    pub const fn addresses(&self) -> &Table<Address> {
        &self.tables.addresses
    }

    /// Neighbours, if they are kept.
    pub const fn neighbours(&self) -> &Table<Neighbour> {
        &self.tables.neighbours
    }

    /// Routes of all tables that are kept.
    pub const fn routes(&self) -> &Table<Route> {
        &self.tables.routes
    }

    /// Rules.
    pub const fn rules(&self) -> &Table<Rule> {
        &self.tables.rules
    }

    /// Handles notifications within the budget. Returns true if none is left.
    fn receive(&mut self, news: &mut Vec<News>) -> bool {
        for _ in 0..BUDGET {
            match socket::receive(&self.notifications, &mut self.buffer) {
                Ok(len) => self.take(len, news),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                // ENOBUFS, once after an overrun, or any other error that may have lost a notification.
                Err(_) => self.overrun = true,
            }
        }
        false
    }

    fn take(&mut self, len: usize, news: &mut Vec<News>) {
        for answer in answers(&self.buffer[..len]) {
            match answer {
                Ok(answer) => {
                    if let Content::Object(message) = answer.content {
                        self.tables.take(message, answer.replaces, news);
                    }
                }
                Err(_) => self.overrun = true,
            }
        }
    }
}

/// The tables of a mirror.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) links: Table<Link>,
    pub(crate) addresses: Table<Address>,
    pub(crate) neighbours: Table<Neighbour>,
    pub(crate) routes: Table<Route>,
    pub(crate) rules: Table<Rule>,
    /// Routes may have disappeared unnoticed: the kernel does not report IPv4 routes that disappear with an
    /// interface or an address. It reports those of IPv6.
    routes_are_old: bool,
    kept: Kept,
}

impl Tables {
    /// Handles a notification.
    pub(crate) fn take(&mut self, message: RouteNetlinkMessage, replaces: bool, news: &mut Vec<News>) {
        use RouteNetlinkMessage as M;
        match message {
            M::NewLink(_) | M::DelLink(_) => {
                let before = news.len();
                take(&mut self.links, message, replaces, |change| news.push(News::Link(change)));
                self.routes_are_old |= news[before..].iter().any(takes_routes_along);
            }
            M::NewAddress(_) | M::DelAddress(_) => {
                let before = news.len();
                take(&mut self.addresses, message, replaces, |change| news.push(News::Address(change)));
                self.routes_are_old |= news[before..].iter().any(takes_routes_along);
            }
            M::NewNeighbour(_) | M::DelNeighbour(_) => {
                take(&mut self.neighbours, message, replaces, |change| news.push(News::Neighbour(change)));
            }
            M::NewRoute(_) | M::DelRoute(_) => {
                self.take_route(message, replaces, &mut |change| news.push(News::Route(change)));
            }
            M::NewRule(_) | M::DelRule(_) => {
                take(&mut self.rules, message, replaces, |change| news.push(News::Rule(change)));
            }
            _ => {}
        }
    }

    /// Replaces all tables by the kernel's present ones.
    fn dump(&mut self, kernel: &Netlink, news: &mut Vec<News>) -> io::Result<()> {
        if !self.kept.nothing_else {
            self.links.take_all(kernel.all()?, &mut |change| news.push(News::Link(change)));
            self.addresses.take_all(kernel.all()?, &mut |change| news.push(News::Address(change)));
        }
        if self.kept.neighbours {
            self.neighbours.take_all(kernel.all()?, &mut |change| news.push(News::Neighbour(change)));
        }
        if self.kept.nothing_else {
            return Ok(());
        }
        self.rules.take_all(kernel.all()?, &mut |change| news.push(News::Rule(change)));
        let routes = kernel.all_kept(self.kept.routes)?;
        self.routes.take_all(routes, &mut |change| news.push(News::Route(change)));
        self.routes_are_old = false;
        Ok(())
    }

    /// Replaces the IPv4 routes by the kernel's present ones.
    fn take_ipv4_routes(&mut self, routes: Vec<Route>, news: &mut Vec<News>) {
        let is_ipv4 = |id: &RouteId| id.to.ip.is_ipv4();
        self.routes.take_part(routes, is_ipv4, &mut |change| news.push(News::Route(change)));
        self.routes_are_old = false;
    }

    fn take_route(
        &mut self,
        message: RouteNetlinkMessage,
        replaces: bool,
        tell: &mut dyn FnMut(Change<Route>),
    ) {
        match Route::read(message) {
            Some((is_there, route)) if (self.kept.routes)(&route) => {
                self.routes.take(route, is_there, replaces, tell);
            }
            Some((true, route)) if replaces => self.routes.displace(&route, tell),
            _ => {}
        }
    }
}

fn take<T: Object>(
    table: &mut Table<T>,
    message: RouteNetlinkMessage,
    replaces: bool,
    mut tell: impl FnMut(Change<T>),
) {
    if let Some((is_there, object)) = T::read(message) {
        table.take(object, is_there, replaces, &mut tell);
    }
}

/// Returns true if IPv4 routes may have disappeared with this change.
fn takes_routes_along(news: &News) -> bool {
    match news {
        News::Link(Change::Set(link)) => !link.up,
        News::Link(Change::Gone(_)) => true,
        News::Address(Change::Gone(address)) => address.prefix.ip.is_ipv4(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
