//! The place of a member: what stands between its NICs and the links of its group.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result, bail};
use attach::{Attachment, HandedOver, News, Ports, ServiceContext};
use frame::Mac;
use group::probe;
use port::{Frame, Frames, IngressSink, Sink, SinkWrapper, Source, SourceWrapper, ingress};
use ring::BURST;

use super::awaited::AwaitedProbes;
use super::kinds::{Kind, is_back, is_for_us, kind};
use super::path::OF_PATH;
use super::quiet::quiet;
use super::way::Stage;
use super::{Core, Ensemble, Link, SeatCounters, Way, deliver};
use crate::io_thread::Pump;

/// Frames from here that wait for a member at most at one of its NICs: answers to what it asked, and probes.
pub(super) const INLET: u32 = 64;

/// A member of a group, or a balancer before members that is a virtual machine.
pub(super) struct Member {
    /// Its router's name.
    pub(super) name: String,
    pub(super) number: u16,
    /// Its addresses, by NIC.
    stations: Vec<Mac>,
    places: Vec<Place>,
    /// Why it is set aside, one bit each ([`Aside`]).
    aside: AtomicU8,
    /// Says whether its process is at all of its NICs, where it has one of its own.
    is_there: Mutex<Option<Box<IsThere>>>,
    /// Bursts of a kernel router that have come to a balancer.
    seen: AtomicU64,
    /// Probes that it is waited for, while it comes up or wakes.
    pub(super) awaited: AwaitedProbes,
}

/// Why a member gets no frames, although it may forward them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// The plan does not have it, has it stopped, or has a cable of it out that is in for the others.
    Planned = 1,
    /// It is about to be started anew.
    Drained = 2,
    /// It does not know the routes of its control plane yet.
    Learning = 4,
    /// Nothing comes back from members that passes it: the path behind a balancer is cut.
    Path = 8,
}

/// Whether somebody is there.
pub(super) type IsThere = dyn Fn() -> bool + Send + Sync;

/// A NIC of a member.
#[derive(Default)]
struct Place {
    /// Takes frames that are put into the NIC; none until it is served.
    inlet: Mutex<Option<Arc<IngressSink>>>,
    /// Takes frames to the link as long as the member is served; what is sent in its place is not of the member.
    out: Mutex<Option<Weak<dyn Sink>>>,
    counters: SeatCounters,
    /// One more than the number of the last probe that came back which had entered here; 0: none has.
    back: AtomicU64,
    /// Of a balancer: generation of the table that it has, as the last order said that had entered here; 0: none.
    known: AtomicU32,
}

impl Member {
    /// One whose NICs have these addresses.
    pub(super) fn new(name: &str, number: u16, stations: Vec<Mac>) -> Self {
        let places = stations.iter().map(|_| Place::default()).collect();
        let (aside, is_there, seen) = (AtomicU8::new(0), Mutex::default(), AtomicU64::new(0));
        let awaited = AwaitedProbes::default();
        Self { name: name.to_owned(), number, stations, places, aside, is_there, seen, awaited }
    }

    /// The address of a NIC.
    pub(super) fn station(&self, nic: usize) -> Mac {
        self.stations.get(nic).copied().unwrap_or_default()
    }

    /// Sets it aside for a reason.
    pub(super) fn set_aside(&self, why: Aside) {
        self.aside.fetch_or(why as u8, Ordering::Relaxed);
    }

    /// There is no such reason any more.
    pub(super) fn take_back(&self, why: Aside) {
        self.aside.fetch_and(!(why as u8), Ordering::Relaxed);
    }

    /// Whether there is a reason not to give it frames.
    pub(super) fn is_aside(&self) -> bool {
        self.aside.load(Ordering::Relaxed) != 0
    }

    /// This says whether its process is there.
    pub(super) fn watch(&self, is_there: Box<IsThere>) {
        *self.is_there.lock().unwrap_or_else(PoisonError::into_inner) = Some(is_there);
    }

    /// Whether it is known to be gone: no probe has to tell.
    pub(super) fn is_gone(&self) -> bool {
        self.is_there
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(|is_there| !is_there())
    }

    /// Puts a frame into one of its NICs; how many were taken. `None`: the NIC is not served yet.
    pub(super) fn deliver(&self, nic: usize, octets: &mut [u8]) -> Option<u64> {
        let inlet = self.places.get(nic)?.inlet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(deliver(&*inlet?, octets))
    }

    /// Frames from here enter one of its NICs by this from now on, and leave by that.
    pub(super) fn open(&self, nic: usize, (inlet, out): (Arc<IngressSink>, Option<Weak<dyn Sink>>)) {
        if let Some(place) = self.places.get(nic) {
            *place.inlet.lock().unwrap_or_else(PoisonError::into_inner) = Some(inlet);
            *place.out.lock().unwrap_or_else(PoisonError::into_inner) = out;
        }
    }

