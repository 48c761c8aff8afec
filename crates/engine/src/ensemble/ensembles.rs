//! The groups of an instance: found by the routers that are parts of them, and told what the plan wants.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use anyhow::{Context, Result};
use attach::{Attachment, HandedOver};
use config::{Group, Nic, Plan, Router};
use switch::Switch;

use super::seat::{Aside, Member};
use super::segment::Segment;
use super::{Ensemble, Gateway, News, Voice, has_serving, may_become};
use crate::counts::CounterRegistry;
use crate::supplies::HostServices;

/// The groups of an instance. Its clones are of the same instance.
#[derive(Clone, Default)]
pub(crate) struct Ensembles(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    counts: CounterRegistry,
    /// As the plan has them that was told last.
    groups: Vec<Group>,
    /// Members that this plan has without frames.
    aside: Vec<String>,
    /// While a group is changed there are two of its name: the one that goes comes first.
    running: Vec<Weak<Ensemble>>,
}

impl Ensembles {
    /// None yet; what counts in them is noted there.
    pub(crate) fn new(counts: CounterRegistry) -> Self {
        Self(Arc::new(Mutex::new(Inner { counts, ..Inner::default() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the groups of whose members what they are plugged into is about to be found.
    pub(crate) fn learn(&self, plan: &Plan) {
        let mut inner = self.inner();
        inner.groups.clone_from(&plan.groups);
        let idle = |group: &Group| {
            let own = plan.routers.iter().filter(|router| router.group() == Some(group.name.as_str()));
            let names = own.map(|router| router.name.clone());
            names.filter(|name| !has_serving(plan, group, name)).collect::<Vec<_>>()
        };
        inner.aside = plan.groups.iter().flat_map(idle).collect();
    }

    pub(super) fn running(&self) -> Vec<Arc<Ensemble>> {
        self.inner().running.iter().filter_map(Weak::upgrade).collect()
    }

    /// Refuses a plan in which a group becomes what its members cannot become one after the other.
    ///
    /// # Errors
    /// One line that names the group, and what to do.
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        for ensemble in self.running() {
            if let Some(group) = plan.group(&ensemble.group.name) {
                may_become((&ensemble.group, group), plan)?;
            }
        }
        Ok(())
    }

    /// Has groups follow the settings of a plan that may change while they run; its members that were to leave stay.
    pub(crate) fn follow(&self, plan: &Plan) {
        for ensemble in self.running() {
            if let Some(group) = ensemble.wanted(plan) {
                ensemble.core.follow(group);
                ensemble.core.leave(Aside::Planned, |name| !has_serving(plan, group, name));
                ensemble.core.stay(Aside::Planned, |name| has_serving(plan, group, name));
                ensemble.core.cut(|name| !has_serving(plan, group, name));
                ensemble.core.mend(|name| has_serving(plan, group, name));
            }
        }
    }

    /// The group as it is wanted: the one that runs, or else a new one, for which what an earlier one of its name is plugged into
    /// goes on.
    fn find(
        &self,
        group: &Group,
        (switches, supplies): (&[Arc<Switch>], &mut HostServices),
    ) -> Result<Arc<Ensemble>> {
        let running = self.running();
        if let Some(known) = running.iter().find(|known| known.is_of(group)) {
            return Ok(known.clone());
        }
        let before = running.iter().find(|known| known.group.name == group.name);
        let counts = self.inner().counts.clone();
        let ensemble = Ensemble::start(group, (switches, supplies, before.map(Arc::as_ref)), &counts)?;
        let mut inner = self.inner();
        inner.running.retain(|known| known.strong_count() > 0);
        inner.running.push(Arc::downgrade(&ensemble));
        Ok(ensemble)
    }

    /// The group that a router is a part of, as the plan has it that was told last.
    fn group_of(&self, router: &Router) -> Option<Group> {
        let name = router.group()?;
        self.inner().groups.iter().find(|group| group.name == name).cloned()
    }

    /// What a NIC of a router is plugged into that shares it with others of its group; none: it has it for itself.
    ///
    /// # Errors
    /// One line: what the group is plugged into cannot be had.
    pub(crate) fn seat(
        &self,
        (router, nic): (&Router, &Nic),
        switches: &[Arc<Switch>],
        supplies: &mut HostServices,
    ) -> Result<Option<Arc<dyn Attachment>>> {
        let Some(group) = self.group_of(router) else { return Ok(None) };
        let place = group.pattern.nics.iter().position(|known| known.name == nic.name);
        let is_shared = if group.is_apart() { router.balancing().is_some() } else { true };
        let Some(place) = place.filter(|_| is_shared) else { return Ok(None) };
        let ensemble = self.find(&group, (switches, supplies))?;
        let seat = match (router.balancing(), router.membership()) {
            (Some((_, number)), _) => ensemble.machine_seat((&router.name, short(number)?), place, None),
            (None, Some((_, number))) => ensemble.seat((&router.name, short(number)?), place, None),
            (None, None) => None,
        };
        let seat = seat.context("a NIC that its group does not have")?;
        self.keep_aside(&ensemble, router);
        Ok(Some(seat))
    }

    /// What stands between a NIC of a router and what it has for itself, as a part of a group behind balancers that are virtual machines;
    /// none: nothing does.
    ///
    /// # Errors
    /// As those of [`Self::seat`].
    pub(crate) fn inside(
        &self,
        (router, nic): (&Router, &Nic),
        at: &Arc<dyn Attachment>,
        (switches, supplies): (&[Arc<Switch>], &mut HostServices),
    ) -> Result<Option<Arc<dyn Attachment>>> {
        let Some(group) = self.group_of(router).filter(Group::is_apart) else { return Ok(None) };
        let number = router.nics.iter().position(|own| own.name == nic.name);
        let place = number.and_then(|number| number.checked_rem(group.pattern.nics.len()));
        let place = place.context("a NIC that its group does not have")?;
        let (ensemble, at) = (self.find(&group, (switches, supplies))?, at.clone());
        let seat = match (router.balancing(), router.membership()) {
            (Some((_, number)), _) => {
                let inside = Some((at, frame::Mac(nic.mac.0)));
                ensemble.machine_seat((&router.name, short(number)?), place, inside)
            }
            (None, Some((_, number))) => ensemble.seat((&router.name, short(number)?), place, Some(at)),
            (None, None) => None,
        };
        self.keep_aside(&ensemble, router);
        Ok(seat)
    }

    /// Gives a part of a group no frames that the plan has without any.
    fn keep_aside(&self, ensemble: &Ensemble, router: &Router) {
        if self.inner().aside.contains(&router.name) {
            ensemble.core.leave(Aside::Planned, |name| name == router.name);
            ensemble.core.cut(|name| name == router.name);
        }
    }

    /// Has members leave that a plan does not have any more, or stops: what they own goes to others; whether there are such members.
    /// Nobody is blamed for the cables that the plan pulls out.
    pub(crate) fn leave(&self, plan: &Plan) -> bool {
        let mut any = false;
        for ensemble in self.running() {
            if let Some(group) = ensemble.wanted(plan) {
                ensemble.core.pull(group, Nic::is_pulled);
            }
            let group = plan.group(&ensemble.group.name);
            let serves = |name: &str| group.is_some_and(|group| has_serving(plan, group, name));
            any |= ensemble.core.leave(Aside::Planned, |name| !serves(name));
            any |= ensemble.core.cut(|name| !serves(name));
        }
        any
    }

    /// This says whether the process of a router is there, if the router is a member of a group.
    pub(crate) fn watch(&self, router: &str, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        // While a group is changed the one that goes comes first, and has a member of this name as well.
        for ensemble in self.running().into_iter().rev() {
            let machines = ensemble.core.machines.iter().flat_map(|machines| machines.live().into_values());
            let mut all = ensemble.core.live().into_values().chain(machines);
            if let Some(member) = all.find(|member| member.name == router) {
                return member.watch(Box::new(is_there));
            }
        }
    }

    /// Has one member leave, or stay.
    pub(crate) fn drain(&self, router: &str, is_on: bool) {
        self.set_aside((router, Aside::Drained), is_on);
    }

    /// Has one member wait for its routes, or no longer.
    pub(crate) fn set_learning(&self, router: &str, is_on: bool) {
        self.set_aside((router, Aside::Learning), is_on);
    }

    fn set_aside(&self, (router, why): (&str, Aside), is_on: bool) {
        for ensemble in self.running() {
            if is_on {
                ensemble.core.leave(why, |name| name == router);
            } else {
                ensemble.core.stay(why, |name| name == router);
            }
        }
    }

    /// Names and kernel thread IDs of those threads that serve all members of a group.
    pub(crate) fn threads(&self) -> Vec<(String, i32)> {
        let of = |ensemble: Arc<Ensemble>| {
            let timer = ensemble.timer.thread();
            let mut threads = vec![(timer.name().to_owned(), timer.tid())];
            threads.extend(ensemble.core.voices().filter_map(Voice::thread));
            threads.extend(ensemble.core.balancers.threads());
            threads
        };
        self.running().into_iter().flat_map(of).collect()
    }

    /// Names of members that are kernel routers or on other hosts, and how they are, each in one line.
    pub(crate) fn behind(&self) -> Vec<(String, String)> {
        let of = |ensemble: Arc<Ensemble>| {
            let core = &ensemble.core;
            let members = core.live().into_values();
            let members = members.filter(|member| ensemble.group.is_elsewhere(&member.name));
            let state = |member: Arc<Member>| Some((member.name.clone(), core.state_of(member.number, 0)?));
            members.filter_map(state).collect::<Vec<_>>()
        };
        self.running().into_iter().filter(|ensemble| ensemble.core.machines.is_some()).flat_map(of).collect()
    }

    /// Gateways that members of a group with one route table are to avoid, of each group for which they are others than at the last call.
    pub(crate) fn take_gateways(&self) -> Vec<(String, BTreeSet<Gateway>)> {
        let running = self.running();
        let mut all = Vec::new();
        for (at, ensemble) in running.iter().enumerate() {
            let name = &ensemble.group.name;
            // While a group is changed the one that goes comes first: what it sees does not count any more.
            if running.iter().skip(at + 1).any(|newer| newer.group.name == *name) {
                ensemble.core.forget_told_gateways();
            } else if let Some(gateways) = ensemble.core.take_gateways() {
                all.push((name.clone(), gateways));
            }
        }
        all
    }

    /// Has these gateways of the routes that a group's control plane has found be watched.
    pub(crate) fn watch_gateways(&self, group: &str, gateways: &BTreeSet<Gateway>) {
        let running = self.running();
        let named = running.iter().filter(|ensemble| ensemble.group.name == group);
        named.for_each(|ensemble| ensemble.core.watch_gateways(gateways.clone()));
    }

    /// Has balancers look for frames by links that were replaced.
    pub(crate) fn rouse(&self) {
        self.running().iter().for_each(|ensemble| ensemble.core.balancers.rouse());
    }

    /// The name of a thread before members of a group that stands still, if there is one.
    pub(crate) fn standing(&self) -> Option<String> {
        self.running().iter().find_map(|ensemble| ensemble.core.balancers.standing())
    }

    /// What has happened to members since this was asked last, by router.
    pub(crate) fn news(&self) -> Vec<(String, News)> {
        self.running().iter().flat_map(|ensemble| ensemble.core.take_news()).collect()
    }

    /// What is to be told now of groups whose common neighbour table has no room, by group.
    pub(crate) fn shortages(&self, now: Instant) -> Vec<(String, String)> {
        let size = |name: &str| {
            let inner = self.inner();
            let group = inner.groups.iter().find(|group| group.name == name);
            group.map(|group| group.pattern.forwarding.neighbours)
        };
        let told = |ensemble: Arc<Ensemble>| {
            let name = &ensemble.group.name;
            Some((name.clone(), ensemble.core.shortage(now, size(name)?)?))
        };
        self.running().into_iter().filter_map(told).collect()
    }

    /// What happened to the links of groups, by the name of the first member that there is.
    pub(crate) fn link_news(&self) -> Vec<(String, attach::News)> {
        let of = |ensemble: Arc<Ensemble>| {
            let first = ensemble.core.live().into_values().next().map(|member| member.name.clone());
            let news = ensemble.core.links.iter().filter_map(|link| link.way.news()).collect::<Vec<_>>();
            first
                .into_iter()
                .flat_map(move |name| news.clone().into_iter().map(move |news| (name.clone(), news)))
        };
        self.running().into_iter().flat_map(of).collect()
    }

    /// Another host may be at the other end of the cable of a NIC of a group (`core.wan`): the neighbours there are forgotten. The NICs of its
    /// members that are plugged into it.
    pub(crate) fn cable_changed(&self, label: &str) -> Vec<String> {
        let mut labels = Vec::new();
        for ensemble in self.running() {
            let links = ensemble.core.links.iter().enumerate();
            for (nic, link) in links.filter(|(_, link)| link.way.label() == label) {
                link.segments().for_each(Segment::forget);
                ensemble.core.doubt_neighbours(|other| other == nic);
                labels.extend(
                    ensemble.core.live().values().map(|member| format!("{}.{}", member.name, link.nic)),
                );
            }
        }
        labels
    }

    /// What puts something opened anew in the place of what a NIC of a group (`core.wan`) is plugged into; none: no group has such a NIC.
    pub(crate) fn replacing(
        &self,
        label: &str,
    ) -> Option<impl FnOnce(HandedOver) -> Result<()> + Send + use<>> {
        let links = self.running();
        let mut links = links.iter().flat_map(|ensemble| &ensemble.core.links);
        links.find(|link| link.way.label() == label).map(|link| link.way.replacing())
    }
}

/// The number of a member or balancer as it is used here.
fn short(number: u32) -> Result<u16> {
    u16::try_from(number).context("a member with too high a number")
}
