//! Cache hints. A hint never faults and never changes what a program computes.

use core::arch::asm;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Prefetches the cache line at `address` for reading.
#[inline(always)]
pub fn read<T>(address: *const T) {
    // SAFETY: a prefetch is a hint; the CPU ignores an address that is not mapped.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Prefetches the cache line at `address` for writing: brings it near, and takes it from other caches.
///
/// Names the instruction `prefetchw` itself: the compiler's intrinsic becomes a prefetch for reading if the target is
/// generic x86-64, and a line that is only shared must be requested again when it is written. 64-bit CPUs without
/// `prefetchw` ignore it.
#[inline(always)]
pub fn write<T>(address: *const T) {
    // SAFETY: as in `read`; the instruction changes no register, flag or memory.
    unsafe { asm!("prefetchw [{0}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}
