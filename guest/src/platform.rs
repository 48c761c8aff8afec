//! Platform of the router in this firmware: the NICs' queue pairs, the buffer pool and the time-stamp counter.

use core::sync::atomic::Ordering::{Acquire, Release};

use arrayvec::ArrayVec;
use bootinfo::{MAX_NICS, MOST_GIVEN, Question, VcpuShared};
use frame::Mac;
use frame::offload::Offloads;
use router::neighbours::{self, GivenList};
use router::{Burst, Ip, Neighbour, Platform};

use crate::boot::{self, OwnDesk};
use crate::buffer::{FrameBuffer, Pool};
use crate::halt;
use crate::nic::Nic;
use crate::virtio_net::QueuePair;

/// Number of free buffers below which sent ones are reclaimed: two bursts, or the lot in which a receive ring is
/// refilled. With a lower limit, a refill could wait forever for a whole lot while frames sent long ago still occupy the
/// transmit rings.
fn low(nics: &[Nic]) -> usize {
    let lot = nics.iter().map(|nic| nic.entries() / 2).max().unwrap_or(0) / SMALLEST_LOTS;
    lot.max(2 * ring::BURST)
}

const _: () = assert!(MOST_GIVEN == neighbours::MOST_GIVEN);

/// Divisor: the largest lot of a receive ring is this fraction of it.
const SMALLEST_LOTS: usize = 4;

/// One vCPU's NICs and buffers.
pub(crate) struct Firmware {
    nics: ArrayVec<Nic, MAX_NICS>,
    pool: Pool,
    /// See [`low`].
    low: usize,
    shared: &'static VcpuShared,
    /// For a member of a group.
    desk: Option<OwnDesk>,
    ticks_a_ms: u64,
    /// Ticks of the time-stamp counter in a microsecond, as a power of two.
    ticks_a_us: u32,
    /// True if a NIC is driven by interrupts.
    attentive: bool,
    /// True if another vCPU serves a NIC's interrupts.
    aided: bool,
    /// True if frames were received in this pass: frames sent now are sent in response to them.
    handling: bool,
}

impl Firmware {
    /// Creates a platform without NICs and buffers.
    pub(crate) fn new(shared: &'static VcpuShared, desk: Option<OwnDesk>, tsc_khz: u64) -> Self {
        Self {
            nics: ArrayVec::new_const(),
            pool: Pool::new(&mut []),
            low: 0,
            shared,
            desk,
            ticks_a_ms: tsc_khz.max(1),
            ticks_a_us: (tsc_khz / 1000).max(1).ilog2(),
            attentive: false,
            aided: false,
            handling: false,
        }
    }

    /// Adds the next NIC, of at most [`MAX_NICS`].
    pub(crate) fn add(&mut self, nic: Nic) {
        self.attentive |= nic.needs_attendance();
        self.aided |= nic.is_aided();
        self.nics.push(nic);
        self.low = low(&self.nics);
    }

    /// Takes the free buffers over; none is posted yet ([`Firmware::fill`]).
    pub(crate) fn stock(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// Total number of entries of all rings.
    pub(crate) fn entries(&self) -> usize {
        self.nics.iter().map(Nic::entries).sum()
    }

    /// Time since some origin, in approximate microseconds: units of half a microsecond to one, because a division would
    /// cost more than a pass.
    #[inline]
    pub(crate) fn microseconds(&self) -> u64 {
        halt::ticks() >> self.ticks_a_us
    }

    /// Ticks of the time-stamp counter in a millisecond.
    pub(crate) fn ticks_a_millisecond(&self) -> u64 {
        self.ticks_a_ms
    }

    /// Iterates over the queue pairs of NICs that are virtio-net devices.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &QueuePair> {
        self.nics.iter().filter_map(|nic| match nic {
            Nic::VirtioNet(pair) => Some(pair),
            _ => None,
        })
    }

