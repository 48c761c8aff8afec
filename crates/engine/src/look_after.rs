//! Looks after a running instance: routers that fail or break rules are taken down individually and
//! restarted.

mod back_off;

use std::time::{Duration, Instant};

use attach::News;
use config::Engine;
use telemetry::Kind;

pub use back_off::BackOff;

use crate::arp_conflicts::ConflictSample;
use crate::ensemble;
use crate::instance::slot::{Run, RunContext, Slot};
use crate::instance::{About, Event, Instance, RunningRouter};
use crate::isolated_paths::IsolatedRouterPaths;
use crate::shortages;
use crate::watch::{self, NicSample, Sample};

impl Instance {
    /// Checks every router at the time `now` and takes the necessary actions; to be called about ten times a
    /// second. Returns the events since the last call, including those that were caused by requests.
    ///
    /// A router that has failed, or that breaks a rule (see [`watch`]), is taken down and, if its file says
    /// so, restarted: after 0.1 s, and twice as long after each further failure, up to 10 s, until it has
    /// been healthy for a minute. This call waits for neither. While a caller waits for a router that comes
    /// up or is taken down, all others are looked after as well.
    pub fn look_after(&mut self, now: Instant) -> Vec<Event> {
        self.look(now);
        self.take_events()
    }

    /// Takes the events since the last call of this or of [`Instance::look_after`], without looking at anything.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.context.events)
    }

    /// Looks after all routers as [`Instance::look_after`] does; events are kept until they are fetched.
    pub(crate) fn look(&mut self, now: Instant) {
        self.context.now = now;
        let told = self.context.events.len();
        let running = self.routers().count();
        for slot in &mut self.slots {
            slot.look_at_take_down(&mut self.context);
            slot.look_at_launch(&mut self.context);
            look_at(slot, now.duration_since(self.since), &mut self.context);
            if slot.is_due(now) {
                slot.retry(&mut self.context);
            }
            reclaim_routes(slot);
            look_at_claims(slot, now, &mut self.context);
            look_at_shortages(slot, now, &mut self.context);
            look_at_next_hops(slot, &mut self.context);
            look_at_uplinks(slot, &mut self.context);
        }
        self.context.learning.look_after();
        let time = now.duration_since(self.since);
        self.isolated_paths.iter_mut().for_each(|paths| paths.look_after(now, time, &mut self.context));
        self.kernel_ports.iter_mut().for_each(|kernel_port| kernel_port.look_after(now, &mut self.context));
        self.look_at_members();
        if self.context.events.len() != told || self.routers().count() != running {
            self.keep_time();
        }
    }
}

impl Instance {
    /// Begins the runs of routers whose launches are done.
    pub(crate) fn look_at_launches(&mut self) {
        let context = &mut self.context;
        if self.slots.iter_mut().map(|slot| slot.look_at_launch(context)).filter(|runs| *runs).count() > 0 {
            self.keep_time();
        }
    }
}

impl Instance {
    /// Reports the events of members of groups, and charges those that forward nothing any more although they run.
    fn look_at_members(&mut self) {
        for (router, news) in self.context.ensembles.link_news() {
            let (about, kind, line) = told(news);
            self.context.record_event_about(about, &router, kind, line);
        }
        for (group, line) in self.context.ensembles.shortages(self.context.now) {
            self.context.record_event(&group, Kind::Notice, format!("group {group}: {line}"));
        }
        for (router, news) in self.context.ensembles.news() {
            match news {
                ensemble::News::Told(line) => self.context.record_event(&router, Kind::Notice, line),
                ensemble::News::Silent(line) => self.charge_member(&router, line),
            }
        }
    }

    /// Charges a member. A router in a process of its own is ended by the supervisor, which started it. One that does not run is started
    /// anyway.
    fn charge_member(&mut self, router: &str, line: String) {
        let is_it = |paths: &&IsolatedRouterPaths| paths.plan.name == router;
        if self.isolated_paths.iter().find(is_it).is_some_and(IsolatedRouterPaths::is_served) {
            return self.context.record_event(router, Kind::Charged, line);
        }
        let slot = self.slots.iter_mut().find(|slot| slot.plan.name == router);
        if let Some(slot) = slot.filter(|slot| slot.run.as_ref().is_some_and(|run| run.up)) {
            slot.fail(Kind::Charged, line, &mut self.context);
        }
    }
}

