//! The statistics registers (82540EM manual, "Statistics Registers"): counted by the data path, read by the driver.
//!
//! The data path's counters only grow; each register remembers the counter's value when it was last read, and returns
//! the difference. So counting needs no lock, and no frame is lost between reading and clearing. A register whose value
//! exceeds its width reads as all ones. Of a 64-bit pair the low half is read first: it fixes the value that the high
//! half returns, and reading the high half clears both.
//!
//! Errors cannot occur on a link inside a computer: CRCERRS, COLC, LATECOL and similar registers read as 0.

use port::Offload;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::register;

/// Length of the FCS, which is counted (manual: "from the Destination Address field through the CRC field,
/// inclusively").
const FCS: u64 = 4;
/// Size classes that are counted separately: up to 64, 127, 255, 511, 1023 octets, and more.
const SIZES: usize = 6;
const REGISTERS: usize = 64;

/// Kind of a frame's destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A single station.
    Unicast,
    /// A group.
    Multicast,
    /// All stations.
    Broadcast,
}

impl Destination {
    /// Classifies an address.
    #[inline]
    pub fn of(address: [u8; 6]) -> Self {
        match address {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Self::Broadcast,
            [first, ..] if first & 1 != 0 => Self::Multicast,
            _ => Self::Unicast,
        }
    }
}

/// Counts of the frames of one burst, added to the statistics at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstCounts {
    frames: u64,
    octets: u64,
    multicast: u64,
    broadcast: u64,
    sizes: [u64; SIZES],
}

impl BurstCounts {
    /// Counts a frame of `len` octets without FCS.
    #[inline]
    pub fn frame(&mut self, len: usize, destination: Destination) {
        let octets = len as u64 + FCS;
        self.frames += 1;
        self.octets += octets;
        self.sizes[size_class(octets)] += 1;
        match destination {
            Destination::Unicast => {}
            Destination::Multicast => self.multicast += 1,
            Destination::Broadcast => self.broadcast += 1,
        }
    }

    /// Counts a frame that is segmented later (GSO) as its segments, as a driver expects.
    pub fn cut(&mut self, len: usize, left: Offload, destination: Destination) {
        let (size, headers) = (usize::from(left.gso_size()), usize::from(left.hdr_len()));
        if left.gso().is_none() || size == 0 || len <= headers {
            return self.frame(len, destination);
        }
        let mut payload = len - headers;
        while payload > 0 {
            let now = payload.min(size);
            payload -= now;
            self.frame(headers + now, destination);
        }
    }

    /// Counts the frames of a ring whose driver uses the status block, with their octets without FCS. Sizes and
    /// destinations are not counted there, because that would cost more than moving the frames.
    #[inline]
    pub fn frames(&mut self, frames: u64, octets: u64) {
        self.frames += frames;
        self.octets += octets + FCS * frames;
    }
}

#[inline]
fn size_class(octets: u64) -> usize {
    match octets {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        _ => 5,
    }
}

/// Counters of one direction. One thread at a time counts; others read. Aligned to its own cache lines, because the
/// threads of both directions write for every burst.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Direction {
    frames: AtomicU64,
    octets: AtomicU64,
    multicast: AtomicU64,
    broadcast: AtomicU64,
    sizes: [AtomicU64; SIZES],
}

impl Direction {
    /// Adds the counts of a burst.
    #[inline]
    pub fn add(&self, tally: &BurstCounts) {
        let sizes = self.sizes.iter().zip(tally.sizes);
        let all = [
            (&self.frames, tally.frames),
            (&self.octets, tally.octets),
            (&self.multicast, tally.multicast),
            (&self.broadcast, tally.broadcast),
        ];
        for (total, n) in all.into_iter().chain(sizes) {
            add(total, n);
        }
    }

    fn size(&self, class: usize) -> u64 {
        self.sizes.get(class).map_or(0, get)
    }
}

/// All counters of the data path. One thread at a time counts in each direction.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Frames that were sent.
    pub sent: Direction,
    /// Frames that were stored.
    pub received: Direction,
    missed: AtomicU64,
    too_long: AtomicU64,
    segmented: AtomicU64,
    unsegmented: AtomicU64,
}

impl Statistics {
    /// Counts frames lost for lack of receive descriptors (MPC, RNBC).
    pub fn missed(&self, frames: u64) {
        add(&self.missed, frames);
    }

    /// Counts received frames that were too long (ROC).
    pub fn too_long(&self, frames: u64) {
        add(&self.too_long, frames);
    }

    /// Counts packets that were segmented (TSCTC).
    pub fn segmented(&self, packets: u64) {
        add(&self.segmented, packets);
    }

    /// Counts packets whose segmentation was not completed (TSCTFC).
    pub fn unsegmented(&self, packets: u64) {
        add(&self.unsegmented, packets);
    }

