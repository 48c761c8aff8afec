//! Head and tail registers of a ring, as the host keeps them.

use core::sync::atomic::{AtomicU16, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A word in a cache line of its own: the vCPU thread writes one of the two words, the thread that moves frames the
/// other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU16);

/// Head and tail of one ring: the values that reads of the registers RDH and RDT, or TDH and TDT, return. Private to
/// the host; shared by the register model, which writes the tail, and the data path, which writes the head.
#[derive(Debug, Default)]
pub struct HeadTail {
    head: Line,
    tail: Line,
}

impl HeadTail {
    /// Creates a pair of positions that are both 0.
    pub const fn new() -> Self {
        Self { head: Line(AtomicU16::new(0)), tail: Line(AtomicU16::new(0)) }
    }

    /// Returns the head: the position up to which the device is done.
    #[inline(always)]
    pub fn head(&self) -> u16 {
        self.head.0.load(Relaxed)
    }

    /// Moves the head. A driver writes this register before it starts the ring; on a running ring the device's next
    /// publication overwrites it.
    #[inline(always)]
    pub fn set_head(&self, position: u16) {
        self.head.0.store(position, Relaxed);
    }

    /// Returns the tail: the position up to which the device may go. Guest memory written before the tail is visible
    /// afterwards (acquire).
    #[inline(always)]
    pub fn tail(&self) -> u16 {
        self.tail.0.load(Acquire)
    }

    /// Moves the tail to any value that the driver writes: the device's end of the ring checks it.
    #[inline(always)]
    pub fn set_tail(&self, position: u16) {
        self.tail.0.store(position, Release);
    }
}
