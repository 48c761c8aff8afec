//! Memory shared between this process and guests: a memfd, mapped once here and into any number of guests.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use bootinfo::{Shared, map};
use nic_port::Memory;
use ring::Region;
use rustix::fs::{
    MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create,
};
use signals::guard::Guard;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap,
    MmapRegion,
};

/// Size of a huge page, in octets.
const HUGE_PAGE: usize = 2 << 20;

/// A mapped memfd: zeroed, shared, freed with its last user.
#[derive(Debug)]
pub struct SharedMemory {
    mapping: MmapRegion,
    huge: bool,
}

impl SharedMemory {
    /// Creates `len` octets of shared memory, in huge pages if enough are free on this host, else in 4 KiB
    /// pages that are allocated on first touch.
    pub fn new(name: &str, len: usize) -> Result<Self> {
        // Mapping reserves the huge pages, or fails at once if there are too few.
        if len.is_multiple_of(HUGE_PAGE)
            && let Ok(memory) = Self::map(name, len, true)
        {
            return Ok(memory);
        }
        Self::map(name, len, false)
    }

    /// Creates shared memory of 4 KiB pages even if huge pages are free: right for sparse tables.
    pub fn sparse(name: &str, len: usize) -> Result<Self> {
        Self::map(name, len, false)
    }

    fn map(name: &str, len: usize, huge: bool) -> Result<Self> {
        let file = memfd(name, huge).context("cannot make shared memory (memfd_create)")?;
        file.set_len(len as u64).with_context(|| format!("cannot size shared memory to {len} octets"))?;
        // Huge pages are reserved and populated now or not at all: a later shortage would be a SIGBUS in the
        // middle of a packet. MAP_POPULATE alone does not report a shortage.
        let pages = if huge { libc::MAP_POPULATE } else { libc::MAP_NORESERVE };
        let mapping = MmapRegionBuilder::new(len)
            .with_file_offset(FileOffset::new(file, 0))
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_SHARED | pages)
            .with_hugetlbfs(huge)
            .build()
            .with_context(|| format!("cannot map {len} octets of shared memory"))?;
        // A recipient of the descriptor could otherwise truncate the memory, which would raise SIGBUS here.
        if let Some(file) = mapping.file_offset().map(FileOffset::file) {
            fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW)
                .context("cannot seal shared memory")?;
        }
        Ok(Self { mapping, huge })
    }

    /// Maps shared memory that another process has made, sealed against a change of its length. Where `writable` is false this
    /// process cannot write it; where the descriptor is read-only it must be false.
    ///
    /// # Errors
    /// It is no such memory, or the kernel does not map it so.
    pub fn adopt(file: OwnedFd, writable: bool) -> Result<Self> {
        let seals = fcntl_get_seals(&file).context("no shared memory was handed over")?;
        ensure!(
            seals.contains(SealFlags::SHRINK | SealFlags::GROW),
            "shared memory was handed over that can change its length"
        );
        let len = fstat(&file).context("cannot measure shared memory")?.st_size;
        let len = usize::try_from(len).context("shared memory that is too long")?;
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let mapping = MmapRegionBuilder::new(len)
            .with_file_offset(FileOffset::new(file.into(), 0))
            .with_mmap_prot(rights)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .build()
            .with_context(|| format!("cannot map {len} octets of shared memory"))?;
        Ok(Self { mapping, huge: false })
    }

    /// Returns a descriptor of the memory by which nobody can write it, and prevents further seals. Whoever is handed it
    /// cannot make another one of it: that takes a path, and the right to open the file for writing.
    ///
    /// # Errors
    /// The kernel refuses it, or there is no /proc.
    pub fn read_only(&self) -> Result<File> {
        self.seal_against_seals()?;
        let file = self.file().context("shared memory without a file")?;
        fchmod(file, Mode::RUSR).context("cannot withdraw rights to shared memory")?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::open(&path).with_context(|| format!("cannot open shared memory for reading ({path})"))
    }

    /// Returns the octets of its pages that exist.
    pub fn resident(&self) -> u64 {
        let blocks = self.file().and_then(|file| fstat(file).ok()).map_or(0, |stat| stat.st_blocks);
        u64::try_from(blocks).unwrap_or(0).saturating_mul(512)
    }

    /// Returns the address of the first octet.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr()
    }

    /// Returns the length in octets.
    pub fn len(&self) -> usize {
        self.mapping.size()
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the underlying memfd.
    pub fn file(&self) -> Option<&File> {
        self.mapping.file_offset().map(FileOffset::file)
    }

    /// Prevents any new writable mapping; existing ones stay. Also prevents further seals.
    pub(crate) fn seal_against_writers(&self) -> Result<()> {
        let file = self.file().context("shared memory without a file")?;
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(file, seals).context("cannot seal shared memory (F_SEAL_FUTURE_WRITE)")
    }

    /// Prevents further seals, such as one against its writers.
    fn seal_against_seals(&self) -> Result<()> {
        let file = self.file().context("shared memory without a file")?;
        fcntl_add_seals(file, SealFlags::SEAL).context("cannot seal shared memory (F_SEAL_SEAL)")
    }

    /// Returns true if it is in huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }
}

