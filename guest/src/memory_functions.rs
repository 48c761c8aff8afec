//! The four memory functions that compiled code calls by name. libc's versions are selected at run time and need
//! its start-up code, so the firmware brings its own; `rep movsb` is fast on every CPU with FSRM, and the packet
//! path copies no data.

use core::arch::asm;

/// Copies `n` octets between ranges that do not overlap.
///
/// # Safety
/// As for C's `memcpy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(target: *mut u8, source: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller vouches for both ranges; the direction flag is clear in compiled code.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") target => _, inout("rsi") source => _,
             options(nostack, preserves_flags));
    }
    target
}

/// Copies `n` octets between ranges that may overlap.
///
/// # Safety
/// As for C's `memmove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(target: *mut u8, source: *const u8, n: usize) -> *mut u8 {
    if (target as usize).wrapping_sub(source as usize) >= n {
        // SAFETY: a forward copy is right when the target does not begin inside the source.
        return unsafe { memcpy(target, source, n) };
    }
    // SAFETY: the caller vouches for both ranges; n > 0 here, and the direction flag is restored.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _, inout("rdi") target.add(n - 1) => _,
             inout("rsi") source.add(n - 1) => _, options(nostack));
    }
    target
}

/// Fills `n` octets.
///
/// # Safety
/// As for C's `memset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(target: *mut u8, value: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller vouches for the range.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") target => _, in("al") value as u8,
             options(nostack, preserves_flags));
    }
    target
}

/// Compares `n` octets.
///
/// # Safety
/// As for C's `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: the caller vouches for both ranges. Volatile, so that this loop is not turned into a `memcmp`.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}