    /// So many frames have left it that had entered by this NIC, or leave by it.
    #[inline]
    pub(super) fn has_passed(&self, nic: usize, frames: usize) {
        if let Some(place) = self.places.get(nic) {
            place.counters.passed.add_shared(frames as u64);
        }
    }

    /// The generation of the table that a balancer is known to have at a NIC.
    pub(super) fn known(&self, nic: usize) -> u32 {
        self.places.get(nic).map_or(0, |place| place.known.load(Ordering::Acquire))
    }

    /// An order of this number has passed a balancer that had entered by this NIC, and says which table it has.
    pub(super) fn note_order(&self, nic: usize, (number, known): (u32, u32)) {
        if let Some(place) = self.places.get(nic) {
            place.known.store(known, Ordering::Release);
            place.back.store(u64::from(number) + 1, Ordering::Release);
        }
    }

    /// The probe of this number has come back that had entered by this NIC; whether there is such a NIC.
    fn note_probe(&self, nic: usize, number: u32) -> bool {
        let place = self.places.get(nic);
        place.into_iter().for_each(|place| place.back.store(u64::from(number) + 1, Ordering::Release));
        place.is_some()
    }

    /// A way to the link of one of its NICs, if it is served there.
    pub(super) fn out(&self, nic: usize) -> Option<Arc<dyn Sink>> {
        let out = self.places.get(nic)?.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.as_ref()?.upgrade()
    }

    /// Has this be its way to the link of one of its NICs, as if it were served there.
    #[cfg(test)]
    pub(super) fn leads_to(&self, nic: usize, out: &Arc<dyn Sink>) {
        *self.places[nic].out.lock().expect("nobody panicked") = Some(Arc::downgrade(out));
    }

    /// What is counted at each of its NICs.
    pub(super) fn counters(&self) -> impl Iterator<Item = &SeatCounters> {
        self.places.iter().map(|place| &place.counters)
    }

    /// Frames that have left it, or how often some were seen.
    pub(super) fn passed(&self) -> u64 {
        let frames: u64 = self.counters().map(|counters| counters.passed.get()).sum();
        frames + self.seen.load(Ordering::Relaxed)
    }

    /// Frames of it were seen.
    pub(super) fn note_seen(&self) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// Whatever has come back is of no probe that is sent from now on.
    pub(super) fn forget_probes(&self) {
        for place in &self.places {
            place.back.store(0, Ordering::Release);
            place.known.store(0, Ordering::Release);
        }
    }

    /// Number of the last probe that has come back by all of these NICs, one bit each, or an earlier one where they differ; none: none has.
    pub(super) fn last_answered(&self, entered: u32) -> Option<u32> {
        let places = (0_u32..).zip(&self.places).filter(|(nic, _)| (entered >> nic) & 1 != 0);
        let last = places.map(|(_, place)| place.back.load(Ordering::Acquire)).min()?;
        u32::try_from(last.checked_sub(1)?).ok()
    }

    /// Whether the probes of this number have come back that entered these NICs, one bit each.
    pub(super) fn has_answered(&self, number: u32, entered: u32) -> bool {
        let wanted = u64::from(number) + 1;
        let is_back = |place: &Place| place.back.load(Ordering::Acquire) == wanted;
        (0_u32..).zip(&self.places).all(|(nic, place)| (entered >> nic) & 1 == 0 || is_back(place))
    }
}

/// What a NIC of a member is plugged into.
pub(super) struct Seat {
    pub(super) ensemble: Arc<Ensemble>,
    pub(super) member: Arc<Member>,
    /// Number of the NIC.
    pub(super) nic: usize,
    /// What it is plugged into for itself, behind balancers that are virtual machines; none: it shares what its group is plugged into.
    pub(super) at: Option<Arc<dyn Attachment>>,
}

impl Seat {
    /// What leads to the link and away from it; ARP and neighbour discovery are heard on the way.
    fn ways(&self, site: &ServiceContext<'_>) -> Result<Ports> {
        let (core, member) = (&self.ensemble.core, &self.member);
        if let Some(at) = &self.at {
            return Ok(quiet(at.ports(site)?, core, self.nic));
        }
        let link = core.links.get(self.nic).context("a NIC that its group does not have")?;
        let stage = match &link.way {
            Way::Owned(shared) => {
                let ports = shared.member(member.number).ports(site)?;
                let out = ports.sinks.first().context("a link that takes nothing")?.clone();
                let sources = sorted(link, ports.sources, &out)?;
                let inbound = |source| self.inbound(source, &out);
                return Ok(Ports { sources: sources.into_iter().map(inbound).collect(), ..ports });
            }
            Way::Balanced(stage) => &**stage,
            Way::Machines(_) => bail!("a member that is plugged into nothing"),
        };
        let begun = stage.begin(site)?;
        let is_first = begun.is_some();
        let ports = self.balanced((link, stage), begun, site);
        if ports.is_err() && is_first {
            // What comes from it is moved by nobody: it is opened for the next one that is served.
            stage.close();
        }
        ports
    }

