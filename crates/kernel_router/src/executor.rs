//! A router's objects in its namespace, and sockets to other namespaces while the router is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use netlink::{Generic, Link, Netlink};
use netns::Namespace;

use crate::error::Refusal;
use crate::leftover::{OtherEnd, find_link, pair_alias};
use crate::{Interface, MovedInterface, ObservedState, Origin, PeerNamespace, Surroundings};

/// A router's namespace, and the router's own objects in it.
#[derive(Debug)]
pub(crate) struct OwnNamespace {
    pub(crate) namespace: Namespace,
    /// A socket inside the namespace.
    pub(crate) kernel: Netlink,
    /// The namespace to which moved interfaces are returned.
    pub(crate) home: Namespace,
    /// Alias of the other ends of pairs.
    pub(crate) alias: String,
    /// Interfaces that were created or moved in: index and origin, by name.
    pub(crate) made: BTreeMap<String, (u32, Origin)>,
    /// Indices of the other ends of pairs at their creation, by the names of the own ends.
    pub(crate) other_ends: BTreeMap<String, u32>,
    /// Former states of interfaces that were moved in.
    pub(crate) kept: Vec<MovedInterface>,
}

impl OwnNamespace {
    /// Wraps a namespace that has none of the router's objects yet, and the router's published name.
    pub(crate) fn new(
        namespace: Namespace,
        home: Namespace,
        published: Option<&str>,
    ) -> Result<Self, netns::Error> {
        let (kernel, alias) = (namespace.netlink()?, pair_alias(published));
        let (made, other_ends) = Default::default();
        Ok(Self { namespace, kernel, home, alias, made, other_ends, kept: Vec::new() })
    }

    /// Index of an interface: of the router's own, or else of the present interface of this name.
    pub(crate) fn index(&self, interface: &str) -> io::Result<u32> {
        match self.made.get(interface) {
            Some((index, _)) => Ok(*index),
            None => Ok(self.kernel.link(interface)?.index),
        }
    }

    /// Pairs whose own ends are not in the namespace: they were deleted, or somebody has pulled them out.
    pub(crate) fn missing_pairs(&self) -> io::Result<Vec<String>> {
        let links: Vec<Link> = self.kernel.all()?;
        let is_there = |index: u32| links.iter().any(|link| link.index == index);
        let missing = self
            .made
            .iter()
            .filter(|(_, (index, origin))| matches!(origin, Origin::Veth { .. }) && !is_there(*index));
        Ok(missing.map(|(name, _)| name.clone()).collect())
    }

    /// Returns the index of the other end of a pair, if `outside`, where it was created, still has it under its name.
    pub(crate) fn former_other_end(&self, interface: &str, outside: &Netlink) -> io::Result<Option<u32>> {
        let Some((_, Origin::Veth { peer, .. })) = self.made.get(interface) else { return Ok(None) };
        let known = self.other_ends.get(interface).copied();
        let found = find_link(outside, peer)?.filter(|link| link.alias == self.alias);
        Ok(found.map(|link| link.index).filter(|index| Some(*index) == known))
    }

    /// Deletes pairs whose own ends somebody has pulled out of the namespace, by their other ends. Errors are ignored: whoever has the
    /// own end can delete the pair.
    pub(crate) fn delete_pulled_out(&self, pairs: &[String]) {
        for name in pairs {
            let Some((_, Origin::Veth { at, .. })) = self.made.get(name) else { continue };
            let Some(outside) = self.outside(at) else { continue };
            if let Ok(Some(index)) = self.former_other_end(name, &outside) {
                let _ = outside.delete_link(index);
            }
        }
    }

    /// Deletes pairs that a killed run of this router has left behind, because somebody had pulled their own ends out of its namespace:
    /// those whose other ends have the names that these interfaces need. Errors are ignored: creating a pair reports what is in the way.
    pub(crate) fn delete_stale_pairs(&self, interfaces: &[Interface]) {
        for interface in interfaces {
            let Origin::Veth { peer, at, .. } = &interface.origin else { continue };
            let Some(outside) = self.outside(at) else { continue };
            let found = find_link(&outside, peer).ok().flatten();
            if let Some(stale) = found.filter(|link| link.alias == self.alias) {
                let _ = outside.delete_link(stale.index);
            }
        }
    }

    /// Opens a socket in the namespace of a pair's other end; `None`: there is no such namespace, or the pair goes with the router to
    /// which it belongs.
    fn outside(&self, at: &PeerNamespace) -> Option<Netlink> {
        let place = match at {
            PeerNamespace::Home => self.home.clone(),
            PeerNamespace::Named(name) => Namespace::open_named(name).ok()?,
            PeerNamespace::Router(_) => return None,
        };
        place.netlink().ok()
    }

