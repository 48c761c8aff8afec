//! The place of a member: what stands between its NICs and the links of its group.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result, bail};
use attach::{Attachment, HandedOver, Ports, ServiceContext};
use frame::ethernet;
use group::probe;
use port::{Frame, Frames, IngressSink, Sink, SinkWrapper, Source, SourceWrapper, ingress};
use ring::BURST;

use super::hosts::Spoken;
use super::{Core, Ensemble, Link, SeatCounters, Way, deliver};
use crate::io_thread::Pump;

/// Frames from here that wait for a member at most at one of its NICs: answers to what it asked, and probes.
const INLET: u32 = 64;

/// A member of a group.
pub(super) struct Member {
    /// Its router's name.
    pub(super) name: String,
    pub(super) number: u16,
    places: Vec<Place>,
    /// Why it is set aside, one bit each ([`Aside`]).
    aside: AtomicU8,
    /// Says whether its process is at all of its NICs, where it has one of its own.
    is_there: Mutex<Option<Box<IsThere>>>,
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
}

impl Member {
    pub(super) fn new(name: &str, number: u16, nics: usize) -> Self {
        let places = (0..nics).map(|_| Place::default()).collect();
        Self { name: name.to_owned(), number, places, aside: AtomicU8::new(0), is_there: Mutex::default() }
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
    pub(super) fn deliver(&self, nic: usize, octets: Spoken) -> Option<u64> {
        let inlet = self.places.get(nic)?.inlet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(deliver(&*inlet?, octets))
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

    /// Frames that have left it.
    pub(super) fn passed(&self) -> u64 {
        self.counters().map(|counters| counters.passed.get()).sum()
    }

    /// Whatever has come back is of no probe that is sent from now on.
    pub(super) fn forget_probes(&self) {
        self.places.iter().for_each(|place| place.back.store(0, Ordering::Release));
    }

    /// Whether the probes of this number have come back that entered these NICs, one bit each.
    pub(super) fn has_answered(&self, number: u32, entered: u8) -> bool {
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
}

impl Seat {
    /// What leads to the link and away from it; ARP is heard on the way.
    fn ways(&self, site: &ServiceContext<'_>) -> Result<Ports> {
        let (core, member) = (&self.ensemble.core, &self.member);
        let link = core.links.get(self.nic).context("a NIC that its group does not have")?;
        let stage = match &link.way {
            Way::Owned(shared) => {
                let ports = shared.member(member.number).ports(site)?;
                let out = ports.sinks.first().context("a link that takes nothing")?.clone();
                let sources = sorted(link, ports.sources, &out)?;
                let inbound = |source| self.inbound(source, &out);
                return Ok(Ports { sources: sources.into_iter().map(inbound).collect(), ..ports });
            }
            Way::Balanced(stage) => stage,
        };
        let begun = stage.begin(site)?;
        let ports = stage.ports((&member.name, member.number), site)?;
        if let Some(source) = begun {
            let out = ports.sinks.first().context("a link that takes nothing")?;
            for source in sorted(link, vec![source], out)? {
                let pump = Pump { source: self.inbound(source, out), sink: stage.balancer.clone() };
                core.balancers.add(&core.name, (self.nic, pump), core.links.len())?;
            }
        }
        Ok(ports)
    }

    fn inbound(&self, source: Box<dyn Source>, out: &Arc<dyn Sink>) -> Box<dyn Source> {
        let core = self.ensemble.core.clone();
        Box::new(Inbound { source, out: out.clone(), core, nic: self.nic })
    }
}

/// The sources of a link without the frames for the group's control plane, if it has one; what that says leaves by `out`.
fn sorted(link: &Link, sources: Vec<Box<dyn Source>>, out: &Arc<dyn Sink>) -> Result<Vec<Box<dyn Source>>> {
    let Some(voice) = &link.voice else { return Ok(sources) };
    voice.speak(out)?;
    Ok(voice.sort(sources))
}

impl Attachment for Seat {
    fn ports(&self, site: &ServiceContext<'_>) -> Result<Ports> {
        let mut ports = self.ways(site)?;
        let (inlet, told) = ingress(INLET).context("cannot make an ingress queue")?;
        ports.sources.push(Box::new(told));
        let out = ports.sinks.first().map(Arc::downgrade);
        let ear = Ear { core: self.ensemble.core.clone(), member: self.member.clone(), nic: self.nic };
        let outbound = |sink| Arc::new(Outbound { sink, ear: ear.clone() }) as Arc<dyn Sink>;
        ports.sinks = ports.sinks.into_iter().map(outbound).collect();
        if let Some(place) = self.member.places.get(self.nic) {
            *place.inlet.lock().unwrap_or_else(PoisonError::into_inner) = Some(inlet);
            *place.out.lock().unwrap_or_else(PoisonError::into_inner) = out;
        }
        Ok(ports)
    }

    fn link(&self) -> Option<bool> {
        self.ensemble.core.links.get(self.nic)?.way.link()
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it is the link of a group, and replaced there")
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
    type Inner = dyn Source;

    fn inner(&self) -> &Self::Inner {
        &*self.source
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.source
    }

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Self { source, out, core, nic } = self;
        source.drain(budget, &mut |frames| {
            if !frames.iter().any(is_arp) {
                return take(frames);
            }
            let mut left = Frames::new();
            for frame in frames {
                if !(is_arp(frame) && core.hears_network(*nic, frame, &**out)) {
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
    fn passed(&self, frames: usize) {
        if let Some(place) = self.ear.member.places.get(self.ear.nic) {
            place.counters.passed.add(frames as u64);
        }
    }

    #[cold]
    fn deliver_some(&self, frames: &[Frame<'_>]) -> usize {
        let mut taken = 0;
        for burst in frames.chunks(BURST) {
            let left: Frames<'_> = burst.iter().filter(|frame| !self.ear.keeps(frame)).copied().collect();
            let passed = if left.is_empty() { 0 } else { self.sink.deliver(&left) };
            self.passed(left.iter().filter(|frame| !is_arp(frame)).count());
            taken += burst.len() - left.len() + passed;
            if passed < left.len() {
                break;
            }
        }
        taken
    }
}

impl Ear {
    /// Whether a frame of the member does not leave.
    fn keeps(&self, frame: &Frame<'_>) -> bool {
        if is_back(frame) {
            self.note_probe(frame);
            return true;
        }
        is_arp(frame) && self.core.hears_member((self.member.number, self.nic), frame)
    }

    /// A probe has come back, or something that looks like one.
    fn note_probe(&self, frame: &Frame<'_>) {
        let mut octets = [0; probe::LEN];
        let len = frame.octets().copy_to_slice(&mut octets);
        let through = self.core.probes.read(octets.get(..len).unwrap_or_default());
        let own = through.filter(|through| through.member.0 == self.member.number);
        let place = own.and_then(|through| self.member.places.get(usize::from(through.nic)));
        let counters = self.core.links.get(self.nic).map(|link| &link.counters);
        match (own, place) {
            (Some(through), Some(place)) => {
                place.back.store(u64::from(through.number) + 1, Ordering::Release);
                counters.into_iter().for_each(|counters| counters.probes_back.add_shared(1));
            }
            _ => counters.into_iter().for_each(|counters| counters.probes_foreign.add_shared(1)),
        }
    }
}

#[inline(always)]
fn is_arp(frame: &Frame<'_>) -> bool {
    frame.octets().read::<2>(12) == Some(ethernet::ARP.to_be_bytes())
}

/// Whether a frame is for where probes are taken out.
#[inline(always)]
fn is_back(frame: &Frame<'_>) -> bool {
    frame.octets().read::<6>(0) == Some(probe::BACK.0)
}

#[inline(always)]
fn is_for_us(frame: &Frame<'_>) -> bool {
    is_arp(frame) || is_back(frame)
}