    /// What leads to a link behind a balancer and away from it; the sources of the link, if it was just opened, go to the balancers.
    fn balanced(
        &self,
        (link, stage): (&Link, &Stage),
        begun: Option<Vec<Box<dyn Source>>>,
        site: &ServiceContext<'_>,
    ) -> Result<Ports> {
        let ports = stage.ports((&self.member.name, self.member.number), site)?;
        let moved = begun.map_or(Ok(()), |sources| self.hand_to_balancers((link, stage), sources, &ports));
        if moved.is_err() {
            ports.outside.leave();
        }
        // What a control plane says does not leave by the member.
        moved.map(|()| Ports { control: None, ..ports })
    }

    fn hand_to_balancers(
        &self,
        (link, stage): (&Link, &Stage),
        sources: Vec<Box<dyn Source>>,
        ports: &Ports,
    ) -> Result<()> {
        let core = &self.ensemble.core;
        let out = ports.sinks.first().context("a link that takes nothing")?;
        let sources = sorted(link, sources, ports.control.as_ref().unwrap_or(out))?;
        let pump = |source| Pump { source: self.inbound(source, out), sink: stage.balancer.clone() };
        let pumps = sources.into_iter().map(pump).collect();
        core.balancers.add(&core.name, (self.nic, pumps), core.links.len())
    }

    fn inbound(&self, source: Box<dyn Source>, out: &Arc<dyn Sink>) -> Box<dyn Source> {
        let core = self.ensemble.core.clone();
        Box::new(Inbound { source, out: out.clone(), core, nic: self.nic })
    }
}

/// The sources of a link without the frames for the group's control plane, if it has one; what that says leaves by `out`.
pub(super) fn sorted(
    link: &Link,
    sources: Vec<Box<dyn Source>>,
    out: &Arc<dyn Sink>,
) -> Result<Vec<Box<dyn Source>>> {
    let Some(voice) = &link.voice else { return Ok(sources) };
    voice.speak(out)?;
    Ok(voice.sort(sources))
}

impl Attachment for Seat {
    fn ports(&self, site: &ServiceContext<'_>) -> Result<Ports> {
        let (inlet, told) = ingress(INLET).context("cannot make an ingress queue")?;
        // What may fail comes before a port of a switch, which would have to be left again.
        let mut ports = self.ways(site)?;
        ports.sources.push(Box::new(told));
        let out = ports.sinks.first().map(Arc::downgrade);
        let ear = Ear { core: self.ensemble.core.clone(), member: self.member.clone(), nic: self.nic };
        let outbound = |sink| Arc::new(Outbound { sink, ear: ear.clone() }) as Arc<dyn Sink>;
        ports.sinks = ports.sinks.into_iter().map(outbound).collect();
        self.member.open(self.nic, (inlet, out));
        Ok(ports)
    }

    fn link(&self) -> Option<bool> {
        match &self.at {
            Some(at) => at.link(),
            None => self.ensemble.core.links.get(self.nic)?.way.link(),
        }
    }

    fn news(&self) -> Option<News> {
        self.at.as_ref()?.news()
    }

    fn replace(&self, by: HandedOver) -> Result<()> {
        match &self.at {
            Some(at) => at.replace(by),
            None => bail!("it is the link of a group, and replaced there"),
        }
    }

    /// How the member is, and what it owns of the link.
    fn state(&self) -> Option<(&'static str, String)> {
        Some(("member", self.ensemble.core.state_of(self.member.number, self.nic)?))
    }
}

/// What is heard at a NIC of a member.
#[derive(Clone)]
struct Ear {
    core: Arc<Core>,
    member: Arc<Member>,
    nic: usize,
}

/// Frames from the link, but for those that are heard for all members.
struct Inbound {
    source: Box<dyn Source>,
    /// Where answers go.
    out: Arc<dyn Sink>,
    core: Arc<Core>,
    /// Number of the NIC.
    nic: usize,
}

impl SourceWrapper for Inbound {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Self { source, out, core, nic } = self;
        source.drain(budget, &mut |frames| {
            if !frames.iter().any(|frame| kind(frame).is_some()) {
                return take(frames);
            }
            let mut left = Frames::new();
            for frame in frames {
                let is_heard = match kind(frame) {
                    Some(Kind::Arp) => core.hears_network(*nic, frame, &**out),
                    Some(Kind::Discovery) => core.hears_discovery(*nic, frame, &**out),
                    None => false,
                };
                if !is_heard {
                    // A burst has no more than fit.
                    let _ = left.try_push(*frame);
                }
            }
            if !left.is_empty() {
                take(&left);
            }
        })
    }
}

