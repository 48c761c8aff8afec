//! Arena for rings, buffers and each vCPU's state: memory is handed out at boot and never freed.

use core::mem::MaybeUninit;

use bootinfo::map;

/// Part of the guest's RAM that is handed out from its beginning.
pub(crate) struct Arena {
    next: u64,
    end: u64,
}

impl Arena {
    /// Returns part `index` of `parts` equal parts of all RAM from [`map::POOL`] on.
    pub(crate) fn part(ram: u64, index: usize, parts: usize) -> Self {
        let share = (ram.saturating_sub(map::POOL) / parts as u64) & !4095;
        let next = map::POOL + share * index as u64;
        Self { next, end: next + share }
    }

    /// Splits this arena: so many octets stay here, the rest is returned.
    pub(crate) fn split_off(&mut self, kept: u64) -> Self {
        let rest = Self { next: (self.next + kept).min(self.end), end: self.end };
        self.end = rest.next;
        rest
    }

    /// Allocates `len` octets, aligned to `align` (a power of two), and returns the address; the RAM is zero
    /// until first use.
    pub(crate) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let at = self.next.checked_add(align - 1)? & !(align - 1);
        let next = at.checked_add(len)?;
        if next > self.end {
            return None;
        }
        self.next = next;
        Some(at)
    }

    /// Allocates room for a value that is never freed.
    pub(crate) fn place<T>(&mut self) -> Option<&'static mut MaybeUninit<T>> {
        let at = self.take(size_of::<T>() as u64, align_of::<T>().max(64) as u64)? as *mut MaybeUninit<T>;
        // SAFETY: the range is RAM, aligned, handed out only once, and never taken back.
        Some(unsafe { &mut *at })
    }

    /// Allocates a value that consists of zeros, without building it on the stack.
    ///
    /// # Safety
    /// Zeros must be a valid value of the type.
    pub(crate) unsafe fn zeroed<T>(&mut self) -> Option<&'static mut T> {
        let place = self.place::<T>()?;
        // SAFETY: the RAM is zero until its first use, which is a valid value (the caller's promise).
        Some(unsafe { place.assume_init_mut() })
    }

    /// Allocates a slice of `len` values that consist of zeros.
    ///
    /// # Safety
    /// Zeros must be a valid value of the type.
    pub(crate) unsafe fn zeroed_slice<T>(&mut self, len: usize) -> Option<&'static [T]> {
        let octets = (len as u64).checked_mul(size_of::<T>() as u64)?;
        let at = self.take(octets, align_of::<T>().max(64) as u64)? as *const T;
        // SAFETY: the range is RAM, aligned, handed out only once, never taken back, and zero, which is a valid value
        // (the caller's promise).
        Some(unsafe { core::slice::from_raw_parts(at, len) })
    }

    /// Moves a value into the arena, permanently.
    pub(crate) fn keep<T>(&mut self, value: T) -> Option<&'static mut T> {
        Some(self.place()?.write(value))
    }

    /// Allocates a slice of `len` copies of `value`.
    pub(crate) fn slice<T: Copy>(&mut self, len: u64, value: T) -> Option<&'static mut [T]> {
        let at =
            self.take(len.checked_mul(size_of::<T>() as u64)?, align_of::<T>().max(64) as u64)? as *mut T;
        for i in 0..len as usize {
            // SAFETY: inside the range just taken.
            unsafe { at.add(i).write(value) }
        }
        // SAFETY: the range is RAM, aligned, initialised, handed out only once, and never taken back.
        Some(unsafe { core::slice::from_raw_parts_mut(at, len as usize) })
    }
}
