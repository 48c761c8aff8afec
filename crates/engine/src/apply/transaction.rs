//! Atomic change of a running instance: it is carried out as a whole or rolled back.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Plan, Router};
use switch::Switch;
use telemetry::Kind;

use super::difference::Step;
use crate::guest::Guest;
use crate::instance::attachments::AttachmentRequest;
use crate::instance::slot::{Parts, Slot};
use crate::instance::{Instance, State, ageing, find, make_switch};
use crate::isolated_paths::{IsolatedRouterPaths, PathParts};
use crate::supplies::HostServices;

/// Holds everything that a change needs and that could be refused.
pub(super) struct Transaction {
    /// The switches of the new plan, in its order.
    switches: Vec<Arc<Switch>>,
    /// Components of the routers that are new or replaced.
    parts: HashMap<String, Parts>,
    /// Paths of isolated routers, as far as they are new or replaced.
    isolated_paths: Vec<PathParts>,
    done: Vec<Undo>,
}

/// Undo record of one step.
enum Undo {
    Ageing(Arc<Switch>, u32),
    /// A router that was taken out; it is restarted if it ran.
    Revive(Box<Slot>, bool),
    /// A router that was added.
    Remove(String),
    /// A router with its previous routes.
    Routes(Box<Router>),
    /// The previous settings of a router.
    Adjust(Box<Router>),
    /// A router that was started.
    Stop(String),
    /// A router that was stopped.
    Start(String),
}

impl Transaction {
    /// Acquires and builds everything that the change needs, without touching anything that runs.
    pub(super) fn prepare(
        instance: &mut Instance,
        plan: &Plan,
        steps: &[Step],
        supplies: HostServices,
    ) -> Result<Self> {
        instance.context.ensembles.check(plan).context("nothing was changed")?;
        let known = |name: &str| instance.switches.iter().find(|switch| switch.name() == name).cloned();
        let switches: Vec<_> = plan
            .switches
            .iter()
            .map(|switch| known(&switch.name).unwrap_or_else(|| make_switch(switch)))
            .collect();
        let slots = instance.slots.iter().flat_map(Slot::outlets);
        let held: Vec<_> = slots
            .chain(instance.isolated_paths.iter().flat_map(IsolatedRouterPaths::outlets))
            .cloned()
            .collect();
        let fits = |router: &config::Router| instance.isolated_paths.iter().any(|paths| paths.fits(router));
        let is_built = |router: &config::Router| steps.iter().any(|step| step.builds(&router.name));
        let is_new =
            |router: &config::Router| if router.is_isolated() { !fits(router) } else { is_built(router) };
        let new = plan.routers.iter().filter(|router| is_new(router));
        let routers: BTreeSet<String> = new.map(|router| router.name.clone()).collect();
        if routers.is_empty() {
            return Ok(Self {
                switches,
                parts: HashMap::new(),
                isolated_paths: Vec::new(),
                done: Vec::new(),
            });
        }
        let search =
            AttachmentRequest { plan: plan.clone(), routers, switches: switches.clone(), held, supplies };
        let found = instance.find_all(search).context("nothing was changed")?;
        instance.wait_for_peers(found.plugged.iter().flat_map(|plugged| &plugged.outlets));
        let mut transaction =
            Self { switches, parts: HashMap::new(), isolated_paths: found.isolated_paths, done: Vec::new() };
        let mut left = VecDeque::from(found.plugged);
        while let Some(plugged) = left.pop_front() {
            match instance.build(&plugged) {
                Ok(guest) => {
                    transaction.parts.insert(plugged.plan.name.clone(), Parts { plugged, guest });
                }
                Err(error) => {
                    instance.discard((transaction, plugged, left));
                    return Err(error.context("nothing was changed"));
                }
            }
        }
        Ok(transaction)
    }

