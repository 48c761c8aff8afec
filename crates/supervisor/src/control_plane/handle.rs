//! The event loop's end of the thread of a control plane.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use api::{ControlQuestion, Ticket};
use config::Router;
use engine::GroupRoutes;
use netns::Id;
use telemetry::Kind;

use super::cables::Cables;
use super::counts::Counts;
use super::learners::Learners;
use super::namespace::ControlNamespace;
use super::thread::{ControlPlane, Order, Place, Question, Report};
use crate::bell::{Listener, Ringer, belled};
use crate::kernels::network::Network;

/// Time between two looks whether a thread has ended.
const LOOK: Duration = Duration::from_millis(5);

/// See the module.
pub(super) struct Handle {
    orders: Ringer<Order>,
    reports: Listener<Report>,
    thread: JoinHandle<()>,
    learners: Learners,
    /// The table of a group that its thread writes; `None`: routes are told to learners.
    table: Option<Written>,
    /// Number of the last change of a table.
    epoch: u32,
    /// What is counted on the way to a machine; `None`: the kernel forwards in the namespace itself.
    counts: Option<Counts>,
    /// Namespace of the kernel router that it is in, if it is.
    inside: Option<Id>,
    /// Cables of which it was told last.
    cables: Cables,
}

/// A table that the thread writes.
struct Written {
    routes: Arc<GroupRoutes>,
    /// Networks for which it has no room.
    late: u64,
    /// True if it has everything.
    is_whole: bool,
    /// Gateways of learned routes by several ones, as the data plane was told; none: it may know others.
    gateways: Option<BTreeSet<(usize, IpAddr)>>,
}

impl Handle {
    /// Starts the control plane of a router that is a machine, in its own namespace.
    ///
    /// # Errors
    /// No thread or no descriptor is left.
    pub(super) fn start_beside(router: &Router, namespace: ControlNamespace) -> io::Result<Self> {
        let counts = Counts::default();
        let handle = Self::start(router, Place::Beside(namespace, counts.clone()))?;
        Ok(Self { counts: Some(counts), ..handle })
    }

    /// Starts the control plane of a kernel router, where that is.
    ///
    /// # Errors
    /// No thread or no descriptor is left.
    pub(super) fn start_inside(router: &Router, network: &Network) -> io::Result<Self> {
        let handle = Self::start(router, Place::Inside(network.namespace.clone()))?;
        Ok(Self { inside: Some(network.id), ..handle })
    }

    fn start(router: &Router, place: Place) -> io::Result<Self> {
        let (orders, taken) = belled()?;
        let (told, reports) = belled()?;
        let router = router.clone();
        let named = Builder::new().name(format!("{}/control", router.name));
        let thread = named.spawn(move || live(router, place, (taken, told)))?;
        Ok(Self::of((orders, reports), thread))
    }

    fn of((orders, reports): (Ringer<Order>, Listener<Report>), thread: JoinHandle<()>) -> Self {
        Self {
            orders,
            reports,
            thread,
            learners: Learners::default(),
            table: None,
            epoch: 0,
            counts: None,
            inside: None,
            cables: Cables::default(),
        }
    }

    /// One whose thread does nothing but this.
    ///
    /// # Errors
    /// No descriptors are left.
    #[cfg(test)]
    pub(super) fn played(play: impl FnOnce(Ringer<Report>) + Send + 'static) -> io::Result<Self> {
        let (told, reports) = belled()?;
        let thread = std::thread::spawn(move || play(told));
        Ok(Self { reports, thread, ..Self::overheard()?.0 })
    }

    /// One without a thread, and what it is told.
    ///
    /// # Errors
    /// No descriptors are left.
    #[cfg(test)]
    pub(super) fn overheard() -> io::Result<(Self, Listener<Order>)> {
        let ((orders, taken), (_, reports)) = (belled()?, belled()?);
        Ok((Self::of((orders, reports), std::thread::spawn(|| {})), taken))
    }

    /// What it counts, unless the kernel forwards.
    pub(super) const fn counts(&self) -> Option<&Counts> {
        self.counts.as_ref()
    }

    /// Returns true if it is in this namespace of a kernel router.
    pub(super) fn is_inside(&self, network: &Network) -> bool {
        self.inside == Some(network.id)
    }

    /// Number of networks for which the router's table has no room.
    pub(super) fn late(&self) -> u64 {
        self.table.as_ref().map_or_else(|| self.learners.late(), |table| table.late)
    }

    /// Its thread writes this table from now on; `None`: all learners are told.
    pub(super) fn write_into(&mut self, routes: Option<Arc<GroupRoutes>>) {
        let before = self.table.as_ref().map(|table| Arc::as_ptr(&table.routes));
        if before == routes.as_ref().map(Arc::as_ptr) {
            return;
        }
        self.learners.begin_anew();
        let new = |routes| Written { routes, late: 0, is_whole: false, gateways: None };
        self.table = routes.map(new);
    }

