//! What is done when somebody takes memory away that is mapped here: a SIGBUS, in whatever thread touches it next.
//!
//! A peer can cut its own file short. Ours are sealed against that, but who has one in huge pages can punch a hole and take the
//! page for himself, and then there is none to put in its place. The handler puts zeros in the place of the whole mapping and takes
//! note; the access is repeated and goes on. Nothing that is shared can be read or changed there any more, and whoever looks after
//! it ends what stands on it ([`Guard::is_hit`]). A SIGBUS elsewhere is none of our business: the handler that was there
//! before has it.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that can be guarded at the same time.
pub const MOST: usize = 1024;
/// A place that is taken, whose mapping is not known yet.
const TAKEN: usize = 1;

/// One guarded mapping; free while `base` is 0.
struct Place {
    base: AtomicUsize,
    octets: AtomicUsize,
    hit: AtomicBool,
}

static PLACES: [Place; MOST] =
    [const { Place { base: AtomicUsize::new(0), octets: AtomicUsize::new(0), hit: AtomicBool::new(false) } };
        MOST];

/// The handler that was there before ours, or why ours could not be put in its place.
static BEFORE: OnceLock<Result<libc::sigaction, i32>> = OnceLock::new();

/// Guards one mapping until it is dropped.
#[derive(Debug)]
pub struct Guard {
    place: usize,
}

impl Guard {
    /// Guards a mapping of so many octets.
    ///
    /// # Errors
    /// The handler cannot be put in its place, or too many mappings are guarded already.
    ///
    /// # Safety
    /// The octets are one mapping of the caller's, which stays until the guard is dropped, and they are only reached in ways
    /// that are content with whatever is there: raw copies and atomics.
    pub unsafe fn over(base: NonNull<u8>, octets: usize) -> io::Result<Self> {
        if let Err(code) = BEFORE.get_or_init(listen) {
            return Err(io::Error::from_raw_os_error(*code));
        }
        let free = |place: &Place| {
            place.base.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let number = PLACES.iter().position(free).ok_or(io::ErrorKind::OutOfMemory)?;
        if let Some(place) = PLACES.get(number) {
            place.hit.store(false, Ordering::Relaxed);
            place.octets.store(octets, Ordering::Relaxed);
            place.base.store(base.as_ptr() as usize, Ordering::Release);
        }
        Ok(Self { place: number })
    }

    /// Whether memory was gone when it was touched.
    pub fn is_hit(&self) -> bool {
        PLACES.get(self.place).is_some_and(|place| place.hit.load(Ordering::Acquire))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(place) = PLACES.get(self.place) {
            place.base.store(0, Ordering::Release);
        }
    }
}

/// Puts the handler in place.
fn listen() -> Result<libc::sigaction, i32> {
    let code = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and calls nothing but what a handler may.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, before.as_mut_ptr()) } != 0 {
        return Err(code());
    }
    // SAFETY: the call has written it.
    Ok(unsafe { before.assume_init() })
}

/// Atomics, mmap(2) and sigaction(2): all of them may be used in a handler.
extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: errno is a variable of this thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid siginfo_t, and of SIGBUS it holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if !replace(address) {
        give_back();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Maps zeros in the place of the mapping in which the address lies; false if it lies in none.
fn replace(address: usize) -> bool {
    for place in &PLACES {
        let base = place.base.load(Ordering::Acquire);
        let octets = place.octets.load(Ordering::Relaxed);
        if base > TAKEN && address.wrapping_sub(base) < octets {
            place.hit.store(true, Ordering::Release);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: whoever guards a mapping answers for it that nothing else is there and that nobody relies on its content
            // (`Guard::over`).
            let mapped = unsafe { libc::mmap(base as *mut c_void, octets, protection, flags, -1, 0) };
            return mapped != libc::MAP_FAILED;
        }
    }
    false
}

/// The next attempt is for the handler that was there before.
fn give_back() {
    if let Some(Ok(before)) = BEFORE.get() {
        // SAFETY: it is what sigaction(2) told when ours took its place.
        unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
    }
}
