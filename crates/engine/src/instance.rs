//! A running file: its switches, routers and uplinks, and the threads that serve them.
//!
//! Each router has a slot of its own and is started, stopped, replaced and restarted independently: its
//! threads, ports and machine are torn down, while all other routers keep forwarding without losing a frame.
//! The attachments of its NICs outside the run (TAPs, captures) stay open as long as the file names them.

pub(crate) mod attachments;
mod backend_pool;
mod bring_up;
pub(crate) mod running;
pub(crate) mod slot;
mod status;
mod waiting;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::CpuSharing;
use attach::HandedOver;
use config::Plan;
use config::learned::{LearnedGateway, Lesson};
use switch::Switch;

pub use running::RunningRouter;
pub use status::{About, Event, Relayed, RouterStatus, State};

use crate::clock::{Clock, Timed};
use crate::counts::{CounterRegistration, CounterRegistry};
use crate::ensemble::Ensembles;
use crate::io_thread::IoThread;
use crate::isolated_paths::IsolatedRouterPaths;
use crate::kernel_port::{KernelPort, behind};
use crate::look_after::look_at_next_hops;
use crate::supplies::HostServices;
use crate::task::keep_reserve;
use crate::tracing::TapBoard;
use crate::watch::Rules;
use crate::wiring::Outlet;
use attachments::{AttachmentRequest, ResolvedAttachments};
use backend_pool::BackendPool;
use slot::{Parts, Plugged, RunContext, Slot};

/// A running file. Dropping it stops everything and removes what it made.
pub struct Instance {
    /// The plan that this instance follows.
    pub(crate) plan: Plan,
    /// The routers, in the order of the file.
    pub(crate) slots: Vec<Slot>,
    /// This process's share of each isolated router (a router in a process of its own): the I/O paths of its
    /// NICs.
    pub(crate) isolated_paths: Vec<IsolatedRouterPaths>,
    /// Ports of switches that lead to kernel routers, and by tunnels to other hosts.
    pub(crate) kernel_ports: Vec<KernelPort>,
    /// The switches, in the order of the file.
    pub(crate) switches: Vec<Arc<Switch>>,
    pub(crate) context: RunContext,
    clock: Clock,
    /// Registers the counters of the clock's thread.
    _counting: CounterRegistration,
    /// When startup had completed.
    pub since: Instant,
}

impl Instance {
    /// Brings a file up and waits until every router serves; for isolated routers, until the I/O paths of
    /// their NICs are open. A failed start leaves nothing behind.
    ///
    /// # Errors
    /// One line that names the router or NIC, and the request that was refused.
    pub fn start(plan: &Plan, supplies: impl Into<HostServices>) -> Result<Self> {
        let mut supplies = supplies.into();
        keep_reserve().context("the thread that is kept for take-downs")?;
        let counts = std::mem::take(&mut supplies.counts);
        let mut context = RunContext {
            backends: BackendPool::new(supplies.kvm.take(), supplies.spawner.take()),
            confinement: supplies.confinement,
            board: TapBoard::default(),
            learning: supplies.learning.clone(),
            tables: supplies.tables.clone(),
            ensembles: Ensembles::new(counts.clone()),
            counts,
            rules: Rules::default(),
            sharing: BTreeMap::new(),
            now: Instant::now(),
            events: Vec::new(),
            plugged: Vec::new(),
        };
        context.backends.add_images(std::mem::take(&mut supplies.images));
        context.tables.adopt(std::mem::take(&mut supplies.groups))?;
        let plan = settled(plan, None, &mut context.backends);
        let ports = behind(&plan, &[], &mut supplies)?;
        let switches: Vec<_> = plan.switches.iter().map(make_switch).collect();
        context.counts.keep(&switches);
        let clock = Clock::start(Timed::default(), context.confinement)?;
        let registration = context.counts.add(clock.thread().meter());
        let (since, slots, isolated_paths, kernel_ports) = (context.now, Vec::new(), Vec::new(), Vec::new());
        let mut instance = Self {
            plan,
            slots,
            isolated_paths,
            kernel_ports,
            switches,
            context,
            clock,
            _counting: registration,
            since,
        };
        let (plan, switches) = (instance.plan.clone(), instance.switches.clone());
        let routers = plan.routers.iter().map(|router| router.name.clone()).collect();
        let search = AttachmentRequest { plan, routers, switches, held: Vec::new(), supplies };
        let ResolvedAttachments { plugged, isolated_paths } = instance.find_all(search)?;
        instance.launch_all(plugged)?;
        instance.wait_until_up(|_| true)?;
        instance.open_isolated_paths(isolated_paths)?;
        instance.open_kernel_ports(ports)?;
        instance.keep_time();
        Ok(instance)
    }