fn memfd(name: &str, huge: bool) -> io::Result<File> {
    let pages = if huge { MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB } else { MemfdFlags::empty() };
    Ok(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages)?.into())
}

/// A guest's RAM, from guest-physical address 0.
#[derive(Debug)]
pub struct GuestRam {
    /// Set once the file was handed to a process that can take pages out of it. Dropped before the mapping.
    guard: OnceLock<Guard>,
    /// View of the rust-vmm crates.
    pub(crate) memory: GuestMemoryMmap,
    base: *mut u8,
    len: usize,
    huge: bool,
    words: Words,
}

/// Location of the words that a firmware shares with the host.
#[derive(Debug)]
enum Words {
    /// In its RAM, at [`map::SHARED`].
    Inside,
    /// Outside any guest's memory.
    OutsideGuest(Box<Shared>),
}

// SAFETY: the pointer is only an address of what `memory` owns.
unsafe impl Send for GuestRam {}
// SAFETY: as above; all access goes through `Region` and `vm_memory`, which allow races.
unsafe impl Sync for GuestRam {}

impl GuestRam {
    /// Creates `len` octets of RAM, which must hold the words that the firmware shares with the host.
    pub fn new(name: &str, len: usize) -> Result<Self> {
        ensure!(
            len as u64 >= map::SHARED + size_of::<Shared>() as u64,
            "{len} octets of memory do not hold what the firmware shares with the host"
        );
        Self::with_words(name, len, Words::Inside)
    }

    /// Creates RAM for a guest that shares no words with the host: the words lie outside, so that the guest
    /// never sees what the host writes there.
    pub(crate) fn with_words_outside(name: &str, len: usize) -> Result<Self> {
        Self::with_words(name, len, Words::OutsideGuest(Box::default()))
    }

    fn with_words(name: &str, len: usize, words: Words) -> Result<Self> {
        Self::of(SharedMemory::new(name, len)?, words)
    }

    /// Creates RAM in this memory; for words inside it must be long enough.
    fn of(memory: SharedMemory, words: Words) -> Result<Self> {
        memory.seal_against_seals()?;
        let len = memory.len();
        let (base, huge) = (memory.as_ptr(), memory.is_huge());
        let region = GuestRegionMmap::new(memory.mapping, GuestAddress(0))
            .context("guest RAM does not fit its address space")?;
        let memory = GuestMemoryMmap::from_regions(vec![region]).context("guest RAM is not one region")?;
        Ok(Self { guard: OnceLock::new(), memory, base, len, huge, words })
    }

    /// Returns the RAM as a region for rings and frames.
    pub fn region(&self) -> Region {
        // SAFETY: the mapping lives as long as `self`, which every user of the region holds through its `Arc<Vm>`;
        // this program makes no references into it but to the atomics of `bootinfo::Shared`.
        unsafe { Region::new(self.base, 0, self.len as u64) }
    }

    /// Returns the words that the firmware shares with the host.
    pub fn shared(&self) -> &Shared {
        match &self.words {
            // SAFETY: `new` has checked that the place, which is page-aligned, lies in the mapping, and that lives as long as
            // `self`. `Shared` is nothing but atomics, for which every bit pattern is valid and which the guest may change at
            // any time.
            Words::Inside => unsafe { &*self.base.add(map::SHARED as usize).cast::<Shared>() },
            Words::OutsideGuest(words) => words,
        }
    }

    /// Returns true if our firmware runs in it (and not a Linux kernel).
    pub(crate) fn is_of_firmware(&self) -> bool {
        matches!(self.words, Words::Inside)
    }

    /// Returns the underlying memfd.
    pub(crate) fn file(&self) -> Option<&File> {
        let region = self.memory.iter().next()?;
        region.file_offset().map(FileOffset::file)
    }

    /// Returns true if a process that was handed its file has taken pages away that were accessed afterwards.
    /// The whole RAM reads as zeros since then.
    pub fn was_punched(&self) -> bool {
        self.guard.get().is_some_and(Guard::is_hit)
    }

    /// Returns the length in octets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if it is in huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }
}

impl Memory for GuestRam {
    fn region(&self) -> Region {
        Self::region(self)
    }

    fn octets(&self) -> usize {
        self.len
    }

    fn share_file(&self) -> io::Result<&File> {
        if self.guard.get().is_none() {
            let base = NonNull::new(self.base).ok_or(io::ErrorKind::NotFound)?;
            // SAFETY: the mapping is dropped with `memory`, after the guard. It is only reached by `Region` and `vm_memory`,
            // which copy, and by the atomics of `Shared`, for which every bit pattern is valid.
            let guard = unsafe { Guard::over(base, self.len) }?;
            // Another NIC of the router may have set it already.
            let _ = self.guard.set(guard);
        }
        self.file().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests;
