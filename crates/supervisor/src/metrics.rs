//! Prometheus endpoint, where the file asks for one.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use anyhow::Result;
use api::{Counters, RouterStatus, State};
use config::{Errors, Fault, Listen, Plan};
use rustix::event::PollFlags;
use sched::ceiling::Resource;
use sched::promises;
use telemetry::{Limits, Metric, Page, Place, Responder};
use uplink::Undo;

use super::request_router::Requester;
use super::{Supervisor, account, control_plane};
use crate::run_lock::RunLock;

const UP: Metric = Metric { name: "data_plane_up", help: "Whether the data plane forwards.", counter: false };
const RESTARTS: Metric = Metric {
    name: "data_plane_restarts_total",
    help: "Times the data plane was started again after it had died.",
    counter: true,
};
const REACHED: Metric = Metric {
    name: "ceiling_reached_total",
    help: "Processes of the run that the kernel has ended for want of memory, or threads that it has refused.",
    counter: true,
};
const EVENTS: Metric =
    Metric { name: "events_total", help: "State changes of the run and its routers.", counter: true };

const ROUTER_UP: Metric = Metric { name: "router_up", help: "Whether the router forwards.", counter: false };
const ROUTER_RESTARTS: Metric = Metric {
    name: "router_restarts_total",
    help: "Times the router was started again since the run began.",
    counter: true,
};

/// Endpoint that serves the counters; empty if the file asks for none.
#[derive(Debug)]
pub(super) struct Metrics {
    listen: Option<Listen>,
    responder: Option<Responder>,
    /// Status of the routers, which the data plane reports before its counters.
    routers: Vec<RouterStatus>,
}

impl Metrics {
    /// Listens where the file says.
    ///
    /// # Errors
    /// The address or path cannot be used: file, line and key.
    pub(super) fn open(plan: &Plan, lock: &mut RunLock) -> Result<Self, Errors> {
        let listen = plan.telemetry.prometheus.clone();
        let responder = listen.as_ref().map(|listen| bind(listen, lock)).transpose();
        let refused = |error| {
            plan.errors([Fault::of_telemetry("prometheus", format!("{error:#}; choose another place"))])
        };
        Ok(Self { listen, responder: responder.map_err(refused)?, routers: Vec::new() })
    }

    /// Listens where another file says, if that is a different place.
    ///
    /// # Errors
    /// Those of [`Metrics::open`].
    pub(super) fn other(&self, plan: &Plan, lock: &mut RunLock) -> Result<Option<Self>, Errors> {
        (plan.telemetry.prometheus != self.listen).then(|| Self::open(plan, lock)).transpose()
    }

    /// Descriptors to poll, with the events to poll for.
    pub(super) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.responder.iter().flat_map(Responder::watched)
    }

    /// When there is something to do even if no descriptor is ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.responder.as_ref().and_then(Responder::deadline)
    }
}

fn bind(listen: &Listen, lock: &mut RunLock) -> Result<Responder> {
    // Not as a file: if the place is refused, or not used any more, what lies there is another program's.
    if let Listen::Unix(path) = listen
        && let Some(undo) = Undo::of_socket(path)
    {
        lock.add_undo(&undo);
    }
    let place = match listen {
        Listen::Tcp(address) => Place::Tcp(*address),
        Listen::Unix(path) => Place::Unix(path.clone()),
    };
    Responder::bind(&place, Limits::default())
}

/// Empty page with the help texts of all counters.
fn explained() -> Page {
    let mut page = Page::new();
    attach::counts().for_each(|(part, fields)| page.describe(part, fields));
    page.describe("console", engine::ConsoleCounters::FIELDS);
    page.describe("ingress_limit", engine::LimitCounters::FIELDS);
    page.describe("io_thread", engine::IoThreadCounters::FIELDS);
    page.describe("tap_kernel", account::OF_TAP);
    page.describe("host_cpu", account::OF_CPU);
    page.describe("thread_sched", account::OF_THREAD);
    page.describe("guarantee", promises::FIELDS);
    page.describe("kernel_ip", kernel_router::PacketCounters::FIELDS);
    page.describe("kernel_ip6", kernel_router::PacketCounters::FIELDS);
    page.describe("balancer", engine::MemberCounters::FIELDS);
    // What both count means the same.
    page.describe("balancer", engine::BalancerCounters::FIELDS);
    page.describe("group", engine::EnsembleCounters::FIELDS);
    page.describe("group_nic", engine::GroupNicCounters::FIELDS);
    page.describe("group_nic", engine::SeatCounters::FIELDS);
    page.describe("group_nic", engine::WithheldCounters::FIELDS);
    page.describe("sorted", engine::SortedCounters::FIELDS);
    page.describe("punt", punt::PuntCounters::FIELDS);
    page.describe("shadow", engine::ShadowCounters::FIELDS);
    page.describe("shadow_read", uplink::ReadCounters::FIELDS);
    page.describe("shadow_write", uplink::WriteCounters::FIELDS);
    control_plane::describe(&mut page);
    page.describe("control_client", api::ServerCounters::FIELDS);
    page
}

impl Supervisor {
    /// Serves scrapes.
    pub(super) fn attend_metrics(&mut self, now: Instant) {
        let Some(responder) = &mut self.metrics.responder else { return };
        if responder.serve(now) == 0 || self.request_router.is_asked_by(&Requester::Metrics) {
            return;
        }
        if self.is_up() {
            self.ask_all(api::Request::Ps {}, Requester::Metrics, now);
        } else {
            self.publish_nothing(now);
        }
    }

    /// Notes the status of the routers, and asks for the counters next.
    pub(super) fn note_routers(&mut self, routers: Vec<RouterStatus>, now: Instant) {
        self.metrics.routers = routers;
        self.ask_all(api::Request::Counters { router: None }, Requester::Metrics, now);
    }

    /// Serves a page without counters to every waiting client, because there is no data plane.
    pub(super) fn publish_nothing(&mut self, now: Instant) {
        self.metrics.routers = self.with_kernels(self.routers_that_wait(), now);
        let mut counters = Counters::default();
        self.controls.list_counters(None, &mut counters.counters);
        self.publish(&counters);
    }

    /// Serves a page to every waiting client.
    pub(super) fn publish(&mut self, counters: &Counters) {
        let (up, restarts, events) = (self.is_up(), self.lifecycle.restarts, self.events.count());
        let run = self.running.run.as_str();
        let Metrics { responder: Some(responder), routers, .. } = &mut self.metrics else { return };
        let mut page = explained();
        page.group("telemetry", responder.counters());
        page.group("control", self.request_router.server.counters());
        for router in routers {
            let labels = [("router", router.name.as_str())];
            page.add(ROUTER_UP, &labels, f64::from(u8::from(router.state == State::Running)));
            page.add(ROUTER_RESTARTS, &labels, f64::from(router.restarts));
        }
        self.controls.show_sizes(&mut page);
        for (name, value) in &counters.counters {
            page.ledger(name, *value);
        }
        for (name, ns) in &counters.cpu_ns {
            page.thread(name, *ns);
        }
        let labels = [("run", run)];
        page.add(UP, &labels, f64::from(u8::from(up)));
        page.add(RESTARTS, &labels, f64::from(restarts));
        page.add(EVENTS, &labels, events as f64);
        for resource in Resource::ALL {
            let labels = [("run", run), ("of", resource.name())];
            page.add(REACHED, &labels, self.ceilings.times(resource) as f64);
        }
        responder.answer(&page.to_string());
    }
}
