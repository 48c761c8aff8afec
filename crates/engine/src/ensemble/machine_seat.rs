//! Attachment of a NIC of a balancer that is a virtual machine: to a link of its group, or to the interconnection.
//!
//! ```text
//!  link --> shelf --> ARP is taken out ---+--> NIC [ machine ] NIC --+--> orders are taken out --> interconnection
//!                             orders -----^                         ^---- orders
//!  link <-- orders, probes are taken out <-- NIC [ machine ] NIC <-- ARP of members is taken out <-- interconnection
//! ```
//!
//! ARP stands for neighbour discovery as well.
//!
//! Frames that look like orders and do not come from here are dropped before they enter, so that no one else can configure a balancer.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use attach::{Attachment, HandedOver, News, Ports, ServiceContext};
use frame::Mac;
use frame::order::{ETHERTYPE, LONGEST, TO};
use port::{Frame, Frames, Sink, SinkWrapper, Source, SourceWrapper, ingress};

use super::front::{Front, Queues};
use super::kinds::{Kind, is_back, kind};
use super::machines::Machines;
use super::seat::{INLET, Member, deliver_left, sorted};
use super::{Core, Ensemble};

/// Attachment of a NIC of a balancer.
pub(super) struct MachineSeat {
    pub(super) ensemble: Arc<Ensemble>,
    pub(super) machine: Arc<Member>,
    /// Number of the group's NIC.
    pub(super) nic: usize,
    /// The interconnection, and the NIC's address there; `None`: the NIC is at the link of the group's NIC.
    pub(super) inside: Option<(Arc<dyn Attachment>, Mac)>,
}

/// One side of a balancer at one link.
#[derive(Clone)]
struct Side {
    core: Arc<Core>,
    machine: Arc<Member>,
    front: Arc<Front>,
    /// Number of the group's NIC.
    nic: usize,
    /// NIC by which frames that leave here have entered the balancer.
    entered: usize,
    is_inside: bool,
}

impl MachineSeat {
    fn side(&self) -> Result<Side> {
        let core = self.ensemble.core.clone();
        let front = core.front(self.nic).context("a NIC that its group does not have")?.clone();
        let (is_inside, links) = (self.inside.is_some(), core.links.len());
        let entered = if is_inside { self.nic } else { links + self.nic };
        Ok(Side { core, machine: self.machine.clone(), front, nic: self.nic, entered, is_inside })
    }

    /// Returns the number of this NIC.
    fn place(&self) -> usize {
        if self.inside.is_some() { self.ensemble.core.links.len() + self.nic } else { self.nic }
    }

    /// Returns the ports at the link, whose source has frames while this balancer carries it.
    fn outside(&self, side: &Side, site: &ServiceContext<'_>) -> Result<Ports> {
        let (core, nic) = (side.core.clone(), side.nic);
        let heard = move |queues: Queues, [out, said]: [&Arc<dyn Sink>; 2]| -> Result<Queues> {
            let link = core.links.get(nic).context("a NIC that its group does not have")?;
            let hear = |source| -> Box<dyn Source> {
                Box::new(FromNetwork { source, out: out.clone(), core: core.clone(), nic })
            };
            Ok(sorted(link, queues, said)?.into_iter().map(hear).collect())
        };
        let open = side.front.begin(site, heard)?;
        let queues = open.shelf.reader(self.machine.number).context("cannot make an event descriptor")?;
        let sources = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Source>).collect();
        Ok(Ports { sources, sinks: open.sinks, ..Ports::default() })
    }

    /// Returns the ports at the interconnection.
    fn inside(
        &self,
        side: &Side,
        (at, station): (&Arc<dyn Attachment>, Mac),
        site: &ServiceContext<'_>,
    ) -> Result<Ports> {
        let ports = at.ports(site)?;
        let sink = ports.sinks.first().context("an interconnection that takes nothing")?;
        side.front.plug_inside(self.machine.number, sink, station);
        let heard = |source| Box::new(FromMembers { source, side: side.clone() }) as Box<dyn Source>;
        Ok(Ports { sources: ports.sources.into_iter().map(heard).collect(), ..ports })
    }
}