    /// Launches the routers of this process, once their vhost-user peers have answered.
    fn launch_all(&mut self, plugged: Vec<Plugged>) -> Result<()> {
        self.wait_for_peers(plugged.iter().flat_map(|plugged| &plugged.outlets));
        for plugged in plugged {
            if plugged.plan.is_stopped() {
                self.slots.push(Slot::stopped(plugged, self.context.now));
                continue;
            }
            let guest = self.build(&plugged)?;
            let (slot, guest) = Slot::new(Parts { plugged, guest }, self.context.now);
            // If this fails, the slot is taken down with the others.
            self.launch_in(slot, guest)?;
        }
        Ok(())
    }

    /// Returns the plan that this instance follows.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the running routers, in the order of the file.
    pub fn routers(&self) -> impl Iterator<Item = &RunningRouter> {
        self.slots.iter().filter_map(|slot| Some(&slot.run.as_ref()?.router))
    }

    /// Returns the router of this name, if it runs.
    pub fn router(&self, name: &str) -> Option<&RunningRouter> {
        self.routers().find(|running| running.router.plan().name == name)
    }

    /// Returns the switches, in the order of the file.
    pub fn switches(&self) -> &[Arc<Switch>] {
        &self.switches
    }

    /// Returns the board on which observers of the frames that pass the NICs are registered (trace, capture).
    pub fn board(&self) -> &TapBoard {
        &self.context.board
    }

    /// Returns the counters of this instance; they can be read while it is being changed.
    pub fn counts(&self) -> &CounterRegistry {
        &self.context.counts
    }

    /// Returns the status of each router, in the order of the file.
    pub fn status(&self) -> Vec<RouterStatus> {
        self.slots.iter().map(Slot::status).collect()
    }

    /// What is here of routers in processes of their own, in the order of the file; and of kernel routers that are members of groups.
    pub fn relayed(&self) -> impl Iterator<Item = Relayed> {
        let behind = self.context.ensembles.behind().into_iter();
        let behind = behind.map(|(name, state)| Relayed { name, threads: Vec::new(), member: Some(state) });
        let isolated = self.isolated_paths.iter().map(|paths| {
            let threads = paths.threads().iter().map(IoThread::thread);
            Relayed {
                name: paths.plan.name.clone(),
                threads: threads.map(|t| (t.name().to_owned(), t.tid())).collect(),
                member: paths.outlets().first().and_then(|outlet| outlet.member_state()),
            }
        });
        isolated.chain(behind)
    }

    /// Names and kernel thread IDs of those threads that serve all members of a group: `core/group`, `core/lb0`.
    pub fn threads_of_groups(&self) -> Vec<(String, i32)> {
        self.context.ensembles.threads()
    }

    /// Declares which threads, by name (`edge/vcpu0`), share their CPUs; these adapt their idle behaviour,
    /// all others do not. Also applies to threads that are started later.
    pub fn share(&mut self, sharing: BTreeMap<String, CpuSharing>) {
        for slot in &mut self.slots {
            let spin = slot.plan.spin;
            slot.run.iter_mut().for_each(|run| run.router.share(&sharing, spin));
        }
        self.isolated_paths.iter_mut().for_each(|paths| paths.share(&sharing));
        self.context.sharing = sharing;
    }

