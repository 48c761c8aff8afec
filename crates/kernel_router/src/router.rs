//! A running kernel router.

mod adopt;
mod before;
mod duplicates;
mod restart;

pub use adopt::name_to_adopt;

use std::collections::BTreeMap;
use std::fs;
use std::io;

use netlink::{Link, Mirror, Settings};
use netns::{Namespace, Published};
use rustix::io::Errno;

use crate::error::{Refusal, not_on_host};
use crate::executor::{Executor, OwnNamespace};
use crate::leftover::{ALIAS, empty, is_errno, unthread};
use crate::managed::ManagedObjects;
use crate::{
    Counters, Error, Interface, InterfaceCounters, Leftover, MovedInterface, NapiThread, ObservedState,
    Origin, PacketCounters, RouterConfig, Step, check, look, napi, six, steps,
};

/// Number of attempts to bring a namespace into the desired state before giving up.
const LOOKS: usize = 4;

/// Surroundings of a router.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The host's namespace, from which interfaces are moved and to which they are returned.
    pub home: &'a Namespace,
    /// Namespaces of the other kernel routers of the run, by name.
    pub others: &'a BTreeMap<String, Namespace>,
}

/// Callback that records what a SIGKILL would leave behind, called before that is created.
pub type Journal<'a> = &'a mut dyn FnMut(&Leftover);

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// True if the interface exists.
    pub is_there: bool,
    /// True if it has carrier: it is up, and so is the other end of its link.
    pub carrier: bool,
}

/// A running kernel router. Its namespace exists as long as this value; dropping it ends the router.
#[derive(Debug)]
pub struct Router {
    wanted: RouterConfig,
    own: OwnNamespace,
    published: Option<Published>,
    has_ended: bool,
}

impl Router {
    /// Starts a router in a new namespace. If that fails, nothing is left behind.
    ///
    /// # Errors
    /// One line: the configuration is invalid, something is in the way, or the kernel refuses a step.
    pub fn start(wanted: RouterConfig, site: &Surroundings<'_>, journal: Journal<'_>) -> Result<Self, Error> {
        let namespace = Namespace::new().map_err(Error::of_namespace(&wanted.name))?;
        Self::start_in(namespace, wanted, site, journal)
    }

    /// Starts a router in an existing namespace, which may contain interfaces of others.
    ///
    /// # Errors
    /// See [`Router::start`]. What was in the namespace before stays.
    pub fn start_in(
        namespace: Namespace,
        wanted: RouterConfig,
        site: &Surroundings<'_>,
        journal: Journal<'_>,
    ) -> Result<Self, Error> {
        let mut router = Self::prepare(namespace, &wanted, site, journal)?;
        router.apply(wanted, site, journal)?;
        Ok(router)
    }

    /// Prepares and publishes a namespace for a router. Nothing is configured in it yet.
    fn prepare(
        namespace: Namespace,
        wanted: &RouterConfig,
        site: &Surroundings<'_>,
        journal: Journal<'_>,
    ) -> Result<Self, Error> {
        let lost = Error::of_namespace(&wanted.name);
        let own =
            OwnNamespace::new(namespace, site.home.clone(), wanted.published.as_deref()).map_err(&lost)?;
        let mut router = Self { wanted: empty_config(wanted), own, published: None, has_ended: false };
        checked(wanted)?;
        mark(&router.own, &wanted.name)?;
        if wanted.published.is_some() {
            router.record_moved(wanted, journal)?;
            router.publish(site)?;
            router.own.delete_stale_pairs(&wanted.interfaces);
        }
        Ok(router)
    }

    /// Changes the router to another configuration, completely or not at all. Returns the steps that were carried out.
    ///
    /// # Errors
    /// One line, see [`Router::start`]; then the former configuration is in force. The published name cannot change.
    pub fn apply(
        &mut self,
        wanted: RouterConfig,
        site: &Surroundings<'_>,
        journal: Journal<'_>,
    ) -> Result<Vec<Step>, Error> {
        checked(&wanted)?;
        if wanted.published != self.wanted.published {
            let why = "its name in /run/netns cannot change while it runs: restart it";
            return Err(Error::refused(&wanted.name, "naming its namespace", why));
        }
        let (had, pairs) = (self.own.kept.len(), self.own.pairs());
        self.record_moved(&wanted, journal)?;
        let known = ManagedObjects::default().with(&self.wanted).with(&wanted);
        let namespace = self.own.namespace.clone();
        let done = namespace.within(|| reach(&mut self.own, site, &known, &wanted));
        if self.published.is_some() && self.own.pairs() != pairs {
            journal(&self.leftover());
        }
        match done.map_err(Error::of_namespace(&wanted.name)).flatten() {
            Ok(done) => {
                self.wanted = wanted;
                self.own.forget_those_at_home(0);
                Ok(done)
            }
            Err(refused) => {
                self.own.forget_those_at_home(had);
                Err(refused)
            }
        }
    }

