//! Data path of the receive queue: copies each frame once, into the buffers that the driver posted (virtio 1.2, section
//! 5.1.6.4).
//!
//! A burst takes three passes: *plan* finds buffers for each frame, *copy* fills them, *commit* returns the buffers and
//! publishes once. [`RxQueue::fill`] does all three. If several threads deliver to one queue, `plan` and `commit` run
//! under the caller's lock and `copy` without it, on a [`Lease`] owned by each thread: a thread that is preempted in
//! the middle of a copy delays no other thread, because the others commit before it. (Not on an IN_ORDER queue, which
//! has one producer.)

use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use frame::offload::LARGEST;
use ledger::NicDirection;
use port::{Frame, Offload, Offloads};
use ring::split::{Broken, Burst, Chain, DeviceQueue, MAX_SEGMENTS};
use ring::{BURST, Bytes};

use super::tx::HEADER;

/// Header of a frame in one buffer (`struct virtio_net_hdr_v1`): no offloads, `num_buffers` = 1.
const ONE_BUFFER: [u8; HEADER] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// Returns the header of a frame in `buffers` buffers, for a driver that accepts the offloads `takes`.
#[cold]
fn header(offload: Offload, takes: Offloads, buffers: usize) -> [u8; HEADER] {
    // Unless the checksum offload was negotiated, the header must not report anything about a checksum (virtio 1.2,
    // section 5.1.6.4.1).
    let told = takes.has(Offloads::CSUM | offload.needed());
    let [a, b, c, d, e, f, g, h, i, j] = if told { offload } else { Offload::NONE }.to_virtio();
    let [low, high] = (buffers as u16).to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, low, high]
}

/// Descriptors (other than those of single-buffer chains) after which no further lease is filled for the same frames:
/// twice the longest chain that is shown for each frame of a burst, because chains that did not suffice are read again.
const STEPS: usize = 2 * MAX_SEGMENTS * BURST;

/// Initial estimate of the chains that one large frame fills, before the driver's buffers are known.
const LARGE: usize = 44;

/// Result of one call of [`RxQueue::fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Number of frames, from the first of the slice on, that were handled: copied, or counted as too long. There was
    /// no buffer for the next one; it is not counted here, because its owner may keep it for later.
    pub taken: usize,
    /// True if the driver wants an interrupt.
    pub interrupt: bool,
}

/// Place of one frame: `count` chains of the lease's burst from number `first`.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Length of the frame in octets.
    len: u32,
    /// Index of the frame in the slice.
    frame: u8,
    first: u8,
    count: u8,
}

/// Result of fitting a frame into the available chains.
enum Fit {
    /// The frame fits into this many of them.
    In(usize),
    /// The frame would fit if there were more.
    NotYet,
    Never,
}

/// Buffers of one queue, reserved for certain frames by one thread. Reused for each burst.
#[derive(Debug, Default)]
pub struct Lease {
    burst: Burst,
    /// Lengths of the leading frames that each fit into the only buffer of the chain of the same number: usually all
    /// frames.
    single_buffer: ArrayVec<u32, BURST>,
    /// Places of the other frames.
    places: ArrayVec<Place, BURST>,
    too_long: u64,
    /// Number of frames whose offloads the driver does not accept. Their sender knew what it had accepted before:
    /// another driver has started since, or the driver accepts less now.
    not_accepted: u64,
    /// Number of large frames (GSO) among them.
    large: u64,
    /// Offloads that the driver accepts.
    takes: Offloads,
    /// True if there may be buffers for more frames than the lease has places for.
    full: bool,
    /// Descriptors already read for frames whose remainder must be planned again.
    steps: usize,
    /// Identifier of the queue that the lease was reserved from.
    queue: u64,
}

impl Lease {
    #[inline(always)]
    fn clear(&mut self, queue: u64) {
        self.single_buffer.clear();
        self.places.clear();
        self.too_long = 0;
        self.not_accepted = 0;
        self.large = 0;
        self.full = false;
        self.queue = queue;
    }

