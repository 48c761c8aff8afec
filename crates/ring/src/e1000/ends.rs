//! Where a ring begins and ends, as the host keeps it.

use core::sync::atomic::{AtomicU16, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A word in a cache line of its own: one is written by the vCPU's thread, the other by the thread that moves frames.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU16);

/// Head and tail of one ring: what the registers RDH and RDT, or TDH and TDT, read. Private to the host; shared by the
/// register model, which writes the tail, and the data path, which writes the head.
#[derive(Debug, Default)]
pub struct Ends {
    head: Line,
    tail: Line,
}

impl Ends {
    /// Both at position 0.
    pub const fn new() -> Self {
        Self { head: Line(AtomicU16::new(0)), tail: Line(AtomicU16::new(0)) }
    }

    /// The position up to which the device is done.
    #[inline(always)]
    pub fn head(&self) -> u16 {
        self.head.0.load(Relaxed)
    }

    /// Moves the head. A driver that writes the register does so before it starts the ring; on a ring that runs the
    /// next publication of the device overwrites it.
    #[inline(always)]
    pub fn set_head(&self, position: u16) {
        self.head.0.store(position, Relaxed);
    }

    /// The position up to which the device may go; what the guest wrote to memory before is visible after this.
    #[inline(always)]
    pub fn tail(&self) -> u16 {
        self.tail.0.load(Acquire)
    }

    /// Moves the tail to whatever the driver says: the device's end checks it.
    #[inline(always)]
    pub fn set_tail(&self, position: u16) {
        self.tail.0.store(position, Release);
    }
}
