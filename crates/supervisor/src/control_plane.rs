//! Control planes of routers (`[router.control]`): a network namespace each, with a shadow of each NIC, in which FRR runs. A thread
//! for each does all that may wait, `NAME/control`; the event loop passes its news on to the data plane.
//!
//! ```text
//! Resources: namespaces, shadows --> data plane (sorts frames out, punts them, sends those of the control plane)
//!    | tables of groups                 ^
//!    v                                  | lessons: routes, addresses; a few under way at a time
//! thread: settle (the file's addresses and routes), Mirror, Zebra (FPM), Daemons (FRR) --> Supervisor
//! ```
//!
//! Where the members of a group have one route table, the thread writes the routes into that, and lessons have addresses alone: the table
//! outlives members and data planes, so none of these is told routes.
//!
//! A kernel router is such a namespace itself: its kernel forwards by the routes that FRR writes there, and the thread only watches
//! over the daemons and answers questions. It begins once the router was seen to run, and anew after each restart of that.

mod bfd;
mod cables;
mod changes;
mod counts;
mod daemons;
mod data_path;
mod handle;
mod kernel_table;
mod last_moment;
mod learners;
mod namespace;
mod questions;
mod routes;
mod settle;
mod shortage;
mod static_neighbours;
mod taught;
mod thread;
mod virtual_links;
mod wanted;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api::{Answer, ControlAnswer, ControlPlace, ControlQuestion, Outcome, Ticket};
use config::learned::{LearnedGateway, Lesson};
use config::{Plan, Router};
use engine::GroupRoutes;
use link::ToPlane;
use telemetry::{Kind, Page};
use uplink::Tap;

use super::Supervisor;
use super::kernels::network::Network;
use super::router_process::RouterProcess;
use cables::Cables;
pub(super) use changes::changes;
pub(super) use counts::describe;
use handle::Handle;
use namespace::ControlNamespace;
pub(crate) use namespace::{ControlJournal, ControlResources, OpenControl};
use thread::{End, Order, Report};

/// Most reports of a control plane taken in one iteration of the event loop.
const MOST: usize = 64;
/// Most gateways of a group's learned routes that the data plane is told.
const MOST_GATEWAYS: usize = 1024;

/// Told when a table is full that was not before.
const NO_ROOM: &str =
    "the router's table has no room for all routes of its control plane; the rest is tried again";

/// The control planes of a run.
#[derive(Default)]
pub(crate) struct ControlPlanes {
    running: BTreeMap<String, Handle>,
    /// Those of routers that have gone, by name, until they have ended and have said everything.
    ending: Vec<(String, Handle)>,
    /// Members of groups that get no frames until the table of their group has all routes.
    learning: BTreeSet<String>,
}