/// Frames towards the link, but for probes, and for what is asked of us.
struct Outbound {
    sink: Arc<dyn Sink>,
    ear: Ear,
}

impl SinkWrapper for Outbound {
    fn inner(&self) -> &dyn Sink {
        &*self.sink
    }

    #[inline]
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        if frames.iter().any(is_for_us) {
            return self.deliver_some(frames);
        }
        self.passed(frames.len());
        self.sink.deliver(frames)
    }
}

impl Outbound {
    /// Frames have left the member by this NIC, which one thread serves.
    fn passed(&self, frames: usize) {
        if let Some(place) = self.ear.member.places.get(self.ear.nic) {
            place.counters.passed.add(frames as u64);
        }
    }

    #[cold]
    fn deliver_some(&self, frames: &[Frame<'_>]) -> usize {
        let keeps = |frame: &Frame<'_>| self.ear.keeps(frame);
        deliver_left(&*self.sink, frames, keeps, |left| {
            self.passed(left.iter().filter(|frame| !is_for_us(frame)).count());
        })
    }
}

/// Delivers those of some frames that are not kept here, and calls `leave` with those of each burst before; how many of all, from the
/// first one on, were not lost.
pub(super) fn deliver_left(
    sink: &dyn Sink,
    frames: &[Frame<'_>],
    is_kept: impl Fn(&Frame<'_>) -> bool,
    leave: impl Fn(&[Frame<'_>]),
) -> usize {
    let (mut taken, mut is_whole) = (0, true);
    for burst in frames.chunks(BURST) {
        let (mut left, mut goes_on) = (Frames::new(), [false; BURST]);
        for (frame, goes_on) in burst.iter().zip(&mut goes_on).filter(|(frame, _)| !is_kept(frame)) {
            // A burst has no more than fit.
            *goes_on = left.try_push(*frame).is_ok();
        }
        leave(&left);
        let passed = if left.is_empty() { 0 } else { sink.deliver(&left) };
        // What comes behind the first lost frame is passed on, and not counted any more.
        let lost = (0..burst.len()).filter(|at| goes_on[*at]).nth(passed);
        taken += if is_whole { lost.unwrap_or(burst.len()) } else { 0 };
        is_whole &= lost.is_none();
    }
    taken
}

impl Ear {
    /// Whether a frame of the member does not leave.
    fn keeps(&self, frame: &Frame<'_>) -> bool {
        if is_back(frame) {
            // It goes on where balancers that are virtual machines are to pass it.
            let is_at_home = self.core.front(self.nic).is_none();
            if is_at_home {
                self.core.note_probe(self.nic, Some(self.member.number), frame);
            }
            return is_at_home;
        }
        let place = (self.member.number, self.nic);
        match kind(frame) {
            Some(Kind::Arp) => self.core.hears_member(place, frame),
            Some(Kind::Discovery) => self.core.hears_discovery_of(place, frame),
            None => false,
        }
    }
}

impl Core {
    /// A probe has come back by a NIC, or something that looks like one: of this member, or of any where that is not known.
    pub(super) fn note_probe(&self, nic: usize, from: Option<u16>, frame: &Frame<'_>) {
        let Some(counters) = self.links.get(nic).map(|link| &link.counters) else { return };
        let mut octets = [0; probe::LEN];
        let len = frame.octets().copy_to_slice(&mut octets);
        if self.front(nic).is_some() && octets[..6] == probe::back(nic as u8).0 {
            octets[..6].copy_from_slice(&probe::BACK.0);
        }
        let through = self.probes.read(octets.get(..len).unwrap_or_default());
        let own = through.filter(|through| from.is_none_or(|from| through.member.0 == from));
        if let Some(through) = own.filter(|through| through.number == OF_PATH) {
            let front = self.front(through.nic.into()).filter(|_| usize::from(through.nic) == nic);
            front.into_iter().for_each(|front| front.hear());
            return counters.probes_back.add_shared(1);
        }
        let is_noted = own.is_some_and(|through| {
            let member = self.members().get(&through.member.0).and_then(Weak::upgrade);
            member.is_some_and(|member| {
                let is_noted = member.note_probe(through.nic.into(), through.number);
                if member.awaited.note(through.nic, through.number) {
                    self.bell.ring();
                }
                is_noted
            })
        });
        let counter = if is_noted { &counters.probes_back } else { &counters.probes_foreign };
        counter.add_shared(1);
    }
}

#[cfg(test)]
mod conformance_tests;