    /// Returns the total since the device was created for the register at this offset; 0 for events that never happen.
    fn total(&self, offset: u64) -> u64 {
        let (sent, received) = (&self.sent, &self.received);
        match offset {
            // MPC, RNBC.
            0x4010 | 0x40a0 => get(&self.missed),
            // ROC.
            0x40ac => get(&self.too_long),
            // PRC64 to PRC1522, PTC64 to PTC1522.
            0x405c..=0x4070 => received.size((offset as usize - 0x405c) / 4),
            0x40d8..=0x40ec => sent.size((offset as usize - 0x40d8) / 4),
            // GPRC, and TPR, which includes lost frames.
            0x4074 => get(&received.frames),
            0x40d0 => get(&received.frames) + get(&self.missed) + get(&self.too_long),
            // BPRC, MPRC, MPTC, BPTC.
            0x4078 => get(&received.broadcast),
            0x407c => get(&received.multicast),
            0x40f0 => get(&sent.multicast),
            0x40f4 => get(&sent.broadcast),
            // GPTC, TPT.
            0x4080 | 0x40d4 => get(&sent.frames),
            // GORC and TOR, GOTC and TOT.
            0x4088 | 0x40c0 => get(&received.octets),
            0x4090 | 0x40c8 => get(&sent.octets),
            // TSCTC, TSCTFC.
            0x40f8 => get(&self.segmented),
            0x40fc => get(&self.unsegmented),
            _ => 0,
        }
    }
}

/// The registers through which the driver reads [`Statistics`].
#[derive(Debug)]
pub(super) struct Registers {
    counted: Arc<Statistics>,
    /// Value of each counter when its register was last cleared.
    cleared: [u64; REGISTERS],
    /// For 64-bit pairs: the value latched by a read of the low half, until the high half is read.
    held: [Option<u64>; REGISTERS],
}

impl Registers {
    pub(super) fn new() -> Self {
        Self { counted: Arc::default(), cleared: [0; REGISTERS], held: [None; REGISTERS] }
    }

    pub(super) fn counted(&self) -> Arc<Statistics> {
        Arc::clone(&self.counted)
    }

    /// Sets all registers to 0.
    pub(super) fn reset(&mut self) {
        self.held = [None; REGISTERS];
        for (offset, cleared) in (register::STATISTICS..).step_by(4).zip(&mut self.cleared) {
            *cleared = self.counted.total(offset);
        }
    }

    /// Reads the register at an offset from [`register::STATISTICS`] on; `None` if there is none.
    pub(super) fn read(&mut self, offset: u64) -> Option<u32> {
        match offset {
            0x4088 | 0x4090 | 0x40c0 | 0x40c8 => self.low(offset),
            0x408c | 0x4094 | 0x40c4 | 0x40cc => self.high(offset - 4),
            _ if exists(offset) => self.clear(offset, self.counted.total(offset)).map(saturated),
            _ => None,
        }
    }

    fn low(&mut self, offset: u64) -> Option<u32> {
        let (total, at) = (self.counted.total(offset), index(offset)?);
        *self.held.get_mut(at)? = Some(total);
        Some(total.wrapping_sub(*self.cleared.get(at)?) as u32)
    }

    fn high(&mut self, low: u64) -> Option<u32> {
        let held = self.held.get_mut(index(low)?)?.take();
        let total = held.unwrap_or_else(|| self.counted.total(low));
        self.clear(low, total).map(|count| (count >> 32) as u32)
    }

    /// Returns the increase up to `total`, and makes the register 0.
    fn clear(&mut self, offset: u64, total: u64) -> Option<u64> {
        let cleared = self.cleared.get_mut(index(offset)?)?;
        Some(total.wrapping_sub(std::mem::replace(cleared, total)))
    }
}

/// Returns true if there is a register at `offset`: those from CRCERRS to TSCTFC, with gaps between them.
pub(super) fn exists(offset: u64) -> bool {
    let gap = matches!(offset, 0x4024 | 0x402c | 0x4044 | 0x4084 | 0x4098 | 0x409c);
    offset.is_multiple_of(4) && index(offset).is_some() && !gap
}

fn index(offset: u64) -> Option<usize> {
    let n = offset.checked_sub(register::STATISTICS)? / 4;
    usize::try_from(n).ok().filter(|n| *n < REGISTERS)
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn get(total: &AtomicU64) -> u64 {
    total.load(Ordering::Relaxed)
}

/// Adds without a read-modify-write instruction, because there is one writer at a time.
#[inline]
fn add(total: &AtomicU64, n: u64) {
    if n != 0 {
        total.store(get(total).wrapping_add(n), Ordering::Relaxed);
    }
}
