//! The receive queue's data path: one copy of each frame into the buffers that the driver posted (virtio 1.2, section
//! 5.1.6.4).
//!
//! Three passes over a burst: *plan* finds room for each frame, *copy* fills it, *commit* returns the buffers and
//! publishes once. [`RxQueue::fill`] does all three. Where several threads deliver to one queue, `plan` and `commit`
//! run under the caller's lock and `copy` without it, on a [`Lease`] of each thread's own: a thread that is stopped
//! in the middle of a copy holds nobody up, because the others commit before it. (Not on an IN_ORDER queue, which
//! has one producer.)

use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use frame::offload::LARGEST;
use ledger::NicDirection;
use port::{Frame, Offload, Offloads};
use ring::split::{Broken, Burst, Chain, DeviceQueue, MAX_SEGMENTS};
use ring::{BURST, Bytes};

use super::tx::HEADER;

/// The header of a frame in one buffer (`struct virtio_net_hdr_v1`): no offloads, `num_buffers` = 1.
const ONE_BUFFER: [u8; HEADER] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// The header of a frame in so many buffers, for a driver that takes this.
#[cold]
fn header(offload: Offload, takes: Offloads, buffers: usize) -> [u8; HEADER] {
    // Without a checksum agreed on, nothing may be said of any (virtio 1.2, section 5.1.6.4.1). A driver takes less than
    // the frame was meant for only if it is another one since.
    let told = takes.has(Offloads::CSUM | offload.needed());
    let [a, b, c, d, e, f, g, h, i, j] = if told { offload } else { Offload::NONE }.to_virtio();
    let [low, high] = (buffers as u16).to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, low, high]
}

/// Descriptors (beside those of chains that are one buffer) after which no further lease is filled for the same frames: twice
/// the longest chain that is shown for each frame of a burst, because chains that did not suffice are looked at again.
const STEPS: usize = 2 * MAX_SEGMENTS * BURST;

/// Chains of one large frame, at first: it is not known yet what the driver posts.
const LARGE: usize = 44;

/// What one call of [`RxQueue::fill`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The first so many frames of the slice were dealt with: copied, or counted as too long. There was no buffer for
    /// the next one; it is not counted here, because its owner may keep it for later.
    pub taken: usize,
    /// Whether the driver wants an interrupt.
    pub interrupt: bool,
}

/// Where one frame goes: `count` chains of the lease's burst from number `first`.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Octets of the frame.
    len: u32,
    /// Its number in the slice.
    frame: u8,
    first: u8,
    count: u8,
}

/// Whether the chains at hand hold a frame.
enum Fit {
    /// So many of them do.
    In(usize),
    /// They would if there were more.
    NotYet,
    Never,
}

/// Buffers of one queue, reserved for certain frames by one thread. Reused for each burst.
#[derive(Debug, Default)]
pub struct Lease {
    burst: Burst,
    /// The lengths of the first frames, each of which goes into the only buffer of the chain of the same number: as a
    /// rule all.
    straight: ArrayVec<u32, BURST>,
    /// Where the others go.
    places: ArrayVec<Place, BURST>,
    too_long: u64,
    /// Large frames among them.
    large: u64,
    /// What the driver takes.
    takes: Offloads,
    /// Whether there may be buffers for more frames than it has places for.
    full: bool,
    /// Descriptors that were read for frames of which those that are left are to be planned again.
    steps: usize,
    /// The queue that it was reserved from.
    queue: u64,
}

impl Lease {
    #[inline(always)]
    fn clear(&mut self, queue: u64) {
        self.straight.clear();
        self.places.clear();
        self.too_long = 0;
        self.large = 0;
        self.full = false;
        self.queue = queue;
    }

