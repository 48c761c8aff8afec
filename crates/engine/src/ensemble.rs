//! Many routers that are one outside, as they run here: a group's links, what is done for all members at once, who is alive, and who owns
//! which queue.
//!
//! ```text
//!  link (TAP, port of a switch)             here                                    member
//!   queue 0..Q --> owned by members --> ARP is heard by `Hosts` ---- the rest ----> NIC
//!                                            |         ^   `---- what hosts say --> NIC
//!                                            v         |
//!   any queue <---------------------- answers, one question --- ARP, probes taken out <-- NIC
//!                                                      |
//!                      round (10 ms): a probe into each NIC; Judge -> Roster -> Assignment -> owners
//! ```
//!
//! Behind a balancer (`kind = "multistage"`) members have buckets of its table in the place of queues, and a thread of the group reads the
//! link. What is decided is decided by [`group`]; this is what carries it out. It knows nothing of a member's engine, and changes nothing in
//! it: members forward probes by a route, and ask for neighbours by ARP, or where they have one table of them by their desks
//! (`neighbours`).

mod balancers;
mod counters;
mod hosts;
mod link;
mod neighbours;
mod news;
mod round;
mod seat;
mod shape;
mod timer;
mod voice;
mod way;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use attach::{Attachment, HandedOver, NicRequirements};
use config::{Group, Nic, Plan, Router};
use frame::arp;
use group::Probes;
use port::{Frame, Sink};
use ring::Bytes;
use switch::Switch;

use crate::counts::{CounterRegistration, CounterRegistry};
use crate::supplies::HostServices;
use crate::tables::Tables;
use balancers::Balancers;
pub use counters::{EnsembleCounters, GroupNicCounters, SeatCounters};
use hosts::{Heard, Spoken};
use link::{Held, Link};
use neighbours::Asked;
pub(crate) use news::News;
use round::Board;
use seat::{Aside, Member, Seat};
use shape::{has_serving, is_ours, may_become, shape};
use timer::Timer;
use voice::Voice;
use way::Way;

/// Octets of a frame up to the end of its ARP packet.
const ARP_FRAME: usize = frame::ethernet::HEADER + arp::LEN;

/// A group that runs here. It goes with the last of its members.
pub(crate) struct Ensemble {
    core: Arc<Core>,
    /// As the plan had it when it began.
    group: Group,
    timer: Timer,
    _counting: CounterRegistration,
}

/// What its timer and the threads of its members share.
struct Core {
    name: String,
    links: Vec<Link>,
    probes: Probes,
    began: Instant,
    /// Numbers of those that are to be parked.
    parked: Mutex<Range<u32>>,
    /// Those that there are, by number.
    members: Mutex<BTreeMap<u16, Weak<Member>>>,
    board: Mutex<Board>,
    balancers: Balancers,
    /// Its neighbour table, where its members have one in common, and their desks.
    tables: Tables,
    asked: Mutex<Asked>,
    counters: EnsembleCounters,
}

impl Core {
    fn members(&self) -> MutexGuard<'_, BTreeMap<u16, Weak<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that there are.
    fn live(&self) -> BTreeMap<u16, Arc<Member>> {
        let mut members = self.members();
        members.retain(|_, member| member.strong_count() > 0);
        members.iter().filter_map(|(number, member)| Some((*number, member.upgrade()?))).collect()
    }

    /// The control plane at each link, if there is one.
    fn voices(&self) -> impl Iterator<Item = &Voice> {
        self.links.iter().filter_map(|link| link.voice.as_ref())
    }

    /// What has passed since it began.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The network has sent an ARP frame to a NIC; whether it was for us and not for the member that has it. What is answered leaves
    /// by `out`.
    fn hears_network(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let (Some(link), Some(packet)) = (self.links.get(nic), packet_of(frame)) else { return false };
        let now = self.now();
        let heard = link.hosts().hear_network(&packet, now);
        if heard.goes_on {
            return false;
        }
        self.note_neighbour(nic, &packet, now);
        link.counters.arp_heard.add_shared(1);
        if let Some(answer) = heard.answer {
            link.counters.arp_answered.add_shared(deliver(out, answer));
        }
        self.tell(nic, &heard);
        true
    }

