//! What each prototype provides.

pub trait Design {
    type Step: Copy + Default;
    /// Number of calls of `next` after which each look-up is done.
    const STEPS: usize;

    fn octets(&self) -> usize;
    fn first(&self, ip: u128) -> Self::Step;
    fn is_done(&self, step: Self::Step) -> bool;
    fn next(&self, step: Self::Step) -> Self::Step;
    fn found(&self, step: Self::Step) -> u32;
    /// Reads of cache lines for one look-up.
    fn reads(&self, ip: u128) -> usize;

    #[inline(always)]
    fn look_up(&self, ip: u128) -> u32 {
        let mut step = self.first(ip);
        for _ in 0..Self::STEPS {
            if self.is_done(step) {
                break;
            }
            step = self.next(step);
        }
        self.found(step)
    }
}

#[inline(always)]
pub fn prefetch<T>(of: &[T], at: usize) {
    if let Some(place) = of.get(at) {
        // SAFETY: a prefetch of a valid address has no effect but on caches.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }
}
