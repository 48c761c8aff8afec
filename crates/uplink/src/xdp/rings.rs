//! The four rings of an AF_XDP socket, each shared with the kernel: the producer writes entries and advances
//! `producer`, the consumer takes them and advances `consumer`.
//!
//! ```text
//!            consumer             producer        indices never wrap at the ring size; entry i is at i modulo the size
//!               v                    v
//!   | free ... | entries to be taken | free ... |
//! ```

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::XdpRingOffset;

/// A mapping of a descriptor, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; the types built on it bound who reads and writes
// it.
unsafe impl Send for Mapping {}
// SAFETY: as above: a shared mapping only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` octets of `fd` from `offset`, shared, readable and writable.
    pub(super) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses an unused address.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, flags, fd, offset) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// Returns the address of its first octet.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the address of `count` values of type `T` at `offset`, if they are inside and aligned.
    fn at<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let octets = size_of::<T>().checked_mul(count);
        let end = usize::try_from(offset).ok().zip(octets).and_then(|(start, len)| start.checked_add(len));
        if end.is_none_or(|end| end > self.len) || !(offset as usize).is_multiple_of(align_of::<T>()) {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        // SAFETY: offset + size lies within the mapping.
        Ok(unsafe { self.base.add(offset as usize) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and everything that pointed into it goes with its owner.
        let done = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert_eq!(done, Ok(()));
    }
}

/// Location of a ring: its offset in the socket's mmap space, and the offsets of its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The offset at which it is mapped (XDP_PGOFF_...).
    pub(super) page: u64,
    /// Offsets of its indices and entries in the mapping.
    pub(super) parts: XdpRingOffset,
    /// Number of entries; a power of two.
    pub(super) size: u32,
}

/// One ring, mapped.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    /// Keeps the pointers above valid.
    _mapping: Mapping,
    kind: PhantomData<T>,
}

// SAFETY: the pointers lead into the mapping that the ring owns; its words are atomic, and its entries are
// written by one end and read by the other as the indices permit.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(socket: BorrowedFd<'_>, place: Place) -> io::Result<Self> {
        let Place { page, parts, size } = place;
        if !size.is_power_of_two() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let len = parts.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::new(socket, page, len)?;
        Ok(Self {
            producer: mapping.at(parts.producer, 1)?,
            consumer: mapping.at(parts.consumer, 1)?,
            // Requires Linux 5.4.
            flags: mapping.at(parts.flags.ok_or(io::ErrorKind::Unsupported)?, 1)?,
            entries: mapping.at(parts.desc, size as usize)?,
            mask: size - 1,
            _mapping: mapping,
            kind: PhantomData,
        })
    }

    fn word(&self, word: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: it lies in the mapping, aligned, for as long as the ring does; the kernel only changes it atomically.
        unsafe { word.as_ref() }
    }

    fn wants_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring of which this process is the producer: fill ring and transmit ring.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Our index; published by [`Producer::publish`].
    next: u32,
    /// The kernel's index when last read.
    seen: u32,
}

impl<T: Copy> Producer<T> {
    /// Maps the ring; continues at its current index.
    pub(super) fn map(socket: BorrowedFd<'_>, place: Place) -> io::Result<Self> {
        let ring = Ring::map(socket, place)?;
        let next = ring.word(ring.producer).load(Ordering::Relaxed);
        let seen = ring.word(ring.consumer).load(Ordering::Acquire);
        Ok(Self { ring, next, seen })
    }

    /// Returns the number of free entries; reads the kernel's index again only if fewer than `wanted` were
    /// free when last read.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let size = self.ring.mask + 1;
        if size - self.next.wrapping_sub(self.seen).min(size) < wanted {
            self.seen = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        }
        size - self.next.wrapping_sub(self.seen).min(size)
    }

    /// Writes the next entry; there must be room for it, or an older one is lost.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        let at = (self.next & self.ring.mask) as usize;
        // SAFETY: the masked index is inside the ring, and entries between the published index and the consumer's belong
        // to this end.
        unsafe { self.ring.entries.add(at).write_volatile(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Publishes all pushed entries to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.word(self.ring.producer).store(self.next, Ordering::Release);
    }

    /// Returns true if the kernel has not taken all entries yet.
    pub(super) fn is_waiting(&mut self) -> bool {
        self.seen = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        self.seen != self.next
    }

    /// Returns true if the kernel has to be woken by a call.
    #[inline]
    pub(super) fn wants_wakeup(&self) -> bool {
        // The index must be visible before the flag is read (the kernel does it the other way round).
        std::sync::atomic::fence(Ordering::SeqCst);
        self.ring.wants_wakeup()
    }
}

/// A ring of which this process is the consumer: receive ring and completion ring.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Our index; published by [`Consumer::release`].
    next: u32,
    /// The kernel's index when last read.
    seen: u32,
}

impl<T: Copy> Consumer<T> {
    /// Maps the ring; continues at its current index.
    pub(super) fn map(socket: BorrowedFd<'_>, place: Place) -> io::Result<Self> {
        let ring = Ring::map(socket, place)?;
        let next = ring.word(ring.consumer).load(Ordering::Relaxed);
        let seen = ring.word(ring.producer).load(Ordering::Acquire);
        Ok(Self { ring, next, seen })
    }

    /// Returns the number of entries of the ring.
    pub(super) const fn size(&self) -> u32 {
        self.ring.mask + 1
    }

    /// Returns the number of available entries, at most `wanted`; reads the kernel's index again only if
    /// fewer were available when last read.
    #[inline]
    pub(super) fn waiting(&mut self, wanted: u32) -> u32 {
        if self.seen.wrapping_sub(self.next) < wanted {
            self.seen = self.ring.word(self.ring.producer).load(Ordering::Acquire);
        }
        self.seen.wrapping_sub(self.next).min(self.ring.mask + 1).min(wanted)
    }

    /// Returns the `n`th available entry.
    #[inline]
    pub(super) fn peek(&self, n: u32) -> T {
        let at = (self.next.wrapping_add(n) & self.ring.mask) as usize;
        // SAFETY: the masked index is inside the ring; entries before the producer's index, which was read
        // with acquire, are not written until they are released. Entries are integers, so every value is
        // valid.
        unsafe { self.ring.entries.add(at).read_volatile() }
    }

    /// Returns the first `n` entries to the kernel.
    #[inline]
    pub(super) fn release(&mut self, n: u32) {
        self.next = self.next.wrapping_add(n);
        self.ring.word(self.ring.consumer).store(self.next, Ordering::Release);
    }
}