    /// Returns how long each step of the last start of a router took, in one line; `None`: it does not run.
    pub fn last_start(&self, name: &str) -> Option<String> {
        let told = |(step, took): (&str, Duration)| format!("{step} {:.2} ms", took.as_secs_f64() * 1e3);
        Some(self.router(name)?.router.steps().map(told).collect::<Vec<_>>().join(", "))
    }

    /// Returns the first router that has failed, with the reason.
    pub fn fault(&self) -> Option<String> {
        self.routers().find_map(|running| {
            let fault = running.fault()?;
            Some(format!("router {}: {fault}", running.router.plan().name))
        })
    }

    /// Returns the timekeeping thread.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stops a router, and waits until it is down; it stays stopped until it is started explicitly. Does
    /// nothing if it is stopped already. Hosts behind it are told, unless they have the rest of its group.
    ///
    /// # Errors
    /// There is no router of this name.
    pub fn stop_router(&mut self, name: &str) -> Result<()> {
        let goes_on = self.has_other_members(name);
        let slot = find(&mut self.slots, name)?;
        if !goes_on {
            slot.bid_farewell();
        }
        self.halt(name)
    }

    /// Returns true if a router is a member of a group, and other members run, have processes of their own, or forward elsewhere.
    fn has_other_members(&self, name: &str) -> bool {
        let own = self.slots.iter().map(|slot| &slot.plan).find(|router| router.name == name);
        let running = self.slots.iter().filter(|slot| slot.run.is_some()).map(|slot| &slot.plan);
        let apart = self.isolated_paths.iter().map(|paths| &paths.plan);
        let mut others = running.chain(apart).filter(|router| router.name != name);
        own.and_then(config::Router::membership).is_some_and(|(group, _)| {
            others.any(|other| other.membership().is_some_and(|(of, _)| of == group))
                || self.context.ensembles.is_served_elsewhere(group)
        })
    }

    /// As [`Instance::stop_router`], but hosts are not told.
    fn halt(&mut self, name: &str) -> Result<()> {
        let slot = find(&mut self.slots, name)?;
        slot.stop(&mut self.context);
        self.keep_time();
        self.wait_until_down(|slot| slot.plan.name == name);
        Ok(())
    }

    /// Starts a router that does not run, and waits until it serves. Does nothing if it runs already.
    ///
    /// # Errors
    /// There is no router of this name, or it cannot be started; it is then left in its previous state.
    pub fn start_router(&mut self, name: &str) -> Result<()> {
        let slot = find(&mut self.slots, name)?;
        let started = if slot.run.is_none() { self.bring_up(name) } else { Ok(()) };
        self.keep_time();
        started
    }

    /// Stops a router, starts it again, and waits until it serves.
    ///
    /// # Errors
    /// There is no router of this name, or it cannot be started; then it is stopped.
    pub fn restart_router(&mut self, name: &str) -> Result<()> {
        self.halt(name)?;
        self.start_router(name)
    }

    /// Replaces the deleted link of the NIC `label` (`edge.wan`) by a new one under the running I/O threads,
    /// and waits until that is done: the kernel may have to finish its work at the old link first.
    ///
    /// # Errors
    /// There is no such NIC, or it has no such link.
    pub fn replace(&mut self, label: &str, by: HandedOver) -> Result<()> {
        if self.kernel_ports.iter().any(|kernel_port| kernel_port.is_of(label)) {
            return self.replace_at_kernel_port(label, by);
        }
        if let Some(replace) = self.context.ensembles.replacing(label) {
            return self.replace_link(label, move || replace(by));
        }
        let slots = self.slots.iter().flat_map(Slot::outlets);
        let mut outlets = slots.chain(self.isolated_paths.iter().flat_map(IsolatedRouterPaths::outlets));
        let outlet =
            outlets.find(|outlet| outlet.is_of(label)).with_context(|| format!("there is no NIC {label}"))?;
        let outlet = outlet.clone();
        let name = format!("{label}-link");
        self.run_in_background((name, &format!("NIC {label}: its new link")), move || outlet.replace(by))??;
        // A thread that sleeps on the old link's descriptor would never be woken by the new one.
        let serves = |outlets: &[Arc<Outlet>]| outlets.iter().any(|outlet| outlet.is_of(label));
        if let Some(slot) = self.slots.iter().find(|slot| serves(slot.outlets())) {
            slot.run.iter().for_each(|run| run.router.spin(slot.plan.spin));
            self.cable_changed(label);
        }
        if let Some(paths) = self.isolated_paths.iter().find(|paths| serves(paths.outlets())) {
            paths.idle();
            self.context.plugged.push(label.to_owned());
        }
        Ok(())
    }

