//! Namespaces, containers and virtual functions of kernel routers on this host: creation, changes, checks and removal.

mod before;
mod container;
mod counter_names;
mod functions;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use hooks::{PacketTracer, TraceSpec};
use kernel_router::{Health, Leftover, Object, Router, RouterConfig, Step, Surroundings};
use ledger::Group;
use lxc::{OrphanedContainer, Running};
use netns::Namespace;
use sriov::{CountRecord, FormerSettings};

use super::adverts::Adverts;
use super::drop_reasons::{DropReasons, Drops};
use super::napi::{self, Napi};
use super::network::Network;
use super::plan::Spec;
use super::rate_limit::RateLimit;
use crate::resources::patient_open::until_free;
use crate::run_lock::FunctionLocks;
use counter_names::ledger_name;
use functions::{Claimed, Claims, Functions, HostPorts, links, renew};

/// Interval between two attempts while waiting for the cleaner.
const LOOK: Duration = Duration::from_millis(5);

/// Counters of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Time at which they were read: CLOCK_MONOTONIC in nanoseconds.
    pub(crate) at_ns: u64,
    /// Counter values by name: `edge.wan.rx.frames`.
    pub(crate) counters: BTreeMap<String, u64>,
    /// CPU time of its NAPI threads in nanoseconds, by name: `edge/wan-napi0`.
    pub(crate) cpu_ns: BTreeMap<String, u64>,
}

