//! Source that hands the frames for a router's control plane to its shadow, and shows the others.

use std::array;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use frame::ethernet;
use frame::vlan::Tags;
use ledger::counters;
use port::{Frame, Frames, Sink, Source, SourceWrapper, deliver};
use punt::{Addresses, Class, Gate, HEAD, Limits, Owner, PuntCounters, Verdict, verdict};

use super::Learned;

counters! {
    /// Frames that arrived at a NIC of a router with a control plane: the sum of those for the router, for the control plane, and
    /// for both.
    pub struct SortedCounters {
        /// Frames that arrived.
        frames,
        /// Frames for the router alone.
        for_router,
        /// Frames for the control plane alone.
        for_control,
        /// Frames for both: answers of neighbours.
        for_both,
        /// Frames for the Ethernet address of a virtual router (VRRP); they are among the others.
        for_virtual,
    }
}

/// The way to the control plane from sources that one thread reads: limits of the classes, and counters. The lock is taken for each
/// frame for the control plane, and nobody else holds it.
pub(crate) struct PuntGate {
    gate: Mutex<Gate>,
    /// From when on the gate has its time.
    since: Instant,
    pub(crate) sorted: SortedCounters,
    pub(crate) classes: PuntCounters,
}

impl Default for PuntGate {
    fn default() -> Self {
        let gate = Mutex::new(Gate::new(&Limits::default()));
        Self {
            gate,
            since: Instant::now(),
            sorted: SortedCounters::default(),
            classes: PuntCounters::default(),
        }
    }
}

/// Returns true while the cable of a NIC is unplugged.
pub(crate) type IsUnplugged = Arc<dyn Fn() -> bool + Send + Sync>;

/// Where frames of a NIC are sorted out, and where they go.
pub(crate) struct Punter {
    pub(crate) mac: [u8; 6],
    /// Number of the NIC if it takes frames for virtual routers: they are given its own address, so no other program may own them.
    pub(crate) virtual_nic: Option<u8>,
    /// Then nothing is sorted out: all frames are lost there.
    pub(crate) is_unplugged: IsUnplugged,
    /// Addresses of the router by its file, in order.
    pub(crate) own: Arc<Vec<IpAddr>>,
    pub(crate) learned: Arc<Learned>,
    /// The shadow, for frames that the router does not get.
    pub(crate) shadow: Arc<dyn Sink>,
    /// The shadow, for copies.
    pub(crate) copies: Arc<dyn Sink>,
}

/// See the module.
pub(crate) struct PuntSource {
    source: Box<dyn Source>,
    punter: Punter,
    known: Known,
    gate: Arc<PuntGate>,
}

/// Addresses, as last looked at.
struct Known {
    own: Arc<Vec<IpAddr>>,
    control: Arc<Vec<IpAddr>>,
    /// A bit for each last octet that one of them has: most frames are for others, and need not be compared with them.
    ends: [u64; 4],
    /// Ethernet addresses of virtual routers.
    macs: Vec<[u8; 6]>,
    version: u32,
}

impl Addresses for Known {
    #[inline]
    fn owner(&self, ip: IpAddr) -> Option<Owner> {
        let (word, bit) = end(ip);
        if self.ends[word] & bit == 0 {
            return None;
        }
        if self.own.binary_search(&ip).is_ok() {
            return Some(Owner::Router);
        }
        self.control.binary_search(&ip).is_ok().then_some(Owner::Control)
    }
}

/// Returns the place of an address in [`Known::ends`].
#[inline]
fn end(ip: IpAddr) -> (usize, u64) {
    let last = match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    (usize::from(last >> 6), 1 << (last & 63))
}

impl Known {
    /// Looks for other addresses of the control plane.
    #[inline]
    fn follow(&mut self, punter: &Punter) {
        let version = punter.learned.version();
        if version != self.version {
            *self = Self::of(punter, version);
        }
    }

    #[cold]
    fn of(punter: &Punter, version: u32) -> Self {
        let Punter { own, learned, virtual_nic, .. } = punter;
        let macs = virtual_nic.map(|nic| learned.macs(nic)).unwrap_or_default();
        let control = learned.addresses();
        let mut ends = [0; 4];
        for ip in own.iter().chain(control.iter()) {
            let (word, bit) = end(*ip);
            ends[word] |= bit;
        }
        Self { own: own.clone(), control, ends, macs, version }
    }
}

impl PuntSource {
    /// Sorts out the frames of a source, which the thread reads that this gate is for.
    pub(crate) fn new(source: Box<dyn Source>, punter: Punter, gate: Arc<PuntGate>) -> Self {
        let known = Known::of(&punter, punter.learned.version());
        Self { source, punter, known, gate }
    }
}