impl Attachment for MachineSeat {
    fn ports(&self, site: &ServiceContext<'_>) -> Result<Ports> {
        let side = self.side()?;
        let (inlet, orders) = ingress(INLET).context("cannot make an ingress queue")?;
        // Steps that may fail come before a port of a switch is made, which would have to be removed again.
        let mut ports = match &self.inside {
            Some((at, station)) => self.inside(&side, (at, *station), site)?,
            None => self.outside(&side, site)?,
        };
        ports.sources.push(Box::new(orders));
        let out = |sink| Arc::new(FromMachine { sink, side: side.clone() }) as Arc<dyn Sink>;
        ports.sinks = ports.sinks.into_iter().map(out).collect();
        self.machine.open(self.place(), (inlet, None));
        Ok(ports)
    }

    fn link(&self) -> Option<bool> {
        match &self.inside {
            Some((at, _)) => at.link(),
            None => self.ensemble.core.links.get(self.nic)?.way.link(),
        }
    }

    fn news(&self) -> Option<News> {
        self.inside.as_ref()?.0.news()
    }

    fn replace(&self, by: HandedOver) -> Result<()> {
        match &self.inside {
            Some((at, _)) => at.replace(by),
            None => bail!("it is the link of a group, and replaced there"),
        }
    }

    /// Describes the state of the balancer, with the number of links that it carries.
    fn state(&self) -> Option<(&'static str, String)> {
        Some(("member", self.ensemble.core.state_of_machine(self.machine.number)?))
    }
}

/// Shows the frames of a source that pass a filter.
pub(super) fn show_some(
    source: &mut dyn Source,
    (budget, is_plain): (usize, impl Fn(&Frame<'_>) -> bool),
    goes_on: impl Fn(&Frame<'_>) -> bool,
    take: &mut dyn FnMut(&[Frame<'_>]),
) -> usize {
    source.drain(budget, &mut |frames| {
        if frames.iter().all(&is_plain) {
            return take(frames);
        }
        let mut left = Frames::new();
        for frame in frames.iter().filter(|frame| goes_on(frame)) {
            // A burst always fits.
            let _ = left.try_push(*frame);
        }
        if !left.is_empty() {
            take(&left);
        }
    })
}

/// Source of frames from the link, without ARP and neighbour discovery, which are handled for all members.
struct FromNetwork {
    source: Box<dyn Source>,
    /// Sink for replies.
    out: Arc<dyn Sink>,
    core: Arc<Core>,
    /// Number of the NIC.
    nic: usize,
}

impl SourceWrapper for FromNetwork {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Self { source, out, core, nic } = self;
        let goes_on = |frame: &Frame<'_>| match kind(frame) {
            Some(Kind::Arp) => !core.hears_for_machines(*nic, frame, &**out),
            Some(Kind::Discovery) => !core.hears_discovery(*nic, frame, &**out),
            None if is_order(frame) => {
                core.drops_forged(*nic);
                false
            }
            None => true,
        };
        let is_plain = |frame: &Frame<'_>| kind(frame).is_none() && !is_order(frame);
        show_some(&mut **source, (budget, is_plain), goes_on, take)
    }
}

/// Source of frames from the interconnection, without ARP and neighbour discovery; those of members served elsewhere are handled here.
struct FromMembers {
    source: Box<dyn Source>,
    side: Side,
}

impl SourceWrapper for FromMembers {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Self { source, side } = self;
        let Side { core, machine, front, nic, .. } = side;
        let is_before_others = core.machines.as_ref().is_some_and(Machines::is_before_others);
        let mut seen = |frames: &[Frame<'_>]| {
            if is_before_others {
                core.notes_behind(*nic, frames);
            }
            take(frames);
        };
        let goes_on = |frame: &Frame<'_>| {
            // Broadcasts reach all balancers; the carrier handles them.
            let listens = || front.is_carrier(machine.number);
            match kind(frame) {
                Some(Kind::Arp) if listens() => core.hears_behind(*nic, frame),
                Some(Kind::Arp) => core.ignores_arp(*nic),
                Some(Kind::Discovery) if listens() => core.hears_discovery_behind(*nic, frame),
                Some(Kind::Discovery) => core.ignores_discovery(*nic),
                None if is_order(frame) => core.drops_forged(*nic),
                None => return true,
            }
            false
        };
        let is_plain = |frame: &Frame<'_>| kind(frame).is_none() && !is_order(frame);
        show_some(&mut **source, (budget, is_plain), goes_on, &mut seen)
    }
}

/// Sink of frames that leave a balancer, without orders and without probes that leave the group.
struct FromMachine {
    sink: Arc<dyn Sink>,
    side: Side,
}

impl SinkWrapper for FromMachine {
    fn inner(&self) -> &dyn Sink {
        &*self.sink
    }

    #[inline]
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        let side = &self.side;
        if !side.is_inside && !side.front.lets_out(side.machine.number) {
            return self.drop_all(frames);
        }
        if frames.iter().any(|frame| is_taken_out(frame, side.is_inside)) {
            return self.deliver_some(frames);
        }
        side.passed(frames.len());
        self.sink.deliver(frames)
    }
}