impl ControlPlanes {
    /// Descriptors to poll for reading.
    pub(super) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.values().chain(self.ending.iter().map(|(_, handle)| handle)).map(Handle::watched)
    }

    /// Ends all of them, and waits at most this long.
    pub(super) fn end(&mut self, most: Duration) {
        let until = Instant::now() + most;
        self.ending.extend(std::mem::take(&mut self.running));
        self.ending.iter().for_each(|(_, handle)| handle.tell(Order::End(End::Together)));
        for (_, handle) in self.ending.drain(..) {
            handle.wait(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Has the others end.
    fn keep(&mut self, is_kept: impl Fn(&str) -> bool, how: End) {
        let gone = self.running.extract_if(.., |name, _| !is_kept(name));
        self.ending.extend(gone.inspect(|(_, handle)| handle.tell(Order::End(how))));
    }

    /// Events and answers of those that end, at most so many of each; one that has said everything is forgotten. Their lessons are for
    /// routers that learn from others by now, or from none.
    fn last_reports(&mut self, most: usize) -> Vec<(String, Report)> {
        let mut all = Vec::new();
        self.ending.retain(|(name, handle)| {
            let has_ended = handle.has_ended();
            let (reports, is_over) = handle.last_reports(most);
            let is_lesson = |report: &Report| matches!(report, Report::Lesson(_) | Report::Written { .. });
            let kept = reports.into_iter().filter(|report| !is_lesson(report));
            all.extend(kept.map(|report| (name.clone(), report)));
            !(has_ended && is_over)
        });
        all
    }

    /// Returns true if one has not ended yet, and may hold its namespace.
    pub(super) fn are_ending(&self) -> bool {
        self.ending.iter().any(|(_, handle)| !handle.has_ended())
    }

    /// One ends when the sender is dropped, and its last word is this event.
    #[cfg(test)]
    pub(super) fn ends_with(&mut self, name: &str, line: &'static str, end: std::sync::mpsc::Receiver<()>) {
        let handle = Handle::played(move |reports| {
            let _ = end.recv();
            reports.send(Report::Event(Kind::Notice, line.to_owned()));
        });
        self.ending.push((name.to_owned(), handle.expect("a descriptor")));
    }

    /// One of a group finds this, and writes it into its table.
    #[cfg(test)]
    pub(super) fn finds(&mut self, group: &str, table: &Arc<GroupRoutes>, lesson: Lesson) {
        let own = table.clone();
        let handle = Handle::played(move |reports| data_path::write(&own, lesson, &reports));
        let mut handle = handle.expect("a descriptor");
        handle.write_into(Some(table.clone()));
        self.running.insert(group.to_owned(), handle);
    }

    /// One without a thread is there; returns how to hear the MTUs that it is told next, by NIC.
    #[cfg(test)]
    pub(super) fn overhear_mtus(
        &mut self,
        router: &str,
    ) -> impl FnMut() -> Option<BTreeMap<String, u32>> + use<> {
        let (handle, orders) = Handle::overheard().expect("descriptors");
        self.running.insert(router.to_owned(), handle);
        let mtus = |order: Order| if let Order::Cables(cables) = order { Some(cables.narrow) } else { None };
        move || std::iter::from_fn(|| orders.next().ok().flatten()).find_map(mtus)
    }

    /// Has the control plane of a router follow; starts it if there is none.
    fn follow(
        &mut self,
        router: &Router,
        (shadows, table): (BTreeMap<String, Tap>, Option<Arc<GroupRoutes>>),
        namespace: &ControlNamespace,
        is_up: bool,
    ) -> io::Result<()> {
        let (handle, is_new) = match self.running.entry(router.name.clone()) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(new) => (new.insert(Handle::start_beside(router, namespace.clone())?), true),
        };
        handle.write_into(table.clone());
        handle.tell(Order::Follow(Box::new(router.clone()), shadows, table));
        if is_new && is_up {
            handle.tell_anew();
        }
        // The group may have been made anew from the plan, which has none of them.
        handle.forget_gateways();
        Ok(())
    }

    /// Has the control plane of a kernel router run where the router is now; `None`: it is nowhere.
    fn follow_inside(&mut self, router: &Router, network: Option<&Network>) -> io::Result<()> {
        let Some(network) = network else {
            self.keep(|name| name != router.name, End::LeftBehind);
            return Ok(());
        };
        if let Some(known) = self.running.get(&router.name).filter(|known| known.is_inside(network)) {
            known.tell(Order::Follow(Box::new(router.clone()), BTreeMap::new(), None));
            return Ok(());
        }
        self.keep(|name| name != router.name, End::LeftBehind);
        // Of two FRRs in one namespace the later one would fail.
        if !self.ending.iter().any(|(_, handle)| handle.is_inside(network) && !handle.has_ended()) {
            let handle = Handle::start_inside(router, network)?;
            handle.tell(Order::Follow(Box::new(router.clone()), BTreeMap::new(), None));
            self.running.insert(router.name.clone(), handle);
        }
        Ok(())
    }

    /// Returns true if the control plane of a kernel router is not where the router is.
    fn is_elsewhere(&self, router: &str, network: Option<&Network>) -> bool {
        match (self.running.get(router), network) {
            (Some(known), Some(network)) => !known.is_inside(network),
            (known, network) => known.is_some() != network.is_some(),
        }
    }

    /// Has the daemons of routers see what was seen of the cables of their NICs (`edge.wan`): a carrier, and an MTU if that is known.
    pub(super) fn show_cables(&mut self, plan: &Plan, seen: impl Fn(&str) -> (bool, Option<u32>)) {
        for router in plan.shadowed() {
            if let Some(handle) = self.running.get_mut(&router.name) {
                handle.show_cables(Cables::of(router, &seen));
            }
        }
    }

    /// Adds what control planes count, all or that of one router, to the counters.
    pub(super) fn list_counters(&self, only: Option<&str>, all: &mut BTreeMap<String, u64>) {
        let asked = self.running.iter().filter(|(name, _)| only.is_none_or(|only| only == name.as_str()));
        let counts = asked.filter_map(|(name, handle)| Some((name, handle.counts()?)));
        counts.for_each(|(name, counts)| counts.list(name, all));
    }

    /// Adds to a page of metrics how much they have.
    pub(super) fn show_sizes(&self, page: &mut Page) {
        for (name, handle) in &self.running {
            handle.counts().iter().for_each(|counts| counts.show(name, handle.late(), page));
        }
    }

    /// A new data plane is told everything.
    pub(super) fn tell_anew(&mut self) {
        self.running.values_mut().for_each(Handle::tell_anew);
        self.running.values_mut().for_each(Handle::forget_gateways);
    }

    /// The process of a router for which this one speaks is there, and knows nothing, but for the table of a group.
    pub(super) fn teach_anew(&mut self, speaker: &str) {
        let handle = self.running.get_mut(speaker).filter(|handle| !handle.has_table());
        handle.into_iter().for_each(Handle::tell_anew);
    }
}

impl Supervisor {
    /// Has control planes begin, end and follow as the plan that runs says.
    pub(super) fn follow_controls(&mut self, now: Instant) {
        let (plan, is_up) = (&self.running.plan, self.is_up());
        let is_kept = |name: &str| plan.controlled().any(|(router, _)| router.name == name);
        self.controls.keep(is_kept, End::Without);
        let mut failures = Vec::new();
        for router in plan.shadowed() {
            let Some(namespace) = self.resources.control.namespace(&router.name) else { continue };
            let shadows = self.resources.control.shadows_of(router);
            let table = self.resources.tables.routes_of(&router.name);
            let followed = self.controls.follow(router, (shadows, table), namespace, is_up);
            failures.extend(followed.err().map(|error| (router.name.clone(), error)));
        }
        for (router, _) in plan.controlled().filter(|(router, _)| router.is_in_kernel()) {
            let followed = self.controls.follow_inside(router, self.kernels.network(&router.name));
            failures.extend(followed.err().map(|error| (router.name.clone(), error)));
        }
        failures.into_iter().for_each(|(name, error)| self.cannot_start(&name, &error, now));
        self.tell_gateways(now);
    }

    /// Tells the data plane the gateways of learned routes by several ones, where it knows others.
    pub(super) fn tell_gateways(&mut self, now: Instant) {
        if !self.is_up() {
            return;
        }
        let news = self
            .controls
            .running
            .iter_mut()
            .filter_map(|(name, handle)| Some((name, handle.new_gateways()?)));
        let gateway = |(nic, ip): (usize, IpAddr)| Some(LearnedGateway { link: u8::try_from(nic).ok()?, ip });
        let told = |(group, gateways): (&String, BTreeSet<_>)| ToPlane::Gateways {
            group: group.clone(),
            gateways: gateways.into_iter().filter_map(gateway).take(MOST_GATEWAYS).collect(),
        };
        for message in news.map(told).collect::<Vec<_>>() {
            self.say_to(None, &message, Vec::new(), now);
        }
    }

    /// Has the control plane of a kernel router, if it has one, run where the router was seen last.
    pub(super) fn follow_network(&mut self, router: &Router, now: Instant) {
        let network = self.kernels.network(&router.name);
        if router.control.is_none() || !self.controls.is_elsewhere(&router.name, network) {
            return;
        }
        if let Err(error) = self.controls.follow_inside(router, network) {
            self.cannot_start(&router.name, &error, now);
        }
    }

    fn cannot_start(&mut self, router: &str, error: &io::Error, now: Instant) {
        let what = format!("its control plane cannot be started: {error}");
        self.events.record_from_data_plane(Kind::Failed.name(), Some(router), what, now);
    }

    /// Has FRR follow what its files say by now.
    pub(super) fn reload_controls(&self) {
        self.controls.running.values().for_each(|handle| handle.tell(Order::Reload));
    }

    /// Refuses a control plane whose namespace would have the name of a kernel router's that runs.
    pub(super) fn may_have_controls(&self, plan: &Plan) -> Result<()> {
        let is_in_kernel = |name: &str| self.running.plan.in_kernel().any(|router| router.name == name);
        if let Some(router) = plan.shadowed().find(|router| is_in_kernel(&router.name)) {
            bail!(
                "router {}: the host's kernel forwards for it now; apply a file without it first",
                router.name
            );
        }
        Ok(())
    }

    /// A process was started for a router: if that is a member of a group with a control plane it gets no frames until the table of
    /// the group has all routes.
    pub(super) fn let_learn(&mut self, name: &str, now: Instant) {
        let mut routers = self.running.plan.routers.iter();
        let router = routers.find(|router| router.name == name && router.control.is_some());
        let is_taught = |router: &Router| {
            let handle = self.controls.running.get(router.speaker());
            handle.is_some_and(Handle::is_whole)
        };
        if router.is_some_and(|router| router.membership().is_some() && !is_taught(router)) {
            self.controls.learning.insert(name.to_owned());
            let learning = ToPlane::Learning { router: name.to_owned(), is_on: true };
            self.say_to(None, &learning, Vec::new(), now);
        }
    }

    /// Lets those members of groups have frames whose table has all routes by now, or whose control plane is gone.
    fn release_learned(&mut self, now: Instant) {
        let (plan, controls) = (&self.running.plan, &self.controls);
        let handle = |name: &str| {
            let router = plan.routers.iter().find(|router| router.name == name)?;
            controls.running.get(router.speaker()).filter(|handle| !handle.has_ended())
        };
        let is_over = |name: &String| handle(name).is_none_or(Handle::is_whole);
        let released: Vec<String> = controls.learning.iter().filter(|name| is_over(name)).cloned().collect();
        for name in released {
            self.controls.learning.remove(&name);
            let learning = ToPlane::Learning { router: name, is_on: false };
            self.say_to(None, &learning, Vec::new(), now);
        }
    }

    /// Takes the reports of control planes.
    pub(super) fn attend_controls(&mut self, now: Instant) {
        self.release_learned(now);
        let names: Vec<String> = self.controls.running.keys().cloned().collect();
        for name in names {
            let (isolated, is_up) = (&self.isolated, self.is_up());
            let Some(handle) = self.controls.running.get_mut(&name) else { continue };
            handle.keep(|learner| match learner {
                Some(process) => isolated.get(process).is_some_and(RouterProcess::is_up),
                None => is_up,
            });
            for report in handle.reports(MOST) {
                self.take_report(&name, report, now);
            }
        }
        for (name, report) in self.controls.last_reports(MOST) {
            self.take_report(&name, report, now);
        }
    }

    fn take_report(&mut self, name: &str, report: Report, now: Instant) {
        match report {
            // A data plane that comes up is told everything anew.
            Report::Lesson(lesson) if self.is_up() => self.teach(name, lesson, now),
            Report::Lesson(_) => {}
            Report::Written { late, epoch, is_whole } => self.has_written(name, (late, epoch), is_whole, now),
            Report::Event(kind, line) => self.tell_of(name, kind, line, now),
            Report::Answer(ticket, outcome) => self.reply(ticket, outcome, now),
        }
    }

    /// The thread of a control plane has written into the table of its group.
    fn has_written(&mut self, name: &str, written: (u64, u32), is_whole: bool, now: Instant) {
        let Some(handle) = self.controls.running.get_mut(name) else { return };
        if handle.has_written(written, is_whole) {
            self.tell_of(name, Kind::Notice, NO_ROOM.to_owned(), now);
        }
        if is_whole {
            self.release_learned(now);
        }
        self.tell_gateways(now);
    }

    /// Tells the data plane, and the processes of the routers that the control plane speaks for; where these have one table, it alone, of
    /// what is no route.
    fn teach(&mut self, name: &str, lesson: Lesson, now: Instant) {
        let has_table = self.controls.running.get(name).is_some_and(Handle::has_table);
        let is_up = |router: &&Router| self.isolated.get(&router.name).is_some_and(RouterProcess::is_up);
        let processes = self
            .running
            .plan
            .learners(name)
            .filter(|router| router.is_isolated() && !has_table)
            .filter(is_up);
        let processes = processes.map(|router| Some(router.name.clone()));
        let learners: Vec<Option<String>> = [None].into_iter().chain(processes).collect();
        let Some(handle) = self.controls.running.get_mut(name) else { return };
        handle.teaches(&learners);
        let message = ToPlane::Learn { router: name.to_owned(), lesson };
        for learner in learners {
            self.say_to(learner.as_deref(), &message, Vec::new(), now);
        }
    }

    /// The process of a router says that it has taken a lesson; it speaks for that router alone.
    pub(super) fn process_has_learned(
        &mut self,
        (learner, name): (&str, &str),
        (late, epoch): (u64, u32),
        now: Instant,
    ) {
        let learns = self.running.plan.learners(name).any(|router| router.name == learner);
        if learns {
            self.has_learned((Some(learner), name), (late, epoch), now);
        }
    }

    /// A process, or the data plane, has taken a lesson: so many networks are not in its tables yet, and this is their epoch.
    pub(super) fn has_learned(
        &mut self,
        (learner, name): (Option<&str>, &str),
        (late, epoch): (u64, u32),
        now: Instant,
    ) {
        let Some(handle) = self.controls.running.get_mut(name) else { return };
        if handle.learned(learner, late, epoch) {
            self.tell_of(name, Kind::Notice, NO_ROOM.to_owned(), now);
        }
    }

    /// Answers a question about the control plane of a router, or has its thread answer.
    pub(super) fn ask_control(
        &mut self,
        ticket: Ticket,
        name: &str,
        question: ControlQuestion,
        now: Instant,
    ) {
        let mut routers = self.running.plan.routers.iter();
        let speaker = routers.find(|router| router.name == name).map_or(name, Router::speaker);
        if let Some(handle) = self.controls.running.get(speaker).filter(|handle| !handle.has_ended()) {
            return handle.ask(ticket, question);
        }
        self.reply(ticket, self.without_control(name, &question), now);
    }

    /// The answer about a router whose control plane is not ours.
    fn without_control(&self, name: &str, question: &ControlQuestion) -> Outcome {
        let plan = &self.running.plan;
        let mut routers = plan.routers.iter().chain(plan.groups.iter().map(|group| &group.pattern));
        let why = match routers.find(|router| router.name == name) {
            Some(router) if router.is_in_kernel() && *question == ControlQuestion::Place {} => {
                let place = ControlPlace { network: format!("/run/netns/{name}"), ..ControlPlace::default() };
                return Ok(Answer::Control(ControlAnswer::Place(place)));
            }
            Some(router) if router.is_in_kernel() && router.control.is_none() => {
                format!(
                    "the host's kernel forwards for router {name}: ask it by `ringroad exec {name} -- ip route`"
                )
            }
            Some(router) if router.control.is_some() => {
                format!("the control plane of router {name} does not run: see `ringroad events {name}`")
            }
            Some(_) => {
                format!("router {name} has no control plane; write e.g. control = {{}} in its [[router]]")
            }
            None => format!("there is no router {name:?}"),
        };
        Err(api::Error::new(why))
    }
}

#[cfg(test)]
mod tests;