    /// Carries the steps out; rolls back if one fails.
    pub(super) fn carry_out(mut self, instance: &mut Instance, plan: Plan, steps: &[Step]) -> Result<()> {
        instance.part_with_members(&plan);
        let fits = |paths: &&mut IsolatedRouterPaths| plan.isolated().any(|router| paths.fits(router));
        let now = instance.context.now;
        instance.isolated_paths.iter_mut().filter(|paths| !fits(paths)).for_each(|paths| paths.suspend(now));
        instance.wait_until_closed();
        if steps.iter().any(Step::moves_a_router) {
            instance.wait_for_launches();
        }
        let result = self.all(instance, &plan, steps);
        if let Err(error) = result {
            let left = self.undo(instance);
            instance.discard(self);
            instance.context.ensembles.follow(&instance.plan);
            let now = instance.context.now;
            instance.isolated_paths.iter_mut().for_each(|paths| paths.resume(now));
            let error = error.context("nothing was changed");
            return Err(if left.is_empty() { error } else { error.context(left.join("; ")) });
        }
        instance.switches = std::mem::take(&mut self.switches);
        // In the order of the new file, and with its switch numbers.
        for router in &plan.routers {
            if let Ok(slot) = find(&mut instance.slots, &router.name) {
                slot.plan = router.clone();
            }
        }
        let place = |slot: &Slot| plan.routers.iter().position(|router| router.name == slot.plan.name);
        instance.slots.sort_by_key(place);
        if self.done.iter().any(|undo| matches!(undo, Undo::Revive(..))) {
            // Together with their outlets, unless these are used elsewhere.
            instance.discard(std::mem::take(&mut self.done));
        }
        replace_isolated_paths(instance, &plan, std::mem::take(&mut self.isolated_paths));
        instance.context.ensembles.follow(&plan);
        let is_member = |name: &str| plan.routers.iter().any(|router| router.name == name);
        instance
            .context
            .tables
            .keep(|group| plan.routers.iter().any(|router| config::is_meant(&router.name, group)), is_member);
        instance.context.learning.keep(|name| plan.learners(name).next().is_some());
        instance.plan = plan;
        Ok(())
    }

    fn all(&mut self, instance: &mut Instance, plan: &Plan, steps: &[Step]) -> Result<()> {
        for step in steps {
            self.one(instance, plan, step)?;
        }
        // All new routers boot concurrently.
        instance.wait_until_up(|slot| steps.iter().any(|step| step.builds(&slot.plan.name)))
    }

    fn one(&mut self, instance: &mut Instance, plan: &Plan, step: &Step) -> Result<()> {
        let wanted = |name: &str| super::router(plan, name).context("a router that is in no plan");
        match step {
            Step::AddSwitch(_) | Step::RemoveSwitch(_) => {}
            Step::SetAgeing(name) => {
                let to = plan.switches.iter().find(|switch| switch.name == *name);
                let switch = self.switches.iter().find(|switch| switch.name() == name);
                if let (Some(to), Some(switch)) = (to, switch) {
                    self.done.push(Undo::Ageing(switch.clone(), switch.set_ageing(ageing(to))));
                }
            }
            Step::RemoveRouter(name) => {
                let (slot, ran) = instance.take_out(name)?;
                self.done.push(Undo::Revive(Box::new(slot), ran));
            }
            Step::AddRouter(name) => {
                let parts = self.parts.remove(name).context("a router that was not built")?;
                let (slot, guest) = Slot::new(parts, instance.context.now);
                self.done.push(Undo::Remove(name.clone()));
                put_in(instance, slot, guest, wanted(name)?.is_stopped())?;
            }
            Step::ReplaceRouter(name, _) => self.replace(instance, wanted(name)?)?,
            Step::ChangeRoutes(name, _) => {
                let slot = find(&mut instance.slots, name)?;
                let before = Box::new(slot.plan.clone());
                slot.change_routes(wanted(name)?)?;
                self.done.push(Undo::Routes(before));
            }
            Step::Adjust(name, _) => {
                let slot = find(&mut instance.slots, name)?;
                self.done.push(Undo::Adjust(Box::new(slot.plan.clone())));
                slot.adjust(wanted(name)?, instance.context.now);
            }
            Step::Power(name) if wanted(name)?.is_stopped() => {
                let ran = matches!(find(&mut instance.slots, name)?.state(), State::Running | State::Waiting);
                self.done.extend(ran.then(|| Undo::Start(name.clone())));
                instance.stop_router(name)?;
            }
            Step::Power(name) => {
                let rested = find(&mut instance.slots, name)?.state() == State::Stopped;
                instance.start_router(name)?;
                self.done.extend(rested.then(|| Undo::Stop(name.clone())));
            }
        }
        Ok(())
    }

