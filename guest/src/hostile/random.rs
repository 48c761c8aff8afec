//! Pseudo-random numbers, reproducible for a seed.

/// Marsaglia's 64-bit xorshift generator.
pub(super) struct Random(u64);

impl Random {
    /// Creates the generator of one vCPU.
    pub(super) fn new(seed: u32, vcpu: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ u64::from(seed) << 32 ^ (vcpu as u64 + 1))
    }

    /// Returns the next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }
}
