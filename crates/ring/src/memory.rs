//! Memory that another party may change at any moment.
//!
//! [`Region`] is a contiguous range of a guest's physical memory as it is mapped here. [`Bytes`] is a checked piece
//! of such memory (or of memory of our own that is lent to others). No Rust reference to its content is ever made:
//! each access copies, so a guest that writes at the same time can change what is read but can break nothing else. And
//! none can the compiler do twice, or split, or undo: what was read is what is used, however often (`access`).

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

    /// Memory of our own that is given away for good: what plays a guest within this program.
    pub const fn from_static(octets: &'static mut [u8], guest: u64) -> Self {
        Self { base: octets.as_mut_ptr(), guest, len: octets.len() as u64 }
    }

    /// First guest-physical address.
    pub const fn start(&self) -> u64 {
        self.guest
    }

    /// Octets in the region.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the region is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where guest-physical `[address, address + len)` lies here, if it lies in the region as a whole.
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

    /// The piece `[address, address + len)`, if it lies in the region as a whole.
    #[inline(always)]
    pub fn bytes(&self, address: u64, len: u32) -> Option<Bytes<'static>> {
        let ptr = self.translate(address, u64::from(len))?;
        Some(Bytes { ptr, len, life: PhantomData })
    }
}

/// Octets that may be shared with another party while we hold them.
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
    /// No octets.
    pub const EMPTY: Self = Self { ptr: core::ptr::NonNull::dangling().as_ptr(), len: 0, life: PhantomData };
}

impl<'a> Bytes<'a> {
    /// Lends a buffer of our own for as long as nobody else refers to it.
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

    /// Octets.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the octets lie, for system calls that take an address.
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Without the first `n` octets; empty when there are fewer.
    #[inline(always)]
    pub fn skip(self, n: u32) -> Self {
        let n = n.min(self.len);
        // SAFETY: n <= len.
        Self { ptr: unsafe { self.ptr.add(n as usize) }, len: self.len - n, life: PhantomData }
    }

    /// The first `n` octets, or all when there are fewer.
    #[inline(always)]
    pub fn take(self, n: u32) -> Self {
        Self { len: n.min(self.len), ..self }
    }

    /// A copy of the `N` octets at `offset`, if they are all there. Each is read once; 1, 2, 4 or 8 by one access, more by
    /// as few as their number allows.
    #[inline(always)]
    pub fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        if offset.checked_add(N)? > self.len() {
            return None;
        }
        // SAFETY: in bounds by the check above.
        Some(unsafe { access::read(self.ptr.add(offset)) })
    }

    /// The two little-endian words at `offset`, if they are all there; each is read once, at any alignment.
    pub fn read_words(&self, offset: usize) -> Option<[u64; 2]> {
        if offset.checked_add(16)? > self.len() {
            return None;
        }
        // SAFETY: in bounds by the check above.
        Some([0, 8].map(|word| u64::from_le_bytes(unsafe { access::read(self.ptr.add(offset + word)) })))
    }

    /// Stores `octets` at `offset`, each once, in accesses as those of [`Self::read`]; false (and nothing stored) if they do
    /// not fit.
    #[inline(always)]
    pub fn write<const N: usize>(&self, offset: usize, octets: [u8; N]) -> bool {
        let fits = offset.checked_add(N).is_some_and(|end| end <= self.len());
        if fits {
            // SAFETY: in bounds by the check above.
            unsafe { access::write(self.ptr.add(offset), octets) }
        }
        fits
    }

    /// Copies as many octets as both sides hold; returns how many.
    #[inline(always)]
    pub fn copy_to(&self, target: &Bytes<'_>) -> usize {
        let n = self.len().min(target.len());
        // SAFETY: n octets are in bounds on both sides. The ranges may be shared but are raw memory, and a guest
        // that posts overlapping buffers only garbles its own frames: `copy` allows overlap.
        unsafe { access::copy(self.ptr, target.ptr, n) };
        n
    }

    /// Copies all octets to `offset` of `target`; false (and nothing copied) if they do not fit.
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

    /// Hints that the first cache line will be read soon.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch::read(self.ptr);
    }

    /// Hints that so many octets will be written soon: of these, the first cache line and the one behind it if they reach
    /// it.
    #[inline(always)]
    pub fn prefetch_write_of(&self, octets: usize) {
        prefetch::write(self.ptr);
        prefetch::write(self.ptr.wrapping_add(octets.saturating_sub(1).min(64)));
    }

    /// Hints that a small frame will be written soon. With its virtio header it reaches into a second cache line;
    /// the hint for that one shows in the rate of a whole forwarding path, even between near cores.
    #[inline(always)]
    pub fn prefetch_write(&self) {
        prefetch::write(self.ptr);
        prefetch::write(self.ptr.wrapping_add(64));
    }
}

/// [`Bytes`] with a number beside them, in no more room than they take themselves.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<'a> {
    ptr: *mut u8,
    /// The length in the lowest bits, then the number.
    word: u64,
    life: PhantomData<Bytes<'a>>,
}

// SAFETY: as for `Bytes`, which it is made from and gives back.
unsafe impl Send for Tagged<'_> {}
// SAFETY: as above.
unsafe impl Sync for Tagged<'_> {}

impl<'a> Tagged<'a> {
    /// Bits of the length.
    const LENGTH: u32 = 17;
    /// Bits of the number.
    pub const BITS: u32 = 64 - Self::LENGTH;
    /// Most octets.
    pub const LONGEST: usize = (1 << Self::LENGTH) - 1;

    /// These octets, at most [`Tagged::LONGEST`] (of more, some of the first ones), and the lowest [`Tagged::BITS`] bits of
    /// a number.
    #[inline(always)]
    pub const fn new(bytes: Bytes<'a>, tag: u64) -> Self {
        let len = bytes.len() & Self::LONGEST;
        Self { ptr: bytes.ptr, word: len as u64 | tag << Self::LENGTH, life: PhantomData }
    }

    /// The octets.
    #[inline(always)]
    pub const fn bytes(&self) -> Bytes<'a> {
        Bytes { ptr: self.ptr, len: self.len() as u32, life: PhantomData }
    }

    /// How many octets there are.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.word as usize & Self::LONGEST
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number.
    #[inline(always)]
    pub const fn tag(&self) -> u64 {
        self.word >> Self::LENGTH
    }

    /// The numbers of all of these, by OR.
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
