//! Cache hints. A hint never faults and never changes what a program computes.

use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};

/// Brings the cache line at `address` near, to be read soon.
#[inline(always)]
pub fn read<T>(address: *const T) {
    // SAFETY: a prefetch is a hint; the CPU ignores an address that is not mapped.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Brings the cache line at `address` near, to be written soon.
#[inline(always)]
pub fn write<T>(address: *const T) {
    // SAFETY: as in `read`.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.cast()) }
}
