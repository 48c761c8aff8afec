//! Paths of an isolated router (one whose machine is in a process of its own): serve the rings of its NICs
//! in this process.
//!
//! ```text
//!  process of the router             | here
//!  driver == rings == model --------(vhost-user)--------> Backend <== I/O threads ==> TAP, switch, …
//! ```
//!
//! The rings are served like those of a router of this process; a thread that serves them can reach that
//! router's memory and nothing else.

mod charges;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::CpuSharing;
use attach::{HandedOver, NicRequirements, Outside};
use config::{Nic, Router};
use switch::Switch;

use crate::counts::{CounterRegistration, CounterRegistry};
use crate::ensemble::Ensembles;
use crate::farewell::Farewell;
use crate::groups::{IoCounts, IsolatedPathCounts};
use crate::instance::About;
use crate::instance::running::idle;
use crate::instance::slot::{LAUNCH_LIMIT, RunContext, outlet_finder};
use crate::io_thread::IoThread;
use crate::look_after::told;
use crate::supplies::HostServices;
use crate::take_down::TakeDown;
use crate::task::{Progress, Task};
use crate::tracing::TapBoard;
use crate::watch::{NicSample, Sample, Watch};
use crate::wiring::{Outlet, RateLimit, connect, io_threads};
use sandbox::Confinement;
use telemetry::Kind;
use vhost_user::backend::Backend;

use charges::Charges;

/// Pause before the paths are reopened after one of their threads has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// The I/O paths of one isolated router. Dropping it closes them.
pub(crate) struct IsolatedRouterPaths {
    /// Registration of its counters; dropped before everything else.
    registration: Option<CounterRegistration>,
    pub(crate) plan: Router,
    outlets: Vec<Arc<Outlet>>,
    /// Link state of each NIC when last checked: true if there was a host or peer at the other end of its
    /// cable.
    links: Vec<Option<bool>>,
    ports: Vec<Arc<Backend>>,
    open: Option<Open>,
    /// The task that reopens the paths.
    opening: Option<Task<Result<Open>>>,
    /// The take-down of closed paths. New ones are not opened before it is over.
    leaving: TakeDown,
    pub(crate) gate: RateLimit,
    /// Judges the router's use of its rings and doorbells, which its own process does not see.
    watch: Watch,
    charges: Charges,
    /// When the paths are to be reopened.
    due: Option<Instant>,
    /// Its threads that share their CPUs and sleep as soon as they have no work, by name.
    sharing: BTreeMap<String, CpuSharing>,
    counts: CounterRegistry,
}

/// Paths that are being served.
struct Open {
    threads: Vec<IoThread>,
    outside: Vec<Outside>,
    farewells: Vec<Farewell>,
}

/// Components of the paths of an isolated router before they serve.
pub(crate) struct PathParts {
    plan: Router,
    outlets: Vec<Arc<Outlet>>,
    doors: Vec<HandedOver>,
}

impl PathParts {
    /// Resolves the outlets of the NICs, and the sockets by which the router's process connects to them; does
    /// not serve them yet.
    pub(crate) fn find(
        router: &Router,
        switches: &[Arc<Switch>],
        held: (&[Arc<Outlet>], &Ensembles),
        supplies: &mut HostServices,
    ) -> Result<Self> {
        let find = outlet_finder(router, switches, held, supplies);
        let outlets = router.nics.iter().map(find).collect::<Result<Vec<_>>>()?;
        let door = |nic: &Nic| {
            let label = format!("{}.{}", router.name, nic.name);
            supplies.doors.remove(&label).with_context(|| format!("nobody can come to NIC {label}"))
        };
        let doors = router.nics.iter().map(door).collect::<Result<Vec<_>>>()?;
        Ok(Self { plan: router.clone(), outlets, doors })
    }

    /// Returns the name of its router.
    pub(crate) fn name(&self) -> &str {
        &self.plan.name
    }

