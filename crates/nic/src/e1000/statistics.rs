//! The statistics registers: counted by the data path, read and cleared by the driver.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a frame's destination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One station.
    Unicast,
    /// A group.
    Multicast,
    /// All.
    Broadcast,
}

/// What has passed since power-on, in one direction. One thread at a time counts; others read.
#[derive(Debug, Default)]
pub struct Direction {
    frames: AtomicU64,
    octets: AtomicU64,
    multicast: AtomicU64,
    broadcast: AtomicU64,
    sizes: [AtomicU64; 6],
}

/// Frames of one burst, to be added at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    frames: u64,
    octets: u64,
    multicast: u64,
    broadcast: u64,
    sizes: [u64; 6],
}

impl Tally {
    /// A frame of so many octets without FCS.
    #[inline]
    pub fn frame(&mut self, len: usize, destination: Destination) {
        let octets = len as u64 + 4;
        self.frames += 1;
        self.octets += octets;
        self.sizes[size_class(octets)] += 1;
        match destination {
            Destination::Unicast => {}
            Destination::Multicast => self.multicast += 1,
            Destination::Broadcast => self.broadcast += 1,
        }
    }

    /// Frames of a ring whose driver works by the status block, with their octets without FCS: sizes and destinations
    /// are not counted there, as that would cost more than the frames themselves.
    #[inline]
    pub fn frames(&mut self, frames: u64, octets: u64) {
        self.frames += frames;
        self.octets += octets + 4 * frames;
    }
}

impl Direction {
    /// Counts a burst.
    pub fn add(&self, tally: &Tally) {
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
}

/// All that the data path counts.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Frames that left.
    pub sent: Direction,
    /// Frames that were stored.
    pub received: Direction,
    missed: AtomicU64,
    too_long: AtomicU64,
    segmented: AtomicU64,
    unsegmented: AtomicU64,
}

impl Statistics {
    /// Frames were lost for want of buffers (MPC, RNBC).
    pub fn missed(&self, frames: u64) {
        add(&self.missed, frames);
    }

    /// Received frames were too long (ROC).
    pub fn too_long(&self, frames: u64) {
        add(&self.too_long, frames);
    }

    /// Packets were segmented (TSCTC).
    pub fn segmented(&self, packets: u64) {
        add(&self.segmented, packets);
    }

    /// Packets that were to be segmented were not sent as a whole (TSCTFC).
    pub fn unsegmented(&self, packets: u64) {
        add(&self.unsegmented, packets);
    }
}

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

/// One writer at a time: no read-modify-write is needed.
fn add(total: &AtomicU64, n: u64) {
    if n != 0 {
        total.store(total.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}
