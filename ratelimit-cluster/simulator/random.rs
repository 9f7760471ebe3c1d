//! Random numbers from a seed: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).

/// A stream of random numbers.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// A place below `end`.
    pub fn place(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("a place in memory")
    }

    /// A number in a range, both ends included.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1).unsigned_abs()).cast_signed()
    }

    /// True with this probability, in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
