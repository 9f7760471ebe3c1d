//! Programs that tests of one process use one after the other: the verifier takes most of a second
//! for each.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::Result;
use ratelimit_common::{Instant, Verdict};

use crate::{
    program::{Constants, Program},
    scene::{Judge, Scene},
};

/// More of them would take too many descriptors: each has those of its maps.
const FREE_MAX: usize = 4;

/// Unused programs, the last used one last.
static FREE: Mutex<Vec<(Constants, Program)>> = Mutex::new(Vec::new());

/// A program that may have run other scenes before: its lists are empty, nothing is used, and its
/// counters continue.
pub struct Pooled {
    constants: Constants,
    program: Option<Program>,
}

impl Pooled {
    /// A program with these constants, in which a scene is set up. It has the features that the
    /// scene uses, as the daemon loads it.
    pub fn with(constants: &Constants, scene: &Scene) -> Result<Self> {
        let constants = Constants {
            features: scene.features(),
            ..*constants
        };
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.iter().position(|(has, _)| *has == constants);
        let found = place.map(|place| free.remove(place));
        drop(free);
        let mut program = match found {
            Some((_, mut program)) => {
                program.clear()?;
                program
            }
            None => Program::load(&constants)?,
        };
        scene.set_up(&mut program)?;
        Ok(Self {
            constants,
            program: Some(program),
        })
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        // State left by a failed test is not reused.
        let Some(program) = self.program.take().filter(|_| !thread::panicking()) else {
            return;
        };
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.push((self.constants, program));
        let oldest = (free.len() > FREE_MAX).then(|| free.remove(0));
        drop(free);
        drop(oldest);
    }
}

impl Deref for Pooled {
    type Target = Program;

    fn deref(&self) -> &Program {
        self.program.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Program {
        self.program.as_mut().expect("it is there until the drop")
    }
}

impl Judge for Pooled {
    fn name(&self) -> &'static str {
        Judge::name(&**self)
    }

    fn takes(&self, frame_bytes: usize) -> bool {
        Program::takes(self, frame_bytes)
    }

    fn judge(&mut self, frame: &[u8], now: Instant) -> Verdict {
        Judge::judge(&mut **self, frame, now)
    }
}
