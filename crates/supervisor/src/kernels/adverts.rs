//! Router advertisements of kernel routers (RFC 4861, 6.2). The kernel sends none, so a thread of the run does, by a socket for each
//! interface that advertises itself, opened in the namespace of its router. What is said, and when, is that of all engines
//! (`router::advertising`).

mod interface;
mod thread;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};
use config::six::Advertise;
use engine::now_ns;
use frame::{Mac, ipv6};
use kernel_router::Router;
use netlink::{Address, Link};
use netns::Id;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use uplink::solicitations::RouterSolicitations;

use super::backend::Counted;
use crate::bell::{Ringer, belled};
use interface::{Interface, Settings};
use thread::Thread;

/// What an interface is to advertise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    /// Its name.
    pub(super) interface: String,
    /// Its link-local address, if the file gives one.
    pub(super) source: Option<Ipv6Addr>,
    /// What the file says.
    pub(super) wanted: Advertise,
}

/// Interfaces of a router that advertise themselves, in the namespace to which their indices belong.
struct Speaker {
    namespace: Id,
    interfaces: Vec<Interface<RouterSolicitations>>,
}

/// Speakers by router; the thread and those that change routers take turns.
#[derive(Clone, Default)]
struct Speakers(Arc<Mutex<BTreeMap<String, Speaker>>>);

impl Speakers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Speaker>> {
        // Each change of an interface is complete at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Router advertisements of all kernel routers of a run.
#[derive(Default)]
pub(super) struct Adverts {
    speakers: Speakers,
    /// Sockets and the bell for which the thread waits; `None`: no router has advertised itself yet.
    waits: Option<Arc<OwnedFd>>,
    thread: Option<(Ringer<()>, JoinHandle<()>)>,
}

impl Adverts {
    /// Advertises what a router's file says at its present interfaces; to be called after the router was created, changed, restarted
    /// or repaired. Hosts behind an interface that advertised itself, and is not to any more, are told.
    ///
    /// # Errors
    /// One line: the kernel gives no socket, or no thread. The interfaces that have a socket advertise themselves all the same.
    pub(super) fn follow(&mut self, router: &Router, wanted: &[Advert]) -> Result<()> {
        let name = router.wanted().name.as_str();
        if wanted.is_empty() && !self.speakers.lock().contains_key(name) {
            return Ok(());
        }
        let waits = self.attend().context("router advertisements")?;
        let (id, settings) = (router.namespace().id()?, present(router, wanted)?);
        let before = self.speakers.lock().remove(name).filter(|speaker| speaker.namespace == id);
        let mut before = before.map(|speaker| speaker.interfaces).unwrap_or_default();
        let (mut interfaces, mut refused) = (Vec::new(), None);
        for settings in settings {
            let known = before.iter().position(|known| known.is_at(&settings));
            match known.map(|place| before.swap_remove(place)) {
                Some(mut known) => {
                    known.set(settings, now());
                    interfaces.push(known);
                }
                None => match open(router, &settings, &waits) {
                    Ok(socket) => interfaces.push(Interface::new(socket, settings, now())),
                    Err(refusal) => refused = Some(refusal),
                },
            }
        }
        before.iter().for_each(Interface::say_farewell);
        self.speakers.lock().insert(name.to_owned(), Speaker { namespace: id, interfaces });
        self.ring();
        refused.map_or(Ok(()), Err)
    }

    /// Tells hosts that a router is none any more (RFC 4861, 6.2.5), before it ends by order, and forgets it.
    pub(super) fn say_farewell(&self, router: &str) {
        let gone = self.speakers.lock().remove(router);
        gone.iter().flat_map(|speaker| &speaker.interfaces).for_each(Interface::say_farewell);
    }

    /// Forgets a router that has ended, or is about to be made anew.
    pub(super) fn forget(&self, router: &str) {
        drop(self.speakers.lock().remove(router));
    }

    /// Forgets all routers.
    pub(super) fn forget_all(&self) {
        self.speakers.lock().clear();
    }

    /// Starts the thread again if it has died.
    pub(super) fn tend(&mut self) {
        if self.thread.is_some() {
            // It is tried again at the next check.
            let _ = self.attend();
        }
    }

    /// Adds the counters, such as `edge.lan.ra.sent`.
    pub(super) fn count(&self, router: &str, counted: &mut Counted) {
        let speakers = self.speakers.lock();
        for interface in speakers.get(router).into_iter().flat_map(|speaker| &speaker.interfaces) {
            for (name, value) in interface.counts() {
                counted.counters.insert(format!("{router}.{}.ra.{name}", interface.name()), value);
            }
        }
    }

    /// Starts the thread if there is none; returns what it waits for.
    fn attend(&mut self) -> Result<Arc<OwnedFd>> {
        let waits = match &self.waits {
            Some(waits) => waits.clone(),
            None => Arc::new(epoll::create(CreateFlags::CLOEXEC)?),
        };
        self.waits = Some(waits.clone());
        if self.thread.as_ref().is_some_and(|(_, thread)| !thread.is_finished()) {
            return Ok(waits);
        }
        let (ringer, listener) = belled()?;
        epoll::add(&*waits, listener.watched(), EventData::new_u64(0), EventFlags::IN)?;
        let thread = Thread::new(waits.clone(), listener, self.speakers.clone());
        let named = Builder::new().name("ringroad/adverts".to_owned());
        self.thread = Some((ringer, named.spawn(move || thread.serve())?));
        Ok(waits)
    }

    /// Wakes the thread: the next advertisement may be due earlier than it knows.
    fn ring(&self) {
        if let Some((ringer, _)) = &self.thread {
            ringer.send(());
        }
    }
}

/// Reads CLOCK_MONOTONIC, in milliseconds.
fn now() -> u64 {
    now_ns() / 1_000_000
}

/// Returns the settings of those of the interfaces that are there; a missing one begins after it was repaired.
fn present(router: &Router, wanted: &[Advert]) -> Result<Vec<Settings>> {
    let kernel = router.namespace().netlink()?;
    let own = kernel.all::<Address>()?;
    let settings = |advert: &Advert| {
        let link = kernel.link(advert.interface.as_str()).ok()?;
        Some(Settings {
            name: advert.interface.clone(),
            index: link.index,
            mac: Mac(link.mac?),
            mtu: link.mtu,
            source: source(advert, &link, &own)?,
            wanted: advert.wanted.clone(),
        })
    };
    Ok(wanted.iter().filter_map(settings).collect())
}

/// Returns the link-local address of an interface: that of its file, that which it has, or that which it will have when its link is up.
fn source(advert: &Advert, link: &Link, own: &[Address]) -> Option<Ipv6Addr> {
    let mut of_link =
        own.iter().filter(|own| own.index == link.index).filter_map(|own| match own.prefix.ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => Some(ip),
            _ => None,
        });
    let derived = || Some(Ipv6Addr::from_bits(ipv6::link_local(Mac(link.mac?))));
    advert.source.or_else(|| of_link.next()).or_else(derived)
}

/// Opens the socket of an interface, for which the thread waits from now on.
fn open(router: &Router, settings: &Settings, waits: &OwnedFd) -> Result<RouterSolicitations> {
    let opened = || -> Result<RouterSolicitations> {
        let socket = router.namespace().within(|| RouterSolicitations::open(settings.index))??;
        epoll::add(waits, &socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(socket)
    };
    opened().with_context(|| format!("router {}, NIC {}: ra", router.wanted().name, settings.name))
}

#[cfg(test)]
mod tests;
