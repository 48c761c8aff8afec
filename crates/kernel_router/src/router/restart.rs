//! Restart of a router in a new namespace that lacks everything which others have added to the old one. The links to the outside
//! stay.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use netlink::Settings;
use netns::Namespace;
use rustix::io::Errno;

use super::{Journal, Router, Surroundings, empty_config, mark};
use crate::executor::OwnNamespace;
use crate::leftover::is_errno;
use crate::{Error, Origin};

impl Router {
    /// Restarts the router in an empty namespace, into which its interfaces are moved, so that the other ends of its pairs keep
    /// their names, addresses and bridges. Interfaces of the host are returned and moved in again.
    ///
    /// # Errors
    /// One line. Some interfaces may be in neither namespace then: the caller has to end the router and start it again.
    pub fn restart(&mut self, site: &Surroundings<'_>, journal: Journal<'_>) -> Result<(), Error> {
        let name = self.wanted.name.clone();
        let lost = Error::of_namespace(&name);
        let namespace = Namespace::new().map_err(&lost)?;
        let (home, published) = (self.own.home.clone(), self.wanted.published.as_deref());
        let mut own = OwnNamespace::new(namespace, home, published).map_err(&lost)?;
        mark(&own, &name)?;
        let moving = |e: io::Error| Error::refused(&name, "moving its interfaces into a new namespace", e);
        self.own.send_home().map_err(moving)?;
        own.made = self.hand_over(&own).map_err(moving)?;
        own.other_ends = std::mem::take(&mut self.own.other_ends);
        // From here on the old namespace has nothing of this router but its name, which is removed before the new namespace is reported.
        drop(self.published.take());
        own.kept = std::mem::take(&mut self.own.kept);
        self.own = own;
        if self.wanted.published.is_some() {
            journal(&self.leftover());
            self.publish(site)?;
        }
        let before = empty_config(&self.wanted);
        let wanted = std::mem::replace(&mut self.wanted, before);
        self.apply(wanted, site, journal).map(drop)
    }

    /// Moves the interfaces of the old namespace into the new one: ends of pairs, macvlans, and interfaces that others have
    /// provided. Returns the router's own ones with their new indices.
    fn hand_over(&self, to: &OwnNamespace) -> io::Result<BTreeMap<String, (u32, Origin)>> {
        let mut made = BTreeMap::new();
        for interface in &self.wanted.interfaces {
            let name = interface.name.as_str();
            let old = self.own.made.get(name);
            if interface.is_vrf() {
                // It ends with the old namespace, and its ports leave it when they are moved.
                continue;
            }
            if interface.is_vlan() {
                // It is made again in the new namespace, which is not possible as long as there is one.
                match self.own.index(name).and_then(|index| self.own.kernel.delete_link(index)) {
                    Err(e) if !is_errno(&e, Errno::NODEV) => return Err(e),
                    _ => continue,
                }
            }
            if old.is_none() && interface.origin != Origin::External {
                continue;
            }
            self.own.kernel.move_link(self.own.index(name)?, to.namespace.as_fd(), &Settings::default())?;
            if let Some((_, origin)) = old {
                made.insert(name.to_owned(), (to.kernel.link(name)?.index, origin.clone()));
            }
        }
        Ok(made)
    }
}