    fn replace(&mut self, instance: &mut Instance, to: &Router) -> Result<()> {
        let parts = self.parts.remove(&to.name).context("a router that was not built")?;
        let before = find(&mut instance.slots, &to.name)?;
        // Its guest may have powered itself off.
        let is_off = before.state() == State::Stopped && !before.plan.is_stopped();
        let (old, ran) = instance.take_out(&to.name)?;
        let (slot, guest) = old.succeeded_by(parts, instance.context.now);
        self.done.push(Undo::Revive(Box::new(old), ran));
        self.done.push(Undo::Remove(to.name.clone()));
        put_in(instance, slot, guest, is_off || to.is_stopped())
    }

    /// Rolls back in reverse order; returns what could not be undone.
    fn undo(&mut self, instance: &mut Instance) -> Vec<String> {
        let mut left = Vec::new();
        for undo in self.done.drain(..).rev() {
            if let Err(error) = undo.carry_out(instance) {
                left.push(format!("and could not be undone: {error:#}"));
            }
        }
        let place =
            |slot: &Slot| instance.plan.routers.iter().position(|router| router.name == slot.plan.name);
        instance.slots.sort_by_key(place);
        left
    }
}

/// Launches a guest in a new slot, unless it is to be stopped.
fn put_in(instance: &mut Instance, slot: Slot, guest: Guest, is_stopped: bool) -> Result<()> {
    if is_stopped {
        instance.slots.push(slot);
        instance.discard(guest);
        return Ok(());
    }
    instance.launch_in(slot, guest)
}

/// Opens and closes the I/O paths of isolated routers, whose processes reconnect to them by themselves.
/// Everything that could be refused in advance has been acquired already; what fails nevertheless causes an
/// event, and does not undo the change.
fn replace_isolated_paths(instance: &mut Instance, plan: &Plan, parts: Vec<PathParts>) {
    let is_gone = |paths: &mut IsolatedRouterPaths| !plan.isolated().any(|router| paths.fits(router));
    let mut gone: Vec<IsolatedRouterPaths> = instance.isolated_paths.extract_if(.., is_gone).collect();
    if !gone.is_empty() {
        gone.iter_mut().for_each(IsolatedRouterPaths::stop_counting);
        instance.discard(gone);
    }
    for router in plan.isolated() {
        if let Some(paths) = instance.isolated_paths.iter_mut().find(|paths| paths.plan.name == router.name) {
            paths.adjust(router);
        }
    }
    for parts in parts {
        let name = parts.name().to_owned();
        if let Err(error) = instance.open_paths(parts) {
            let is_due = instance.isolated_paths.iter().any(|paths| paths.plan.name == name);
            let next = if is_due { "it is tried again" } else { "its NICs are not served" };
            instance.context.record_event(&name, Kind::Failed, format!("{error:#}; {next}"));
        }
    }
}

impl Undo {
    fn carry_out(self, instance: &mut Instance) -> Result<()> {
        match self {
            Self::Ageing(switch, ageing) => {
                switch.set_ageing(ageing);
            }
            Self::Revive(mut slot, ran) => {
                let name = slot.plan.name.clone();
                slot.resume();
                instance.slots.push(*slot);
                if ran {
                    instance.revive(&name)?;
                }
            }
            Self::Remove(name) => {
                let removed = instance.take_out(&name)?;
                instance.discard(removed);
            }
            Self::Routes(before) => find(&mut instance.slots, &before.name)?.change_routes(&before)?,
            Self::Adjust(before) => {
                find(&mut instance.slots, &before.name)?.adjust(&before, instance.context.now);
            }
            Self::Stop(name) => instance.stop_router(&name)?,
            Self::Start(name) => instance.start_router(&name)?,
        }
        Ok(())
    }
}
