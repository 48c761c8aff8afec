//! The event loop's end of the thread of a control plane.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use api::{ControlQuestion, Ticket};
use config::Router;
use telemetry::Kind;

use super::bell::{Listener, Ringer, belled};
use super::counts::Counts;
use super::namespace::ControlNamespace;
use super::thread::{ControlPlane, Order, Question, Report};

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
    counts: Counts,
}

impl Handle {
    /// Starts the control plane of a router in its namespace.
    ///
    /// # Errors
    /// No thread or no descriptor is left.
    pub(super) fn start(router: &Router, namespace: ControlNamespace) -> io::Result<Self> {
        let (orders, taken) = belled()?;
        let (told, reports) = belled()?;
        let (router, counts) = (router.clone(), Counts::default());
        let counted = counts.clone();
        let named = Builder::new().name(format!("{}/control", router.name));
        let thread = named.spawn(move || live((router, namespace), (taken, told), counted))?;
        Ok(Self { orders, reports, thread, late: 0, epoch: 0, counts })
    }

    pub(super) const fn counts(&self) -> &Counts {
        &self.counts
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

fn live(
    (router, namespace): (Router, ControlNamespace),
    (orders, reports): (Listener<Order>, Ringer<Report>),
    counts: Counts,
) {
    let failed = reports.clone();
    match ControlPlane::new(router, namespace, (orders, reports), counts) {
        Ok(plane) => plane.serve(),
        Err(error) => {
            let what =
                format!("its control plane cannot be started: {error:#}; stop the run and start it again");
            failed.send(Report::Event(Kind::Failed, what));
        }
    }
}
