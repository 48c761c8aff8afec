//! The seat of a member: the ports between its NICs and the links of its group.

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

/// Maximum number of frames from here that wait at one NIC of a member: replies to its requests, and probes.
pub(super) const INLET: u32 = 64;

/// A member of a group, or a balancer before members that is a virtual machine.
pub(super) struct Member {
    /// Its router's name.
    pub(super) name: String,
    pub(super) number: u16,
    /// Its Ethernet addresses, by NIC.
    stations: Vec<Mac>,
    places: Vec<Place>,
    /// Reasons for which it is set aside, one bit each ([`Aside`]).
    aside: AtomicU8,
    /// Tells whether its process serves all of its NICs, if it has a process of its own.
    is_there: Mutex<Option<Box<IsThere>>>,
    /// Bursts of a member served elsewhere that have reached a balancer.
    seen: AtomicU64,
    /// Probes that are awaited while it starts or wakes.
    pub(super) awaited: AwaitedProbes,
}

/// Reason for which a member gets no frames, although it may forward them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// The plan does not contain it, has it stopped, or has one of its cables pulled that is in for the others.
    Planned = 1,
    /// It is about to be restarted.
    Drained = 2,
    /// It does not know the routes of its control plane yet.
    Learning = 4,
    /// No probe comes back from members through it: the path behind a balancer is cut.
    Path = 8,
}

/// Check that a process serves all NICs of a member.
pub(super) type IsThere = dyn Fn() -> bool + Send + Sync;

/// A NIC of a member.
#[derive(Default)]
struct Place {
    /// Queue of frames from here into the NIC; `None` until it is served.
    inlet: Mutex<Option<Arc<IngressSink>>>,
    /// Sink towards the link while the member is served; frames sent by it from here are not counted as the member's.
    out: Mutex<Option<Weak<dyn Sink>>>,
    counters: SeatCounters,
    /// One more than the number of the last probe that entered here and came back; 0: none.
    back: AtomicU64,
    /// Of a balancer: generation of its table, by the last order that entered here and came back; 0: none.
    known: AtomicU32,
}

impl Member {
    /// Creates a member whose NICs have these addresses.
    pub(super) fn new(name: &str, number: u16, stations: Vec<Mac>) -> Self {
        let places = stations.iter().map(|_| Place::default()).collect();
        let (aside, is_there, seen) = (AtomicU8::new(0), Mutex::default(), AtomicU64::new(0));
        let awaited = AwaitedProbes::default();
        Self { name: name.to_owned(), number, stations, places, aside, is_there, seen, awaited }
    }

    /// Returns the Ethernet address of a NIC.
    pub(super) fn station(&self, nic: usize) -> Mac {
        self.stations.get(nic).copied().unwrap_or_default()
    }

    /// Sets it aside for a reason.
    pub(super) fn set_aside(&self, why: Aside) {
        self.aside.fetch_or(why as u8, Ordering::Relaxed);
    }

    /// Removes this reason to set it aside.
    pub(super) fn take_back(&self, why: Aside) {
        self.aside.fetch_and(!(why as u8), Ordering::Relaxed);
    }

    /// Returns true if there is a reason not to give it frames.
    pub(super) fn is_aside(&self) -> bool {
        self.aside.load(Ordering::Relaxed) != 0
    }

    /// Sets the check that its process exists.
    pub(super) fn watch(&self, is_there: Box<IsThere>) {
        *self.is_there.lock().unwrap_or_else(PoisonError::into_inner) = Some(is_there);
    }

    /// Returns true if it is known to be gone, without waiting for a probe.
    pub(super) fn is_gone(&self) -> bool {
        self.is_there
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(|is_there| !is_there())
    }

    /// Delivers a frame to one of its NICs; returns the number of frames accepted. `None`: the NIC is not served yet.
    pub(super) fn deliver(&self, nic: usize, octets: &mut [u8]) -> Option<u64> {
        let inlet = self.places.get(nic)?.inlet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(deliver(&*inlet?, octets))
    }

    /// Sets the queue by which frames from here enter one of its NICs, and the sink towards the link.
    pub(super) fn open(&self, nic: usize, (inlet, out): (Arc<IngressSink>, Option<Weak<dyn Sink>>)) {
        if let Some(place) = self.places.get(nic) {
            *place.inlet.lock().unwrap_or_else(PoisonError::into_inner) = Some(inlet);
            *place.out.lock().unwrap_or_else(PoisonError::into_inner) = out;
        }
    }

    /// Counts frames that have left it and had entered by this NIC, or that leave by it.
    #[inline]
    pub(super) fn has_passed(&self, nic: usize, frames: usize) {
        if let Some(place) = self.places.get(nic) {
            place.counters.passed.add_shared(frames as u64);
        }
    }

    /// Returns the generation of the table that a balancer is known to have at a NIC.
    pub(super) fn known(&self, nic: usize) -> u32 {
        self.places.get(nic).map_or(0, |place| place.known.load(Ordering::Acquire))
    }

    /// Notes that an order has passed a balancer, by its number, the NIC that it entered by, and the table that it reports.
    pub(super) fn note_order(&self, nic: usize, (number, known): (u32, u32)) {
        if let Some(place) = self.places.get(nic) {
            place.known.store(known, Ordering::Release);
            place.back.store(u64::from(number) + 1, Ordering::Release);
        }
    }

