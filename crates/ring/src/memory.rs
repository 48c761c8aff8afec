//! Memory that another party may change at any moment.
//!
//! [`Region`] is a contiguous range of a guest's physical memory, mapped into this process. [`Bytes`] is a checked
//! piece of such memory (or of our own memory that is lent to another party). No Rust reference to its content is ever
//! made: each access copies, so a guest that writes at the same time can change the values that are read but can break
//! nothing else. The compiler can neither repeat, split nor elide these accesses (`access`): code that uses a value
//! twice uses the value that was read.

mod access;

use core::marker::PhantomData;

use crate::prefetch;

/// A contiguous range of guest-physical memory mapped in this address space.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    base: *mut u8,
    guest: u64,
    len: u64,
}

// SAFETY: a region is only an address range; all access goes through raw, tearing-tolerant copies.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Describes `len` octets at `base` that the guest sees at guest-physical address `guest`.
    ///
    /// # Safety
    /// The range must be mapped readable and writable for as long as the region, its copies and every [`Bytes`]
    /// made from it are used, and no Rust reference to its content may exist in this program meanwhile.
    pub const unsafe fn new(base: *mut u8, guest: u64, len: u64) -> Self {
        Self { base, guest, len }
    }

    /// Gives away memory of our own for good: for code in this process that plays a guest.
    pub const fn from_static(octets: &'static mut [u8], guest: u64) -> Self {
        Self { base: octets.as_mut_ptr(), guest, len: octets.len() as u64 }
    }

    /// Returns the first guest-physical address.
    pub const fn start(&self) -> u64 {
        self.guest
    }

    /// Returns the length in octets.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the region is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Translates guest-physical `[address, address + len)`; `None` unless the region contains all of it.
    #[inline(always)]
    pub fn translate(&self, address: u64, len: u64) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.guest);
        if offset <= self.len && len <= self.len - offset {
            // SAFETY: offset + len <= self.len, so the pointer stays inside the mapping.
            Some(unsafe { self.base.add(offset as usize) })
        } else {
            None
        }
    }

    /// Returns the piece `[address, address + len)`; `None` unless the region contains all of it.
    #[inline(always)]
    pub fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'static>> {
        let ptr = self.translate(address, u64::from(len))?;
        Some(Bytes { ptr, len, life: PhantomData })
    }
}

/// A piece of memory that may be shared with another party while we hold it.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    ptr: *mut u8,
    len: u32,
    life: PhantomData<&'a core::cell::UnsafeCell<u8>>,
}

// SAFETY: `Bytes` gives no reference to its content; racing copies may tear but stay in bounds.
unsafe impl Send for Bytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for Bytes<'_> {}

impl Bytes<'static> {
    /// The empty piece.
    pub const EMPTY: Self = Self { ptr: core::ptr::NonNull::dangling().as_ptr(), len: 0, life: PhantomData };
}

impl<'a> Bytes<'a> {
    /// Lends a buffer of our own; the borrow ensures that no other reference to it exists meanwhile.
    pub fn from_slice(octets: &'a mut [u8]) -> Self {
        let len = octets.len().min(u32::MAX as usize) as u32;
        Self { ptr: octets.as_mut_ptr(), len, life: PhantomData }
    }

    /// Describes `len` octets at `ptr`.
    ///
    /// # Safety
    /// The range must be mapped readable and writable during `'a`, with no Rust reference to it.
    #[inline(always)]
    pub const unsafe fn from_raw(ptr: *mut u8, len: u32) -> Self {
        Self { ptr, len, life: PhantomData }
    }

    /// Returns the length in octets.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if the piece is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address, for system calls.
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Returns the piece without its first `n` octets; empty if it has fewer.
    #[inline(always)]
    pub fn skip(self, n: u32) -> Self {
        let n = n.min(self.len);
        // SAFETY: n <= len.
        Self { ptr: unsafe { self.ptr.add(n as usize) }, len: self.len - n, life: PhantomData }
    }

    /// Returns the first `n` octets, or all if there are fewer.
    #[inline(always)]
    pub fn take(self, n: u32) -> Self {
        Self { len: n.min(self.len), ..self }
    }