    /// Puts a link in the place of one that was deleted, under all members of a group that share it.
    fn replace_link(
        &mut self,
        label: &str,
        replace: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let name = format!("{label}-link");
        self.run_in_background((name, &format!("NIC {label}: its new link")), replace)??;
        let is_its = |router: &config::Router| {
            let group = router.group();
            group.is_some_and(|group| label.split_once('.').is_some_and(|(own, _)| own == group))
        };
        for slot in self.slots.iter().filter(|slot| is_its(&slot.plan)) {
            slot.run.iter().for_each(|run| run.router.spin(slot.plan.spin));
        }
        self.isolated_paths.iter().filter(|paths| is_its(&paths.plan)).for_each(IsolatedRouterPaths::idle);
        self.context.ensembles.rouse();
        Ok(())
    }

    /// How what a NIC of a router is plugged into is, in one line, and what that is called; often nothing.
    pub fn state_of(&self, router: &str, nic: usize) -> Option<(&'static str, String)> {
        let slot = self.slots.iter().find(|slot| slot.plan.name == router && slot.run.is_some());
        let paths = self.isolated_paths.iter().find(|paths| paths.plan.name == router);
        let outlets = slot.map(Slot::outlets).or_else(|| paths.map(IsolatedRouterPaths::outlets))?;
        outlets.get(nic)?.state()
    }

    /// Takes the NICs (`edge.wan`) of isolated routers that may have another host at the other end of their
    /// cable since the last call; the caller passes them on to the processes of these routers.
    pub fn take_plugged(&mut self) -> Vec<String> {
        std::mem::take(&mut self.context.plugged)
    }

    /// Takes the gateways that members of groups with one route table are to avoid, because they do not answer: of each group for which
    /// they are others than at the last call.
    pub fn take_silent_gateways(&self) -> Vec<(String, Vec<LearnedGateway>)> {
        let told = |(nic, ip): (usize, IpAddr)| LearnedGateway { link: nic as u8, ip };
        let all = self.context.ensembles.take_gateways().into_iter();
        all.map(|(group, gateways)| (group, gateways.into_iter().map(told).collect())).collect()
    }

    /// Has these gateways of the routes that a group's control plane has found be watched, and no others of such routes: those that do not
    /// answer are among [`Instance::take_silent_gateways`].
    pub fn watch_gateways(&self, group: &str, gateways: &[LearnedGateway]) {
        let gateways = gateways.iter().map(|gateway| (gateway.link.into(), gateway.ip)).collect();
        self.context.ensembles.watch_gateways(group, &gateways);
    }

    /// Returns the name of a thread (`core/lb0`) that serves links of a group and makes no pass over them any more, if there is one.
    /// No other thread can take its links: only the end of this process frees them.
    pub fn standing_thread(&self) -> Option<String> {
        self.context.ensembles.standing()
    }

    /// Tells a router that another host may now be at the other end of the cable of its NIC (`edge.wan`): it
    /// forgets its neighbours there. Does nothing if the router does not run here.
    pub fn cable_changed(&mut self, label: &str) {
        for label in self.context.ensembles.cable_changed(label) {
            if self
                .isolated_paths
                .iter()
                .any(|paths| label.split_once('.').is_some_and(|(own, _)| own == paths.plan.name))
            {
                self.context.plugged.push(label);
            } else {
                self.cable_changed(&label);
            }
        }
        for slot in &self.slots {
            let named = |nic: &config::Nic| label.split_once('.') == Some((&slot.plan.name, &nic.name));
            if let (Some(nic), Some(run)) = (slot.plan.nics.iter().position(named), &slot.run) {
                run.router.router.cable_changed(nic);
            }
        }
    }