    /// Notes that the probe with this number, which entered by this NIC, has come back; returns false if there is no such NIC.
    fn note_probe(&self, nic: usize, number: u32) -> bool {
        let place = self.places.get(nic);
        place.into_iter().for_each(|place| place.back.store(u64::from(number) + 1, Ordering::Release));
        place.is_some()
    }

    /// Returns the sink towards the link of one of its NICs, if it is served there.
    pub(super) fn out(&self, nic: usize) -> Option<Arc<dyn Sink>> {
        let out = self.places.get(nic)?.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.as_ref()?.upgrade()
    }

    /// Sets the sink towards the link of one of its NICs, as if it were served there.
    #[cfg(test)]
    pub(super) fn leads_to(&self, nic: usize, out: &Arc<dyn Sink>) {
        *self.places[nic].out.lock().expect("nobody panicked") = Some(Arc::downgrade(out));
    }

    /// Returns the counters of each of its NICs.
    pub(super) fn counters(&self) -> impl Iterator<Item = &SeatCounters> {
        self.places.iter().map(|place| &place.counters)
    }

    /// Returns the number of frames that have left it, plus [`Member::note_seen`].
    pub(super) fn passed(&self) -> u64 {
        let frames: u64 = self.counters().map(|counters| counters.passed.get()).sum();
        frames + self.seen.load(Ordering::Relaxed)
    }

    /// Counts that frames of it were seen at a balancer.
    pub(super) fn note_seen(&self) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets returned probes, so that none is taken for one that is sent from now on.
    pub(super) fn forget_probes(&self) {
        for place in &self.places {
            place.back.store(0, Ordering::Release);
            place.known.store(0, Ordering::Release);
        }
    }

    /// Returns the number of the last probe that has come back of all these NICs, one bit each: the earliest if they differ.
    pub(super) fn last_answered(&self, entered: u32) -> Option<u32> {
        let places = (0_u32..).zip(&self.places).filter(|(nic, _)| (entered >> nic) & 1 != 0);
        let last = places.map(|(_, place)| place.back.load(Ordering::Acquire)).min()?;
        u32::try_from(last.checked_sub(1)?).ok()
    }

    /// Returns true if the probes with this number that entered these NICs, one bit each, have come back.
    pub(super) fn has_answered(&self, number: u32, entered: u32) -> bool {
        let wanted = u64::from(number) + 1;
        let is_back = |place: &Place| place.back.load(Ordering::Acquire) == wanted;
        (0_u32..).zip(&self.places).all(|(nic, place)| (entered >> nic) & 1 == 0 || is_back(place))
    }
}

/// Attachment of a NIC of a member.
pub(super) struct Seat {
    pub(super) ensemble: Arc<Ensemble>,
    pub(super) member: Arc<Member>,
    /// Number of the NIC.
    pub(super) nic: usize,
    /// Its own attachment, behind balancers that are virtual machines; `None`: it shares that of its group.
    pub(super) at: Option<Arc<dyn Attachment>>,
}

impl Seat {
    /// Returns its ports at the link, with ARP and neighbour discovery taken out.
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
            // No thread would move its frames: it is opened again for the next member that is served.
            stage.close();
        }
        ports
    }

    /// Returns its ports at a link behind a balancer; the sources of the link, if it was just opened, go to the balancers.
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
        // Frames of a control plane do not leave by the member.
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

/// Returns the sources of a link without the frames for the group's control plane, if it has one, whose own frames leave by `out`.
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
        // Steps that may fail come before a port of a switch is made, which would have to be removed again.
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

    /// Describes the state of the member, and its part of the link.
    fn state(&self) -> Option<(&'static str, String)> {
        Some(("member", self.ensemble.core.state_of(self.member.number, self.nic)?))
    }
}

/// Receiver of ARP, neighbour discovery and probes at a NIC of a member.
#[derive(Clone)]
struct Ear {
    core: Arc<Core>,
    member: Arc<Member>,
    nic: usize,
}

/// Source of frames from the link, without those that are handled for all members.
struct Inbound {
    source: Box<dyn Source>,
    /// Sink for replies.
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
                    // A burst always fits.
                    let _ = left.try_push(*frame);
                }
            }
            if !left.is_empty() {
                take(&left);
            }
        })
    }
}

/// Sink of frames towards the link, without probes and without messages that are handled here.
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
    /// Counts frames that have left the member by this NIC, which one thread serves.
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

/// Delivers the frames that are not kept here, after calling `leave` with those of each burst; returns the number of frames before the
/// first lost one.
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
            // A burst always fits.
            *goes_on = left.try_push(*frame).is_ok();
        }
        leave(&left);
        let passed = if left.is_empty() { 0 } else { sink.deliver(&left) };
        // Frames behind the first lost one are passed on, but not counted.
        let lost = (0..burst.len()).filter(|at| goes_on[*at]).nth(passed);
        taken += if is_whole { lost.unwrap_or(burst.len()) } else { 0 };
        is_whole &= lost.is_none();
    }
    taken
}

impl Ear {
    /// Returns true if a frame of the member is handled here and does not leave.
    fn keeps(&self, frame: &Frame<'_>) -> bool {
        if is_back(frame) {
            // It is passed on to balancers that are virtual machines.
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
    /// Handles a probe that has come back by a NIC, or a frame that looks like one: of this member, or of any if that is not known.
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