    /// Copies the `N` octets at `offset`; `None` unless all of them are in the piece. Each octet is read once; 1, 2, 4
    /// or 8 octets by one access, other sizes by the fewest accesses of these sizes.
    #[inline(always)]
    pub fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        if offset.checked_add(N)? > self.len() {
            return None;
        }
        // SAFETY: in bounds by the check above.
        Some(unsafe { access::read(self.ptr.add(offset)) })
    }

    /// Reads two little-endian words at `offset`, each once and at any alignment; `None` unless both are in the piece.
    pub fn read_words(&self, offset: usize) -> Option<[u64; 2]> {
        if offset.checked_add(16)? > self.len() {
            return None;
        }
        // SAFETY: in bounds by the check above.
        Some([0, 8].map(|word| u64::from_le_bytes(unsafe { access::read(self.ptr.add(offset + word)) })))
    }

    /// Stores `octets` at `offset`, each once, with accesses of the sizes that [`Self::read`] uses; returns false (and
    /// stores nothing) if they do not fit.
    #[inline(always)]
    pub fn write<const N: usize>(&self, offset: usize, octets: [u8; N]) -> bool {
        let fits = offset.checked_add(N).is_some_and(|end| end <= self.len());
        if fits {
            // SAFETY: in bounds by the check above.
            unsafe { access::write(self.ptr.add(offset), octets) }
        }
        fits
    }

    /// Copies as many octets as both pieces hold; returns how many.
    #[inline(always)]
    pub fn copy_to(&self, target: &Bytes<'_>) -> usize {
        let n = self.len().min(target.len());
        // SAFETY: n octets are in bounds on both sides. The ranges may be shared but are raw memory, and a guest
        // that posts overlapping buffers only garbles its own frames: `copy` allows overlap.
        unsafe { access::copy(self.ptr, target.ptr, n) };
        n
    }

    /// Copies all octets to `offset` of `target`; returns false (and copies nothing) if they do not fit.
    #[inline(always)]
    pub fn copy_into(&self, target: &Bytes<'_>, offset: usize) -> bool {
        let fits = offset.checked_add(self.len()).is_some_and(|end| end <= target.len());
        if fits {
            // SAFETY: in bounds on both sides by the check above; overlap is allowed as in `copy_to`.
            unsafe { access::copy(self.ptr, target.ptr.add(offset), self.len()) };
        }
        fits
    }

    /// Copies into a slice as many octets as both hold; returns how many.
    pub fn copy_to_slice(&self, target: &mut [u8]) -> usize {
        let n = self.len().min(target.len());
        // SAFETY: n octets are in bounds on both sides, and `target` is exclusively ours.
        unsafe { access::copy(self.ptr, target.as_mut_ptr(), n) };
        n
    }

    /// Copies from a slice as many octets as both hold; returns how many.
    pub fn copy_from_slice(&self, source: &[u8]) -> usize {
        let n = self.len().min(source.len());
        // SAFETY: n octets are in bounds on both sides.
        unsafe { access::copy(source.as_ptr(), self.ptr, n) };
        n
    }

    /// Prefetches the first cache line for reading.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::read(self.ptr);
    }

    /// Prefetches for a write of `octets` octets: the first cache line, and the second if the write reaches it.
    #[inline(always)]
    pub fn prefetch_write_of(&self, octets: usize) {
        prefetch::write(self.ptr);
        prefetch::write(self.ptr.wrapping_add(octets.saturating_sub(1).min(64)));
    }

    /// Prefetches for a write of a small frame. With its virtio header it reaches into a second cache line; prefetching
    /// that one has a measurable effect on the rate of a whole forwarding path, even between near cores.
    #[inline(always)]
    pub fn prefetch_write(&self) {
        prefetch::write(self.ptr);
        prefetch::write(self.ptr.wrapping_add(64));
    }
}

/// [`Bytes`] with a number attached, in no more space than [`Bytes`] alone.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<'a> {
    ptr: *mut u8,
    /// The length in the lowest [`Tagged::LENGTH`] bits, the number above them.
    word: u64,
    life: PhantomData<Bytes<'a>>,
}

// SAFETY: as for `Bytes`, which this value is made from and converts back into.
unsafe impl Send for Tagged<'_> {}
// SAFETY: as above.
unsafe impl Sync for Tagged<'_> {}

impl<'a> Tagged<'a> {
    /// Number of bits for the length.
    const LENGTH: u32 = 17;
    /// Number of bits for the number.
    pub const BITS: u32 = 64 - Self::LENGTH;
    /// Maximum length in octets.
    pub const LONGEST: usize = (1 << Self::LENGTH) - 1;

    /// Attaches the lowest [`Tagged::BITS`] bits of a number to `bytes`, which has at most [`Tagged::LONGEST`] octets
    /// (a longer piece is cut to some prefix).
    #[inline(always)]
    pub const fn new(bytes: Bytes<'a>, tag: u64) -> Self {
        let len = bytes.len() & Self::LONGEST;
        Self { ptr: bytes.ptr, word: len as u64 | tag << Self::LENGTH, life: PhantomData }
    }

    /// Returns the octets.
    #[inline(always)]
    pub const fn bytes(&self) -> Bytes<'a> {
        Bytes { ptr: self.ptr, len: self.len() as u32, life: PhantomData }
    }

    /// Returns the length in octets.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.word as usize & Self::LONGEST
    }

    /// Returns true if the piece is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number.
    #[inline(always)]
    pub const fn tag(&self) -> u64 {
        self.word >> Self::LENGTH
    }

    /// Returns the bitwise OR of all the numbers.
    #[inline(always)]
    pub fn any<'b>(all: impl Iterator<Item = &'b Self>) -> u64
    where
        'a: 'b,
    {
        all.fold(0, |any, one| any | one.word) >> Self::LENGTH
    }
}

#[cfg(test)]
mod tests;
