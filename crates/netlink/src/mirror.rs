//! What the kernel keeps, held and followed: a notification for each change, and the whole tables again after an overrun.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;

use crate::answers::{Content, answers};
use crate::socket::{self, DATAGRAM};
use crate::{Address, Change, Link, Neighbour, Netlink, Object, Route, Rule, Table};

/// Groups of notifications (RTNLGRP_* of `linux/rtnetlink.h`): links, neighbours, addresses, routes and rules of IPv4 and IPv6.
const GROUPS: [u32; 8] = [1, 3, 5, 7, 8, 9, 11, 19];
/// Most datagrams that one [`Mirror::update`] takes, so that a storm of changes holds nobody up.
const BUDGET: usize = 256;

/// A change of what the kernel keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Of an interface.
    Link(Change<Link>),
    /// Of an address.
    Address(Change<Address>),
    /// Of a neighbour.
    Neighbour(Change<Neighbour>),
    /// Of a route.
    Route(Change<Route>),
    /// Of a rule.
    Rule(Change<Rule>),
}

/// The interfaces, addresses, neighbours, routes and rules of a namespace as the kernel last told of them.
#[derive(Debug)]
pub struct Mirror {
    kernel: Netlink,
    notifications: Socket,
    buffer: Vec<u8>,
    tables: Tables,
    /// Notifications were lost, or could not be read: the tables are to be dumped.
    overrun: bool,
}

impl Mirror {
    /// A mirror of the calling thread's namespace, with all that is there now.
    ///
    /// # Errors
    /// The kernel has no rtnetlink, there is no descriptor left, or a table never stood still.
    pub fn open() -> io::Result<Self> {
        let mut notifications = socket::open()?;
        // Without a number of its own a socket has the kernel's, which tells itself nothing.
        notifications.bind_auto()?;
        notifications.set_non_blocking(true)?;
        // A listener is told first and asks then, so that no change falls between.
        GROUPS.iter().try_for_each(|group| notifications.add_membership(*group))?;
        let (kernel, buffer) = (Netlink::open()?, vec![0; DATAGRAM]);
        let mut mirror = Self { kernel, notifications, buffer, tables: Tables::default(), overrun: true };
        mirror.update()?;
        Ok(mirror)
    }

    /// Takes what the kernel has told since last time, at most 256 datagrams, and returns what is different. It never waits for
    /// the kernel to tell something; after an overrun it dumps the tables.
    ///
    /// # Errors
    /// A table could not be dumped; the next update tries again. What was told before that is in the tables.
    pub fn update(&mut self) -> io::Result<Vec<News>> {
        let mut news = Vec::new();
        for _ in 0..BUDGET {
            match socket::receive(&self.notifications, &mut self.buffer) {
                Ok(len) => self.take(len, &mut news),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // ENOBUFS, once an overrun, and anything else that has cost a notification.
                Err(_) => self.overrun = true,
            }
        }
        if self.overrun {
            self.tables.dump(&self.kernel, &mut news)?;
            self.overrun = false;
        } else if self.tables.routes_are_old {
            self.tables.dump_routes(&self.kernel, &mut news)?;
        }
        Ok(news)
    }

    /// Readable when the kernel has told something.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }

    /// The socket by which its namespace can be changed.
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

    /// Neighbours.
    pub const fn neighbours(&self) -> &Table<Neighbour> {
        &self.tables.neighbours
    }

    /// Routes of all tables.
    pub const fn routes(&self) -> &Table<Route> {
        &self.tables.routes
    }

    /// Rules.
    pub const fn rules(&self) -> &Table<Rule> {
        &self.tables.rules
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
    /// Routes may have gone without a word: the kernel tells of no IPv4 route that goes with an interface or an address.
    routes_are_old: bool,
}

impl Tables {
    /// Takes a notification.
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
                take(&mut self.routes, message, replaces, |change| news.push(News::Route(change)));
            }
            M::NewRule(_) | M::DelRule(_) => {
                take(&mut self.rules, message, replaces, |change| news.push(News::Rule(change)));
            }
            _ => {}
        }
    }

    /// Has all tables as the kernel has them now.
    fn dump(&mut self, kernel: &Netlink, news: &mut Vec<News>) -> io::Result<()> {
        self.links.take_all(kernel.all()?, &mut |change| news.push(News::Link(change)));
        self.addresses.take_all(kernel.all()?, &mut |change| news.push(News::Address(change)));
        self.neighbours.take_all(kernel.all()?, &mut |change| news.push(News::Neighbour(change)));
        self.rules.take_all(kernel.all()?, &mut |change| news.push(News::Rule(change)));
        self.dump_routes(kernel, news)
    }

    fn dump_routes(&mut self, kernel: &Netlink, news: &mut Vec<News>) -> io::Result<()> {
        self.routes.take_all(kernel.all()?, &mut |change| news.push(News::Route(change)));
        self.routes_are_old = false;
        Ok(())
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

/// Whether IPv4 routes may have gone with it.
fn takes_routes_along(news: &News) -> bool {
    match news {
        News::Link(Change::Set(link)) => !link.up,
        News::Link(Change::Gone(_)) | News::Address(Change::Gone(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
