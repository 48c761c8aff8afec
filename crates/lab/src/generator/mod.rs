//! Source of test frames: UDP over IPv4 or IPv6, prebuilt and delivered without copying.
//!
//! The only write per frame is its sequence number (and, if there are too many flows for prebuilt frames, the few
//! octets in which flows differ). Flows alternate, so the n-th frame of a run is frame `n / flows` of flow
//! `n % flows`, and no table lookup is needed.

mod frames;
mod pace;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::{Result, ensure};
use frame::Mac;
use port::{Frame, Frames, Source};
use ring::{BURST, Bytes};

use crate::tag;
use frames::{Patch, Patch6, Patches, Slots};
pub use pace::{Clock, Monotonic, Pace};

ledger::counters! {
    /// Counters of a generator.
    pub struct GeneratorCounters {
        /// Frames delivered.
        frames,
        /// Octets of those frames, without FCS.
        bytes,
        /// Polls without a due frame.
        polls_empty,
        /// Frames of the offered rate that were skipped because the poller came too late for them.
        not_offered,
    }
}

/// Traffic to generate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Source address of the frames.
    pub source_mac: Mac,
    /// Destination address of the frames: the router's NIC.
    pub destination_mac: Mac,
    /// IPv4 source address, in host byte order.
    pub source: u32,
    /// IPv4 destinations, in host byte order; at least one. Flows are assigned to them round-robin, in an order
    /// given by `seed`.
    pub destinations: Vec<u32>,
    /// IPv6 source address, in host byte order.
    pub source6: u128,
    /// IPv6 destinations, in host byte order: if there are any, all frames are IPv6.
    pub destinations6: Vec<u128>,
    /// UDP destination port.
    pub destination_port: u16,
    /// Number of flows, raised to the number of destinations if that is larger. Each has its own source port or
    /// destination; of more than 60,000 to one destination some have the same port.
    pub flows: u32,
    /// Octets of each frame, without FCS: 60 to 9,014.
    pub frame: usize,
    /// Frames a second, evenly spaced; none: as many as the sink has room for.
    pub rate: Option<f64>,
    /// Seed that shuffles the destinations; 0: the given order.
    pub seed: u64,
}

impl Default for Settings {
    /// 64 octets, 100 flows, from 198.18.0.2 to 198.18.1.2 (RFC 2544's benchmark addresses; RFC 5180 has those of IPv6), flat
    /// out.
    fn default() -> Self {
        Self {
            source_mac: Mac([2, 0, 0, 0, 0, 0xaa]),
            destination_mac: Mac([2, 0, 0, 0, 1, 0]),
            source: 0xc612_0002,
            destinations: vec![0xc612_0102],
            source6: 0x2001_0002 << 96 | 2,
            destinations6: Vec::new(),
            destination_port: 2000,
            flows: 100,
            frame: 64,
            rate: None,
            seed: 0,
        }
    }
}

impl Settings {
    /// Number of flows that will be generated.
    pub fn flow_count(&self) -> u32 {
        let destinations = if self.is_six() { self.destinations6.len() } else { self.destinations.len() };
        self.flows.max(destinations as u32).max(1)
    }

    /// True if the frames are IPv6.
    pub fn is_six(&self) -> bool {
        !self.destinations6.is_empty()
    }

    /// Octets by which what is behind the IP header is later than in an IPv4 frame.
    fn shift(&self) -> usize {
        if self.is_six() { tag::LONGER } else { 0 }
    }

    fn check(&self) -> Result<()> {
        let shortest = if self.is_six() { tag::SHORTEST_SIX } else { tag::SHORTEST };
        let sizes = shortest..=tag::LONGEST;
        ensure!(sizes.contains(&self.frame), "frame must be {sizes:?} octets, not {}", self.frame);
        ensure!(!self.destinations.is_empty(), "the generator needs at least one destination");
        let most = self.destinations.len().max(self.destinations6.len());
        ensure!(most <= 1 << 24, "the generator takes at most 2^24 destinations");
        ensure!(self.flows <= 1 << 24, "the generator makes at most 2^24 flows, not {}", self.flows);
        if let Some(rate) = self.rate {
            ensure!(rate.is_finite() && rate > 0.0, "rate must be more than 0 frames a second, not {rate}");
        }
        Ok(())
    }
}

