//! Cache hints. A hint never faults and never changes what a program computes.

use core::arch::asm;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Brings the cache line at `address` near, to be read soon.
#[inline(always)]
pub fn read<T>(address: *const T) {
    // SAFETY: a prefetch is a hint; the CPU ignores an address that is not mapped.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Brings the cache line at `address` near and takes it from other caches, to be written soon.
///
/// By its name: the compiler's intrinsic becomes a prefetch for reading where the target is any x86-64, and a line
/// that is only shared has to be asked for again when it is written. 64-bit CPUs without `prefetchw` ignore it.
#[inline(always)]
pub fn write<T>(address: *const T) {
    // SAFETY: as in `read`; the instruction changes no register, flag or memory.
    unsafe { asm!("prefetchw [{0}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}