    /// Returns true if it writes a table, and that has everything.
    pub(super) fn is_whole(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.is_whole)
    }

    /// Returns true if it writes a table itself.
    pub(super) const fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Notes what has come of something written. Returns true if the table has no room for some networks, and had for all before.
    pub(super) fn has_written(&mut self, (late, epoch): (u64, u32), is_whole: bool) -> bool {
        let Some(table) = &mut self.table else { return false };
        self.epoch = epoch;
        table.is_whole |= is_whole;
        std::mem::replace(&mut table.late, late) == 0 && late > 0
    }

    /// Gateways of learned routes by several ones, if the data plane knows others.
    pub(super) fn new_gateways(&mut self) -> Option<BTreeSet<(usize, IpAddr)>> {
        let table = self.table.as_mut()?;
        let gateways = table.routes.learned_ways();
        if table.gateways.as_ref() == Some(&gateways) {
            return None;
        }
        table.gateways = Some(gateways.clone());
        Some(gateways)
    }

    /// The data plane may know other gateways than it was told.
    pub(super) fn forget_gateways(&mut self) {
        self.table.iter_mut().for_each(|table| table.gateways = None);
    }

    pub(super) fn tell(&self, order: Order) {
        self.orders.send(order);
    }

    /// Has its daemons see what has become of cables.
    pub(super) fn show_cables(&mut self, cables: Cables) {
        if self.cables != cables {
            self.cables.clone_from(&cables);
            self.tell(Order::Cables(cables));
        }
    }

    pub(super) fn ask(&self, ticket: Ticket, question: ControlQuestion) {
        self.tell(Order::Ask(Question { ticket, question, epoch: self.epoch, late: self.late() }));
    }

    /// A lesson is told to these.
    pub(super) fn teaches(&mut self, learners: &[Option<String>]) {
        self.learners.tell(learners);
    }

    /// Notes what has come of a lesson at one of those that were told. Returns true if a table has no room for some networks, and
    /// all had before.
    pub(super) fn learned(&mut self, learner: Option<&str>, late: u64, epoch: u32) -> bool {
        let was_late = self.late() > 0;
        // Where its machine runs elsewhere, the data plane has no table.
        self.epoch = if epoch == 0 || self.has_table() { self.epoch } else { epoch };
        let taken = self.learners.has_taken(learner, late);
        self.allow(taken);
        !was_late && self.late() > 0
    }

    /// Waits for no others than these.
    pub(super) fn keep(&mut self, is_there: impl Fn(Option<&str>) -> bool) {
        let taken = self.learners.keep(is_there);
        self.allow(taken);
    }

    /// Has everything told anew: somebody is there who knows nothing.
    pub(super) fn tell_anew(&mut self) {
        self.learners.begin_anew();
        self.tell(Order::TellAnew);
    }

    fn allow(&self, lessons: u64) {
        (0..lessons).for_each(|_| self.tell(Order::HasLearned));
    }

    /// Its next reports, at most so many.
    pub(super) fn reports(&self, most: usize) -> Vec<Report> {
        self.reports.quiet();
        let reports: Vec<Report> = (0..most).map_while(|_| self.reports.next().ok().flatten()).collect();
        if reports.len() == most {
            // There may be more.
            self.reports.ring();
        }
        reports
    }

    /// Its next reports once it is to end, at most so many; true: there will be none any more.
    pub(super) fn last_reports(&self, most: usize) -> (Vec<Report>, bool) {
        let mut reports = self.reports(most);
        if reports.len() == most {
            return (reports, false);
        }
        match self.reports.next() {
            Ok(report) => {
                reports.extend(report);
                (reports, false)
            }
            Err(_) => (reports, true),
        }
    }

    pub(super) fn watched(&self) -> BorrowedFd<'_> {
        self.reports.watched()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end, at most this long.
    pub(super) fn wait(self, most: Duration) {
        let until = Instant::now() + most;
        while !self.thread.is_finished() && Instant::now() < until {
            sleep(LOOK);
        }
    }
}

fn live(router: Router, place: Place, (orders, reports): (Listener<Order>, Ringer<Report>)) {
    let failed = reports.clone();
    match ControlPlane::new(router, place, (orders, reports)) {
        Ok(plane) => plane.serve(),
        Err(error) => {
            let what =
                format!("its control plane cannot be started: {error:#}; stop the run and start it again");
            failed.send(Report::Event(Kind::Failed, what));
        }
    }
}

#[cfg(test)]
mod tests;