    /// Other ends of its pairs, except for those in other routers.
    pub(crate) fn pairs(&self) -> Vec<OtherEnd> {
        let other_end = |(name, index): (&String, &u32)| {
            let at = match self.made.get(name)? {
                (_, Origin::Veth { at: PeerNamespace::Home, .. }) => None,
                (_, Origin::Veth { at: PeerNamespace::Named(at), .. }) => Some(at.clone()),
                _ => return None,
            };
            Some(OtherEnd { at, index: *index })
        };
        self.other_ends.iter().filter_map(other_end).collect()
    }

    /// Former state of the host's interface `link`, which is called `interface` here.
    pub(crate) fn kept(&self, interface: &str, link: &str) -> Option<&MovedInterface> {
        self.kept.iter().find(|kept| kept.interface == interface && kept.link == link)
    }

    /// Returns interfaces to the host, and keeps the records of their former states.
    pub(crate) fn send_home(&mut self) -> io::Result<()> {
        for kept in &self.kept {
            kept.bring_home(&self.kernel, &self.home)?;
            self.made.remove(&kept.interface);
        }
        Ok(())
    }

    /// Removes the records of interfaces that have been returned, behind the first `left` records. One that could not be returned is
    /// still in the namespace, and returned at the end.
    pub(crate) fn forget_those_at_home(&mut self, left: usize) {
        let Self { made, kernel, kept, .. } = self;
        let is_here = |one: &MovedInterface| match made.get(&one.interface) {
            Some((_, Origin::Moved { link })) if *link == one.link => true,
            _ => !matches!(one.find(kernel), Ok(None)),
        };
        let mut number = 0;
        kept.retain(|one| {
            number += 1;
            number <= left || is_here(one)
        });
    }
}

/// Context of a change. The thread that carries it out is inside the namespace.
#[derive(Debug)]
pub(crate) struct Executor<'a> {
    pub(crate) own: &'a mut OwnNamespace,
    site: &'a Surroundings<'a>,
    /// Sockets to other namespaces, opened at most once.
    sockets: BTreeMap<PeerNamespace, Netlink>,
}

/// The other end of a pair.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) place: PeerNamespace,
    pub(crate) link: Link,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(own: &'a mut OwnNamespace, site: &'a Surroundings<'a>) -> Self {
        Self { own, site, sockets: BTreeMap::new() }
    }

    /// Returns the namespace of a place.
    pub(crate) fn namespace(&self, place: &PeerNamespace) -> Result<Namespace, Refusal> {
        match place {
            PeerNamespace::Home => Ok(self.site.home.clone()),
            PeerNamespace::Named(name) => Ok(Namespace::open_named(name)?),
            PeerNamespace::Router(name) => {
                self.site.others.get(name).cloned().ok_or_else(|| {
                    Refusal::Told(format!("there is no kernel router `{name}`: start it first"))
                })
            }
        }
    }

    /// Returns a socket in a place.
    pub(crate) fn socket(&mut self, place: &PeerNamespace) -> Result<&Netlink, Refusal> {
        if !self.sockets.contains_key(place) {
            let socket = self.namespace(place)?.netlink()?;
            self.sockets.insert(place.clone(), socket);
        }
        self.sockets.get(place).ok_or_else(|| Refusal::Told("its socket is gone".to_owned()))
    }

    /// Opens a generic netlink socket in a place, for features.
    pub(crate) fn generic(&self, place: &PeerNamespace) -> Result<Generic, Refusal> {
        Ok(self.namespace(place)?.within(Generic::open)??)
    }

    /// Returns the other end of one of its pairs; `None`: it was moved or renamed from outside, or the
    /// interface is no end of a pair.
    pub(crate) fn peer(&mut self, interface: &str) -> Result<Option<Peer>, Refusal> {
        let Some((index, Origin::Veth { peer, at, .. })) = self.own.made.get(interface).cloned() else {
            return Ok(None);
        };
        // The kernel reports the other end's index in its own namespace, where it must be compared.
        let other_end = self.own.kernel.link(index)?.lower;
        let found = find_link(self.socket(&at)?, &peer)?;
        let found = found.filter(|link| Some(link.index) == other_end);
        Ok(found.map(|link| Peer { place: at, link }))
    }

    /// Reads the queueing disciplines at the other ends of these pairs. That of an end which was moved or renamed stays unknown.
    pub(crate) fn look_at_queues(
        &mut self,
        pairs: &BTreeSet<String>,
        seen: &mut ObservedState,
    ) -> io::Result<()> {
        for name in pairs {
            let Some(present) = seen.interfaces.get_mut(name).filter(|present| present.origin.is_some())
            else {
                continue;
            };
            let Ok(Some(Peer { place, link })) = self.peer(name) else { continue };
            let Ok(outside) = self.socket(&place) else { continue };
            present.queue = outside.queue(link.index)?.queue;
        }
        Ok(())
    }
}