    /// A member has sent an ARP frame by a NIC; whether that stays here.
    fn hears_member(&self, (member, nic): (u16, usize), frame: &Frame<'_>) -> bool {
        let (Some(link), Some(packet)) = (self.links.get(nic), packet_of(frame)) else { return false };
        let heard = link.hosts().hear_member(member, &packet, self.now());
        self.tell(nic, &heard);
        let counter = if heard.goes_on { &link.counters.arp_asked } else { &link.counters.arp_kept };
        counter.add_shared(1);
        !heard.goes_on
    }

    /// Tells members what a neighbour says, where there is something to tell.
    fn tell(&self, nic: usize, heard: &Heard) {
        let Some((to, spoken)) = heard.told else { return };
        for (number, member) in self.live() {
            if to & hosts::bit(number) != 0 {
                self.put_into(&member, nic, spoken);
            }
        }
    }

    /// Puts a frame into a NIC of a member, if that is served.
    fn put_into(&self, member: &Member, nic: usize, octets: Spoken) {
        if let (Some(link), Some(taken)) = (self.links.get(nic), member.deliver(nic, octets)) {
            let counter = if taken > 0 { &link.counters.told } else { &link.counters.drop_told };
            counter.add_shared(1);
        }
    }

    /// Follows those settings of its group that may change while it runs.
    fn follow(&self, group: &Group) {
        self.balancers.follow(group);
        self.spread_by(group.spread);
        *self.parked.lock().unwrap_or_else(PoisonError::into_inner) = group.parked_members();
        self.pull(group, |_| true);
        self.set_neighbours(group);
    }

    /// Pulls cables out and plugs them in as its group has them, as far as they are meant.
    fn pull(&self, group: &Group, is_meant: impl Fn(&Nic) -> bool) {
        for (link, nic) in self.links.iter().zip(&group.pattern.nics).filter(|(_, nic)| is_meant(nic)) {
            link.set_pulled(nic.is_pulled());
        }
    }
}

/// The ARP packet of a frame that has one.
fn packet_of(frame: &Frame<'_>) -> Option<arp::Packet> {
    let octets = frame.octets().read::<ARP_FRAME>(0)?;
    arp::Packet::parse(&octets[frame::ethernet::HEADER..]).ok()
}

/// Sends one frame; how many were taken.
fn deliver(sink: &dyn Sink, mut octets: Spoken) -> u64 {
    sink.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]) as u64
}

impl Ensemble {
    /// Finds or makes what the NICs of a group are plugged into, and begins to look after members. What goes on from one that was
    /// there `before` it is plugged into nothing else.
    fn start(
        group: &Group,
        found: (&[Arc<Switch>], &mut HostServices, Option<&Self>),
        counts: &CounterRegistry,
    ) -> Result<Arc<Self>> {
        let confinement = found.1.confinement;
        let core = Self::core(group, found)?;
        let timer = Timer::start(&core, confinement)?;
        let registration = counts.add(counters::Counter { core: core.clone(), meter: timer.meter() });
        Ok(Arc::new(Self { core, group: group.clone(), timer, _counting: registration }))
    }

    /// What there is of a group before anybody looks after it.
    fn core(
        group: &Group,
        (switches, supplies, before): (&[Arc<Switch>], &mut HostServices, Option<&Self>),
    ) -> Result<Arc<Core>> {
        let find = |nic: &Nic| {
            let held = before.map(|before| before.held(&nic.name, &group.wanted(nic))).unwrap_or_default();
            Link::new((group, nic), held, switches, supplies)
                .with_context(|| format!("group {}, NIC {}", group.name, nic.name))
        };
        let links = group.pattern.nics.iter().map(find).collect::<Result<Vec<_>>>()?;
        let core = Arc::new(Core {
            name: group.name.clone(),
            board: Mutex::new(Board::new(links.iter().map(|link| link.way.places()))),
            links,
            probes: Probes::new(secret()),
            began: Instant::now(),
            parked: Mutex::new(group.parked_members()),
            members: Mutex::default(),
            balancers: Balancers::new(group, supplies.confinement),
            tables: supplies.tables.clone(),
            asked: Mutex::default(),
            counters: EnsembleCounters::default(),
        });
        core.set_neighbours(group);
        core.doubt_neighbours(|_| true);
        Ok(core)
    }

