//! The scope of the state of the node's limits.
//!
//! The words of a node policy are stored at its scope modulo [`NODE_POLICIES`]. The upper bits of a
//! scope identify the meaning of the words, the lower bits their position. If the meaning changes,
//! the state starts from zero at another position, which is emptied first; otherwise the state is
//! kept, also over a restart.

use ratelimit_common::{Policy, layout::NODE_POLICIES};

/// The scope of words of this meaning, while `held` is the policy in force.
pub fn of(meaning: u32, held: Option<&Policy>) -> u32 {
    let above = meaning - meaning % NODE_POLICIES;
    match held.map(Policy::scope) {
        Some(scope) if scope - scope % NODE_POLICIES == above => scope,
        Some(scope) => above + (scope + 1) % NODE_POLICIES,
        None => above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_keeps_its_place_and_another_one_gets_another() {
        let policy = |scope| Policy::new(&[], scope, false).unwrap();
        let first = of(0xdead_beef, None);
        let held = policy(first);
        assert_eq!(of(0xdead_beef, Some(&held)), first);
        for meaning in [0, 0xdead_beee - 16, u32::MAX] {
            let mut held = held;
            for _ in 0..2 * NODE_POLICIES {
                let next = of(meaning ^ held.scope(), Some(&held));
                let same = next == held.scope();
                assert!(same || next % NODE_POLICIES != held.scope() % NODE_POLICIES);
                held = policy(next);
            }
        }
    }
}
