//! Adoption of interfaces that another program, such as LXC, has created in a router's namespace: from then on they are the router's, as
//! if it had created them. It repairs and deletes them.

use std::os::fd::AsFd;

use netlink::{Link, Settings};
use netns::Namespace;

use super::{Journal, Router, Surroundings};
use crate::carry::hash;
use crate::error::Refusal;
use crate::executor::Executor;
use crate::leftover::{GROUP, find_link};
use crate::{Error, Interface, NewInterface, Object, Origin, PeerNamespace, RouterConfig, Step};

/// Returns the name that the other end of a pair has on the host until its router adopts the pair. The program that creates the pair
/// deletes an interface of this name at its end, which must not be another one.
pub fn name_to_adopt(router: &str, interface: &str) -> String {
    format!("rr_{:08x}", hash(router.bytes().chain(*b"/").chain(interface.bytes())))
}

impl Router {
    /// Starts a router in a namespace in which another program has created its pairs and its macvlans. The other end of a pair is on
    /// the host under the name [`name_to_adopt`], and gets its own name and place.
    ///
    /// # Errors
    /// See [`Router::start`]. An interface was not created.
    pub fn start_with(
        namespace: Namespace,
        wanted: RouterConfig,
        site: &Surroundings<'_>,
        journal: Journal<'_>,
    ) -> Result<Self, Error> {
        let mut router = Self::prepare(namespace, &wanted, site, journal)?;
        for interface in &wanted.interfaces {
            router.adopt(interface, site)?;
        }
        if router.published.is_some() && !router.own.other_ends.is_empty() {
            journal(&router.leftover());
        }
        router.apply(wanted, site, journal)?;
        Ok(router)
    }

    fn adopt(&mut self, interface: &Interface, site: &Surroundings<'_>) -> Result<(), Error> {
        let adopted = Executor::new(&mut self.own, site).adopt(&self.wanted.name, interface);
        adopted.map_err(|refusal| {
            let Interface { name, origin, mac, mtu, .. } = interface.clone();
            let step = Step::Add(Object::Interface(NewInterface { interface: name, origin, mac, mtu }));
            Error::of_step(&self.wanted.name, &step, refusal)
        })
    }
}

impl Executor<'_> {
    /// Adopts an interface, if it is one that can be created again.
    fn adopt(&mut self, router: &str, interface: &Interface) -> Result<(), Refusal> {
        let Interface { name, origin, .. } = interface;
        if !matches!(origin, Origin::Veth { .. } | Origin::Macvlan { .. }) {
            return Ok(());
        }
        let Some(found) = find_link(&self.own.kernel, name)? else {
            return Err(Refusal::Told("it was not created in the namespace".to_owned()));
        };
        if let Origin::Veth { peer, at, bridge } = origin {
            let bridge = match bridge {
                Some(name) => Some(self.bridge(name, at)?),
                None => None,
            };
            self.place_other_end(&found, &name_to_adopt(router, name), (peer, at))?;
            let other_end = self.settle_other_end(peer, at, bridge)?;
            self.own.other_ends.insert(name.clone(), other_end);
        }
        // The group marks it as one that ends with the router.
        self.own.kernel.set_link(found.index, &Settings::default().group(GROUP))?;
        self.own.made.insert(name.clone(), (found.index, origin.clone()));
        Ok(())
    }

    /// Gives the other end of a pair, which has the name `before` on the host, its own name and place.
    fn place_other_end(
        &mut self,
        own_end: &Link,
        before: &str,
        (peer, at): (&str, &PeerNamespace),
    ) -> Result<(), Refusal> {
        let there = self.namespace(at)?;
        let home = self.socket(&PeerNamespace::Home)?;
        let found = find_link(home, before)?.filter(|other| own_end.lower == Some(other.index));
        let Some(other) = found else {
            return Err(Refusal::Told(format!("its other end is not the interface `{before}` on the host")));
        };
        let named = Settings::default().name(peer);
        // An interface that is up cannot be renamed.
        home.set_link(other.index, &Settings::default().up(false))?;
        match at {
            PeerNamespace::Home => Ok(home.set_link(other.index, &named.up(other.up))?),
            _ => Ok(home.move_link(other.index, there.as_fd(), &named)?),
        }
    }
}
