//! A router whose machine is in a process of its own: what is left of it here, its ways to the world.
//!
//! ```text
//!  process of the router             | here
//!  driver == rings == model --------(vhost-user)--------> Backend <== I/O threads ==> TAP, switch, …
//! ```
//!
//! The rings are served as those of a router that is here; who reaches into them sees nothing but that router's memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::Sharing;
use attach::{Handed, Outside, Wanted};
use config::{Nic, Router};
use switch::Switch;

use crate::counts::{Counting, Counts};
use crate::groups::{IoCounts, RelayCounts};
use crate::instance::About;
use crate::instance::running::idle;
use crate::instance::slot::{LAUNCH_LIMIT, Yard, outlet_finder};
use crate::io_thread::IoThread;
use crate::look_after::told;
use crate::supplies::Supplies;
use crate::take_down::TakeDown;
use crate::task::{Progress, Task};
use crate::tracing::TapBoard;
use crate::watch::{NicSigns, Sample, Watch};
use crate::wiring::{Gate, Outlet, connect, io_threads};
use sandbox::Confinement;
use telemetry::Kind;
use vhost_user::backend::{Backend, News};

/// Before ways whose thread has ended are opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// The ways of one router. Dropping it closes them.
pub(crate) struct Relay {
    /// What counts is read until this is dropped, before everything else.
    counting: Option<Counting>,
    pub(crate) plan: Router,
    outlets: Vec<Arc<Outlet>>,
    /// Whether somebody was at the other end of each NIC's cable, when that was asked last.
    links: Vec<Option<bool>>,
    ports: Vec<Arc<Backend>>,
    open: Option<Open>,
    /// What opens them again.
    opening: Option<Task<Result<Open>>>,
    /// Ways that were closed. Until they are down none are opened.
    leaving: TakeDown,
    pub(crate) gate: Gate,
    /// Judges what the router does with its rings and doorbells, which its own process does not see.
    watch: Watch,
    /// When it is opened again.
    due: Option<Instant>,
    /// Its threads that are to sleep as soon as they have nothing to do, by name.
    sharing: BTreeMap<String, Sharing>,
    counts: Counts,
}

/// Ways that are served.
struct Open {
    threads: Vec<IoThread>,
    outside: Vec<Outside>,
}

/// What a relay is made of, before it serves.
pub(crate) struct RelayParts {
    plan: Router,
    outlets: Vec<Arc<Outlet>>,
    doors: Vec<Handed>,
}

impl RelayParts {
    /// Finds what the NICs are plugged into, and where the router's process comes to them; nothing is served yet.
    pub(crate) fn find(
        router: &Router,
        switches: &[Arc<Switch>],
        held: &[Arc<Outlet>],
        supplies: &mut Supplies,
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

    /// Its router's name.
    pub(crate) fn name(&self) -> &str {
        &self.plan.name
    }

    /// Opens the ways. It waits for threads that begin.
    ///
    /// # Errors
    /// One line: what was refused.
    pub(crate) fn open(self, board: TapBoard, confinement: Confinement) -> Result<RelayWays> {
        let Self { plan, outlets, doors } = self;
        let meet = |(nic, door)| attach::meet(&met(&plan, nic), door, confinement).map(Arc::new);
        let ports = plan.nics.iter().zip(doors).map(meet).collect::<Result<Vec<_>>>()?;
        plug(&plan, &ports);
        let opener = Opener { gate: Gate::new(&plan), plan, ports, outlets, board, confinement };
        let open = opener.open()?;
        Ok(RelayWays { opener, open })
    }
}

/// What opens the ways of a router.
struct Opener {
    plan: Router,
    ports: Vec<Arc<Backend>>,
    outlets: Vec<Arc<Outlet>>,
    gate: Gate,
    board: TapBoard,
    confinement: Confinement,
}

/// The ways of a router, open.
pub(crate) struct RelayWays {
    opener: Opener,
    open: Open,
}

impl Opener {
    fn open(&self) -> Result<Open> {
        let (mut ways, mut open) = (Vec::new(), Open { threads: Vec::new(), outside: Vec::new() });
        let gates = self.gate.nics();
        for (((nic, port), outlet), gate) in
            self.plan.nics.iter().zip(&self.ports).zip(&self.outlets).zip(gates)
        {
            let (way, far) = connect((&self.plan, nic), (port.queues(), None), outlet, (&self.board, gate))
                .with_context(|| format!("router {}, NIC {}", self.plan.name, nic.name))?;
            open.outside.push(far);
            ways.push(way);
        }
        open.threads = io_threads(&self.plan, ways, self.confinement)?;
        Ok(open)
    }
}

impl Relay {
    /// What is here of a router whose ways are open.
    pub(crate) fn of(ways: RelayWays, yard: &Yard) -> Self {
        let RelayWays { opener: Opener { plan, ports, outlets, gate, .. }, open } = ways;
        let mut relay = Self {
            gate,
            plan,
            links: outlets.iter().map(|outlet| outlet.link()).collect(),
            outlets,
            ports,
            open: None,
            opening: None,
            leaving: TakeDown::default(),
            watch: Watch::new(yard.rules),
            due: None,
            sharing: yard.sharing.clone(),
            counts: yard.counts.clone(),
            counting: None,
        };
        relay.is_open(open);
        relay
    }

