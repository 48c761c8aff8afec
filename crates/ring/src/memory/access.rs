//! Accesses to memory that another party changes concurrently.
//!
//! A plain load or copy of such memory is a data race, and the compiler may perform it twice: it knows what a plain
//! copy does, so it may read the source again where the program reads the copy. The functions here prevent that:
//! accesses of a few octets and copies of small frames are assembly, all other copies are a call that the compiler
//! cannot see through. (Volatile accesses do not suffice, because the compiler splits some unaligned ones into single
//! octets.)

use core::arch::asm;

/// Loads one number from any address, aligned or not, by one `mov`.
macro_rules! load {
    ($source:expr, $move:literal, $number:ty) => {{
        let value: $number;
        asm!($move, source = in(reg) $source, value = lateout(reg) value, options(readonly, nostack, preserves_flags));
        value
    }};
}

/// Stores one number at any address, aligned or not, by one `mov`.
macro_rules! store {
    ($target:expr, $class:ident, $move:literal, $value:expr) => {
        asm!($move, target = in(reg) $target, value = in($class) $value, options(nostack, preserves_flags))
    };
}

/// Splits `N` octets into pieces of 8, 4, 2 and 1 octets, the longest first, and calls `piece` with the offset and the
/// length of each.
#[inline(always)]
fn pieces<const N: usize>(mut piece: impl FnMut(usize, usize)) {
    let mut at = 0;
    for len in [8, 4, 2, 1] {
        while N - at >= len {
            piece(at, len);
            at += len;
        }
    }
}

/// Reads the `N` octets at `source`, each once.
///
/// # Safety
/// The octets must be mapped.
#[inline(always)]
pub(super) unsafe fn read<const N: usize>(source: *const u8) -> [u8; N] {
    let mut octets = [0; N];
    // SAFETY: the N octets are mapped, and each piece lies within them.
    unsafe {
        touch(source, N);
        pieces::<N>(|at, len| {
            #[cfg(any(test, fuzzing))]
            crate::concurrent_stores::before_read();
            let (from, place) = (source.add(at), &mut octets[at..at + len]);
            match len {
                8 => place.copy_from_slice(&load!(from, "mov {value}, [{source}]", u64).to_ne_bytes()),
                4 => place.copy_from_slice(&load!(from, "mov {value:e}, [{source}]", u32).to_ne_bytes()),
                2 => place
                    .copy_from_slice(&load!(from, "movzx {value:e}, word ptr [{source}]", u16).to_ne_bytes()),
                _ => place[0] = load!(from, "movzx {value:e}, byte ptr [{source}]", u32) as u8,
            }
        });
    }
    octets
}

/// Stores `N` octets at `target`, each once.
///
/// # Safety
/// The octets must be mapped.
#[inline(always)]
pub(super) unsafe fn write<const N: usize>(target: *mut u8, octets: [u8; N]) {
    // SAFETY: the N octets are mapped, and each piece lies within them and within the array.
    unsafe {
        touch(target, N);
        pieces::<N>(|at, len| {
            let (to, place) = (target.add(at), octets.as_ptr().add(at));
            match len {
                8 => store!(to, reg, "mov [{target}], {value}", place.cast::<u64>().read_unaligned()),
                4 => store!(to, reg, "mov [{target}], {value:e}", place.cast::<u32>().read_unaligned()),
                2 => store!(to, reg, "mov [{target}], {value:x}", place.cast::<u16>().read_unaligned()),
                _ => store!(to, reg_byte, "mov [{target}], {value}", *place),
            }
        });
    }
}

/// Copies `n` octets. Copies of 32 to 128 octets, the size of small frames, use overlapping vector moves without a
/// call.
///
/// # Safety
/// Both ranges must be mapped; they may overlap.
#[inline(always)]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, n: usize) {
    // SAFETY: by this function's own contract.
    unsafe {
        touch(source, n);
        touch(target, n);
        #[cfg(any(test, fuzzing))]
        crate::concurrent_stores::before_read();
        if (32..=64).contains(&n) {
            copy_64(source, target, n);
        } else if (65..=128).contains(&n) {
            copy_128(source, target, n);
        } else {
            opaque_memmove()(target, source, n);
        }
    }
}

/// Copies 32 to 64 octets: the first 32, and the last.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_64(source: *const u8, target: *mut u8, n: usize) {
    // SAFETY: each move lies within [0, n) of its range; all loads come before the stores. SSE2 is part of x86-64.
    unsafe {
        asm!(
            "movups {a}, [{source}]",
            "movups {b}, [{source} + 16]",
            "movups {c}, [{source} + {n} - 32]",
            "movups {d}, [{source} + {n} - 16]",
            "movups [{target}], {a}",
            "movups [{target} + 16], {b}",
            "movups [{target} + {n} - 32], {c}",
            "movups [{target} + {n} - 16], {d}",
            source = in(reg) source,
            target = in(reg) target,
            n = in(reg) n,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 65 to 128 octets: the first 64, and the last.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_128(source: *const u8, target: *mut u8, n: usize) {
    // SAFETY: each move lies within [0, n) of its range; all loads come before the stores. SSE2 is part of x86-64.
    unsafe {
        asm!(
            "movups {a}, [{source}]",
            "movups {b}, [{source} + 16]",
            "movups {c}, [{source} + 32]",
            "movups {d}, [{source} + 48]",
            "movups {e}, [{source} + {n} - 64]",
            "movups {f}, [{source} + {n} - 48]",
            "movups {g}, [{source} + {n} - 32]",
            "movups {h}, [{source} + {n} - 16]",
            "movups [{target}], {a}",
            "movups [{target} + 16], {b}",
            "movups [{target} + 32], {c}",
            "movups [{target} + 48], {d}",
            "movups [{target} + {n} - 64], {e}",
            "movups [{target} + {n} - 48], {f}",
            "movups [{target} + {n} - 32], {g}",
            "movups [{target} + {n} - 16], {h}",
            source = in(reg) source,
            target = in(reg) target,
            n = in(reg) n,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            e = out(xmm_reg) _,
            f = out(xmm_reg) _,
            g = out(xmm_reg) _,
            h = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

type Memmove = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;

/// Returns `memmove` as a pointer that the compiler cannot identify, so that it cannot re-read the source where the
/// program reads the copy. (A loop of vector moves is much slower for large uncached frames, and `rep movsb` for small
/// ones.)
#[inline(always)]
fn opaque_memmove() -> Memmove {
    unsafe extern "C" {
        fn memmove(target: *mut u8, source: *const u8, n: usize) -> *mut u8;
    }
    let mut function: Memmove = memmove;
    // SAFETY: the assembly is a comment only; it hides the value from the compiler.
    unsafe { asm!("/* {0} */", inout(reg) function, options(readonly, nostack, preserves_flags)) };
    function
}

/// Reads both ends of a range, in debug builds, because sanitizers do not see the accesses made by assembly.
///
/// # Safety
/// The range must be mapped.
#[inline(always)]
unsafe fn touch(start: *const u8, n: usize) {
    if cfg!(debug_assertions) && n > 0 {
        // SAFETY: both octets lie in the range.
        unsafe {
            start.read_volatile();
            start.add(n - 1).read_volatile();
        }
    }
}