    /// Whether it was too small for frames for which there may be buffers: plan again for those that were not dealt with.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Gives each frame its place, in at most `most` chains; returns how many frames were dealt with, and how many
    /// chains that took.
    #[inline(always)]
    fn assign(&mut self, frames: &[Frame<'_>], most: usize) -> (usize, usize) {
        let pairs = frames.iter().zip(self.burst.chains());
        self.straight.extend(pairs.map_while(|(frame, chain)| {
            (frame.len() + HEADER <= chain.only().len()).then_some(frame.len() as u32)
        }));
        let straight = self.straight.len();
        if straight == frames.len().min(self.burst.len()) {
            (straight, straight)
        } else {
            self.assign_rest(frames, most)
        }
    }

    /// Places the frames behind the straight ones.
    #[cold]
    fn assign_rest(&mut self, frames: &[Frame<'_>], most: usize) -> (usize, usize) {
        let mut first = self.straight.len();
        for (i, frame) in frames.iter().enumerate().skip(first) {
            match fit(&self.burst, first, frame.len() + HEADER, most) {
                Fit::In(count) => {
                    let (len, at) = (frame.len() as u32, first as u8);
                    self.places.push(Place { len, frame: i as u8, first: at, count: count as u8 });
                    self.large += u64::from(frame.offload().gso().is_some());
                    first += count;
                }
                Fit::NotYet => return (i, first),
                Fit::Never => self.too_long += 1,
            }
        }
        (frames.len(), first)
    }

    /// Copies the frames for which the lease was reserved: the same slice again.
    #[inline]
    pub fn copy(&self, frames: &[Frame<'_>]) {
        for (frame, (&len, chain)) in frames.iter().zip(self.straight.iter().zip(self.burst.chains())) {
            let buffer = chain.only();
            if frame.offload().is_none() {
                buffer.write(0, ONE_BUFFER);
            } else {
                buffer.write(0, header(frame.offload(), self.takes, 1));
            }
            frame.octets().take(len).copy_into(&buffer, HEADER);
        }
        for place in &self.places {
            if let Some(frame) = frames.get(usize::from(place.frame)) {
                scatter(self, place, *frame);
            }
        }
    }
}

/// A receive queue.
#[derive(Debug)]
pub struct RxQueue {
    posted: Posted,
    /// For [`RxQueue::fill`].
    own: Lease,
}

/// The shared end of a receive queue.
#[derive(Debug)]
struct Posted {
    queue: DeviceQueue,
    /// VIRTIO_NET_F_MRG_RXBUF: a frame may fill several chains.
    mergeable: bool,
    /// What the driver takes.
    takes: Offloads,
    /// Chains that a frame of the largest size fills, by the last one that came.
    chains_of_large: usize,
    /// No two queues of a process have the same.
    name: u64,
}

impl RxQueue {
    /// Takes over a queue; `mergeable` as negotiated.
    pub fn new(queue: DeviceQueue, mergeable: bool) -> Self {
        static NAMES: AtomicU64 = AtomicU64::new(1);
        let name = NAMES.fetch_add(1, Ordering::Relaxed);
        let (takes, chains_of_large) = (Offloads::NONE, if mergeable { LARGE } else { 1 });
        Self { posted: Posted { queue, mergeable, takes, chains_of_large, name }, own: Lease::default() }
    }

    /// A queue for a driver that takes frames that leave this to be done.
    #[must_use]
    pub fn with_offloads(mut self, takes: Offloads) -> Self {
        self.posted.takes = takes;
        self
    }

    /// From now on the driver takes only this.
    pub fn take_offloads(&mut self, takes: Offloads) {
        self.posted.takes = takes;
    }

    /// What frames may leave to the driver.
    pub fn offloads(&self) -> Offloads {
        self.posted.takes
    }

    /// Copies frames (at most [`BURST`] of them) into posted buffers. What is copied and what is too long is counted
    /// here, and so is the interrupt.
    #[inline]
    pub fn fill(&mut self, frames: &[Frame<'_>], ledger: &NicDirection) -> Filled {
        let frames = &frames[..frames.len().min(BURST)];
        let mut filled = Filled::default();
        loop {
            let rest = frames.get(filled.taken..).unwrap_or(&[]);
            filled.taken += self.posted.plan(rest, &mut self.own, ledger);
            self.own.copy(rest);
            let more = self.own.full;
            filled.interrupt |= self.posted.commit(&mut self.own, ledger);
            // As a rule one lease is enough; not for frames that fill many buffers each.
            if !more {
                return filled;
            }
        }
    }

    /// How many frames of the largest size find buffers: by what the last one filled.
    pub fn large_room(&mut self) -> usize {
        let chains = self.posted.chains_of_large.clamp(1, usize::from(self.posted.queue.size()).max(1));
        self.posted.queue.ready(BURST * chains).unwrap_or(0) / chains
    }

    /// How many buffers (at most [`BURST`] are looked for) are posted; 0 on a broken ring.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.posted.queue.ready(BURST).unwrap_or(0)
    }

    /// Reserves buffers for as many of the first [`BURST`] frames as there is room for; returns how many frames were
    /// dealt with, those included that are too long. The lease must then be filled from the same slice and committed.
    #[inline]
    pub fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        self.posted.plan(frames, lease, ledger)
    }

    /// Whether a lease was reserved from this queue, and not from one that a reset has taken away since.
    pub fn owns(&self, lease: &Lease) -> bool {
        lease.queue == self.posted.name
    }

    /// Returns the buffers of a lease to the driver; true if it wants an interrupt. A lease of another queue (the
    /// device was reset in the meantime) is only emptied.
    #[inline]
    pub fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> bool {
        self.posted.commit(lease, ledger)
    }

    /// Available index of the next chain: where somebody else can go on.
    pub fn index(&self) -> u16 {
        self.posted.queue.index()
    }

    /// Asks for a kick when buffers are posted; true if there are some already.
    pub fn arm(&mut self) -> bool {
        self.posted.queue.arm()
    }

    /// Asks for no kicks: we poll.
    pub fn disarm(&mut self) {
        self.posted.queue.disarm();
    }

    /// Why the ring stopped, if it did.
    pub fn broken(&self) -> Option<Broken> {
        self.posted.queue.broken()
    }
}

impl Posted {
    #[inline(always)]
    fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        let frames = &frames[..frames.len().min(BURST)];
        let steps = std::mem::take(&mut lease.steps);
        let mut taken = self.try_plan(frames, frames.len(), lease);
        if matches!(taken, Ok(taken) if taken < frames.len()) {
            taken = taken.and_then(|taken| self.plan_closely(frames, (taken, steps), lease));
        }
        taken.unwrap_or_else(|_| {
            // Nothing will ever take them.
            ledger.drop_bad_ring.add(frames.len() as u64);
            frames.len()
        })
    }

    /// Plans again where a chain for each frame was not enough, or there were not even so many.
    #[cold]
    fn plan_closely(
        &mut self,
        frames: &[Frame<'_>],
        (mut taken, mut steps): (usize, usize),
        lease: &mut Lease,
    ) -> Result<usize, Broken> {
        steps += lease.burst.steps();
        // A burst that was cut would be so again, at the same place.
        if self.mergeable && !lease.burst.is_cut() {
            self.queue.give_back(&mut lease.burst, 0);
            taken = self.try_plan(frames, BURST, lease)?;
            steps += lease.burst.steps();
        }
        // What is missing now may only be chains for which a lease has no place.
        let more = self.mergeable || lease.burst.is_cut();
        lease.full = more && 0 < taken && taken < frames.len() && steps < STEPS;
        lease.steps = if lease.full { steps } else { 0 };
        Ok(taken)
    }

    /// Plans with up to `wanted` chains.
    #[inline(always)]
    fn try_plan(&mut self, frames: &[Frame<'_>], wanted: usize, lease: &mut Lease) -> Result<usize, Broken> {
        lease.clear(self.name);
        lease.takes = self.takes;
        self.queue.prefetch_used(frames.len());
        self.queue.take_writable(wanted, &mut lease.burst)?;
        let most = if self.mergeable { BURST.min(usize::from(self.queue.size())) } else { 1 };
        let (taken, used) = lease.assign(frames, most);
        self.queue.give_back(&mut lease.burst, used);
        Ok(taken)
    }

    #[inline(always)]
    fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> bool {
        if lease.queue != self.name {
            lease.clear(0);
            return false;
        }
        let mut bytes = 0;
        let straight = lease.straight.iter().zip(lease.burst.chains());
        self.queue.complete_each(straight.map(|(&len, chain)| {
            bytes += u64::from(len);
            (chain, len + HEADER as u32)
        }));
        for place in &lease.places {
            bytes += u64::from(place.len);
            complete_several(&mut self.queue, &lease.burst, place);
        }
        if lease.large > 0 {
            self.count_large(lease, ledger);
        }
        let (frames, too_long) = ((lease.straight.len() + lease.places.len()) as u64, lease.too_long);
        lease.clear(0);
        if too_long > 0 {
            ledger.drop_too_long.add(too_long);
        }
        if frames == 0 {
            return false;
        }
        ledger.frames.add(frames);
        ledger.bytes.add(bytes);
        ledger.batches.add(1);
        let interrupt = self.queue.publish();
        let counter = if interrupt { &ledger.interrupts } else { &ledger.interrupts_suppressed };
        counter.add(1);
        interrupt
    }
}

impl Posted {
    /// Counts large frames, and takes note of how many chains one fills.
    #[cold]
    fn count_large(&mut self, lease: &Lease, ledger: &NicDirection) {
        ledger.left_segments.add(lease.large);
        let first = lease.places.first().and_then(|place| chains_of(&lease.burst, place).first());
        if let Some(chain) = first {
            self.chains_of_large = (LARGEST + HEADER).div_ceil(capacity(&lease.burst, chain).max(1));
        }
    }
}

/// Octets that one chain holds.
fn capacity(burst: &Burst, chain: &Chain) -> usize {
    burst.writable(chain).iter().map(Bytes::len).sum()
}

/// Whether `octets` fit into at most `most` chains from number `first` on.
#[cold]
fn fit(burst: &Burst, first: usize, octets: usize, most: usize) -> Fit {
    let chains = burst.chains().get(first..).unwrap_or(&[]);
    let mut sum = 0;
    for (i, chain) in chains.iter().take(most).enumerate() {
        sum += capacity(burst, chain);
        if sum >= octets {
            return Fit::In(i + 1);
        }
    }
    // No chain at all, or not yet as many as the frame may fill. There are never more where a burst ends that has no others.
    let all = first == 0 && burst.is_cut();
    if chains.len() < most && !all { Fit::NotYet } else { Fit::Never }
}

/// Writes header and frame over the buffers of several chains, or of a chain with several buffers.
#[cold]
fn scatter(lease: &Lease, place: &Place, frame: Frame<'_>) {
    let chains = chains_of(&lease.burst, place);
    let header = header(frame.offload(), lease.takes, chains.len());
    let mut header = &header[..];
    let mut frame = frame.octets().take(place.len);
    for segment in chains.iter().flat_map(|chain| lease.burst.writable(chain)) {
        let written = segment.copy_from_slice(header);
        header = &header[written..];
        let copied = frame.copy_to(&segment.skip(written as u32));
        frame = frame.skip(copied as u32);
    }
}

/// Returns the chains of one frame.
#[cold]
fn complete_several(queue: &mut DeviceQueue, burst: &Burst, place: &Place) {
    let mut left = place.len as usize + HEADER;
    for chain in chains_of(burst, place) {
        let written = capacity(burst, chain).min(left);
        left -= written;
        queue.complete(chain, written as u32);
    }
}

fn chains_of<'a>(burst: &'a Burst, place: &Place) -> &'a [Chain] {
    let first = usize::from(place.first);
    burst.chains().get(first..first + usize::from(place.count)).unwrap_or(&[])
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod offload_tests;
#[cfg(test)]
mod tests;