impl Side {
    /// Counts frames that have passed the balancer to this side.
    #[inline]
    fn passed(&self, frames: usize) {
        self.machine.has_passed(self.entered, frames);
        if !self.is_inside && frames > 0 {
            self.front.hear();
        }
    }
}

impl FromMachine {
    #[cold]
    fn deliver_some(&self, frames: &[Frame<'_>]) -> usize {
        let takes_out = |frame: &Frame<'_>| self.takes_out(frame);
        deliver_left(&*self.sink, frames, takes_out, |left| self.side.passed(left.len()))
    }

    /// Drops frames that would leave by a link that another balancer carries, except orders, which are handled.
    #[cold]
    fn drop_all(&self, frames: &[Frame<'_>]) -> usize {
        let orders = frames.iter().filter(|frame| is_order(frame));
        orders.clone().for_each(|frame| self.hear(frame));
        let (orders, counters) = (orders.count(), self.side.core.links.get(self.side.nic));
        let lost = (frames.len() - orders) as u64;
        counters.into_iter().for_each(|link| link.counters.drop_not_carrier.add_shared(lost));
        frames.len()
    }

    /// Takes out a frame that is for us; returns true if it was.
    fn takes_out(&self, frame: &Frame<'_>) -> bool {
        let side = &self.side;
        if is_order(frame) {
            self.hear(frame);
            return true;
        }
        let is_probe = !side.is_inside && is_back(frame);
        if is_probe {
            side.core.note_probe(side.nic, None, frame);
        }
        is_probe
    }

    fn hear(&self, frame: &Frame<'_>) {
        let side = &self.side;
        let mut octets = [0; LONGEST];
        let len = frame.octets().copy_to_slice(&mut octets);
        side.core.hears_order(&side.machine, (side.nic, side.entered), &octets[..len]);
    }
}

#[inline(always)]
fn is_order(frame: &Frame<'_>) -> bool {
    frame.octets().read::<2>(12) == Some(ETHERTYPE.to_be_bytes()) && frame.octets().read::<6>(0) == Some(TO.0)
}

/// Returns true if a frame that leaves a balancer, inwards or outwards, is for us.
#[inline(always)]
fn is_taken_out(frame: &Frame<'_>, is_inwards: bool) -> bool {
    is_order(frame) || !is_inwards && is_back(frame)
}

#[cfg(test)]
mod conformance_tests;
