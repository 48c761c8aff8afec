//! Accesses to memory that another party changes meanwhile.
//!
//! A plain load or copy of such memory is a data race, and the compiler may do it twice: it knows what a plain copy does, so
//! it may read the source again where the copy is read. These it cannot: a few octets and small frames are moved by assembly,
//! all else by a call that the compiler does not know. (Volatile accesses are no such moves where an address is not aligned:
//! some of them are made octet by octet.)

use core::arch::asm;

/// Loads one number that may lie anywhere, by one move.
macro_rules! load {
    ($source:expr, $move:literal, $number:ty) => {{
        let value: $number;
        asm!($move, source = in(reg) $source, value = lateout(reg) value, options(readonly, nostack, preserves_flags));
        value
    }};
}

/// Stores one number anywhere, by one move.
macro_rules! store {
    ($target:expr, $class:ident, $move:literal, $value:expr) => {
        asm!($move, target = in(reg) $target, value = in($class) $value, options(nostack, preserves_flags))
    };
}

/// Calls `piece` for each of the pieces of 8, 4, 2 and 1 octets, the longest first, that `N` octets are made of: where it
/// begins and how long it is.
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

/// The `N` octets at `source`, each read once.
///
/// # Safety
/// They must be mapped.
#[inline(always)]
pub(super) unsafe fn read<const N: usize>(source: *const u8) -> [u8; N] {
    let mut octets = [0; N];
    // SAFETY: the N octets are mapped, and each piece lies within them.
    unsafe {
        touch(source, N);
        pieces::<N>(|at, len| {
            #[cfg(any(test, fuzzing))]
            crate::meddle::before_read();
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
/// They must be mapped.
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

/// Copies `n` octets; 32 to 128 of them, where small frames are, by overlapping vector moves without a call.
///
/// # Safety
/// Both ranges must be mapped; they may overlap.
#[inline(always)]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, n: usize) {
    // SAFETY: as the caller says.
    unsafe {
        touch(source, n);
        touch(target, n);
        #[cfg(any(test, fuzzing))]
        crate::meddle::before_read();
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

/// `memmove`, of which the compiler cannot know that it is that: what it copies is not read again by another way. (A loop
/// of vector moves is much slower for large frames that lie in no cache, and `rep movsb` for small ones.)
#[inline(always)]
fn opaque_memmove() -> Memmove {
    unsafe extern "C" {
        fn memmove(target: *mut u8, source: *const u8, n: usize) -> *mut u8;
    }
    let mut function: Memmove = memmove;
    // SAFETY: does nothing.
    unsafe { asm!("/* {0} */", inout(reg) function, options(readonly, nostack, preserves_flags)) };
    function
}

/// Looks at the ends of a range, in debug builds: sanitizers do not see what assembly does.
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
