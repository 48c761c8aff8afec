//! The groups of an instance: looked up by the routers that are parts of them, and adapted to changed plans.

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

/// The groups of an instance, shared by its clones.
#[derive(Clone, Default)]
pub(crate) struct Ensembles(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    counts: CounterRegistry,
    /// The groups of the last known plan.
    groups: Vec<Group>,
    /// Members that get no frames in this plan.
    aside: Vec<String>,
    /// Running groups. While one is being changed there are two of its name, the old one first.
    running: Vec<Weak<Ensemble>>,
}

impl Ensembles {
    /// Creates an empty set, whose counters are registered there.
    pub(crate) fn new(counts: CounterRegistry) -> Self {
        Self(Arc::new(Mutex::new(Inner { counts, ..Inner::default() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the groups of a plan, before the attachments of their members are looked up.
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

    /// Refuses a plan that changes a group in a way in which its members cannot change one by one.
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

    /// Adopts the settings of a plan that may change while groups run; members of the plan that were to leave stay.
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

    /// Returns the wanted group: the running one, or else a new one, which takes over the attachments of an earlier one with its
    /// name.
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

    /// Returns the group that a router is a part of, as in the last known plan.
    fn group_of(&self, router: &Router) -> Option<Group> {
        let name = router.group()?;
        self.inner().groups.iter().find(|group| group.name == name).cloned()
    }

    /// Returns the attachment of a NIC that a router shares with others of its group; `None`: it has one of its own.
    ///
    /// # Errors
    /// One line: the group's attachment cannot be had.
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

    /// Wraps the own attachment of a NIC of a router that is part of a group behind balancers that are virtual machines; `None`: it is no
    /// such router.
    ///
    /// # Errors
    /// As [`Self::seat`].
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

    /// Takes the frames from a part of a group that gets none in the plan.
    fn keep_aside(&self, ensemble: &Ensemble, router: &Router) {
        if self.inner().aside.contains(&router.name) {
            ensemble.core.leave(Aside::Planned, |name| name == router.name);
            ensemble.core.cut(|name| name == router.name);
        }
    }

    /// Makes members leave that a plan no longer has, or stops: their queues and buckets go to others. Returns true if there are any.
    /// No member is blamed for cables that the plan pulls.
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

    /// Sets the check that the process of a router exists, if the router is part of a group.
    pub(crate) fn watch(&self, router: &str, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        // While a group is being changed, the old one comes first, and has a member with this name as well.
        for ensemble in self.running().into_iter().rev() {
            let machines = ensemble.core.machines.iter().flat_map(|machines| machines.live().into_values());
            let mut all = ensemble.core.live().into_values().chain(machines);
            if let Some(member) = all.find(|member| member.name == router) {
                return member.watch(Box::new(is_there));
            }
        }
    }

    /// Makes one member leave, or stay.
    pub(crate) fn drain(&self, router: &str, is_on: bool) {
        self.set_aside((router, Aside::Drained), is_on);
    }

    /// Sets whether one member waits for its routes.
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

    /// Returns names and kernel thread IDs of the threads that serve all members of a group.
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

    /// Returns the names of members that are kernel routers or on other hosts, with the state of each in one line.
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

    /// Returns true if a member of a group that is a kernel router or on another host forwards.
    pub(crate) fn is_served_elsewhere(&self, group: &str) -> bool {
        let serves = |ensemble: &Ensemble| {
            let members = ensemble.core.live().into_values();
            let mut elsewhere = members.filter(|member| ensemble.group.is_elsewhere(&member.name));
            elsewhere.any(|member| ensemble.core.is_serving(member.number))
        };
        self.running().iter().any(|ensemble| ensemble.group.name == group && serves(ensemble))
    }

    /// Returns the gateways that members with one route table should avoid, for each group for which they have changed since the last call.
    pub(crate) fn take_gateways(&self) -> Vec<(String, BTreeSet<Gateway>)> {
        let running = self.running();
        let mut all = Vec::new();
        for (at, ensemble) in running.iter().enumerate() {
            let name = &ensemble.group.name;
            // While a group is being changed, the old one comes first: its view no longer counts.
            if running.iter().skip(at + 1).any(|newer| newer.group.name == *name) {
                ensemble.core.forget_told_gateways();
            } else if let Some(gateways) = ensemble.core.take_gateways() {
                all.push((name.clone(), gateways));
            }
        }
        all
    }

    /// Watches these gateways of routes that a group's control plane has learned.
    pub(crate) fn watch_gateways(&self, group: &str, gateways: &BTreeSet<Gateway>) {
        let running = self.running();
        let named = running.iter().filter(|ensemble| ensemble.group.name == group);
        named.for_each(|ensemble| ensemble.core.watch_gateways(gateways.clone()));
    }

    /// Wakes balancers to look for frames at links that were replaced.
    pub(crate) fn rouse(&self) {
        self.running().iter().for_each(|ensemble| ensemble.core.balancers.rouse());
    }

    /// Returns the name of a balancer's thread that stands still, if there is one.
    pub(crate) fn standing(&self) -> Option<String> {
        self.running().iter().find_map(|ensemble| ensemble.core.balancers.standing())
    }

    /// Takes the events of members since the last call, with the router of each.
    pub(crate) fn news(&self) -> Vec<(String, News)> {
        self.running().iter().flat_map(|ensemble| ensemble.core.take_news()).collect()
    }

    /// Returns reports that are due about full neighbour tables of groups, by group.
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

    /// Returns the events of groups' links, with the name of the first existing member.
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

    /// Forgets the neighbours at a NIC of a group (`core.wan`), because another host may be at the other end of its cable; returns the
    /// members' NICs there.
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

    /// Returns a function that replaces the resource behind a NIC of a group (`core.wan`) by one that was opened anew; `None`: there is no
    /// such NIC.
    pub(crate) fn replacing(
        &self,
        label: &str,
    ) -> Option<impl FnOnce(HandedOver) -> Result<()> + Send + use<>> {
        let links = self.running();
        let mut links = links.iter().flat_map(|ensemble| &ensemble.core.links);
        links.find(|link| link.way.label() == label).map(|link| link.way.replacing())
    }
}

/// Converts the number of a member or balancer to the type that is used here.
fn short(number: u32) -> Result<u16> {
    u16::try_from(number).context("a member with too high a number")
}
