//! The event loop's end of the thread of a control plane.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use api::{ControlQuestion, Ticket};
use config::Router;
use netns::Id;
use telemetry::Kind;

use super::bell::{Listener, Ringer, belled};
use super::counts::Counts;
use super::namespace::ControlNamespace;
use super::thread::{ControlPlane, Order, Place, Question, Report};
use crate::kernels::backend::Network;

/// Time between two looks whether a thread has ended.
const LOOK: Duration = Duration::from_millis(5);

/// See the module.
pub(super) struct Handle {
    orders: Ringer<Order>,
    reports: Listener<Report>,
    thread: JoinHandle<()>,
    /// Networks for which the router's table has no room, and the number of its last change.
    late: u64,
    epoch: u32,
    /// What is counted on the way to a machine; `None`: the kernel forwards in the namespace itself.
    counts: Option<Counts>,
    /// Namespace of the kernel router that it is in, if it is.
    inside: Option<Id>,
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
        Ok(Self { orders, reports, thread, late: 0, epoch: 0, counts: None, inside: None })
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
    pub(super) const fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn tell(&self, order: Order) {
        self.orders.send(order);
    }

    pub(super) fn ask(&self, ticket: Ticket, question: ControlQuestion) {
        self.tell(Order::Ask(Question { ticket, question, epoch: self.epoch, late: self.late }));
    }

    /// Notes the outcome of a lesson. Returns how many networks were late before.
    pub(super) const fn learned(&mut self, late: u64, epoch: u32) -> u64 {
        self.epoch = epoch;
        std::mem::replace(&mut self.late, late)
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
