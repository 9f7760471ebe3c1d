//! Two generations of the tables that judge packets. One of them is in force.
//!
//! A change of several tables is written into the other generation, and then a single word
//! activates it. A packet reads this word once, and uses its generation in all tables. So it is
//! judged by the old or by the new state.

/// One of the two generations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Generation {
    /// The initial generation of tables.
    #[default]
    First,
    /// The other one.
    Second,
}

impl Generation {
    /// Returns the generation with this number. Only one bit is read.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        match number & 1 {
            0 => Self::First,
            _ => Self::Second,
        }
    }

    /// Returns the other generation.
    pub const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// A value for each generation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct ByGeneration<T> {
    first: T,
    second: T,
}

impl<T: Copy> ByGeneration<T> {
    /// Uses the same value in both.
    pub const fn both(value: T) -> Self {
        Self {
            first: value,
            second: value,
        }
    }

    /// Replaces the value of one generation.
    pub const fn with(mut self, generation: Generation, value: T) -> Self {
        match generation {
            Generation::First => self.first = value,
            Generation::Second => self.second = value,
        }
        self
    }
}

impl<T> ByGeneration<T> {
    /// The value of a generation.
    #[inline(always)]
    pub fn of(&self, generation: Generation) -> &T {
        #[cfg(target_arch = "bpf")]
        {
            let mut number = generation as usize;
            // SAFETY: a register moved to itself, and one of the two values. The compiler would
            // make a mask of the number, of whose two values the verifier follows each on its own.
            unsafe {
                core::arch::asm!(
                    "{0} = {0}",
                    inout(reg) number,
                    options(pure, nomem, nostack, preserves_flags),
                );
                &*core::ptr::from_ref(&self.first).wrapping_add(number)
            }
        }
        #[cfg(not(target_arch = "bpf"))]
        match generation {
            Generation::First => &self.first,
            Generation::Second => &self.second,
        }
    }

    /// Returns what the function returns for each generation.
    pub fn each(mut value: impl FnMut(Generation) -> T) -> Self {
        Self {
            first: value(Generation::First),
            second: value(Generation::Second),
        }
    }

    /// Converts both values.
    pub fn map<U>(&self, convert: impl Fn(&T) -> U) -> ByGeneration<U> {
        ByGeneration::each(|generation| convert(self.of(generation)))
    }
}

impl<T: PartialEq> ByGeneration<T> {
    /// Whether both have the same value.
    pub fn is_settled(&self) -> bool {
        self.first == self.second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_keeps_its_value_while_the_other_one_changes() {
        let before = ByGeneration::both(1);
        assert!(before.is_settled());
        for generation in [Generation::First, Generation::Second] {
            let changed = before.with(generation.other(), 2);
            assert_eq!(
                (*changed.of(generation), *changed.of(generation.other())),
                (1, 2)
            );
            assert!(!changed.is_settled());
        }
    }
}