/// A burst that is being sorted.
struct Sorting<'s> {
    punter: &'s Punter,
    known: &'s Known,
    gate: &'s PuntGate,
    /// Microseconds of the gate's time, once a frame needs them.
    now: Option<u64>,
}

impl Sorting<'_> {
    /// Hands over what is for the control plane, the most urgent class first, and shows the rest to `take`.
    fn sort(&mut self, frames: &[Frame<'_>], take: &mut dyn FnMut(&[Frame<'_>])) {
        let mut router = Frames::new();
        // A bit for each frame of the router that is for a virtual one.
        let mut virtuals = 0_u64;
        let mut control: [Frames<'_>; Class::ALL.len()] = array::from_fn(|_| Frames::new());
        let mut counts = [0; 3];
        for frame in frames {
            let mut head = [0; HEAD];
            let len = frame.octets().copy_to_slice(&mut head);
            let head = head.get(..len).unwrap_or_default();
            let mac = self.own_mac(head);
            let verdict = verdict(head, mac, self.known);
            counts[verdict as usize] += 1;
            if verdict == Verdict::Both && mac != self.punter.mac && is_arp(head) {
                // The answer to a question in which a virtual address was the sender's: the kernel has asked by the NIC's interface.
                frame.octets().write(0, self.punter.mac);
            }
            if verdict != Verdict::Control {
                virtuals |= u64::from(mac != self.punter.mac) << router.len();
                router.push(*frame);
            }
            match (verdict, if verdict == Verdict::Router { None } else { self.pass(head) }) {
                (Verdict::Control, Some(class)) => control[class as usize].push(*frame),
                (Verdict::Both, Some(_)) => {
                    deliver(&*self.punter.copies, &[*frame]);
                }
                _ => {}
            }
        }
        self.count(counts);
        for batch in control.iter().filter(|batch| !batch.is_empty()) {
            deliver(&*self.punter.shadow, batch);
        }
        if virtuals != 0 {
            self.readdress(&router, virtuals);
        }
        if !router.is_empty() {
            take(&router);
        }
    }

    /// Returns the Ethernet address by which a frame may be for the router: that of the NIC, unless it is for a virtual router.
    #[inline]
    fn own_mac(&self, head: &[u8]) -> [u8; 6] {
        if self.known.macs.is_empty() {
            return self.punter.mac;
        }
        let to = head.first_chunk::<6>().filter(|to| self.known.macs.contains(*to));
        to.copied().unwrap_or(self.punter.mac)
    }

    /// Gives those of these frames that have a bit the address of the NIC, for which the router forwards (RFC 5798, 6.4.3).
    #[cold]
    fn readdress(&self, frames: &[Frame<'_>], virtuals: u64) {
        let meant = frames.iter().enumerate().filter(|(at, _)| (virtuals >> at) & 1 != 0);
        let written = meant.filter(|(_, frame)| frame.octets().write(0, self.punter.mac)).count();
        self.gate.sorted.for_virtual.add(written as u64);
    }

    /// Returns the class of a frame for the control plane if its limit lets it pass.
    fn pass(&mut self, head: &[u8]) -> Option<Class> {
        let gate = self.gate;
        let now = *self.now.get_or_insert_with(|| gate.since.elapsed().as_micros() as u64);
        gate.gate.lock().unwrap_or_else(PoisonError::into_inner).pass(head, now, &gate.classes)
    }

    /// Counts the frames of a burst, whose numbers are in the order of the verdicts.
    fn count(&self, counts: [u64; 3]) {
        let sorted = &self.gate.sorted;
        sorted.frames.add(counts.iter().sum());
        for (verdict, counter) in [
            (Verdict::Router, &sorted.for_router),
            (Verdict::Control, &sorted.for_control),
            (Verdict::Both, &sorted.for_both),
        ] {
            counter.add(counts[verdict as usize]);
        }
    }
}

/// Returns true for a frame of ARP.
fn is_arp(head: &[u8]) -> bool {
    Tags::parse(head).is_ok_and(|tags| tags.ethertype == ethernet::ARP)
}

impl SourceWrapper for PuntSource {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        if (self.punter.is_unplugged)() {
            return self.source.drain(budget, take);
        }
        self.known.follow(&self.punter);
        let Self { source, punter, known, gate } = self;
        let mut sorting = Sorting { punter, known, gate, now: None };
        source.drain(budget, &mut |frames| sorting.sort(frames, take))
    }
}

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod tests;