    /// Returns true if the lease was too small for frames for which there may be buffers: plan again for the frames
    /// that were not handled.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Assigns a place to each frame, in at most `most` chains; returns how many frames were handled, and how many
    /// chains that took.
    #[inline(always)]
    fn assign(&mut self, frames: &[Frame<'_>], most: usize) -> (usize, usize) {
        let (pairs, mut left) = (frames.iter().zip(self.burst.chains()), Offload::NONE);
        self.single_buffer.extend(pairs.map_while(|(frame, chain)| {
            // Offloads are compared once a burst; a frame only adds its own.
            left = left.with(frame.offload());
            (frame.len() + HEADER <= chain.only().len()).then_some(frame.len() as u32)
        }));
        if !self.takes.has(left.needed()) {
            self.keep_accepted(frames);
        }
        let single_buffer = self.single_buffer.len();
        if single_buffer == frames.len().min(self.burst.len()) {
            (single_buffer, single_buffer)
        } else {
            self.assign_rest(frames, most)
        }
    }

    /// Keeps only those of the leading frames that precede the first one whose offloads the driver does not accept.
    #[cold]
    #[inline(never)]
    fn keep_accepted(&mut self, frames: &[Frame<'_>]) {
        let takes = self.takes;
        let accepted = frames.iter().take_while(|frame| takes.has(frame.offload().needed())).count();
        self.single_buffer.truncate(accepted);
    }

    /// Assigns places to the frames after the straight ones.
    #[cold]
    fn assign_rest(&mut self, frames: &[Frame<'_>], most: usize) -> (usize, usize) {
        let mut first = self.single_buffer.len();
        for (i, frame) in frames.iter().enumerate().skip(first) {
            if !self.takes.has(frame.offload().needed()) {
                self.not_accepted += 1;
                continue;
            }
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

    /// Copies the frames for which the lease was reserved; `frames` must be the same slice.
    #[inline]
    pub fn copy(&self, frames: &[Frame<'_>]) {
        for (frame, (&len, chain)) in frames.iter().zip(self.single_buffer.iter().zip(self.burst.chains())) {
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

/// The device's data path of one receive queue.
#[derive(Debug)]
pub struct RxQueue {
    posted: Posted,
    /// Lease used by [`RxQueue::fill`].
    own: Lease,
}

/// The device's end of the queue with its settings: the part that threads share.
#[derive(Debug)]
struct Posted {
    queue: DeviceQueue,
    /// VIRTIO_NET_F_MRG_RXBUF: a frame may fill several chains.
    mergeable: bool,
    /// Offloads that the driver accepts.
    takes: Offloads,
    /// Number of chains that a frame of the largest size fills, estimated from the last large frame.
    chains_of_large: usize,
    /// Identifier of the queue, unique in the process.
    id: u64,
}

impl RxQueue {
    /// Creates the data path of a queue; `mergeable` as negotiated.
    pub fn new(queue: DeviceQueue, mergeable: bool) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let (takes, chains_of_large) = (Offloads::NONE, if mergeable { LARGE } else { 1 });
        Self { posted: Posted { queue, mergeable, takes, chains_of_large, id }, own: Lease::default() }
    }

    /// Sets the offloads that the driver accepts.
    #[must_use]
    pub fn with_offloads(mut self, takes: Offloads) -> Self {
        self.posted.takes = takes;
        self
    }

    /// Restricts the offloads that the driver accepts from now on.
    pub fn take_offloads(&mut self, takes: Offloads) {
        self.posted.takes = takes;
    }

    /// Returns the offloads that frames may leave to the driver.
    pub fn offloads(&self) -> Offloads {
        self.posted.takes
    }

    /// Copies frames (at most [`BURST`] of them) into posted buffers. Counts copied frames, frames that are too long,
    /// and the interrupt in `ledger`.
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
            // One lease is usually enough, except for frames that fill many buffers each.
            if !more {
                return filled;
            }
        }
    }

    /// Returns for how many frames of the largest size there are buffers, estimated from the last large frame.
    pub fn large_room(&mut self) -> usize {
        let chains = self.posted.chains_of_large.clamp(1, usize::from(self.posted.queue.size()).max(1));
        self.posted.queue.ready(BURST * chains).unwrap_or(0) / chains
    }

    /// Returns how many buffers are posted (counts up to [`BURST`]); 0 on a broken ring.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.posted.queue.ready(BURST).unwrap_or(0)
    }

    /// Reserves buffers for as many of the first [`BURST`] frames as there is room for; returns how many frames were
    /// handled, including those that are too long. The lease must then be filled from the same slice and committed.
    #[inline]
    pub fn plan(&mut self, frames: &[Frame<'_>], lease: &mut Lease, ledger: &NicDirection) -> usize {
        self.posted.plan(frames, lease, ledger)
    }

    /// Returns true if a lease was reserved from this queue, and not from one that a reset has since replaced.
    pub fn owns(&self, lease: &Lease) -> bool {
        lease.queue == self.posted.id
    }

    /// Returns the buffers of a lease to the driver; returns true if it wants an interrupt. A lease of another queue
    /// (the device was reset in the meantime) is only cleared.
    #[inline]
    pub fn commit(&mut self, lease: &mut Lease, ledger: &NicDirection) -> bool {
        self.posted.commit(lease, ledger)
    }

    /// Returns the available index of the next chain, at which another backend can continue.
    pub fn index(&self) -> u16 {
        self.posted.queue.index()
    }

    /// Asks for a kick when buffers are posted; returns true if there are some already.
    pub fn arm(&mut self) -> bool {
        self.posted.queue.arm()
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        self.posted.queue.disarm();
    }

    /// Returns the reason why the ring stopped, if it did.
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
            // The ring is broken: no buffer will ever be available for these frames.
            ledger.drop_bad_ring.add(frames.len() as u64);
            frames.len()
        })
    }

    /// Plans again if one chain for each frame was not enough, or there were fewer chains than frames.
    #[cold]
    fn plan_closely(
        &mut self,
        frames: &[Frame<'_>],
        (mut taken, mut steps): (usize, usize),
        lease: &mut Lease,
    ) -> Result<usize, Broken> {
        steps += lease.burst.steps();
        // A burst that was cut would be cut at the same place again.
        if self.mergeable && !lease.burst.is_cut() {
            self.queue.give_back(&mut lease.burst, 0);
            taken = self.try_plan(frames, BURST, lease)?;
            steps += lease.burst.steps();
        }
        // If frames are still left, it may be only because a lease has no place for more chains.
        let more = self.mergeable || lease.burst.is_cut();
        lease.full = more && 0 < taken && taken < frames.len() && steps < STEPS;
        lease.steps = if lease.full { steps } else { 0 };
        Ok(taken)
    }

    /// Plans with up to `wanted` chains.
    #[inline(always)]
    fn try_plan(&mut self, frames: &[Frame<'_>], wanted: usize, lease: &mut Lease) -> Result<usize, Broken> {
        lease.clear(self.id);
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
        if lease.queue != self.id {
            lease.clear(0);
            return false;
        }
        let mut bytes = 0;
        let single_buffer = lease.single_buffer.iter().zip(lease.burst.chains());
        self.queue.complete_each(single_buffer.map(|(&len, chain)| {
            bytes += u64::from(len);
            (chain, len + HEADER as u32)
        }));
        for place in &lease.places {
            bytes += u64::from(place.len);
            complete_several(&mut self.queue, &lease.burst, place);
        }
        let frames = (lease.single_buffer.len() + lease.places.len()) as u64;
        if lease.large | lease.too_long | lease.not_accepted != 0 {
            self.count_unusual(lease, ledger);
        }
        lease.clear(0);
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
    /// Counts frames that were dropped, and large ones.
    #[cold]
    fn count_unusual(&mut self, lease: &Lease, ledger: &NicDirection) {
        if lease.too_long > 0 {
            ledger.drop_too_long.add(lease.too_long);
        }
        if lease.not_accepted > 0 {
            // Threads that complete offloads write it too, without the lock.
            ledger.drop_bad_offload.add_shared(lease.not_accepted);
        }
        if lease.large > 0 {
            self.count_large(lease, ledger);
        }
    }

    /// Counts large frames, and updates the estimate of the chains that one fills.
    fn count_large(&mut self, lease: &Lease, ledger: &NicDirection) {
        ledger.left_segments.add(lease.large);
        let first = lease.places.first().and_then(|place| chains_of(&lease.burst, place).first());
        if let Some(chain) = first {
            self.chains_of_large = (LARGEST + HEADER).div_ceil(capacity(&lease.burst, chain).max(1));
        }
    }
}

/// Returns how many octets one chain holds.
fn capacity(burst: &Burst, chain: &Chain) -> usize {
    burst.writable(chain).iter().map(Bytes::len).sum()
}

/// Checks whether `octets` fit into at most `most` chains from number `first` on.
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
    // `NotYet` if there is no chain at all, or fewer than the frame may fill. If the burst was cut and has no other
    // chains, there will never be more.
    let all = first == 0 && burst.is_cut();
    if chains.len() < most && !all { Fit::NotYet } else { Fit::Never }
}

/// Writes header and frame into the buffers of several chains, or of one chain with several buffers.
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

/// Returns the chains of one frame to the driver.
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