    /// Returns true if its namespace has its published name. `ip netns delete` removes the name, and the namespace stays.
    pub fn is_named(&self) -> bool {
        let Some(name) = &self.wanted.published else { return true };
        let named = Namespace::open_named(name).and_then(|found| found.id());
        named.is_ok_and(|id| self.own.namespace.id().is_ok_and(|own| own == id))
    }

    /// Restores what others have removed from the namespace, and its name. Returns the steps that were carried out.
    ///
    /// # Errors
    /// One line: what cannot be restored.
    pub fn repair(&mut self, site: &Surroundings<'_>, journal: Journal<'_>) -> Result<Vec<Step>, Error> {
        if !self.is_named() {
            drop(self.published.take());
            self.publish(site)?;
        }
        self.apply(self.wanted.clone(), site, journal)
    }

    /// Returns the steps that a change to this configuration would take, except for those at the other ends of its pairs, which are
    /// not looked at.
    ///
    /// # Errors
    /// One line: the configuration is invalid, or something is in the way.
    pub fn plan(&self, wanted: &RouterConfig) -> Result<Vec<Step>, Error> {
        checked(wanted)?;
        let known = ManagedObjects::default().with(&self.wanted).with(wanted);
        let seen = self.own.namespace.within(|| seen(&self.own, &known, wanted));
        let seen = seen.map_err(Error::of_namespace(&wanted.name)).flatten()?;
        todo(wanted, &seen)
    }

    /// Returns the present configuration.
    pub const fn wanted(&self) -> &RouterConfig {
        &self.wanted
    }

    /// Returns its namespace.
    pub const fn namespace(&self) -> &Namespace {
        &self.own.namespace
    }

    /// Opens a mirror of its namespace: a copy of its interfaces, addresses, neighbours, routes and rules that follows changes.
    ///
    /// # Errors
    /// The process is out of descriptors, or a table changed during each attempt to dump it.
    pub fn mirror(&self) -> Result<Mirror, Error> {
        self.own.namespace.mirror().map_err(Error::of_namespace(&self.wanted.name))
    }