    /// Opens the paths. Blocks until their threads have started. If only that fails, they can be opened later.
    ///
    /// # Errors
    /// One line: why the router's process cannot connect to its NICs.
    pub(crate) fn open(self, board: TapBoard, confinement: Confinement) -> Result<OpenPaths> {
        let Self { plan, outlets, doors } = self;
        let meet =
            |(nic, door)| attach::meet(&peer_requirements(&plan, nic), door, confinement).map(Arc::new);
        let ports = plan.nics.iter().zip(doors).map(meet).collect::<Result<Vec<_>>>()?;
        plug(&plan, &ports);
        let opener = Opener { gate: RateLimit::new(&plan), plan, ports, outlets, board, confinement };
        let open = opener.open();
        Ok(OpenPaths { opener, open })
    }
}

/// Opens the paths of a router.
struct Opener {
    plan: Router,
    ports: Vec<Arc<Backend>>,
    outlets: Vec<Arc<Outlet>>,
    gate: RateLimit,
    board: TapBoard,
    confinement: Confinement,
}

/// The paths of a router, open or with the reason why they are not.
pub(crate) struct OpenPaths {
    opener: Opener,
    open: Result<Open>,
}

impl Opener {
    fn open(&self) -> Result<Open> {
        let mut open = Open { threads: Vec::new(), outside: Vec::new(), farewells: Vec::new() };
        let mut ways = Vec::new();
        let gates = self.gate.nics();
        for (((nic, port), outlet), gate) in
            self.plan.nics.iter().zip(&self.ports).zip(&self.outlets).zip(gates)
        {
            let (mut way, far) =
                connect((&self.plan, nic), (port.queues(), None), outlet, (&self.board, gate))
                    .with_context(|| format!("router {}, NIC {}", self.plan.name, nic.name))?;
            open.outside.push(far);
            open.farewells.extend(way.farewell.take());
            ways.push(way);
        }
        open.threads = io_threads(&self.plan, ways, self.confinement)?;
        Ok(open)
    }
}

impl IsolatedRouterPaths {
    /// Wraps the paths of a router. If they are not open, it returns why, and opens them later.
    pub(crate) fn of(ways: OpenPaths, context: &RunContext) -> (Self, Result<()>) {
        let OpenPaths { opener: Opener { plan, ports, outlets, gate, .. }, open } = ways;
        let nics = plan.nics.len();
        let mut paths = Self {
            gate,
            plan,
            links: outlets.iter().map(|outlet| outlet.link()).collect(),
            outlets,
            ports,
            open: None,
            opening: None,
            leaving: TakeDown::default(),
            watch: Watch::new(context.rules),
            charges: Charges::new(nics),
            due: None,
            sharing: context.sharing.clone(),
            counts: context.counts.clone(),
            registration: None,
        };
        let outcome = open.map(|open| paths.is_open(open));
        paths.due = outcome.is_err().then(|| context.now + PAUSE);
        let ports: Vec<_> = paths.ports.iter().map(Arc::downgrade).collect();
        let is_up = move |port: &Weak<Backend>| port.upgrade().is_some_and(|port| port.is_up());
        context.ensembles.watch(&paths.plan.name, move || ports.iter().all(is_up));
        (paths, outcome)
    }

    /// Adopts open paths.
    fn is_open(&mut self, open: Open) {
        self.open = Some(open);
        self.count();
        self.idle();
    }

    /// Begins to reopen the paths in the background. If no thread can be started for that, it is tried again
    /// later.
    fn begin_to_open(&mut self, now: Instant, context: &RunContext) {
        let opener = Opener {
            plan: self.plan.clone(),
            ports: self.ports.clone(),
            outlets: self.outlets.clone(),
            gate: self.gate.clone(),
            board: context.board.clone(),
            confinement: context.confinement,
        };
        let name = format!("{}/open", self.plan.name);
        self.opening = Task::begin(name, LAUNCH_LIMIT, move || opener.open(), now).ok();
        self.due = self.opening.is_none().then(|| now + PAUSE);
    }

