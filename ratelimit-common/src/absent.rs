//! State that a test does not have: a value of this type cannot exist.

use crate::{
    AtomicWords, Policy,
    charge::Words,
    node::{PooledLimits, Share},
};

pub enum Absent {}

impl AtomicWords for Absent {
    fn load(&self, _: u32) -> u64 {
        match *self {}
    }

    fn compare_exchange(&self, _: u32, _: u64, _: u64) -> Result<(), u64> {
        match *self {}
    }
}

impl Words for Absent {
    type Ring = Self;

    fn load(&self, _: usize) -> u64 {
        match *self {}
    }

    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        match *self {}
    }
}

impl PooledLimits for Absent {
    type Words = Self;

    fn words(&self, _: &Policy) -> Option<Self> {
        match *self {}
    }

    fn share(&self, _: &Policy, _: usize) -> Share {
        match *self {}
    }

    fn change_share(&self, _: &Policy, _: usize, _: impl Fn(Share) -> Share) {
        match *self {}
    }
}
