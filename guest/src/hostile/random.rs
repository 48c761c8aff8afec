//! Numbers without a pattern, the same ones for the same seed.

/// Marsaglia's xorshift, 64 bits.
pub(super) struct Random(u64);

impl Random {
    /// The numbers of one vCPU.
    pub(super) fn new(seed: u32, vcpu: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ u64::from(seed) << 32 ^ (vcpu as u64 + 1))
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }
}
