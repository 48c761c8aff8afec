//! Data path of the transmit ring (82540EM manual, "Packet Transmission").
//!
//! ```text
//!   descriptors --> one buffer, nothing to insert ---------------------------------> shown in guest memory
//!              \--> assembly: gather, segment, checksums, tag, padding --> assembly buffer --> shown there
//! ```
//!
//! The port that receives a frame may accept it with its checksum still missing, and a TCP packet as one large frame.
//! Work that the port accepts ([`TxQueue::set_sink_offloads`]) is not done here.
//!
//! Guest memory is never written, except DD in descriptors that request a status report: a checksum is inserted into a
//! copy. Each descriptor is read once. A driver cannot make a call run long: a burst ends after [`BURST`] frames or
//! [`MOST_DESCRIPTORS`] descriptors, even in the middle of a packet.

mod assembly;
mod assembly_buffer;
mod checksum;
mod context;
mod gso_buffer;
mod segmentation;

use std::sync::Arc;

use arrayvec::ArrayVec;
use ledger::NicDirection;
use port::{Frame, Frames, Offload, Offloads};
use ring::e1000::{Broken, Csb, Descriptor, DeviceRing, HeadTail, LayoutError, tx};
use ring::{BURST, Bytes, Region};

use super::{BurstCounts, Destination, Statistics, TxSettings, TxSetup, cause};
use crate::queue::Drained;
use assembly::{Assembly, Consumed, FrameLocation, Kind, Output, PartialDescriptor};
use assembly_buffer::{PADDED, TAG};

/// Length of the shortest frame in octets: an Ethernet header.
pub const SHORTEST: usize = 14;
/// Maximum number of descriptors that one call consumes.
pub const MOST_DESCRIPTORS: usize = 4 * BURST;

/// The device's data path of one transmit ring.
#[derive(Debug)]
pub struct TxQueue {
    ring: DeviceRing<Arc<HeadTail>>,
    settings: TxSettings,
    statistics: Arc<Statistics>,
    assembly: Assembly,
    /// A descriptor that is only partly consumed.
    pending: Option<PartialDescriptor>,
    /// True if the broken ring was counted.
    reported: bool,
}

/// Descriptors that a burst has consumed.
#[derive(Debug)]
struct ConsumedDescriptors {
    /// Position of the first descriptor.
    first: u16,
    descriptors: usize,
    /// Descriptors whose status must be written back: index from the first one, and the word to write.
    reports: ArrayVec<(u16, u64), MOST_DESCRIPTORS>,
    /// True if one of the reports wants its interrupt without delay.
    at_once: bool,
}

impl ConsumedDescriptors {
    #[inline(always)]
    const fn from(first: u16) -> Self {
        Self { first, descriptors: 0, reports: ArrayVec::new_const(), at_once: false }
    }

    #[inline(always)]
    fn add(&mut self, descriptor: Descriptor) {
        if descriptor.command() & tx::RS != 0 {
            self.reports.push((self.descriptors as u16, descriptor.done()));
            self.at_once |= descriptor.command() & tx::IDE == 0;
        }
        self.descriptors += 1;
    }
}

impl TxQueue {
    /// Creates the data path of a ring in this memory.
    pub fn new(region: Region, setup: &TxSetup) -> Result<Self, LayoutError> {
        let block = setup.block.map(|address| Csb::map(&region, address)).transpose()?;
        let ring = DeviceRing::transmit(region, &setup.layout, setup.ends.clone(), block)?;
        let (settings, statistics) = (setup.settings, setup.statistics.clone());
        let assembly = Assembly::new(&settings);
        Ok(Self { ring, settings, statistics, assembly, pending: None, reported: false })
    }

    /// Changes the settings from now on, except the longest frame.
    pub fn change(&mut self, settings: TxSettings) {
        self.settings = TxSettings { longest: self.settings.longest, ..settings };
    }

