//! Memory of a peer: its descriptors are checked and mapped, and accesses survive when the peer takes the
//! memory away.
//!
//! ```text
//!   guest-physical     0      640 K  1 M                 2 G        4 G        6 G
//!                      [ file 1 ]    [ file 1            )          [ file 1   )
//!   mapped here           [     ]       [                ]      [              ]
//! ```
//!
//! A peer can truncate its file at any time, and then an access to the rest of the mapping raises SIGBUS: see
//! [`Guard`]. Only files on tmpfs and hugetlbfs are accepted: behind any other file there is a disk, or a
//! program on which a page fault here would block.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use ring::regions::MOST_REGIONS;
use ring::{Region, Regions};
use rustix::fs::{fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use signals::guard::Guard;
use vhost::vhost_user::message::VhostUserMemoryRegion;

/// Octets of a small page.
const PAGE: u64 = 4096;
/// Size of the largest page that a file may consist of: 1 GiB.
const LARGEST_PAGE: u64 = 1 << 30;

/// Reason why a memory table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// It has no range, or too many.
    #[error("a memory table of {0} ranges, expected 1 to {MOST_REGIONS}")]
    Count(usize),
    /// A range does not have exactly one descriptor.
    #[error("a memory table of {ranges} ranges with {descriptors} descriptors, expected one each")]
    Descriptors {
        /// Number of ranges.
        ranges: usize,
        /// Number of descriptors.
        descriptors: usize,
    },
    /// A range is empty or wraps around the end of an address space.
    #[error("the memory range at {0:#x} is empty, or goes beyond the end of its address space")]
    Range(u64),
    /// Two ranges overlap.
    #[error("the memory ranges at {0:#x} and {1:#x} overlap")]
    Overlap(u64, u64),
    /// The descriptor is not that of a file on a file system in memory.
    #[error("the memory range at {0:#x} lies in a file that is not of tmpfs, hugetlbfs or memfd_create(2)")]
    Disk(u64),
    /// The total exceeds the permitted size.
    #[error("a memory table of {}, and at most {} may be shared (memory_max)", Size(*.octets), Size(*.most))]
    Much {
        /// Octets to be mapped, in whole pages.
        octets: u64,
        /// Maximum octets.
        most: u64,
    },
    /// The file ends before the range does.
    #[error("the memory range at {guest:#x} ends at octet {end:#x} of its file, which has {len:#x}")]
    Short {
        /// Guest-physical address of the range.
        guest: u64,
        /// End of the range in the file.
        end: u64,
        /// Length of the file in octets.
        len: u64,
    },
    /// The kernel refuses to map it.
    #[error("the memory range at {guest:#x} cannot be mapped: {why}")]
    Map {
        /// Guest-physical address of the range.
        guest: u64,
        /// The kernel's error.
        why: io::Error,
    },
}

/// A number of octets, displayed in the largest unit that is exact.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            octets if octets.is_multiple_of(1 << 30) => write!(out, "{} GiB", octets >> 30),
            octets if octets.is_multiple_of(1 << 20) => write!(out, "{} MiB", octets >> 20),
            octets => write!(out, "{octets} octets"),
        }
    }
}

/// Memory of a peer.
#[derive(Debug)]
pub struct PeerMemory {
    ranges: Vec<Mapped>,
}

/// A mapped range.
#[derive(Debug)]
struct Mapped {
    span: Span,
    /// Address of its first octet.
    base: NonNull<u8>,
    mapping: Mapping,
}

// SAFETY: the pointer is only an address within the mapping, which is ours until it is dropped.
unsafe impl Send for Mapped {}
// SAFETY: as above; all access goes through `Region`, which allows races.
unsafe impl Sync for Mapped {}

impl PeerMemory {
    /// Maps each range of a table.
    ///
    /// # Errors
    /// One line that names the range that the kernel refuses to map; then nothing is mapped.
    pub fn map(table: Table) -> Result<Self, MemoryError> {
        let ranges = table.spans.into_iter().zip(&table.files).map(|(span, file)| Mapped::new(span, file));
        Ok(Self { ranges: ranges.collect::<Result<_, _>>()? })
    }

    /// Returns the ranges as used by rings.
    pub fn regions(&self) -> Option<Regions> {
        Regions::new(self.ranges.iter().map(Mapped::region))
    }

    /// Translates an address `user` of the peer's own address space to a guest-physical one.
    pub fn guest_address(&self, user: u64) -> Option<u64> {
        self.ranges.iter().find_map(|range| {
            let (first, len, guest) =
                (range.span.place.user_addr, range.span.place.memory_size, range.span.place.guest_phys_addr);
            let offset = user.checked_sub(first)?;
            (offset < len).then(|| guest + offset)
        })
    }

    /// Returns true if the peer has taken memory away that was accessed afterwards. It reads as zeros since
    /// then.
    pub fn is_broken(&self) -> bool {
        self.ranges.iter().any(|range| range.mapping.guard.is_hit())
    }
}

/// A checked memory table, not mapped yet.
#[derive(Debug)]
pub struct Table {
    spans: Vec<Span>,
    files: Vec<OwnedFd>,
}