/// An item that a SIGKILL of this process would leave behind.
pub(crate) enum Remains<'r> {
    /// The name of a namespace, and interfaces of the host that were moved into it.
    Kernel(&'r Leftover),
    /// A container.
    Container(&'r OrphanedContainer),
    /// The former settings of a claimed virtual function, and the path of the lock on it.
    Function(&'r FormerSettings, &'r Path),
    /// The former number of virtual functions of a port.
    Count(&'r CountRecord),
}

/// Records for the cleaner what is about to be created.
pub(crate) type Journal = Box<dyn FnMut(Remains<'_>) + Send>;

/// Observed state of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Carrier state of each NIC; `None`: its interface does not exist.
    pub(crate) nics: BTreeMap<String, Option<bool>>,
    /// Kernel threads that do its receive work (NAPI).
    pub(crate) threads: Vec<Napi>,
    /// IPv6 addresses that another station has, with the names of their NICs.
    pub(crate) duplicates: Vec<(String, IpAddr)>,
    /// Packets that the kernel has dropped, by NIC and reason; empty if they are not counted.
    pub(crate) drops: Drops,
    /// True if somebody has removed the name of its namespace.
    pub(crate) is_nameless: bool,
    /// Its namespace; another one after a restart.
    pub(crate) network: Option<Network>,
    /// True if a route lacks gateways that it could have, because an interface has its carrier back.
    pub(crate) lacks_gateways: bool,
}

impl Seen {
    /// Returns true if an interface is missing, its name, or gateways.
    pub(super) fn lacks_any(&self) -> bool {
        self.is_nameless || self.lacks_gateways || self.nics.values().any(Option::is_none)
    }
}

/// Backend for kernel routers: namespaces of this host, or a stand-in of a test. Each call may block.
pub(crate) trait KernelBackend: Send {
    /// Creates a router, or changes an existing one. If a change is refused, the former state is in force.
    ///
    /// # Errors
    /// One line: the operation that the kernel refuses.
    fn make(&mut self, spec: &Spec) -> Result<()>;
    /// Removes a router. It is no error if there is none.
    ///
    /// # Errors
    /// One line: what could not be removed.
    fn end(&mut self, router: &str) -> Result<()>;
    /// Restarts a router in an empty namespace with the same interfaces, so the other ends of its pairs stay as they are.
    ///
    /// # Errors
    /// One line: what the kernel refuses. The router does not exist then.
    fn restart(&mut self, spec: &Spec) -> Result<()>;
    /// Restores what has been deleted from a router. Returns true if anything had been.
    ///
    /// # Errors
    /// One line: what cannot be restored.
    fn repair(&mut self, router: &str) -> Result<bool>;
    /// Reads the state of a router.
    ///
    /// # Errors
    /// One line: it does not exist, or the kernel does not answer.
    fn look(&mut self, router: &str) -> Result<Seen>;
    /// Reads the counters of a router.
    ///
    /// # Errors
    /// One line: it does not exist, or the kernel does not answer.
    fn count(&mut self, router: &str) -> Result<Counted>;
    /// Attaches programs that trace packets arriving at one of the router's NICs. The NIC's number is its position among them.
    ///
    /// # Errors
    /// One line: the kernel lacks a feature, or the NIC's interface does not exist.
    fn follow(&mut self, router: &str, order: &TraceSpec) -> Result<PacketTracer>;
}

/// Network namespaces of this host; some of them belong to containers.
pub(crate) struct HostBackend {
    /// Namespace of the supervisor; `None` until the first use.
    home: Option<Namespace>,
    routers: BTreeMap<String, RunningRouter>,
    drop_reasons: DropReasons,
    adverts: Adverts,
    journal: Journal,
    /// Directory of the containers of this run.
    folder: PathBuf,
    functions: Functions,
}

/// An existing router.
struct RunningRouter {
    spec: Spec,
    router: Router,
    /// Its rate limit.
    rate_limit: RateLimit,
    /// Its container, if it has one; stopped after the router was removed, or before if its programs are asked to end.
    container: Option<Running>,
    /// Its claimed virtual functions, by interface position. Claims are released after the interfaces have been returned.
    claims: Claims,
    /// Its NAPI threads at the last check.
    napis: Vec<Napi>,
}

impl RunningRouter {
    /// Describes how its container has ended; `None` if it has not, or there is none.
    fn ended(&mut self) -> Option<String> {
        let status = self.container.as_mut()?.ended();
        match status {
            Ok(status) => Some(format!("its container has ended ({})", status?)),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Removes the router.
    fn end(self) -> Result<()> {
        let Self { router, container, claims, .. } = self;
        let stop = |container: Option<Running>| container.map(Running::stop).transpose();
        // All steps are carried out even if one of them fails.
        let (ended, stopped) = if container.as_ref().is_some_and(Running::has_own_init) {
            // Programs that are asked to end need their interfaces meanwhile, for example to tell their neighbours.
            router.unthread_given();
            let stopped = stop(container);
            (router.end(), stopped)
        } else {
            (router.end(), stop(container))
        };
        let given: Vec<_> = claims.into_iter().map(Claimed::restore).collect();
        ended?;
        stopped?;
        given.into_iter().try_for_each(|given| Ok(given?))
    }
}

impl HostBackend {
    /// Starts without routers. Containers get their directories in `folder`. Other runs use the `locks` on virtual functions as well.
    pub(crate) fn new(journal: Journal, folder: PathBuf, locks: FunctionLocks) -> Self {
        Self::with_functions(journal, folder, Functions::new(Box::new(HostPorts), locks))
    }

    fn with_functions(journal: Journal, folder: PathBuf, functions: Functions) -> Self {
        let (routers, drop_reasons, adverts) = Default::default();
        Self { home: None, routers, drop_reasons, adverts, journal, folder, functions }
    }

    fn held(&mut self, router: &str) -> Result<&mut RunningRouter> {
        let held = self.routers.get_mut(router);
        held.with_context(|| format!("router {router}: it has no namespace"))
    }

    /// Calls `work` with the routers, their surroundings, and the journal.
    fn sited<T>(
        &mut self,
        work: impl FnOnce(
            &mut BTreeMap<String, RunningRouter>,
            &Surroundings<'_>,
            &mut dyn FnMut(&Leftover),
        ) -> Result<T>,
    ) -> Result<T> {
        let home = match self.home.take() {
            Some(home) => home,
            None => Namespace::current().context("where this program runs")?,
        };
        let others = self.routers.iter().map(|(name, held)| (name.clone(), held.router.namespace().clone()));
        let others: BTreeMap<String, Namespace> = others.collect();
        let Self { routers, journal, .. } = self;
        let mut tell = |leftover: &Leftover| journal(Remains::Kernel(leftover));
        let outcome = work(routers, &Surroundings { home: &home, others: &others }, &mut tell);
        self.home = Some(home);
        outcome
    }

    /// Creates a router.
    fn start(&mut self, own: &Spec) -> Result<()> {
        let claims = self.claim(own)?;
        let spec = &own.with_functions(links(&claims));
        let container = spec.container.as_ref().map(|container| self.start_container(container));
        let container = container.transpose()?;
        self.sited(|routers, site, journal| {
            let router = match &container {
                Some(container) => {
                    let namespace = Namespace::from(container.network()?);
                    Router::start_with(namespace, spec.wanted.clone(), site, journal)?
                }
                None => start_patiently(&spec.wanted, site, journal)?,
            };
            let mut rate_limit = RateLimit::default();
            rate_limit.follow(&router, own.limit)?;
            let held =
                RunningRouter { spec: own.clone(), router, rate_limit, container, claims, napis: Vec::new() };
            routers.insert(own.name().to_owned(), held);
            Ok(())
        })?;
        let refused = self.serve(own).err();
        // A router whose drops cannot be counted, for example, is not left behind.
        refused.map_or(Ok(()), |refusal| self.remove(own.name()).and(Err(refusal)))
    }

    /// Does what the kernel does not do for an existing router: counts its drops by reason and advertises it, as its file says.
    fn serve(&mut self, spec: &Spec) -> Result<()> {
        let Some(held) = self.routers.get(spec.name()) else { return Ok(()) };
        self.drop_reasons.follow(&held.router, spec.drop_reasons)?;
        self.adverts.follow(&held.router, &spec.adverts)
    }

    /// Removes a router without a word to its neighbours: it has failed, or is made anew.
    fn remove(&mut self, router: &str) -> Result<()> {
        self.drop_reasons.forget(router);
        self.adverts.forget(router);
        self.routers.remove(router).map_or(Ok(()), RunningRouter::end)
    }

    /// Changes an existing router that keeps its container and its virtual functions.
    fn change(&mut self, spec: &Spec) -> Result<()> {
        self.sited(|routers, site, journal| {
            let held = routers.get_mut(spec.name()).context("it has gone")?;
            renew(&mut held.claims, &held.spec)?;
            let [wanted, before] =
                [spec, &held.spec].map(|spec| spec.with_functions(links(&held.claims)).wanted);
            held.router.apply(wanted, site, &mut *journal)?;
            if let Err(refusal) = held.rate_limit.follow(&held.router, spec.limit) {
                // The part of the change that succeeded is undone as well.
                held.router.apply(before, site, journal)?;
                held.rate_limit.follow(&held.router, held.spec.limit)?;
                return Err(refusal);
            }
            held.spec = spec.clone();
            Ok(())
        })
    }

    /// Removes a router and creates it with another container or other functions. If that is refused, the former router is
    /// created again.
    fn replace(&mut self, spec: &Spec) -> Result<()> {
        let Some(held) = self.routers.remove(spec.name()) else { return self.start(spec) };
        let before = held.spec.clone();
        self.drop_reasons.forget(spec.name());
        self.adverts.forget(spec.name());
        let outcome = held.end().and_then(|()| self.start(spec));
        if let Err(refusal) = outcome {
            return Err(match self.start(&before) {
                Ok(()) => refusal,
                Err(error) => anyhow!("{refusal:#}; and it could not be undone: {error:#}"),
            });
        }
        Ok(())
    }
}

impl KernelBackend for HostBackend {
    fn make(&mut self, spec: &Spec) -> Result<()> {
        let Some(held) = self.routers.get_mut(spec.name()) else { return self.start(spec) };
        let is_other = held.spec.container != spec.container || held.spec.functions != spec.functions;
        if held.ended().is_some() {
            // A router whose container has ended cannot be restored; failure to remove it is no reason not to create the new one.
            let _ = self.remove(spec.name());
            return self.start(spec);
        }
        if is_other {
            return self.replace(spec);
        }
        let before = held.spec.clone();
        self.change(spec)?;
        if let Err(refusal) = self.serve(spec) {
            self.change(&before)?;
            self.serve(&before)?;
            return Err(refusal);
        }
        Ok(())
    }

    fn end(&mut self, router: &str) -> Result<()> {
        self.adverts.say_farewell(router);
        self.remove(router)
    }

    fn restart(&mut self, spec: &Spec) -> Result<()> {
        // The namespace of a container cannot be replaced.
        let can_be = |held: &RunningRouter| held.spec == *spec && held.container.is_none();
        if self.routers.get(spec.name()).is_some_and(can_be) {
            self.adverts.forget(spec.name());
            let renewed = self.sited(|routers, site, journal| {
                let held = routers.get_mut(spec.name()).context("it has gone")?;
                renew_functions(held, site, &mut *journal)?;
                held.router.restart(site, journal)?;
                held.rate_limit.follow(&held.router, spec.limit)
            });
            if renewed.and_then(|()| self.serve(spec)).is_ok() {
                return Ok(());
            }
        }
        // An error that matters will recur when the router is started.
        let _ = self.remove(spec.name());
        self.start(spec)
    }

    fn repair(&mut self, router: &str) -> Result<bool> {
        let spec = self.held(router)?.spec.clone();
        let was_made = self.sited(|routers, site, journal| match routers.get_mut(router) {
            Some(held) => {
                let mut done = renew_functions(held, site, &mut *journal)?;
                done.extend(held.router.repair(site, journal)?);
                held.rate_limit.follow(&held.router, held.spec.limit)?;
                Ok(done.iter().any(|step| matches!(step, Step::Add(Object::Interface(_)))))
            }
            None => Ok(false),
        })?;
        self.serve(&spec)?;
        Ok(was_made)
    }

    fn look(&mut self, name: &str) -> Result<Seen> {
        let held = self.held(name)?;
        if let Some(how) = held.ended() {
            // Its namespace stays until the router is started anew, but nothing is to be forwarded there. What remains is told later.
            let _ = held.router.close();
            self.adverts.forget(name);
            bail!("router {name}: {how}");
        }
        let (router, wanted) = (&held.router, held.router.wanted());
        let carrier = |(name, health): (String, Health)| (name, health.is_there.then_some(health.carrier));
        let nics = router.health()?.into_iter().map(carrier).collect();
        let is_threaded = wanted.interfaces.iter().any(|nic| nic.threaded);
        let threads = if is_threaded { router.threads()? } else { Vec::new() };
        let threads = napi::of_router(&wanted.name, threads, sched::stat);
        let (duplicates, is_nameless) = (router.duplicates()?, !router.is_named());
        let network = Some(Network::of(router.namespace())?);
        held.napis.clone_from(&threads);
        let is_missing = |step: &Step| matches!(step, Step::Add(Object::SpreadRoute(_)));
        let lacks_gateways = !wanted.spread.is_empty() && router.plan(wanted)?.iter().any(is_missing);
        let drops = self.drop_reasons.of(name).unwrap_or_default();
        self.adverts.tend();
        Ok(Seen { nics, threads, duplicates, drops, is_nameless, network, lacks_gateways })
    }

    fn count(&mut self, router: &str) -> Result<Counted> {
        let held = self.held(router)?;
        let counters = held.router.counters()?;
        let mut counted = Counted { at_ns: engine::now_ns(), ..Counted::default() };
        held.rate_limit.count(router, &mut counted);
        for (interface, group) in &counters.interfaces {
            group.each(&mut |field, value| {
                counted.counters.insert(format!("{router}.{interface}.{}", ledger_name(field)), value);
            });
        }
        for (family, packets) in [("ip", Some(&counters.packets)), ("ip6", counters.packets_six.as_ref())] {
            packets.into_iter().for_each(|packets| {
                packets.each(&mut |field, value| {
                    counted.counters.insert(format!("{router}.{family}.{field}"), value);
                });
            });
        }
        napi::count(router, &held.napis, &mut counted);
        self.count_before(router, &mut counted)?;
        self.drop_reasons.count(router, &mut counted);
        self.adverts.count(router, &mut counted);
        Ok(counted)
    }

    fn follow(&mut self, router: &str, order: &TraceSpec) -> Result<PacketTracer> {
        let held = self.held(router)?;
        let namespace = held.router.namespace();
        // What passes a VLAN passes the interface below it, which is a NIC. No frame passes a VRF.
        let interfaces = held.router.wanted().interfaces.iter().filter(|interface| interface.is_nic());
        let interfaces: Vec<_> = interfaces.collect();
        let kernel = namespace.netlink()?;
        let mut follower = PacketTracer::start(order.clone())?;
        let traced = order.nic as usize;
        // The NICs by which packets leave are attached first, so no departure is missed.
        for place in (0..interfaces.len()).filter(|place| *place != traced).chain([traced]) {
            let name = interfaces.get(place).map_or("", |interface| interface.name.as_str());
            let index = match kernel.link(name) {
                Ok(link) => link.index,
                Err(_) if place != traced => continue,
                Err(error) => {
                    bail!("nothing arrives at {router}.{name}: its interface is not there ({error})")
                }
            };
            namespace.within(|| follower.watch(place as u32, index))??;
        }
        Ok(follower)
    }
}

impl Drop for HostBackend {
    fn drop(&mut self) {
        self.adverts.forget_all();
        self.routers.clear();
        self.functions.restore_counts();
        // It exists only if there was a container.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Renews the virtual functions of a router, and moves those in that are back under other names. Returns the steps that were carried out.
fn renew_functions(
    held: &mut RunningRouter,
    site: &Surroundings<'_>,
    journal: &mut dyn FnMut(&Leftover),
) -> Result<Vec<Step>> {
    renew(&mut held.claims, &held.spec)?;
    let wanted = held.spec.with_functions(links(&held.claims)).wanted;
    if wanted == *held.router.wanted() {
        return Ok(Vec::new());
    }
    Ok(held.router.apply(wanted, site, journal)?)
}

/// Creates a router. If leftovers of a killed run are in the way, waits for their removal.
pub(crate) fn start_patiently(
    wanted: &RouterConfig,
    site: &Surroundings<'_>,
    journal: &mut dyn FnMut(&Leftover),
) -> Result<Router, kernel_router::Error> {
    until_free(|| Router::start(wanted.clone(), site, journal), kernel_router::Error::is_in_use, LOOK)
}