    /// Sets the offloads that the next port accepts from now on: checksums, and TCP packets that are not segmented.
    pub fn set_sink_offloads(&mut self, takes: Offloads) {
        self.assembly.set_sink_offloads(takes);
    }

    /// Shows up to `budget` (at most [`BURST`]) frames to `take`, in order and in one call, then returns their
    /// descriptors to the driver. Shows none if none waits or the ring is broken. Counts frames and drops in `ledger`;
    /// returns the interrupt causes.
    #[inline]
    pub fn drain(
        &mut self,
        budget: usize,
        ledger: &NicDirection,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> Drained {
        let budget = budget.min(BURST);
        if self.pending.is_some() {
            return self.drain_any(budget, ledger, take);
        }
        match self.ring.ready(budget) {
            Ok(0) => {
                ledger.polls_empty.add(1);
                Drained::default()
            }
            Ok(waiting) if self.assembly.is_idle() => self.drain_whole(waiting, budget, ledger, take),
            Ok(_) => self.drain_any(budget, ledger, take),
            Err(_) => self.report(ledger),
        }
    }

    /// Shows the frames that can be sent from guest memory, up to the first descriptor of another kind.
    #[inline(always)]
    fn drain_whole(
        &mut self,
        waiting: usize,
        budget: usize,
        ledger: &NicDirection,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> Drained {
        let (region, settings) = (*self.ring.region(), self.settings);
        let (mut frames, mut bytes, mut done) =
            (Frames::new_const(), 0, ConsumedDescriptors::from(self.ring.next()));
        for descriptor in self.ring.descriptors(waiting.min(budget)) {
            let len = length(descriptor);
            if !is_whole(descriptor, len, &settings) {
                break;
            }
            let Some(octets) = region.bytes(descriptor.address, len as u32) else { break };
            octets.prefetch();
            bytes += len as u64;
            frames.push(Frame::new(octets));
            done.add(descriptor);
        }
        if frames.is_empty() {
            return self.drain_any(budget, ledger, take);
        }
        self.ring.take(frames.len());
        self.ring.prefetch(0, frames.len());
        let in_full = !self.ring.has_block();
        Counts { ledger, statistics: &self.statistics, in_full }.show(&frames, bytes, take);
        Drained { frames: frames.len(), causes: self.finish(&done, ledger) }
    }

    /// Shows a burst of packets of any kind.
    #[cold]
    #[inline(never)]
    fn drain_any(
        &mut self,
        budget: usize,
        ledger: &NicDirection,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> Drained {
        let first = self.pending.as_ref().map_or(self.ring.next(), |taken| taken.position);
        let (mut out, mut done) = (Output::new(budget), ConsumedDescriptors::from(first));
        self.assembly.begin_burst();
        while done.descriptors < MOST_DESCRIPTORS {
            let Some(mut taken) = self.pending.take().or_else(|| self.next()) else { break };
            match self.assembly.feed(&mut taken, &self.settings, &mut out) {
                Consumed::Wholly => done.add(taken.descriptor),
                Consumed::Partly => {
                    self.pending = Some(taken);
                    break;
                }
            }
        }
        let counts = Counts { ledger, statistics: &self.statistics, in_full: !self.ring.has_block() };
        counts.drops(&out);
        {
            let (frames, bytes) = frames(&out, self.assembly.octets());
            counts.left(&frames);
            counts.show(&frames, bytes, take);
        }
        if self.ring.broken().is_some() {
            self.report(ledger);
        }
        let frames = out.frames.len() + out.drops.all() as usize;
        Drained { frames, causes: self.finish(&done, ledger) }
    }

    /// Takes the next waiting descriptor with its buffer. A buffer outside guest memory breaks the ring.
    fn next(&mut self) -> Option<PartialDescriptor> {
        self.ring.ready(1).ok()?;
        let (position, descriptor) = (self.ring.next(), self.ring.descriptors(1).next()?);
        let octets = buffer(self.ring.region(), descriptor);
        self.ring.take(1);
        if octets.is_none() {
            self.ring.fail(Broken::Address);
        }
        Some(PartialDescriptor { position, descriptor, octets: octets? })
    }

    /// Returns the consumed descriptors of a burst to the driver; returns the interrupt causes.
    #[inline(always)]
    fn finish(&mut self, done: &ConsumedDescriptors, ledger: &NicDirection) -> u32 {
        for &(n, word) in &done.reports {
            self.ring.write_back(done.first, usize::from(n), word);
        }
        self.ring.release(done.descriptors);
        let wanted = self.ring.publish();
        let causes =
            if self.ring.has_block() { if wanted { cause::TXDW } else { 0 } } else { self.causes(done) };
        let counter = if causes != 0 { &ledger.interrupts } else { &ledger.interrupts_suppressed };
        counter.add(1);
        causes
    }

    /// Returns the causes for a driver without block: a status was written back, the ring is empty, or it is nearly
    /// empty.
    fn causes(&mut self, done: &ConsumedDescriptors) -> u32 {
        if done.descriptors == 0 {
            return 0;
        }
        let written_back = match (done.reports.is_empty(), done.at_once) {
            (true, _) => 0,
            (_, true) => cause::TXDW,
            (_, false) => cause::TXDW_DELAYED,
        };
        let low = usize::from(self.settings.low);
        let left = self.ring.ready(low + 1).unwrap_or(0) + usize::from(self.pending.is_some());
        let empty = if left == 0 { cause::TXQE } else { 0 };
        let few = if left <= low && left + done.descriptors > low { cause::TXD_LOW } else { 0 };
        written_back | empty | few
    }

    #[cold]
    fn report(&mut self, ledger: &NicDirection) -> Drained {
        if !self.reported {
            self.reported = true;
            ledger.drop_bad_ring.add(1);
        }
        Drained::default()
    }

    /// Returns true if frames wait; false on a broken ring.
    pub fn has_frames(&mut self) -> bool {
        self.pending.is_some() || self.ring.ready(1).is_ok_and(|waiting| waiting > 0)
    }

    /// Asks for a kick when the next frame arrives; returns true if one waits already.
    pub fn arm(&mut self) -> bool {
        self.ring.arm() || self.pending.is_some()
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        self.ring.disarm();
    }

    /// Returns the reason why the ring stopped, if it did.
    pub const fn broken(&self) -> Option<Broken> {
        self.ring.broken()
    }
}

/// Counters for sent frames.
struct Counts<'a> {
    ledger: &'a NicDirection,
    statistics: &'a Statistics,
    /// True if sizes and destinations are counted too.
    in_full: bool,
}

impl Counts<'_> {
    /// Counts the frames and shows them to `take`.
    #[inline(always)]
    fn show(&self, frames: &[Frame<'_>], bytes: u64, take: &mut dyn FnMut(&[Frame<'_>])) {
        if frames.is_empty() {
            return;
        }
        let mut tally = BurstCounts::default();
        if self.in_full {
            frames.iter().for_each(|frame| {
                let destination = Destination::of(frame.octets().read(0).unwrap_or_default());
                tally.cut(frame.len(), frame.offload(), destination);
            });
        } else {
            tally.frames(frames.len() as u64, bytes);
        }
        take(frames);
        self.statistics.sent.add(&tally);
        self.ledger.frames.add(frames.len() as u64);
        self.ledger.bytes.add(bytes);
        self.ledger.batches.add(1);
    }