    /// Teaches a router, or the members of a group, what their control plane has found, whether they run or not. Returns how many
    /// networks are not in their route tables as they should be, because these are full, and the newest epoch of a table; 0: none
    /// of them runs here.
    pub fn learn(&mut self, speaker: &str, lesson: &Lesson) -> (usize, u32) {
        let late = self.context.learning.of(speaker).take(lesson);
        if lesson.down.is_some() {
            for slot in self.slots.iter_mut().filter(|slot| slot.plan.speaker() == speaker) {
                look_at_next_hops(slot, &mut self.context);
            }
        }
        let learners = self.plan.learners(speaker).filter_map(|router| self.router(&router.name));
        (late, learners.map(|running| running.router.table().epoch()).max().unwrap_or(0))
    }

    /// Numbers of the members that own the queues (behind a balancer: buckets) of a NIC of a group, in their order; empty: there is
    /// no such NIC.
    pub fn owners(&self, group: &str, nic: usize) -> Vec<Option<u16>> {
        self.context.ensembles.owners(group, nic)
    }

    /// Gives a member of a group no new frames from now on, or watches it again as one that starts.
    pub fn drain(&self, router: &str, is_on: bool) {
        self.context.ensembles.drain(router, is_on);
    }

    /// Gives a member of a group no frames while it does not know the routes of its control plane.
    pub fn set_learning(&self, router: &str, is_on: bool) {
        self.context.ensembles.set_learning(router, is_on);
    }

    /// Updates the clock with the current machines and switches, and the counters with the current switches.
    pub(crate) fn keep_time(&self) {
        self.context.counts.keep(&self.switches);
        self.clock.keep(Timed {
            machines: self.routers().map(|running| Arc::downgrade(running.router.machine())).collect(),
            switches: self.switches.clone(),
        });
    }
}

impl Drop for Instance {
    /// Takes down all routers and paths of isolated ones at the same time.
    fn drop(&mut self) {
        let now = self.context.now;
        let isolated_paths = self.isolated_paths.drain(..).flat_map(|paths| paths.into_take_downs(now));
        let slots = self.slots.drain(..).flat_map(|slot| slot.into_take_downs(now));
        let kernel_ports =
            self.kernel_ports.drain(..).flat_map(|kernel_port| kernel_port.into_take_downs(now));
        waiting::finish(slots.chain(isolated_paths).chain(kernel_ports).collect(), now);
    }
}

/// Returns the slot of a router.
pub(crate) fn find<'s>(slots: &'s mut [Slot], name: &str) -> Result<&'s mut Slot> {
    let Some(place) = slots.iter().position(|slot| slot.plan.name == name) else {
        let names: Vec<&str> = slots.iter().map(|slot| slot.plan.name.as_str()).collect();
        bail!("there is no router {name:?}; routers: {}", names.join(", "));
    };
    slots.get_mut(place).context("a router that is not there")
}

/// Creates a switch from its plan.
pub(crate) fn make_switch(plan: &config::Switch) -> Arc<Switch> {
    let config = switch::Config { ageing: ageing(plan), ..switch::Config::default() };
    Arc::new(Switch::new(&plan.name, config))
}

/// Returns the ageing time of a switch's addresses, in seconds.
pub(crate) fn ageing(plan: &config::Switch) -> u32 {
    u32::try_from(plan.ageing.as_secs()).unwrap_or(u32::MAX)
}

/// Returns the plan with an engine for every router: the one that the file names, else the one that the
/// router already runs on, else the best that this host has.
pub(crate) fn settled(plan: &Plan, running: Option<&Plan>, backends: &mut BackendPool) -> Plan {
    let mut plan = plan.clone();
    for router in plan.routers.iter_mut().filter(|router| router.engine.is_none()) {
        let before = running.and_then(|plan| plan.routers.iter().find(|old| old.name == router.name));
        router.engine = before.and_then(|old| old.engine).or_else(|| Some(backends.choose()));
    }
    plan
}
