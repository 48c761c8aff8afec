//! Guards for mapped memory that others can take away: the next thread to touch it gets SIGBUS.
//!
//! A peer can truncate its own file. Our files are sealed against that, but a peer that holds one in huge
//! pages can punch a hole and take the page for itself, and then none is left to replace it. The handler
//! replaces the whole mapping by zeros and records the hit; the faulting access is repeated and succeeds.
//! Nothing shared can be read or changed through the mapping from then on, and its owner ends whatever
//! depends on it ([`Guard::is_hit`]). A SIGBUS elsewhere is passed to the previous handler.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Most mappings guarded at the same time: 32, the most that a peer may have, for each of 512 peers.
pub const MOST: usize = 16_384;
/// Value of `base` while a slot is being filled.
const TAKEN: usize = 1;

/// Slot for a guarded mapping; free while `base` is 0.
struct Place {
    base: AtomicUsize,
    octets: AtomicUsize,
    /// Number of mappings that it was filled with so far.
    fills: AtomicUsize,
    hit: AtomicBool,
}

impl Place {
    const fn new() -> Self {
        let (base, octets, fills) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { base, octets, fills, hit: AtomicBool::new(false) }
    }

    /// Fills it with a mapping; returns false if it is not free.
    fn fill(&self, base: usize, octets: usize) -> bool {
        // Reading is much cheaper than trying.
        if self.base.load(Ordering::Relaxed) != 0
            || self.base.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return false;
        }
        self.fills.fetch_add(1, Ordering::Relaxed);
        // A reader of the new length finds the new number of fills.
        fence(Ordering::Release);
        self.hit.store(false, Ordering::Relaxed);
        self.octets.store(octets, Ordering::Relaxed);
        self.base.store(base, Ordering::Release);
        true
    }

    fn free(&self) {
        self.base.store(0, Ordering::Release);
    }

    /// Returns base and length of its mapping, both of the same one even while another thread fills it again.
    fn mapping(&self) -> Option<(usize, usize)> {
        loop {
            let fills = self.fills.load(Ordering::Acquire);
            let base = self.base.load(Ordering::Acquire);
            if base <= TAKEN {
                return None;
            }
            let octets = self.octets.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.fills.load(Ordering::Relaxed) == fills {
                return Some((base, octets));
            }
        }
    }
}

static PLACES: [Place; MOST] = [const { Place::new() }; MOST];

/// Previous handler, or the error of installing ours.
static BEFORE: OnceLock<Result<libc::sigaction, i32>> = OnceLock::new();

/// Guards one mapping until this is dropped.
#[derive(Debug)]
pub struct Guard {
    place: usize,
}

impl Guard {
    /// Guards a mapping of so many octets.
    ///
    /// # Errors
    /// The handler cannot be installed, or too many mappings are guarded already.
    ///
    /// # Safety
    /// The octets must be one mapping of the caller's, which outlives the guard, and all accesses to it must
    /// tolerate any content: raw copies and atomics.
    pub unsafe fn over(base: NonNull<u8>, octets: usize) -> io::Result<Self> {
        if let Err(code) = BEFORE.get_or_init(listen) {
            return Err(io::Error::from_raw_os_error(*code));
        }
        let is_filled = |place: &Place| place.fill(base.as_ptr() as usize, octets);
        let place = PLACES.iter().position(is_filled).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { place })
    }

    /// Returns true if memory was missing when it was touched.
    pub fn is_hit(&self) -> bool {
        PLACES.get(self.place).is_some_and(|place| place.hit.load(Ordering::Acquire))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(place) = PLACES.get(self.place) {
            place.free();
        }
    }
}

/// Installs the handler.
fn listen() -> Result<libc::sigaction, i32> {
    let code = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: an all-zero sigaction is valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO requires, and is async-signal-safe.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, before.as_mut_ptr()) } != 0 {
        return Err(code());
    }
    // SAFETY: the call has initialized it.
    Ok(unsafe { before.assume_init() })
}

/// Signal handler. It only uses atomics, mmap(2) and sigaction(2), all of which are async-signal-safe.
extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: errno is a variable of this thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid siginfo_t, and for SIGBUS it holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if !replace(address) {
        restore_previous_handler();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Replaces the mapping that contains the address by zeros. Returns false if there is none.
fn replace(address: usize) -> bool {
    for place in &PLACES {
        let Some((base, octets)) = place.mapping() else { continue };
        if address.wrapping_sub(base) < octets {
            place.hit.store(true, Ordering::Release);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: the owner of a guard guarantees that the range is one mapping and that no code relies
            // on its content (`Guard::over`). It is still there, because the interrupted code accesses it.
            let mapped = unsafe { libc::mmap(base as *mut c_void, octets, protection, flags, -1, 0) };
            return mapped != libc::MAP_FAILED;
        }
    }
    false
}

/// Restores the previous handler, which then gets the repeated fault.
fn restore_previous_handler() {
    if let Some(Ok(before)) = BEFORE.get() {
        // SAFETY: it is the action that sigaction(2) returned when ours was installed.
        unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn base_and_length_belong_to_one_mapping_while_a_place_is_used_again() {
        const FILLS: usize = 200_000;
        let place = Place::new();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..FILLS {
                    let base = (number % 2 + 1) << 20;
                    assert!(place.fill(base, base >> 8), "it is free");
                    place.free();
                }
            });
            while !writer.is_finished() {
                if let Some((base, octets)) = place.mapping() {
                    assert_eq!(octets, base >> 8);
                }
            }
        });
        assert!(place.fill(1 << 20, 1) && !place.fill(2 << 20, 2), "one mapping has it");
        assert_eq!(place.mapping(), Some((1 << 20, 1)));
        place.free();
        assert_eq!(place.mapping(), None);
    }
}
