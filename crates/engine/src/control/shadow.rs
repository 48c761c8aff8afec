//! Shadow of a NIC: a TAP in the namespace of its router's control plane. What is for the control plane goes there, and what
//! comes from there leaves by the NIC.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use attach::Outside;
use config::six::Six;
use config::{Address, Mac, Nic, Router};
use frame::ipv6;
use ledger::counters;
use port::{Frame, Sink, Source, SourceWrapper};
use punt::PuntCounters;
use uplink::{ReadCounters, Tap, TapSink, TapSource};

use super::sorting::{IsUnplugged, PuntGate, PuntSource, Punter};
use super::{Learned, Names, SortedCounters};
use crate::supplies::HostServices;
use crate::wiring::Outlet;

/// Passes of an I/O thread for each look at a shadow: a look is a system call, and the control plane sends little.
const LOOK_EVERY: u32 = 16;

counters! {
    /// Frames of a control plane beside those that its shadow counts.
    pub struct ShadowCounters {
        /// Frames lost because the cable of the NIC is unplugged.
        drop_unplugged,
    }
}

/// The shadow of a NIC, or of a NIC of a group. It outlives the restarts of its router.
pub(crate) struct Shadow {
    tap: Tap,
    learned: Arc<Learned>,
}

/// A shadow during one start of its router.
pub(crate) struct OpenShadow {
    source: TapSource,
    entry: ShadowEntry,
}

/// The way from a NIC to its control plane.
pub(crate) struct ShadowEntry {
    sink: Arc<TapSink>,
    learned: Arc<Learned>,
    own: Arc<Vec<IpAddr>>,
    mac: [u8; 6],
    /// Number of the NIC if it takes frames for virtual routers.
    virtual_nic: Option<u8>,
    is_unplugged: IsUnplugged,
}

impl Shadow {
    /// Finds the shadow of a NIC: one that is served already, or one that was supplied; `None`: it has none here, because its router
    /// has no control plane, or frames are sorted out elsewhere: at the links of its group, or in another process.
    ///
    /// # Errors
    /// There is none, or something else was supplied.
    pub(crate) fn find(
        (router, nic): (&Router, &Nic),
        supplies: &mut HostServices,
        held: &[Arc<Outlet>],
    ) -> Result<Option<Arc<Self>>> {
        let is_elsewhere = router.membership().is_some() || nic.attach.traits().is_handed;
        if router.control.is_none() || is_elsewhere {
            return Ok(None);
        }
        let label = router.wanted(nic).label();
        let mut known = held.iter().filter(|outlet| outlet.is_of(&label));
        let held = known.find_map(|outlet| outlet.shadow.clone());
        Self::served(&label, &router.name, supplies, held).map(Some)
    }

    /// Returns the shadow of this NIC (`edge.wan`) that is held, or else the one that was supplied.
    ///
    /// # Errors
    /// There is none, or something else was supplied.
    pub(crate) fn served(
        label: &str,
        speaker: &str,
        supplies: &mut HostServices,
        held: Option<Arc<Self>>,
    ) -> Result<Arc<Self>> {
        let handed = supplies.shadows.remove(label);
        if let Some(held) = held {
            return Ok(held);
        }
        let handed = handed.with_context(|| format!("nobody has opened the shadow of NIC {label}"))?;
        let learned = supplies.learning.of(speaker);
        Ok(Arc::new(Self { tap: attach::tap(handed)?, learned }))
    }

    /// Opens it for one start of its router.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn open(&self, (plan, nic): (&Router, &Nic), is_unplugged: IsUnplugged) -> Result<OpenShadow> {
        let (source, sink) = self.tap.try_clone()?.split();
        let (own, learned) = (Arc::new(own_addresses(plan)), self.learned.clone());
        let number = plan.nics.iter().position(|known| known.name == nic.name);
        let number = number.filter(|_| !nic.attach.traits().shares_memory);
        let virtual_nic = number.and_then(|number| u8::try_from(number).ok());
        let entry = ShadowEntry { sink, learned, own, mac: nic.mac.0, virtual_nic, is_unplugged };
        Ok(OpenShadow { source, entry })
    }
}

impl OpenShadow {
    /// Sorts out the frames of the sources of its NIC, and counts them. `seen` wraps the shadow for frames that only the control
    /// plane gets.
    pub(crate) fn sort(
        &self,
        sources: Vec<Box<dyn Source>>,
        outside: Outside,
        seen: impl Fn(Arc<dyn Sink>) -> Arc<dyn Sink>,
    ) -> (Vec<Box<dyn Source>>, Outside) {
        let mut gates = Vec::new();
        let sort = |source| {
            let gate = Arc::<PuntGate>::default();
            gates.push(gate.clone());
            self.entry.sort(source, seen(self.entry.sink.clone()), gate)
        };
        let sources = sources.into_iter().map(sort).collect();
        (sources, self.counted(outside, gates))
    }