impl Table {
    /// Checks all ranges and their files; `most` is the permitted total of octets.
    ///
    /// # Errors
    /// One line that names the invalid range, or says that the total is too large.
    pub fn new(
        places: &[VhostUserMemoryRegion],
        files: Vec<OwnedFd>,
        most: u64,
    ) -> Result<Self, MemoryError> {
        if !(1..=MOST_REGIONS).contains(&places.len()) {
            return Err(MemoryError::Count(places.len()));
        }
        if files.len() != places.len() {
            return Err(MemoryError::Descriptors { ranges: places.len(), descriptors: files.len() });
        }
        places.iter().try_for_each(check)?;
        check_overlaps(places)?;
        let spans = places.iter().zip(&files).map(|(place, file)| Span::of(*place, file));
        let spans = spans.collect::<Result<Vec<_>, _>>()?;
        let octets = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.octets));
        if octets > most {
            return Err(MemoryError::Much { octets, most });
        }
        Ok(Self { spans, files })
    }
}

/// The pages of a file that contain a range.
struct Span {
    place: VhostUserMemoryRegion,
    start: u64,
    octets: u64,
}

impl fmt::Debug for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (guest, octets) = (self.place.guest_phys_addr, self.place.memory_size);
        write!(out, "{octets:#x} octets at {guest:#x}")
    }
}

impl Span {
    /// Examines the file of a range, without mapping it.
    fn of(place: VhostUserMemoryRegion, file: &OwnedFd) -> Result<Self, MemoryError> {
        let (guest, offset, size) = (place.guest_phys_addr, place.mmap_offset, place.memory_size);
        // Only regular files of tmpfs and hugetlbfs support seals, whether there are any or not (fcntl(2),
        // F_GET_SEALS). This comes first because it asks no file system: behind any other file there may be a
        // program of the peer's (FUSE) that does not answer fstat(2).
        fcntl_get_seals(file).map_err(|_| MemoryError::Disk(guest))?;
        let status = fstat(file).map_err(|why| MemoryError::Map { guest, why: why.into() })?;
        let (end, len) = (offset + size, status.st_size as u64);
        if end > len {
            return Err(MemoryError::Short { guest, end, len });
        }
        // Huge pages can only be mapped as a whole.
        let page = (status.st_blksize as u64).clamp(PAGE, LARGEST_PAGE);
        let page = if page.is_power_of_two() { page } else { PAGE };
        let start = offset & !(page - 1);
        let octets = (end - start).checked_next_multiple_of(page).ok_or(MemoryError::Range(guest))?;
        Ok(Self { place, start, octets })
    }
}

impl Mapped {
    fn new(span: Span, file: &OwnedFd) -> Result<Self, MemoryError> {
        let why = |why| MemoryError::Map { guest: span.place.guest_phys_addr, why };
        let mapping = Mapping::new(file, span.start, span.octets).map_err(why)?;
        // SAFETY: offset - start is less than the octets mapped, of which `size` follow.
        let base = unsafe { mapping.pages.base.add((span.place.mmap_offset - span.start) as usize) };
        Ok(Self { span, base, mapping })
    }

    fn region(&self) -> Region {
        let place = &self.span.place;
        // SAFETY: the range is mapped readable and writable until `self` is dropped, which outlives all queues
        // (`Session`), and this program makes no references into it.
        unsafe { Region::new(self.base.as_ptr(), place.guest_phys_addr, place.memory_size) }
    }
}

/// Checks that neither its addresses nor its offsets in the file overflow.
fn check(place: &VhostUserMemoryRegion) -> Result<(), MemoryError> {
    let (guest, size) = (place.guest_phys_addr, place.memory_size);
    let fits = |start: u64| start.checked_add(size).is_some_and(|end| end <= i64::MAX as u64);
    let (user, offset) = (place.user_addr, place.mmap_offset);
    let good = size > 0 && fits(guest) && fits(offset) && user.checked_add(size).is_some();
    if good { Ok(()) } else { Err(MemoryError::Range(guest)) }
}

fn check_overlaps(places: &[VhostUserMemoryRegion]) -> Result<(), MemoryError> {
    let mut spans: Vec<_> = places
        .iter()
        .map(|place| (place.guest_phys_addr, place.guest_phys_addr + place.memory_size))
        .collect();
    spans.sort_unstable();
    let pairs = spans.iter().zip(spans.iter().skip(1));
    match pairs.into_iter().find(|((_, end), (next, _))| end > next) {
        Some(((one, _), (other, _))) => Err(MemoryError::Overlap(*one, *other)),
        None => Ok(()),
    }
}

/// Part of a file, mapped and guarded.
#[derive(Debug)]
struct Mapping {
    // Dropped first: the guard must not cover what is mapped at this address later.
    guard: Guard,
    pages: Pages,
}

impl Mapping {
    fn new(file: &OwnedFd, start: u64, octets: u64) -> io::Result<Self> {
        let pages = Pages::map(file, start, octets)?;
        // SAFETY: the pages stay until after the guard, and are only reached by `Region`.
        let guard = unsafe { Guard::over(pages.base, pages.octets) }?;
        Ok(Self { guard, pages })
    }
}

/// Part of a file, mapped.
#[derive(Debug)]
struct Pages {
    base: NonNull<u8>,
    octets: usize,
}

impl Pages {
    fn map(file: &OwnedFd, start: u64, octets: u64) -> io::Result<Self> {
        let octets = usize::try_from(octets).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), octets, access, flags, file, start) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, octets })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and is not used any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.octets) };
    }
}

#[cfg(test)]
mod tests;