    /// Checks whether they are open again.
    fn look_at_opening(&mut self, now: Instant) {
        match self.opening.take().map(|opening| opening.look(now)) {
            None => {}
            Some(Progress::Going(opening)) => self.opening = Some(opening),
            Some(Progress::Done(Ok(open))) => self.is_open(open),
            Some(Progress::Done(Err(_)) | Progress::Abandoned(_)) => self.due = Some(now + PAUSE),
        }
    }

    /// Returns the outlets of its NICs.
    pub(crate) fn outlets(&self) -> &[Arc<Outlet>] {
        &self.outlets
    }

    /// Returns the threads that serve it.
    pub(crate) fn threads(&self) -> &[IoThread] {
        self.open.as_ref().map_or(&[], |open| &open.threads)
    }

    /// Returns the outside end of each NIC, in the order of the file.
    pub(crate) fn outside(&self) -> &[Outside] {
        self.open.as_ref().map_or(&[], |open| &open.outside)
    }

    /// Registers its current counters.
    fn count(&mut self) {
        let parts = IsolatedPathCounts {
            plan: self.plan.clone(),
            ports: self.ports.clone(),
            outside: self.outside().to_vec(),
            gate: self.gate.clone(),
            threads: IoCounts::of(self.threads()),
        };
        // Withdraw the previous registration first, so that no counter is read twice.
        self.registration = None;
        self.registration = Some(self.counts.add(parts));
    }

    /// Withdraws its counters.
    pub(crate) fn stop_counting(&mut self) {
        self.registration = None;
    }

    /// Closes the paths in the background; the counters of the router's NICs can still be read.
    fn close(&mut self, now: Instant) {
        if let Some(opening) = self.opening.take() {
            self.leaving = TakeDown::begin(&self.plan.name, opening, now);
        }
        let Some(open) = self.open.take() else { return };
        self.count();
        self.leaving = TakeDown::begin(&self.plan.name, open, now);
    }

    /// Whether the process of its router is at all of its NICs.
    pub(crate) fn is_served(&self) -> bool {
        self.ports.iter().all(|port| port.is_up())
    }