/// The generator.
#[derive(Debug)]
pub struct Generator<C = Monotonic> {
    slots: Slots,
    patches: Vec<Patch>,
    patches6: Vec<Patch6>,
    frame: usize,
    /// True if the frames are IPv6.
    is_six: bool,
    flows: u32,
    slot: usize,
    flow: u32,
    sequence: u32,
    pace: Option<Pace>,
    clock: C,
    counters: Arc<GeneratorCounters>,
}

impl Generator {
    /// Builds the frames. Fails if the settings are invalid.
    pub fn new(settings: &Settings) -> Result<Self> {
        Self::with_clock(settings, Monotonic::default())
    }
}

impl<C: Clock> Generator<C> {
    /// Builds the frames, and uses another clock.
    pub fn with_clock(settings: &Settings, clock: C) -> Result<Self> {
        settings.check()?;
        let flows = settings.flow_count();
        let mut settings = settings.clone();
        shuffle(&mut settings.destinations, settings.seed);
        shuffle(&mut settings.destinations6, settings.seed);
        let (slots, Patches { four, six }) = Slots::build(&settings, flows)?;
        Ok(Self {
            slots,
            patches: four,
            patches6: six,
            frame: settings.frame,
            is_six: settings.is_six(),
            flows,
            slot: 0,
            flow: 0,
            sequence: 0,
            pace: settings.rate.map(Pace::new),
            clock,
            counters: Arc::default(),
        })
    }

    /// Counters, which may be read at any time.
    pub fn counters(&self) -> Arc<GeneratorCounters> {
        Arc::clone(&self.counters)
    }

    /// Returns how many of `budget` frames may be sent now.
    fn allowed(&mut self, budget: usize) -> usize {
        let Some(pace) = &mut self.pace else {
            return budget;
        };
        let (due, given_up) = pace.due(self.clock.now_ns());
        self.counters.not_offered.add(given_up);
        budget.min(due as usize)
    }

    /// Numbers the next `n` frames, which are contiguous, and returns them.
    #[inline(always)]
    fn stamp<const SIX: bool>(&mut self, n: usize) -> Frames<'_> {
        let mut shown = Frames::new();
        let from = self.slot;
        self.slot = (from + n) % self.slots.count;
        for slot in self.slots.run(from, n) {
            let octets = &mut slot[..self.frame];
            if SIX {
                if let Some(patch) = self.patches6.get(self.flow as usize) {
                    patch.apply(octets, self.flow);
                }
            } else if let Some(patch) = self.patches.get(self.flow as usize) {
                patch.apply(octets, self.flow);
            }
            let at = tag::SEQUENCE + if SIX { tag::LONGER } else { 0 };
            octets[at..at + 4].copy_from_slice(&self.sequence.to_be_bytes());
            shown.push(Frame::new(Bytes::from_slice(octets)));
            self.flow += 1;
            if self.flow == self.flows {
                self.flow = 0;
                self.sequence = self.sequence.wrapping_add(1);
            }
        }
        shown
    }
}

impl<C: Clock> Source for Generator<C> {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let n = self.allowed(budget.min(BURST)).min(self.slots.count - self.slot);
        if n == 0 {
            self.counters.polls_empty.add(1);
            return 0;
        }
        // The offset of the sequence number is a constant of each family.
        if self.is_six {
            take(&self.stamp::<true>(n));
        } else {
            take(&self.stamp::<false>(n));
        }
        if let Some(pace) = &mut self.pace {
            pace.sent(n as u64);
        }
        self.counters.frames.add(n as u64);
        self.counters.bytes.add((n * self.frame) as u64);
        n
    }

    /// Flat out, frames wait until the sink has room; at an offered rate they do not.
    fn waits(&self) -> bool {
        self.pace.is_none()
    }

    fn arm(&mut self) -> bool {
        true
    }
}

/// Returns a generator's first frames as octets: as many as asked for.
///
/// # Errors
/// The settings are invalid.
pub fn first_frames(settings: &Settings, count: usize) -> Result<Vec<Vec<u8>>> {
    let (mut all, mut generator) = (Vec::new(), Generator::new(settings)?);
    while all.len() < count {
        let given = generator.drain(count - all.len(), &mut |frames| {
            for frame in frames {
                let mut octets = vec![0; frame.len()];
                frame.octets().copy_to_slice(&mut octets);
                all.push(octets);
            }
        });
        ensure!(given > 0, "the generator gives no frame");
    }
    Ok(all)
}

/// Fisher-Yates shuffle with a generator of Marsaglia's xorshift family.
fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut state = seed;
    if state == 0 {
        return;
    }
    for i in (1..list.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        list.swap(i, (state % (i as u64 + 1)) as usize);
    }
}
