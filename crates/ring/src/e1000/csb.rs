//! The communication status block (CSB; seed paper 001, section 3.3), for both directions.
//!
//! The block takes [`Csb::OCTETS`] of guest memory at a multiple of [`Csb::ALIGN`]. Each word has 16 bits, little
//! endian. Each position (head or tail) has a cache line of its own: a thread that polls it does not lose the line
//! because of a write to a word that it does not read.
//!
//! ```text
//!   offset   written by   word
//!     0      driver       tail of the transmit ring: the device may send up to here
//!    64      driver       tail of the receive ring: the device may fill up to here
//!   128      driver       1: no interrupt when frames were sent
//!   130      driver       1: no interrupt when frames were received
//!   256      device       head of the transmit ring: it has sent up to here
//!   320      device       head of the receive ring: it has filled up to here
//!   384      device       1: no kick (write to TDT) when there are frames to send
//!   386      device       1: no kick (write to RDT) when buffers were posted
//! ```
//!
//! The driver clears the block, writes its address to the device's registers, and only then starts the rings. While a
//! ring runs with a block, the device takes the tail from the block and ignores the value that a kick writes to the
//! register. An end that polls declines notifications. Before it sleeps it asks for one, and checks the ring again
//! ([`notify`](crate::split::notify) has the fences; `tests/csb_loom.rs` explores all orders with few preemptions).

use core::ptr::NonNull;
use core::sync::atomic::AtomicU16;

use super::LayoutError;
use super::shared::area;
use crate::Region;
use crate::split::notify::Suppression;

/// Offsets of the words of one direction, in octets.
struct Offsets {
    tail: usize,
    interrupt: usize,
    head: usize,
    kick: usize,
}

const TRANSMIT: Offsets = Offsets { tail: 0, interrupt: 128, head: 256, kick: 384 };
const RECEIVE: Offsets = Offsets { tail: 64, interrupt: 130, head: 320, kick: 386 };

/// A mapped status block.
#[derive(Clone, Copy, Debug)]
pub struct Csb {
    base: NonNull<u8>,
}

// SAFETY: `Csb` is an address of memory that outlives it (`Region::new`); all access is atomic.
unsafe impl Send for Csb {}
// SAFETY: as above.
unsafe impl Sync for Csb {}

impl Csb {
    /// Size of a block in octets.
    pub const OCTETS: u32 = 512;
    /// Alignment of a block's address.
    pub const ALIGN: u32 = 64;

    /// Maps the block at a guest-physical address.
    pub fn map(region: &Region, address: u64) -> Result<Self, LayoutError> {
        let base = area(region, address, u64::from(Self::OCTETS), u64::from(Self::ALIGN))?;
        Ok(Self { base })
    }

    /// Returns the words of the transmit ring.
    pub(super) const fn transmit(&self) -> RingWords {
        self.words(TRANSMIT)
    }

    /// Returns the words of the receive ring.
    pub(super) const fn receive(&self) -> RingWords {
        self.words(RECEIVE)
    }

    const fn words(&self, offsets: Offsets) -> RingWords {
        // SAFETY: `map` checked that `OCTETS` are mapped at a multiple of 64; all offsets are even and less than that.
        let [tail, interrupt, head, kick] = unsafe {
            [
                self.base.add(offsets.tail).cast(),
                self.base.add(offsets.interrupt).cast(),
                self.base.add(offsets.head).cast(),
                self.base.add(offsets.kick).cast(),
            ]
        };
        RingWords { tail, interrupt, head, kick }
    }
}

/// The words of one ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingWords {
    tail: NonNull<AtomicU16>,
    interrupt: NonNull<AtomicU16>,
    head: NonNull<AtomicU16>,
    kick: NonNull<AtomicU16>,
}

// SAFETY: as for `Csb`.
unsafe impl Send for RingWords {}
// SAFETY: as for `Csb`.
unsafe impl Sync for RingWords {}

impl RingWords {
    /// Returns the driver's position, the tail.
    #[inline(always)]
    pub(super) fn tail(&self) -> &AtomicU16 {
        #[cfg(any(test, fuzzing))]
        crate::concurrent_stores::before_read();
        // SAFETY: mapped and aligned (`Csb::words`), and only ever used as an atomic.
        unsafe { self.tail.as_ref() }
    }

    /// Returns the device's position, the head.
    #[inline(always)]
    pub(super) const fn head(&self) -> &AtomicU16 {
        // SAFETY: as in `tail`.
        unsafe { self.head.as_ref() }
    }

    /// Returns the driver's interrupt suppression word.
    #[inline(always)]
    pub(super) fn interrupt_suppression(&self) -> Suppression<'_, AtomicU16> {
        #[cfg(any(test, fuzzing))]
        crate::concurrent_stores::before_read();
        // SAFETY: as in `tail`.
        Suppression::Flag(unsafe { self.interrupt.as_ref() })
    }

    /// Returns the device's kick suppression word.
    #[inline(always)]
    pub(super) const fn kick_suppression(&self) -> Suppression<'_, AtomicU16> {
        // SAFETY: as in `tail`.
        Suppression::Flag(unsafe { self.kick.as_ref() })
    }
}
