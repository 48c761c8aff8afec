//! Filters that keep ARP and neighbour discovery of an interconnection from members behind it. All members have the same addresses, so each
//! would take another member's claim of an address, or its duplicate address detection, for that of a foreign station. The group tells
//! members about neighbours by unicast frames.

use std::sync::Arc;

use attach::{Outside, Ports};
use port::{Frame, Sink, SinkWrapper, Source, SourceWrapper};

use super::kinds::{Kind, is_for_many, kind};
use super::machine_seat::show_some;
use super::seat::deliver_left;
use super::{Core, WithheldCounters};

/// Wraps the ports by which a NIC of a member that is served here reaches the interconnection.
pub(super) fn quiet(ports: Ports, core: &Arc<Core>, nic: usize) -> Ports {
    let quiet = |source| Box::new(FromOthers { source, core: core.clone(), nic }) as Box<dyn Source>;
    let (sources, urgent) = (ports.sources.into_iter().map(quiet).collect(), ports.urgent.map(quiet));
    Ports { sources, urgent, ..ports }
}

/// Source of frames from the interconnection without ARP and neighbour discovery; those for the member are delivered another way.
struct FromOthers {
    source: Box<dyn Source>,
    core: Arc<Core>,
    /// Number of the NIC.
    nic: usize,
}

impl SourceWrapper for FromOthers {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Self { source, core, nic } = self;
        let goes_on = |frame: &Frame<'_>| {
            match kind(frame) {
                Some(Kind::Arp) => core.ignores_arp(*nic),
                Some(Kind::Discovery) => core.ignores_discovery(*nic),
                None => return true,
            }
            false
        };
        let is_plain = |frame: &Frame<'_>| kind(frame).is_none();
        show_some(&mut **source, (budget, is_plain), goes_on, take)
    }
}

/// Sink towards a member that is not served here, at a port of the interconnection. It withholds ARP and neighbour discovery for more than
/// one station.
pub(crate) struct ToMember {
    sink: Arc<dyn Sink>,
    counters: Arc<WithheldCounters>,
}

impl ToMember {
    /// Places it before the sink towards a member; its counters are added to that port's.
    pub(crate) fn before(sink: Arc<dyn Sink>, outside: Outside) -> (Arc<dyn Sink>, Outside) {
        let counters = Arc::new(WithheldCounters::default());
        let counted = counters.clone();
        let outside = outside.counting_also(move |visit| visit("group", &*counted));
        (Arc::new(Self { sink, counters }), outside)
    }

    /// Returns true, and counts the frame, if it is withheld.
    fn withholds(&self, frame: &Frame<'_>) -> bool {
        let counter = match kind(frame).filter(|_| is_for_many(frame)) {
            Some(Kind::Arp) => &self.counters.arp_withheld,
            Some(Kind::Discovery) => &self.counters.nd_withheld,
            None => return false,
        };
        counter.add_shared(1);
        true
    }
}

impl SinkWrapper for ToMember {
    fn inner(&self) -> &dyn Sink {
        &*self.sink
    }

    #[inline]
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        if frames.iter().any(is_for_many) {
            return deliver_left(&*self.sink, frames, |frame| self.withholds(frame), |_| {});
        }
        self.sink.deliver(frames)
    }
}

#[cfg(test)]
mod tests;