    /// Whether it can be this group: members come and go, the settings that [`Core::follow`] knows change, and all else stays for its
    /// life.
    fn is_of(&self, group: &Group) -> bool {
        shape(&self.group) == shape(group)
    }

    /// The group in a plan, if it can be that.
    fn wanted<'p>(&self, plan: &'p Plan) -> Option<&'p Group> {
        plan.group(&self.group.name).filter(|group| self.is_of(group))
    }

    /// What one of its NICs is plugged into, if that can go on for a NIC that wants this, and its shadow.
    fn held(&self, nic: &str, wanted: &NicRequirements) -> Held {
        let known = self.core.links.iter().find(|link| link.nic == nic);
        let held =
            |link: &Link| Held { at: link.way.held(wanted), shadow: link.voice.as_ref().map(Voice::shadow) };
        known.map(held).unwrap_or_default()
    }

    /// What a NIC of a member is plugged into.
    fn seat(self: &Arc<Self>, (name, number): (&str, u16), nic: usize) -> Option<Arc<dyn Attachment>> {
        self.core.links.get(nic)?;
        let mut members = self.core.members();
        let known = members.get(&number).and_then(Weak::upgrade);
        let member = known.unwrap_or_else(|| {
            let member = Arc::new(Member::new(name, number, self.core.links.len()));
            members.insert(number, Arc::downgrade(&member));
            member
        });
        drop(members);
        Some(Arc::new(Seat { ensemble: self.clone(), member, nic }))
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        self.core.balancers.stop();
    }
}

/// A number that nobody can guess: who could would answer for a member.
fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

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
            let members = plan.members(&group.name).map(|router| router.name.as_str());
            members.filter(|name| !has_serving(plan, group, name)).map(str::to_owned).collect::<Vec<_>>()
        };
        inner.aside = plan.groups.iter().flat_map(idle).collect();
    }

    fn running(&self) -> Vec<Arc<Ensemble>> {
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

    /// What a NIC of a router is plugged into that shares it with other members of a group; none: it has it for itself.
    ///
    /// # Errors
    /// One line: what the group is plugged into cannot be had.
    pub(crate) fn seat(
        &self,
        (router, nic): (&Router, &Nic),
        switches: &[Arc<Switch>],
        supplies: &mut HostServices,
    ) -> Result<Option<Arc<dyn Attachment>>> {
        let Some((name, number)) = router.membership() else { return Ok(None) };
        let group = self.inner().groups.iter().find(|group| group.name == name).cloned();
        let Some(group) = group.filter(is_ours) else { return Ok(None) };
        let place = group.pattern.nics.iter().position(|known| known.name == nic.name);
        let place = place.context("a NIC that its group does not have")?;
        let ensemble = self.find(&group, (switches, supplies))?;
        let number = u16::try_from(number).context("a member with too high a number")?;
        let seat =
            ensemble.seat((&router.name, number), place).context("a NIC that its group does not have")?;
        if self.inner().aside.contains(&router.name) {
            ensemble.core.leave(Aside::Planned, |name| name == router.name);
        }
        Ok(Some(seat))
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
        }
        any
    }

    /// This says whether the process of a router is there, if the router is a member of a group.
    pub(crate) fn watch(&self, router: &str, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        for ensemble in self.running() {
            if let Some(member) = ensemble.core.live().into_values().find(|member| member.name == router) {
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

    /// Has balancers look for frames by links that were replaced.
    pub(crate) fn rouse(&self) {
        self.running().iter().for_each(|ensemble| ensemble.core.balancers.rouse());
    }

    /// What has happened to members since this was asked last, by router.
    pub(crate) fn news(&self) -> Vec<(String, News)> {
        self.running().iter().flat_map(|ensemble| ensemble.core.take_news()).collect()
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
                link.hosts().forget();
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

#[cfg(test)]
mod tests;
