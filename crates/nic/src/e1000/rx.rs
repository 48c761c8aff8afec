//! Data path of the receive ring: copies each frame once, into the buffers that the driver posted (82540EM manual,
//! "Packet Reception").
//!
//! A burst takes three passes: *plan* finds buffers for each frame that passes the filters, *copy* fills them, *commit*
//! writes the descriptors back and publishes once. [`RxQueue::fill`] does all three. If several threads deliver to one
//! ring, `plan` and `commit` run under the caller's lock and `copy` without it, on a [`Lease`] owned by each thread.
//! This device's ring is ordered: frames of one thread become visible only when all earlier leases are committed, so a
//! thread that is preempted in the middle of a copy delays the other threads' frames. It never blocks these threads.

mod accept;
mod checksum;
mod lease;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use ledger::NicDirection;
use port::{Frame, Offloads};
use ring::e1000::{Broken, Csb, DeviceRing, HeadTail, LayoutError, rx};
use ring::{BURST, Region};

use super::{Destination, RxSettings, RxSetup, Statistics, cause};
use crate::queue::Filled;
use accept::{FastPathFilter, Verdict, verdict};
pub use lease::Lease;
use lease::{BUFFERS, Drop, GeneralFrame, UnchangedFrame};

/// Maximum number of concurrent leases of one ring. A request for another one finds no room.
const LEASES: usize = 16;

/// Write-back word, without length, of a frame in one buffer for which no checksum or tag is reported.
const PLAIN: u64 = ((rx::DD | rx::EOP | rx::IXSM) as u64) << 32;
/// Write-back word, without length, of a descriptor that is not the last of its frame.
const MORE: u64 = (rx::DD as u64) << 32;

/// The device's data path of one receive ring.
#[derive(Debug)]
pub struct RxQueue {
    posted: Posted,
    /// Lease used by [`RxQueue::fill`].
    own: Lease,
}

/// The device's end of the ring with its settings: the part that threads share.
#[derive(Debug)]
struct Posted {
    ring: DeviceRing<Arc<HeadTail>>,
    settings: RxSettings,
    quick: FastPathFilter,
    statistics: Arc<Statistics>,
    /// Leases not yet released, in the order of their descriptors.
    outstanding: ArrayVec<Outstanding, LEASES>,
    /// True if fewer buffers are posted than the RCTL.RDMTS threshold, and the driver was notified.
    low: bool,
    /// True while the frames delivered come from the device's own transmit ring.
    own_frames: bool,
    /// Identifier of the ring, unique in the process.
    id: u64,
}

/// Descriptors reserved by one lease.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    first: u16,
    count: u16,
    committed: bool,
}