    /// Returns the state of each interface that does not only carry VLANs, by one dump of the links.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn health(&self) -> Result<Vec<(String, Health)>, Error> {
        let links = self.links()?;
        let health = |name: &str| {
            let made = self.own.made.get(name).map(|(index, _)| *index);
            let is_it = |link: &&Link| link.name == name && made.is_none_or(|index| index == link.index);
            let link = links.iter().find(is_it);
            Health { is_there: link.is_some(), carrier: link.is_some_and(|link| link.running) }
        };
        let all = self.wanted.interfaces.iter().filter(|interface| !interface.is_service());
        Ok(all.map(|interface| (interface.name.clone(), health(&interface.name))).collect())
    }

    /// Reads the kernel's counters of the router.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn counters(&self) -> Result<Counters, Error> {
        let router = &self.wanted.name;
        let asking = |e: io::Error| Error::refused(router, "reading the kernel's counters", e);
        let links = self.links()?;
        let names: BTreeMap<u32, &str> = links.iter().map(|link| (link.index, link.name.as_str())).collect();
        let statistics = self.own.kernel.statistics().map_err(asking)?;
        let interfaces = statistics.iter().filter_map(|(index, counted)| {
            let interface = self.wanted.interface(names.get(index)?);
            let interface = interface.filter(|interface| !interface.is_service() && !interface.is_vrf())?;
            Some((interface.name.clone(), InterfaceCounters::from(counted)))
        });
        let interfaces = interfaces.collect();
        let has_six = self.wanted.interfaces.iter().any(six::takes_part);
        let read = || -> io::Result<(String, String, Option<String>)> {
            let text = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            Ok((text("snmp")?, text("netstat")?, has_six.then(|| text("snmp6")).transpose()?))
        };
        let texts = self.own.namespace.within(read).map_err(Error::of_namespace(router))?;
        let (snmp, netstat, snmp6) = texts.map_err(asking)?;
        let packets_six = snmp6.map(|text| PacketCounters::of_six(&text));
        Ok(Counters { interfaces, packets: PacketCounters::of(&snmp, &netstat), packets_six })
    }

    /// Returns the kernel threads that do the receive work of its `threaded` interfaces.
    ///
    /// # Errors
    /// The threads cannot be identified.
    pub fn threads(&self) -> Result<Vec<NapiThread>, Error> {
        let threaded = self.wanted.interfaces.iter().filter(|interface| interface.threaded && interface.up);
        let names: Vec<&str> = threaded.map(|interface| interface.name.as_str()).collect();
        napi::threads(&self.own, &names)
            .map_err(|e| Error::refused(&self.wanted.name, "looking for the threads of its interfaces", e))
    }

    /// Returns what a SIGKILL would leave behind now.
    pub fn leftover(&self) -> Leftover {
        let published = self.wanted.published.clone();
        let id = published.as_ref().and_then(|_| self.own.namespace.id().ok());
        Leftover { published, id, kept: self.own.kept.clone(), pairs: self.own.pairs() }
    }

    /// Ends the router: returns interfaces to the host, deletes those that it has created, and removes the published name.
    ///
    /// # Errors
    /// Something could not be removed; everything else was.
    pub fn end(mut self) -> Result<(), Error> {
        self.finish()
    }

    /// Does what [`Router::end`] does, and keeps the value, for a namespace whose other party has ended.
    ///
    /// # Errors
    /// See [`Router::end`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.finish()
    }

    fn links(&self) -> Result<Vec<Link>, Error> {
        let asking = |e: io::Error| Error::refused(&self.wanted.name, "reading its interfaces", e);
        self.own.kernel.all().map_err(asking)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.unthread_given();
        let kept = std::mem::take(&mut self.own.kept);
        // If it cannot be looked at, only what is inside is removed.
        let missing = self.own.missing_pairs().unwrap_or_default();
        let emptied = empty(&self.wanted.name, &self.own.namespace, &kept, &self.own.home);
        self.own.delete_pulled_out(&missing);
        self.own.made.clear();
        drop(self.published.take());
        self.has_ended = true;
        emptied
    }

    /// Switches threaded NAPI off for interfaces that others have moved into the namespace and take back at the end.
    /// [`Router::end`] does so too; this is for others that take them back before.
    pub fn unthread_given(&self) {
        let is_given = |interface: &&Interface| interface.threaded && interface.origin == Origin::External;
        for interface in self.wanted.interfaces.iter().filter(is_given) {
            // The interface may have been deleted before.
            let _ = unthread(&self.own.namespace, &interface.name);
        }
    }

    /// Publishes its namespace. First removes the leftovers of a router of this name that does not run any more.
    fn publish(&mut self, site: &Surroundings<'_>) -> Result<(), Error> {
        let Some(name) = self.wanted.published.clone() else { return Ok(()) };
        let lost = Error::of_namespace(&self.wanted.name);
        let published = match self.own.namespace.publish(&name) {
            Err(netns::Error::InUse { name }) => match Leftover::find(&name, site.home) {
                Ok(Some(mut left)) => {
                    // A running router that gets its name again keeps its pairs.
                    let own = self.own.pairs();
                    left.pairs.retain(|pair| !own.contains(pair));
                    left.remove(site.home)?;
                    self.own.namespace.publish(&name)
                }
                _ => Err(netns::Error::InUse { name }),
            },
            other => other,
        };
        self.published = Some(published.map_err(lost)?);
        Ok(())
    }

    /// Records the present state of the host's interfaces that are about to be moved, and reports to the journal if there is
    /// anything new.
    fn record_moved(&mut self, wanted: &RouterConfig, journal: Journal<'_>) -> Result<(), Error> {
        let lost = Error::of_namespace(&wanted.name);
        let moved = wanted.interfaces.iter().filter_map(|interface| match &interface.origin {
            Origin::Moved { link } => Some((interface.name.as_str(), link.as_str())),
            _ => None,
        });
        let has = |name: &str, link: &str| self.own.kept(name, link).is_some();
        let new: Vec<(&str, &str)> = moved.filter(|(name, link)| !has(name, link)).collect();
        if !new.is_empty() {
            let outside = self.own.home.netlink().map_err(&lost)?;
            let kept = new.into_iter().map(|(name, link)| {
                let doing = || format!("looking at `{link}` of the host");
                match outside.link(link) {
                    Ok(found) => Ok(MovedInterface::of(name, &found, &self.own.home)),
                    Err(e) if is_errno(&e, Errno::NODEV) => {
                        Err(Error::refused(&wanted.name, doing(), not_on_host(link)))
                    }
                    Err(e) => Err(Error::refused(&wanted.name, doing(), e)),
                }
            });
            let kept = kept.collect::<Result<Vec<MovedInterface>, Error>>()?;
            self.own.kept.extend(kept);
        } else if self.published.is_some() {
            // Everything was reported before.
            return Ok(());
        }
        let leftover = self.leftover();
        if !leftover.is_empty() {
            journal(&leftover);
        }
        Ok(())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if !self.has_ended {
            // Errors of the removal are ignored here; `Router::end` reports them.
            let _ = self.finish();
        }
    }
}