    /// Returns the addresses of virtual routers at its NIC, if that may have any.
    pub(crate) fn names(&self) -> Option<Arc<Names>> {
        let nic = self.entry.virtual_nic?;
        Some(Arc::new(Names::new(self.entry.learned.clone(), nic)))
    }

    fn counted(&self, outside: Outside, gates: Vec<Arc<PuntGate>>) -> Outside {
        let (read, written) = (self.source.counters(), self.entry.sink.counters());
        outside.counting_also(move |visit| {
            let (sorted, classes) = <(SortedCounters, PuntCounters)>::default();
            for gate in &gates {
                sorted.add_all(&gate.sorted);
                classes.add_all(&gate.classes);
            }
            visit("sorted", &sorted);
            visit("punt", &classes);
            visit("shadow.read", &*read);
            visit("shadow.write", &*written);
        })
    }

    /// Returns the source of the frames of the control plane, with what it counts: what is read, and what of it is lost.
    pub(crate) fn into_source(self) -> (ShadowSource, ShadowEntry) {
        let Self { source, entry } = self;
        let (counters, is_unplugged) = (Arc::default(), entry.is_unplugged.clone());
        (ShadowSource { source, is_unplugged, counters, passes: 0 }, entry)
    }
}

impl ShadowEntry {
    /// Sorts out the frames of a source. Those that only the control plane gets go to `seen`, which leads to the shadow.
    pub(crate) fn sort(
        &self,
        source: Box<dyn Source>,
        seen: Arc<dyn Sink>,
        gate: Arc<PuntGate>,
    ) -> Box<dyn Source> {
        let punter = Punter {
            mac: self.mac,
            virtual_nic: self.virtual_nic,
            is_unplugged: self.is_unplugged.clone(),
            own: self.own.clone(),
            learned: self.learned.clone(),
            shadow: seen,
            copies: self.sink.clone(),
        };
        Box::new(PuntSource::new(source, punter, gate))
    }

    /// The shadow, for frames of the NIC.
    pub(crate) fn sink(&self) -> Arc<TapSink> {
        self.sink.clone()
    }
}

/// Source of the frames of a control plane.
pub(crate) struct ShadowSource {
    source: TapSource,
    is_unplugged: IsUnplugged,
    counters: Arc<ShadowCounters>,
    passes: u32,
}

impl ShadowSource {
    /// What it has read.
    pub(crate) fn read(&self) -> Arc<ReadCounters> {
        self.source.counters()
    }

    /// Those of its frames that are lost.
    pub(crate) fn lost(&self) -> Arc<ShadowCounters> {
        self.counters.clone()
    }
}

impl SourceWrapper for ShadowSource {
    port::inner_source!(source: TapSource);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.passes = self.passes.wrapping_add(1);
        if !self.passes.is_multiple_of(LOOK_EVERY) {
            // The thread looks again before it sleeps.
            return 0;
        }
        if (self.is_unplugged)() {
            let lost = &self.counters.drop_unplugged;
            return self.source.drain(budget, &mut |frames| lost.add(frames.len() as u64));
        }
        self.source.drain(budget, take)
    }
}

/// Addresses that a router has by its file, in order, with the link-local ones that it derives.
fn own_addresses(plan: &Router) -> Vec<IpAddr> {
    let nics = plan.nics.iter().map(|nic| (&nic.addresses[..], &nic.six, nic.mac));
    let vlans = plan.forwarding.interfaces.iter();
    let vlans = vlans.filter_map(|own| Some((&own.addresses[..], &own.six, plan.nics.get(own.nic)?.mac)));
    let mut own: Vec<IpAddr> = nics.chain(vlans).flat_map(of_link).collect();
    own.sort_unstable();
    own
}

fn of_link((addresses, six, mac): (&[Address], &Six, Mac)) -> Vec<IpAddr> {
    let given = six.addresses.iter().any(|own| own.ip.is_unicast_link_local());
    let derives = !six.addresses.is_empty() && !given;
    let derived = derives.then(|| IpAddr::V6(ipv6::link_local(frame::Mac(mac.0)).into()));
    let four = addresses.iter().map(|own| IpAddr::V4(own.ip));
    four.chain(six.addresses.iter().map(|own| IpAddr::V6(own.ip))).chain(derived).collect()
}

#[cfg(test)]
mod conformance_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_has_the_addresses_of_its_file_and_derives_those_of_its_links() {
        let text = "[[router]]\nname = \"edge\"\n\
                    [[router.nic]]\nname = \"wan\"\nattach = \"null\"\nmac = \"02:00:00:00:00:01\"\n\
                    address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n\
                    [[router.nic]]\nname = \"lan\"\nattach = \"null\"\n\
                    address = [\"2001:db8:1::1/64\", \"fe80::9/64\"]\n";
        let plan = config::parse(text, "f.toml").expect("a good file");
        let own: Vec<String> = own_addresses(&plan.routers[0]).iter().map(ToString::to_string).collect();
        assert_eq!(own, ["192.0.2.1", "2001:db8::1", "2001:db8:1::1", "fe80::9", "fe80::ff:fe00:1"]);
    }
}