impl RxQueue {
    /// Creates the data path of a ring in this memory.
    pub fn new(region: Region, setup: &RxSetup) -> Result<Self, LayoutError> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let block = setup.block.map(|address| Csb::map(&region, address)).transpose()?;
        let ring = DeviceRing::receive(region, &setup.layout, setup.ends.clone(), block)?;
        let (settings, statistics) = (setup.settings.clone(), setup.statistics.clone());
        let posted = Posted {
            quick: FastPathFilter::new(&settings, ring.has_block()),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            outstanding: ArrayVec::new(),
            low: false,
            own_frames: false,
            ring,
            settings,
            statistics,
        };
        Ok(Self { posted, own: Lease::default() })
    }

    /// Changes the settings from the next burst on.
    pub fn change(&mut self, settings: RxSettings) {
        self.posted.quick = FastPathFilter::new(&settings, self.posted.ring.has_block());
        self.posted.settings = settings;
    }

    /// Copies frames (at most [`BURST`] of them) into posted buffers. Counts delivered and dropped frames in `ledger`.
    #[inline]
    pub fn fill(&mut self, frames: &[Frame<'_>], ledger: &NicDirection) -> Filled {
        let (filled, more) = self.fill_once(frames, ledger);
        if more { self.fill_on(filled, frames, ledger) } else { filled }
    }

    /// As [`Self::fill`], for frames of the device's own transmit ring, the only frames received in loopback mode.
    pub fn loop_back(&mut self, frames: &[Frame<'_>], ledger: &NicDirection) -> Filled {
        self.posted.own_frames = true;
        let filled = self.fill(frames, ledger);
        self.posted.own_frames = false;
        filled
    }

    /// Fills one lease; returns true as second value if it was too small for all frames.
    #[inline(always)]
    fn fill_once(&mut self, frames: &[Frame<'_>], ledger: &NicDirection) -> (Filled, bool) {
        let taken = self.posted.plan(frames, &mut self.own, ledger);
        self.own.copy(frames);
        let more = self.own.full;
        let causes = self.posted.commit(&mut self.own, ledger);
        (Filled { taken, causes }, more)
    }

    /// Continues with further leases if one was not enough, for frames that fill many buffers.
    #[cold]
    fn fill_on(&mut self, mut filled: Filled, frames: &[Frame<'_>], ledger: &NicDirection) -> Filled {
        let frames = &frames[..frames.len().min(BURST)];
        let mut more = true;
        while more {
            let next;
            (next, more) = self.fill_once(frames.get(filled.taken..).unwrap_or(&[]), ledger);
            filled = Filled { taken: filled.taken + next.taken, causes: filled.causes | next.causes };
        }
        filled
    }

    /// Returns how many buffers are posted (counts up to [`BURST`]); 0 on a broken ring.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.posted.ring.ready(BURST).unwrap_or(0)
    }

    /// Reserves buffers for as many of the first [`BURST`] frames as there is room for; returns how many frames were
    /// handled, including dropped ones. The lease must then be filled from the same slice and committed.
    #[inline]
    pub fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        self.posted.plan(frames, lease, ledger)
    }

    /// Returns the offloads that frames may leave to the driver: none. A descriptor can report that a checksum is
    /// correct, but not that it is still missing, and a driver that forwards such a frame would send it without one.
    pub const fn offloads(&self) -> Offloads {
        Offloads::NONE
    }

    /// Returns true if a lease was reserved from this ring, and not from one that a reset has since replaced.
    pub fn owns(&self, lease: &Lease) -> bool {
        lease.ring == self.posted.id
    }

    /// Commits the frames of a lease to the driver; returns interrupt causes ([`cause`]), 0 if the driver wants no
    /// interrupt. A lease of another ring (the device was reset in the meantime) is only cleared.
    #[inline]
    pub fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> u32 {
        self.posted.commit(lease, ledger)
    }

    /// Asks for a kick when buffers are posted; returns true if there are some already.
    pub fn arm(&mut self) -> bool {
        self.posted.ring.arm()
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        self.posted.ring.disarm();
    }

    /// Returns the reason why the ring stopped, if it did.
    pub fn broken(&self) -> Option<Broken> {
        self.posted.ring.broken()
    }
}

/// Outcome for a frame, or for all of them.
enum Step {
    /// Handled.
    Done,
    /// There are not enough buffers.
    NoRoom,
    /// The lease has too few places for its buffers.
    Full,
    /// A descriptor broke the ring.
    Broken,
}

impl Posted {
    #[inline(always)]
    fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        let frames = &frames[..frames.len().min(BURST)];
        lease.clear(self.id, self.ring.next());
        if self.outstanding.is_full() {
            return 0;
        }
        if self.ring.ready(frames.len()).is_err() {
            // The ring is broken: no buffer will ever be available for these frames.
            ledger.drop_bad_ring.add(frames.len() as u64);
            return frames.len();
        }
        // Four descriptors share a cache line: prefetches those of the next burst too, for reading and writing.
        self.ring.prefetch_write(frames.len(), frames.len());
        let (taken, step) = self.place(frames, lease);
        self.reserve(lease);
        match step {
            Step::Done => taken,
            Step::NoRoom => {
                lease.missed = (frames.len() - taken) as u64;
                taken
            }
            Step::Full => {
                lease.full = true;
                taken
            }
            Step::Broken => {
                self.ring.fail(Broken::Address);
                ledger.drop_bad_ring.add((frames.len() - taken) as u64);
                frames.len()
            }
        }
    }

    /// Finds buffers for frames; returns how many were handled, and the reason why not all were.
    #[inline(always)]
    fn place(&mut self, frames: &[Frame<'_>], lease: &mut Lease) -> (usize, Step) {
        let mut taken = 0;
        loop {
            taken += match (self.ring.has_block(), self.quick.takes_any()) {
                (true, true) => self.plan_quickly::<true, true>(frames, taken, lease),
                (true, false) => self.plan_quickly::<true, false>(frames, taken, lease),
                (false, _) => self.plan_quickly::<false, false>(frames, taken, lease),
            };
            let Some(frame) = frames.get(taken) else { return (taken, Step::Done) };
            match self.plan_one(taken, frame, lease) {
                Step::Done => taken += 1,
                step => return (taken, step),
            }
        }
    }

    /// Fast path: places frames from number `from` on until one needs a closer check; returns how many. Compiled for
    /// each kind of driver: whether it uses a status block, and whether destination addresses need no check.
    #[inline(always)]
    fn plan_quickly<const BLOCK: bool, const ANY: bool>(
        &self,
        frames: &[Frame<'_>],
        from: usize,
        lease: &mut Lease,
    ) -> usize {
        let (first, before, region) = (lease.descriptors, lease.plain.len(), *self.ring.region());
        let (quick, buffer_len) = (self.quick, self.settings.buffer_len);
        let rest = frames.get(from..).unwrap_or(&[]);
        let most = rest.len().min(BUFFERS - usize::from(first));
        let descriptors = self.ring.descriptors_from(first.into(), most);
        let (mut octets, tally) = (0, &mut lease.tally);
        lease.plain.extend(rest.iter().zip(descriptors).zip(0..).map_while(|((frame, descriptor), i)| {
            if !quick.takes::<ANY>(frame) {
                return None;
            }
            let buffer = region.bytes(descriptor.address, buffer_len)?;
            buffer.prefetch_write_of(frame.len());
            if !BLOCK {
                tally.frame(frame.len(), Destination::Unicast);
            }
            octets += frame.len() as u64;
            Some(UnchangedFrame {
                buffer,
                len: frame.len() as u32,
                frame: from as u8 + i,
                descriptor: first as u8 + i,
            })
        }));
        let n = lease.plain.len() - before;
        lease.descriptors += n as u16;
        lease.octets += octets;
        n
    }

    /// Slow path: places one frame of any kind.
    #[cold]
    fn plan_one(&mut self, number: usize, frame: &Frame<'_>, lease: &mut Lease) -> Step {
        if self.settings.loopback != self.own_frames {
            lease.drops.add(Drop::Filtered);
            return Step::Done;
        }
        let stored = match verdict(&self.settings, frame) {
            Verdict::Take(stored) => stored,
            Verdict::Drop(why) => {
                lease.drops.add(why);
                return Step::Done;
            }
        };
        let count = (stored.len as usize).div_ceil(self.settings.buffer_len.max(1) as usize);
        if count > BUFFERS || count >= usize::from(self.ring.entries()) {
            lease.drops.add(Drop::TooLong);
            return Step::Done;
        }
        let (descriptor, buffer) = (lease.descriptors as u8, lease.buffers.len() as u8);
        if let step @ (Step::NoRoom | Step::Full | Step::Broken) = self.buffers(stored.len, count, lease) {
            return step;
        }
        lease.octets += frame.len() as u64;
        if !self.ring.has_block() {
            lease.tally.frame(frame.len(), stored.destination);
        }
        lease.shaped.push(GeneralFrame {
            word: stored.received.rest(),
            len: stored.len,
            untagged: stored.untagged,
            frame: number as u8,
            descriptor,
            buffer,
            count: count as u8,
        });
        Step::Done
    }

    /// Adds `count` buffers to the lease, for `len` octets.
    #[cold]
    fn buffers(&mut self, len: u32, count: usize, lease: &mut Lease) -> Step {
        let (first, before) = (usize::from(lease.descriptors), lease.buffers.len());
        if first + count > BUFFERS {
            return Step::Full;
        }
        if self.ring.ready(first + count).unwrap_or(0) < first + count {
            return Step::NoRoom;
        }
        let mut left = len;
        for descriptor in self.ring.descriptors_from(first, count) {
            // The unused rest of the last buffer is not touched, so it may lie outside guest memory.
            let octets = left.min(self.settings.buffer_len);
            left -= octets;
            let Some(buffer) = self.ring.region().bytes(descriptor.address, octets) else {
                lease.buffers.truncate(before);
                return Step::Broken;
            };
            lease.buffers.push(buffer);
        }
        lease.descriptors += count as u16;
        Step::Done
    }

    /// Takes the lease's descriptors from the ring.
    #[inline(always)]
    fn reserve(&mut self, lease: &Lease) {
        let (first, count) = (lease.first, lease.descriptors);
        if count > 0 {
            self.ring.take(count.into());
            self.outstanding.push(Outstanding { first, count, committed: false });
        }
    }

    #[inline(always)]
    fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> u32 {
        if lease.ring != self.id {
            lease.take_tally(false);
            lease.clear(0, 0);
            return 0;
        }
        let words = lease.plain.iter().map(|plain| (plain.descriptor.into(), PLAIN | u64::from(plain.len)));
        self.ring.write_each_back(lease.first, words);
        for shaped in &lease.shaped {
            self.write_shaped_back(lease, shaped);
        }
        self.count(lease, ledger);
        let (first, frames, missed, any) = (lease.first, lease.frames(), lease.missed, lease.descriptors > 0);
        lease.clear(0, 0);
        if any {
            self.release(first);
        }
        self.causes(frames, missed, ledger)
    }

    /// Writes the descriptors of one frame back; the last one carries its status.
    #[cold]
    fn write_shaped_back(&mut self, lease: &Lease, shaped: &GeneralFrame) {
        let (mut left, mut n) = (shaped.len, usize::from(shaped.descriptor));
        for buffer in lease.buffers_of(shaped) {
            left -= buffer.len() as u32;
            let word = if left == 0 { shaped.word } else { MORE };
            self.ring.write_back(lease.first, n, word | buffer.len() as u64);
            n += 1;
        }
    }

    #[inline(always)]
    fn count(&self, lease: &mut Lease, ledger: &NicDirection) {
        if lease.drops.any() {
            lease.drops.count(ledger, &self.statistics);
        }
        let frames = lease.frames();
        if frames > 0 {
            ledger.frames.add(frames);
            ledger.bytes.add(lease.octets);
            ledger.batches.add(1);
            self.statistics.received.add(&lease.take_tally(self.ring.has_block()));
        }
    }

    /// Releases all descriptors up to the first lease that is not committed.
    #[inline(always)]
    fn release(&mut self, first: u16) {
        if let [only] = self.outstanding[..] {
            self.outstanding.clear();
            self.ring.release(only.count.into());
            return;
        }
        self.release_in_order(first);
    }

    #[cold]
    fn release_in_order(&mut self, first: u16) {
        if let Some(mine) = self.outstanding.iter_mut().find(|lease| lease.first == first) {
            mine.committed = true;
        }
        while let Some(&Outstanding { count, committed: true, .. }) = self.outstanding.first() {
            self.ring.release(count.into());
            self.outstanding.remove(0);
        }
    }

    /// Publishes; returns the causes to raise.
    #[inline(always)]
    fn causes(&mut self, frames: u64, missed: u64, ledger: &NicDirection) -> u32 {
        let came = if self.ring.publish() { cause::RXT0 } else { 0 };
        if missed > 0 {
            self.statistics.missed(missed);
        }
        let causes = if self.ring.has_block() { came } else { came | self.shortage(missed) };
        if frames > 0 {
            let counter = if causes != 0 { &ledger.interrupts } else { &ledger.interrupts_suppressed };
            counter.add(1);
        }
        causes
    }

    /// Returns the causes that report missing buffers to a driver without block.
    fn shortage(&mut self, missed: u64) -> u32 {
        let lost = if missed > 0 { cause::RXO } else { 0 };
        let few = if self.falls_low() { cause::RXDMT0 } else { 0 };
        lost | few
    }

    /// Returns true when the number of posted buffers falls to the threshold of RCTL.RDMTS.
    #[inline(always)]
    fn falls_low(&mut self) -> bool {
        let threshold = usize::from(self.ring.entries()) / self.settings.threshold.max(1) as usize;
        let low = self.ring.ready(threshold + 1).is_ok_and(|posted| posted <= threshold);
        low & !std::mem::replace(&mut self.low, low)
    }
}

#[cfg(test)]
mod tests;