fn look_at(slot: &mut Slot, time: Duration, context: &mut RunContext) {
    // The caller that waits for it judges it.
    if slot.is_awaited() {
        return;
    }
    let Some(run) = &mut slot.run else { return };
    if run.router.router.is_off() {
        return slot.has_turned_off(context);
    }
    let look = run.watch.look(time, &sample(&run.router));
    if let Some(number) = look.challenge {
        run.router.router.machine().challenge(number);
    }
    if !run.up && run.router.router.is_ready() {
        run.comes_up();
        slot.is_up_again(context);
    }
    if let Some(charge) = look.charge {
        let kind = if charge.kind == watch::Kind::Fault { Kind::Failed } else { Kind::Charged };
        slot.fail(kind, charge.line, context);
    }
}

/// Reports other stations that claim an address of the router.
fn look_at_claims(slot: &mut Slot, now: Instant, context: &mut RunContext) {
    let Some(Run { router: running, conflicts, .. }) = &mut slot.run else { return };
    let machine = running.router.machine();
    let signs = machine.shared().vcpus.iter().take(machine.vcpus()).map(ConflictSample::read);
    if let Some(line) = conflicts.look(now, &slot.plan, signs) {
        context.record_event(&slot.plan.name, Kind::Notice, line);
    }
}

/// Reports that the router has no room for its neighbours, and the like.
fn look_at_shortages(slot: &mut Slot, now: Instant, context: &mut RunContext) {
    let Some(Run { router: running, shortages, .. }) = &mut slot.run else { return };
    let machine = running.router.machine();
    let sign = shortages::Sign::read(machine.shared().vcpus.iter().take(machine.vcpus()));
    for line in shortages.look(now, &slot.plan, sign) {
        context.record_event(&slot.plan.name, Kind::Notice, line);
    }
}

/// Has the router's table avoid next hops of groups that are not reached.
pub(crate) fn look_at_next_hops(slot: &mut Slot, context: &mut RunContext) {
    let Some(Run { router: running, next_hops, .. }) = &mut slot.run else { return };
    let silent = context.learning.silent(slot.plan.speaker());
    for line in next_hops.look(&slot.plan, &running.router, &silent) {
        context.record_event(&slot.plan.name, Kind::Notice, line);
    }
}

/// Returns subject, kind and line of an attachment's news. The router keeps running in any case.
pub(crate) fn told(News { about, line }: News) -> (About, Kind, String) {
    match about {
        attach::About::Link => (About::Router, Kind::Notice, line),
        attach::About::Peer(process) => (About::Peer { process }, Kind::Notice, line),
        attach::About::Capture => (About::Router, Kind::CaptureFailed, line),
    }
}

/// Reports the events of its NICs' attachments. The router keeps running without them.
fn look_at_uplinks(slot: &Slot, context: &mut RunContext) {
    for (number, (nic, outlet)) in slot.plan.nics.iter().zip(slot.outlets()).enumerate() {
        if let Some(run) = &slot.run
            && let Some(up) = run.router.link(number, outlet)
        {
            run.router.set_link(number, up);
        }
        if let Some((about, kind, line)) = outlet.news().map(told) {
            context.record_event_about(about, &slot.plan.name, kind, format!("NIC {}: {line}", nic.name));
        }
    }
}

/// Takes a sample of a router's state for its watch.
fn sample(running: &RunningRouter) -> Sample {
    let guest = &running.router;
    // For a guest other than our firmware there is no rule about what its vCPUs should do.
    let ours = guest.engine() != Engine::Linux;
    let vcpus = if ours { guest.vcpu_samples() } else { Vec::new() };
    let nics = guest.plan().nics.iter().zip(guest.nics()).flat_map(|(nic, queues)| {
        let name = |way: &str| format!("{}.{way}", nic.name);
        let rx = NicSample::read(name("rx"), &queues.rx_ledger()).with_broken(queues.rx_broken());
        let tx = NicSample::read_transmit(name("tx"), &queues.tx_ledger()).with_broken(queues.tx_broken());
        [rx.of(nic.model), tx.of(nic.model)]
    });
    // Read the epoch last: a vCPU must not be charged for an epoch that was published after its own word was
    // read.
    Sample { fault: running.fault(), vcpus, nics: nics.collect(), epoch: guest.table().epoch() }
}

/// Reclaims removed routes that no vCPU can read any more. A router that does not run reads nothing.
fn reclaim_routes(slot: &Slot) {
    let Some(Run { router: running, .. }) = &slot.run else { return };
    running.router.table().reclaim_for(running.epochs());
}