/// A router of this name without any configuration.
fn empty_config(wanted: &RouterConfig) -> RouterConfig {
    RouterConfig { name: wanted.name.clone(), published: wanted.published.clone(), ..RouterConfig::default() }
}

/// Prepares a namespace, and marks it as that of a router.
fn mark(own: &OwnNamespace, router: &str) -> Result<(), Error> {
    let set = own.kernel.set_link("lo", &Settings::default().up(true).alias(ALIAS));
    set.map_err(|e| Error::refused(router, "setting `lo` up", e))
}

fn checked(wanted: &RouterConfig) -> Result<(), Error> {
    check(wanted).map_err(|fault| Error::Fault { router: wanted.name.clone(), fault })
}

fn todo(wanted: &RouterConfig, seen: &ObservedState) -> Result<Vec<Step>, Error> {
    steps(wanted, seen).map_err(|obstacle| Error::Obstacle { router: wanted.name.clone(), obstacle })
}

fn seen(own: &OwnNamespace, known: &ManagedObjects, wanted: &RouterConfig) -> Result<ObservedState, Error> {
    look::look(own, known, wanted).map_err(|refusal| {
        let why = match refusal {
            Refusal::Kernel(e) => e.to_string(),
            Refusal::Told(why) => why,
        };
        Error::refused(&wanted.name, "looking at its namespace", why)
    })
}

/// Carries out steps until the observed state is the desired one, because the kernel may change more than it was asked to. The
/// calling thread is inside the namespace.
fn reach(
    own: &mut OwnNamespace,
    site: &Surroundings<'_>,
    known: &ManagedObjects,
    wanted: &RouterConfig,
) -> Result<Vec<Step>, Error> {
    let mut executor = Executor::new(own, site);
    let mut done = Vec::new();
    for _ in 0..LOOKS {
        match next(&mut executor, known, wanted, &mut done) {
            Ok(true) => {}
            Ok(false) => return Ok(done),
            Err(refused) => {
                executor.undo(&done);
                return Err(refused);
            }
        }
    }
    executor.undo(&done);
    let why = "its settings are changed back from outside, or the kernel does not apply them";
    Err(Error::refused(&wanted.name, "setting its namespace up", why))
}

/// Reads the namespace and carries out the steps that are needed. Returns true if there were any.
fn next(
    executor: &mut Executor<'_>,
    known: &ManagedObjects,
    wanted: &RouterConfig,
    done: &mut Vec<Step>,
) -> Result<bool, Error> {
    let mut seen = seen(executor.own, known, wanted)?;
    executor
        .look_at_queues(&known.queued, &mut seen)
        .map_err(|e| Error::refused(&wanted.name, "looking at the queues before its namespace", e))?;
    let todo = todo(wanted, &seen)?;
    let is_any = !todo.is_empty();
    for step in todo {
        executor.carry(&step).map_err(|refusal| Error::of_step(&wanted.name, &step, refusal))?;
        done.push(step);
    }
    Ok(is_any)
}