    /// Its ways are open from now on.
    fn is_open(&mut self, open: Open) {
        self.open = Some(open);
        self.count();
        self.idle();
    }

    /// Begins to open the ways again, beside everything else. Where no thread can be had for that it is tried again.
    fn begin_to_open(&mut self, now: Instant, yard: &Yard) {
        let opener = Opener {
            plan: self.plan.clone(),
            ports: self.ports.clone(),
            outlets: self.outlets.clone(),
            gate: self.gate.clone(),
            board: yard.board.clone(),
            confinement: yard.confinement,
        };
        let name = format!("{}/open", self.plan.name);
        self.opening = Task::begin(name, LAUNCH_LIMIT, move || opener.open(), now).ok();
        self.due = self.opening.is_none().then(|| now + PAUSE);
    }

    /// Looks whether they are open again.
    fn look_at_opening(&mut self, now: Instant) {
        match self.opening.take().map(|opening| opening.look(now)) {
            None => {}
            Some(Progress::Going(opening)) => self.opening = Some(opening),
            Some(Progress::Done(Ok(open))) => self.is_open(open),
            Some(Progress::Done(Err(_)) | Progress::Lost(_)) => self.due = Some(now + PAUSE),
        }
    }

    /// What its NICs are plugged into.
    pub(crate) fn outlets(&self) -> &[Arc<Outlet>] {
        &self.outlets
    }

    /// The threads that serve it.
    pub(crate) fn threads(&self) -> &[IoThread] {
        self.open.as_ref().map_or(&[], |open| &open.threads)
    }

    /// What each NIC is plugged into, in the order of the file.
    pub(crate) fn outside(&self) -> &[Outside] {
        self.open.as_ref().map_or(&[], |open| &open.outside)
    }

    /// Has what counts read by others, as it is now.
    fn count(&mut self) {
        let parts = RelayCounts {
            plan: self.plan.clone(),
            ports: self.ports.clone(),
            outside: self.outside().to_vec(),
            gate: self.gate.clone(),
            threads: IoCounts::of(self.threads()),
        };
        // What was read before first: nothing is read twice.
        self.counting = None;
        self.counting = Some(self.counts.add(parts));
    }

    /// What counts of it is read no more.
    pub(crate) fn stop_counting(&mut self) {
        self.counting = None;
    }

    /// Closes the ways, beside everything else; what was counted of the router can still be read.
    fn close(&mut self, now: Instant) {
        if let Some(opening) = self.opening.take() {
            self.leaving = TakeDown::begin(&self.plan.name, opening, now);
        }
        let Some(open) = self.open.take() else { return };
        self.count();
        self.leaving = TakeDown::begin(&self.plan.name, open, now);
    }

    /// Whether ways that were closed are not down yet.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_over()
    }

    /// Takes it down with all that it is plugged into: its ways, and those that were closed before and are not down yet.
    pub(crate) fn into_take_downs(mut self, now: Instant) -> [TakeDown; 2] {
        self.stop_counting();
        let (name, before) = (self.plan.name.clone(), std::mem::take(&mut self.leaving));
        let open = self.open.take();
        // In this order: the ways, and then what they lead to.
        [before, TakeDown::begin(&name, (open, self), now)]
    }