    /// The counters shared with the host.
    pub(crate) fn shared(&self) -> &'static VcpuShared {
        self.shared
    }

    /// Tells the host which epoch of the routes this vCPU has adopted, or that it looks nothing up.
    pub(crate) fn tell_epoch(&self, epoch: u32) {
        self.shared.fib_epoch.0.store(epoch, Release);
        if let Some(word) = self.desk.and_then(|OwnDesk { desk, vcpu }| desk.epoch(vcpu)) {
            word.store(epoch, Release);
        }
    }

    /// Posts receive buffers on every NIC; called once, before the first frame can arrive.
    pub(crate) fn fill(&mut self) {
        for (nic, counters) in self.nics.iter_mut().zip(&self.shared.nics) {
            nic.fill(&mut self.pool, counters);
        }
    }

    /// Declares that no frames are to be received. To be called before [`Firmware::fill`].
    pub(crate) fn disable_receive(&mut self) {
        self.nics.iter_mut().for_each(Nic::disable_receive);
    }

    /// Keeps interrupts masked, once one has come, until there is nothing left to do.
    pub(crate) fn poll_while_busy(&mut self) {
        self.nics.iter_mut().for_each(Nic::poll_while_busy);
    }

    /// Serves pending interrupts; returns true if there was one. Called before each pass, and by a duty that works for a
    /// long time within one.
    #[inline(always)]
    pub(crate) fn attend(&mut self) -> bool {
        self.attentive && self.attend_all()
    }

    #[inline(never)]
    fn attend_all(&mut self) -> bool {
        self.handling = false;
        self.nics
            .iter_mut()
            .zip(&self.shared.nics)
            .fold(false, |served, (nic, counters)| nic.attend(&mut self.pool, counters) | served)
    }

    /// Number of interrupts of NIC `nic` served by this vCPU, if the driver serves them itself.
    pub(crate) fn interrupts(&self, nic: usize) -> u64 {
        self.nics.get(nic).map_or(0, Nic::interrupts)
    }

    /// Requests an interrupt from every NIC; returns true if a frame is already there.
    pub(crate) fn arm(&mut self) -> bool {
        if self.aided {
            halt::first_goes_to_sleep();
        }
        self.nics
            .iter_mut()
            .zip(&self.shared.nics)
            .fold(false, |ready, (nic, counters)| nic.arm(&mut self.pool, counters) | ready)
    }

    /// Suppresses interrupts.
    pub(crate) fn disarm(&mut self) {
        self.nics.iter_mut().for_each(Nic::disarm);
    }

    /// Offloads that frames sent by NIC `nic` may leave to it.
    pub(crate) fn sendable(&self, nic: usize) -> Offloads {
        self.nics.get(nic).map_or(Offloads::NONE, Nic::sendable)
    }

    /// Records that a sender waits for frames sent by NIC `nic`, for their room or for their buffers.
    pub(crate) fn await_sent(&mut self, nic: usize) {
        if let Some(place) = self.nics.get_mut(nic) {
            place.await_sent();
        }
    }

    /// Reclaims sent buffers from all NICs when the pool runs low, and continually while large frames pass, so that few
    /// buffers circulate and stay in the cache.
    #[inline(always)]
    fn keep_stocked(&mut self) {
        if self.pool.len() < self.low || self.pool.count_pass() {
            self.restock();
        }
    }

    #[inline(never)]
    fn restock(&mut self) {
        for nic in &mut self.nics {
            nic.reclaim(&mut self.pool);
        }
    }
}

impl Platform for Firmware {
    type Buffer = FrameBuffer;

    #[inline(always)]
    fn nics(&self) -> usize {
        self.nics.len()
    }

    #[inline(always)]
    fn receive(&mut self, nic: usize, burst: &mut Burst<FrameBuffer>) {
        self.keep_stocked();
        let Some(place) = self.nics.get_mut(nic) else { return };
        place.receive(burst, &mut self.pool, &self.shared.nics[nic]);
        self.handling |= !burst.is_empty();
    }

    #[inline(always)]
    fn transmit(&mut self, nic: usize, burst: &mut Burst<FrameBuffer>) {
        match self.nics.get_mut(nic) {
            Some(place) => place.transmit(burst, !self.handling, &mut self.pool, &self.shared.nics[nic]),
            None => burst.drain(..).for_each(|frame| self.pool.give_frame(frame.into_token())),
        }
    }

    fn room(&mut self, nic: usize) -> usize {
        self.nics.get_mut(nic).map_or(0, |place| place.room(&mut self.pool))
    }

    fn allocate(&mut self) -> Option<FrameBuffer> {
        self.keep_stocked();
        self.pool.take().map(|at| FrameBuffer::new(at, 0))
    }

    #[inline(always)]
    fn free(&mut self, buffer: FrameBuffer) {
        self.pool.give_frame(buffer.into_token());
    }

    fn plug_count(&self, nic: usize) -> u32 {
        boot::shared().plugged.get(nic).map_or(0, |word| word.0.load(Acquire))
    }

    fn given_version(&self) -> u32 {
        boot::shared().given.version()
    }

    fn read_given(&self, list: &mut GivenList) -> Option<u32> {
        boot::shared().given.read(|at, one| {
            let neighbour = one.map(|one| Neighbour { nic: one.nic, ip: Ip::v6(one.ip), mac: Mac(one.mac) });
            list.get_mut(at).into_iter().for_each(|place| *place = neighbour);
        })
    }

    fn now(&self) -> u64 {
        halt::ticks() / self.ticks_a_ms
    }

    fn report_next_hop(&mut self, table: u8, six: bool, number: u32, reached: bool) {
        let (failed, hop) = (&boot::shared().failed, (table, six, number));
        if reached { failed.withdraw(hop) } else { failed.report(hop) }
    }

    fn ask_for_neighbour(&mut self, nic: u8, ip: u32) {
        if let Some(OwnDesk { desk, vcpu }) = self.desk {
            desk.ask(vcpu, Question { nic, ip });
        }
    }

    fn is_claimed(&mut self, nic: usize, ip: u32, by: Mac) {
        self.shared.claim.set(nic as u8, ip, by.0);
    }
}