    /// Counts the frames that carry pending offload metadata (checksum, GSO).
    fn left(&self, frames: &[Frame<'_>]) {
        let count =
            |wanted: fn(&Offload) -> bool| frames.iter().filter(|frame| wanted(&frame.offload())).count();
        self.ledger.left_checksum.add(count(|left| left.needs_csum()) as u64);
        self.ledger.left_segments.add(count(|left| left.gso().is_some()) as u64);
    }

    fn drops(&self, out: &Output) {
        self.ledger.drop_too_short.add(out.drops.short);
        self.ledger.drop_too_long.add(out.drops.long);
        self.ledger.drop_bad_offload.add(out.drops.offload);
        self.statistics.segmented(out.segmented);
        self.statistics.unsegmented(out.unsegmented);
    }
}

/// Returns the frames of a burst with their total length. Frames in the room follow one another; at most one is large.
fn frames<'a>(out: &Output, (mut room, mut large): (&'a mut [u8], &'a mut [u8])) -> (Frames<'a>, u64) {
    let (mut frames, mut bytes, mut at) = (Frames::new_const(), 0, 0);
    for shown in &out.frames {
        let mut left = Offload::NONE;
        let octets = match shown {
            FrameLocation::GuestMemory(octets) => *octets,
            FrameLocation::Large(start, offload) => {
                left = *offload;
                Bytes::from_slice(std::mem::take(&mut large).get_mut(*start..).unwrap_or_default())
            }
            FrameLocation::AssemblyBuffer(range, offload) => {
                left = *offload;
                let (_, rest) = room.split_at_mut(range.start - at);
                let (frame, rest) = rest.split_at_mut(range.len());
                (room, at) = (rest, range.end);
                Bytes::from_slice(frame)
            }
        };
        bytes += octets.len() as u64;
        frames.push(Frame::with_offload(octets, left));
    }
    (frames, bytes)
}

