//! What the router stands on in this firmware: the NICs' queue pairs, the buffer pool and the time-stamp counter.

use arrayvec::ArrayVec;
use bootinfo::{MAX_NICS, VcpuShared};
use router::{Burst, Platform};

use crate::buffer::{FrameBuffer, Pool};
use crate::halt;
use crate::virtio_net::QueuePair;

/// Free buffers below which sent ones are taken back: two bursts.
const LOW: usize = 2 * ring::BURST;

/// One vCPU's NICs and buffers.
pub(crate) struct Firmware {
    nics: ArrayVec<QueuePair, MAX_NICS>,
    pool: Pool,
    shared: &'static VcpuShared,
    ticks_a_ms: u64,
    /// As a power of two.
    ticks_a_us: u32,
}

impl Firmware {
    /// Puts it together; no receive buffer is posted yet ([`Firmware::fill`]).
    pub(crate) fn new(
        nics: ArrayVec<QueuePair, MAX_NICS>,
        pool: Pool,
        shared: &'static VcpuShared,
        tsc_khz: u64,
    ) -> Self {
        let ticks_a_us = (tsc_khz / 1000).max(1).ilog2();
        Self { nics, pool, shared, ticks_a_ms: tsc_khz.max(1), ticks_a_us }
    }

    /// Microseconds since some moment: of half a microsecond to a whole one, because a division costs more than a pass.
    #[inline]
    pub(crate) fn microseconds(&self) -> u64 {
        halt::ticks() >> self.ticks_a_us
    }

    /// The NICs' queue pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &QueuePair> {
        self.nics.iter()
    }

    /// The counters shared with the host.
    pub(crate) fn shared(&self) -> &'static VcpuShared {
        self.shared
    }

    /// Posts receive buffers on every NIC; needed once, before the first frame can come.
    pub(crate) fn fill(&mut self) {
        for (nic, counters) in self.nics.iter_mut().zip(&self.shared.nics) {
            nic.refill(&mut self.pool, counters);
        }
    }

    /// Asks for an interrupt from every NIC; true if a frame is there already.
    pub(crate) fn arm(&mut self) -> bool {
        self.nics.iter_mut().zip(&self.shared.nics).fold(false, |ready, (nic, counters)| {
            counters.arms.add(1);
            nic.arm() | ready
        })
    }

    /// Asks for no interrupts.
    pub(crate) fn disarm(&mut self) {
        self.nics.iter_mut().for_each(QueuePair::disarm);
    }

    /// Takes sent buffers back from all NICs when the pool runs low.
    #[inline(always)]
    fn keep_stocked(&mut self) {
        if self.pool.len() < LOW {
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
        let Some(pair) = self.nics.get_mut(nic) else { return };
        let counters = &self.shared.nics[nic];
        pair.receive(burst, counters);
        pair.refill(&mut self.pool, counters);
    }

    #[inline(always)]
    fn transmit(&mut self, nic: usize, burst: &mut Burst<FrameBuffer>) {
        match self.nics.get_mut(nic) {
            Some(pair) => pair.transmit(burst, &mut self.pool, &self.shared.nics[nic]),
            None => burst.drain(..).for_each(|frame| self.pool.give(frame.into_address())),
        }
    }

    fn room(&mut self, nic: usize) -> usize {
        self.nics.get_mut(nic).map_or(0, |pair| pair.room(&mut self.pool))
    }

    fn allocate(&mut self) -> Option<FrameBuffer> {
        self.keep_stocked();
        self.pool.take().map(|at| FrameBuffer::new(at, 0))
    }

    #[inline(always)]
    fn free(&mut self, buffer: FrameBuffer) {
        self.pool.give(buffer.into_address());
    }

    fn now(&self) -> u64 {
        halt::ticks() / self.ticks_a_ms
    }
}
