//! A small seeded generator for jitter: the core has no randomness of its own, the driver brings the seed.

/// SplitMix64. Good enough to spread retries; never used where an adversary must not guess.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same sequence for the same seed, on every platform.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A value in `0..=max`, without modulo bias worth speaking of (128-bit multiply).
    pub const fn up_to(&mut self, max: u64) -> u64 {
        ((self.next_u64() as u128 * (max as u128 + 1)) >> 64) as u64
    }
}