    /// Returns true while closed paths are still being taken down.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_over()
    }

    /// Takes it down with its outlets: the open paths, and those closed before whose take-down is not over.
    pub(crate) fn into_take_downs(mut self, now: Instant) -> [TakeDown; 2] {
        self.stop_counting();
        let (name, before) = (self.plan.name.clone(), std::mem::take(&mut self.leaving));
        let open = self.open.take();
        if let Some(open) = open.as_ref().filter(|_| self.is_served()) {
            open.farewells.iter().for_each(Farewell::say);
        }
        // In this order: the paths, then the outlets that they lead to.
        [before, TakeDown::begin(&name, (open, self), now)]
    }

    /// Returns true if it can continue to serve under the router's new plan.
    pub(crate) fn fits(&self, router: &Router) -> bool {
        // The ports accept no more memory than the router had when they were created.
        let ways = |router: &Router| (router.name.clone(), router.vhost, router.vcpus, router.memory);
        // Cables are pulled out and plugged in at run time.
        let nics = |router: &Router| -> Vec<Nic> {
            router.nics.iter().map(|nic| Nic { link: None, ..nic.clone() }).collect()
        };
        ways(&self.plan) == ways(router) && nics(&self.plan) == nics(router)
    }

    /// Closes the paths, because a replacement is about to be opened. If it is not, [`IsolatedRouterPaths::resume`]
    /// reopens them.
    pub(crate) fn suspend(&mut self, now: Instant) {
        self.close(now);
        self.due = None;
    }

    /// Reopens the paths at the next look, if they are closed.
    pub(crate) fn resume(&mut self, now: Instant) {
        if self.open.is_none() && self.opening.is_none() {
            self.due = Some(now);
        }
    }

    /// Applies the settings of a plan that it fits.
    pub(crate) fn adjust(&mut self, to: &Router) {
        self.plan = to.clone();
        self.gate.set(to.limit);
        plug(to, &self.ports);
        self.idle();
    }

    /// Sets which threads share their CPUs.
    pub(crate) fn share(&mut self, sharing: &BTreeMap<String, CpuSharing>) {
        if *sharing != self.sharing {
            self.sharing.clone_from(sharing);
            self.idle();
        }
    }

    /// Applies the idle policy to its threads; threads that sleep are woken to check for work once.
    pub(crate) fn idle(&self) {
        self.threads().iter().for_each(|io| io.set_idle(idle(io, self.plan.spin, &self.sharing)));
    }

    /// Looks after it, about ten times a second; `time` is since the instance began. A charge is reported,
    /// and the supervisor, which started the router's process, stops it.
    pub(crate) fn look_after(&mut self, now: Instant, time: Duration, context: &mut RunContext) {
        let charge = self.watch.look(time, &self.sample()).charge;
        if charge.is_some() {
            self.charges.charge();
        }
        let rules = context.rules;
        let mut tell =
            |about, kind, message: String| context.record_event_about(about, &self.plan.name, kind, message);
        for (number, ((nic, port), outlet)) in
            self.plan.nics.iter().zip(&self.ports).zip(&self.outlets).enumerate()
        {
            // Connections and disconnections of its process are reported by the supervisor, which starts the
            // process.
            let news = port.look_after().and_then(|news| self.charges.judge(number, news));
            if let Some((kind, line)) = news {
                tell(About::Router, kind, format!("NIC {}: {line}", nic.name));
            }
            if let Some((about, kind, line)) = outlet.news().map(told) {
                tell(about, kind, format!("NIC {}: {line}", nic.name));
            }
        }
        if let Some(charge) = charge {
            tell(About::Router, Kind::Charged, charge.line);
            self.watch = Watch::new(rules);
        }
        let ended = self.threads().iter().map(IoThread::thread).find(|thread| thread.is_finished());
        if let Some(thread) = ended {
            tell(About::Router, Kind::Failed, format!("its thread {} has ended", thread.name()));
            self.close(now);
            self.due = Some(now + PAUSE);
        }
        if let Some(line) = self.leaving.look(now) {
            context.record_event(&self.plan.name, Kind::Notice, line);
        }
        if self.leaving.is_over() && self.due.is_some_and(|due| now >= due) {
            self.begin_to_open(now, context);
        }
        self.look_at_opening(now);
        for ((nic, outlet), was) in self.plan.nics.iter().zip(&self.outlets).zip(&mut self.links) {
            let link = outlet.link();
            if std::mem::replace(was, link) != link {
                context.plugged.push(format!("{}.{}", self.plan.name, nic.name));
            }
        }
    }
}

/// Pulls the cables of NICs out, or plugs them in; the router's own process tells the driver.
fn plug(plan: &Router, ports: &[Arc<Backend>]) {
    plan.nics.iter().zip(ports).for_each(|(nic, port)| port.queues().plug(!nic.is_pulled()));
}

/// Returns the attachment that an isolated router's process is offered at one of its NICs. Like a machine of
/// another program it shares the router's memory, and nothing else.
fn peer_requirements(router: &Router, nic: &Nic) -> NicRequirements {
    NicRequirements { memory_max: router.memory, ..router.wanted(nic) }
}

impl IsolatedRouterPaths {
    /// Takes a sample of its rings for the watch.
    fn sample(&self) -> Sample {
        let nics = self.plan.nics.iter().zip(&self.ports).flat_map(|(nic, port)| {
            let queues = port.queues();
            let name = |way: &str| format!("{}.{way}", nic.name);
            [
                NicSample::read(name("rx"), &queues.rx_ledger()).with_broken(queues.rx_broken()),
                NicSample::read_transmit(name("tx"), &queues.tx_ledger()).with_broken(queues.tx_broken()),
            ]
        });
        Sample { nics: nics.collect(), ..Sample::default() }
    }
}

impl Drop for Open {
    /// Like for a router of this process: first detaches the outside, so that no more frames enter, then
    /// stops the threads.
    fn drop(&mut self) {
        self.outside.iter().for_each(Outside::leave);
        IoThread::stop_all(std::mem::take(&mut self.threads));
    }
}

#[cfg(test)]
mod tests;