    /// Whether it can go on for what a router is to be now.
    pub(crate) fn fits(&self, router: &Router) -> bool {
        // The ports take no more memory than the router had when they were made.
        let ways = |router: &Router| (router.name.clone(), router.vhost, router.vcpus, router.memory);
        // Cables are pulled out and plugged in while all goes on.
        let nics = |router: &Router| -> Vec<Nic> {
            router.nics.iter().map(|nic| Nic { link: None, ..nic.clone() }).collect()
        };
        ways(&self.plan) == ways(router) && nics(&self.plan) == nics(router)
    }

    /// Closes the ways, because something else is about to take their place. If it does not, [`Relay::come_back`] opens them again.
    pub(crate) fn give_way(&mut self, now: Instant) {
        self.close(now);
        self.due = None;
    }

    /// Opens the ways again at the next look, if they are closed.
    pub(crate) fn come_back(&mut self, now: Instant) {
        if self.open.is_none() && self.opening.is_none() {
            self.due = Some(now);
        }
    }

    /// Takes over the settings of a plan that it fits.
    pub(crate) fn adjust(&mut self, to: &Router) {
        self.plan = to.clone();
        self.gate.set(to.limit);
        plug(to, &self.ports);
        self.idle();
    }

    /// From now on those of its threads that are in this set share their CPUs.
    pub(crate) fn share(&mut self, sharing: &BTreeMap<String, Sharing>) {
        if *sharing != self.sharing {
            self.sharing.clone_from(sharing);
            self.idle();
        }
    }

    /// Has its threads idle as they are to; those that sleep look once more.
    pub(crate) fn idle(&self) {
        self.threads().iter().for_each(|io| io.set_idle(idle(io, self.plan.spin, &self.sharing)));
    }

    /// Looks after it about ten times a second; `time` is since the instance began. A charge is told, and whoever started
    /// the router's process ends it.
    pub(crate) fn look_after(&mut self, now: Instant, time: Duration, yard: &mut Yard) {
        let charge = self.watch.look(time, &self.sample()).charge;
        let rules = yard.rules;
        let mut tell = |about, kind, message: String| yard.tell_about(about, &self.plan.name, kind, message);
        for ((nic, port), outlet) in self.plan.nics.iter().zip(&self.ports).zip(&self.outlets) {
            // That its process comes and goes is told by who starts that.
            if let Some(News::Fault(line)) = port.look_after() {
                tell(About::Router, Kind::Charged, format!("NIC {}: {line}", nic.name));
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
            yard.tell(&self.plan.name, Kind::Notice, line);
        }
        if self.leaving.is_over() && self.due.is_some_and(|due| now >= due) {
            self.begin_to_open(now, yard);
        }
        self.look_at_opening(now);
        for ((nic, outlet), was) in self.plan.nics.iter().zip(&self.outlets).zip(&mut self.links) {
            let link = outlet.link();
            if std::mem::replace(was, link) != link {
                yard.plugged.push(format!("{}.{}", self.plan.name, nic.name));
            }
        }
    }
}

/// Pulls the cables of NICs out, or plugs them in; what a driver is told of it, the router's process says.
fn plug(plan: &Router, ports: &[Arc<Backend>]) {
    plan.nics.iter().zip(ports).for_each(|(nic, port)| port.queues().plug(!nic.is_pulled()));
}

/// What the process of a router that is apart is offered at one of its NICs, as a machine of another program would be: it shares the
/// router's memory, and nothing else.
fn met(router: &Router, nic: &Nic) -> Wanted {
    Wanted { memory_max: router.memory, ..router.wanted(nic) }
}

impl Relay {
    /// What its rings show.
    fn sample(&self) -> Sample {
        let nics = self.plan.nics.iter().zip(&self.ports).flat_map(|(nic, port)| {
            let queues = port.queues();
            let signs = |way: &str, ledger| NicSigns::read(format!("{}.{way}", nic.name), ledger);
            [
                signs("rx", &queues.rx_ledger()).with_broken(queues.rx_broken()),
                signs("tx", &queues.tx_ledger()).with_broken(queues.tx_broken()),
            ]
        });
        Sample { nics: nics.collect(), ..Sample::default() }
    }
}

impl Drop for Open {
    /// As with a router that is here: first nobody gets in any more, then the threads go.
    fn drop(&mut self) {
        self.outside.iter().for_each(Outside::leave);
        IoThread::stop_all(std::mem::take(&mut self.threads));
    }
}

#[cfg(test)]
mod tests;