/// Returns the bits of a command at their place in a descriptor's second word.
const fn command(bits: u8) -> u64 {
    (bits as u64) << 24
}

/// Bits of a legacy descriptor that must all be 0, except EOP, for a frame that can be sent from guest memory.
const LEGACY: u64 = command(tx::EOP | tx::DEXT | tx::IC | tx::VLE);
/// Bits of a data descriptor that must all be 0, except EOP, DEXT and DTYP, for the same.
const DATA: u64 =
    command(tx::EOP | tx::DEXT | tx::TSE | tx::VLE) | 0xf << 20 | ((tx::IXSM | tx::TXSM) as u64) << 40;

/// Returns true if a descriptor with a buffer of `len` octets is a whole frame that can be sent from guest memory: in
/// one buffer, with nothing to insert, and of a length that neither needs padding nor is too long.
#[inline(always)]
fn is_whole(descriptor: Descriptor, len: usize, settings: &TxSettings) -> bool {
    let legacy = descriptor.rest & LEGACY == command(tx::EOP);
    let data = descriptor.rest & DATA == command(tx::EOP | tx::DEXT) | (tx::DATA as u64) << 20;
    let shortest = if settings.pad_short { PADDED } else { SHORTEST };
    (legacy | data) & (len.wrapping_sub(shortest) <= longest(settings).wrapping_sub(shortest))
}

/// Returns the length of the longest frame in octets: the MTU does not include a VLAN tag.
#[inline(always)]
const fn longest(settings: &TxSettings) -> usize {
    settings.longest + TAG
}

/// Returns the length of a descriptor's buffer in octets; 0 for the null address (manual, "Legacy Transmit Descriptor
/// Format").
#[inline(always)]
const fn length(descriptor: Descriptor) -> usize {
    let mask = if descriptor.command() & tx::DEXT == 0 { 0xffff } else { 0xf_ffff };
    if descriptor.address == 0 { 0 } else { (descriptor.rest & mask) as usize }
}

/// Returns a descriptor's buffer; empty if it has no data, `None` if it is not completely inside guest memory.
fn buffer(region: &Region, descriptor: Descriptor) -> Option<Bytes<'static>> {
    match (Kind::of(descriptor), length(descriptor)) {
        (Kind::Context | Kind::Reserved, _) | (_, 0) => Some(Bytes::EMPTY),
        (Kind::Legacy | Kind::Data, len) => region.bytes(descriptor.address, len as u32),
    }
}

#[cfg(test)]
mod tests;
