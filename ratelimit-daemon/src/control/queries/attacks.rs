//! The rules of attack detection.

use std::net::IpAddr;

use ratelimit_core::detection::Rules;

use crate::control::state::State;

/// The rules of attack detection, and their inputs.
pub struct AttackRules {
    /// The kinds of attacks.
    pub rules: Rules,
    /// Whether packets are always sampled, because the configuration names attacks.
    pub always: bool,
    /// The addresses of this host.
    pub own: Vec<IpAddr>,
}

/// Returns the current rules.
pub fn attack_rules(state: &State) -> AttackRules {
    AttackRules {
        rules: state.intent.config.attack_rules(),
        always: !state.intent.config.attacks.is_empty(),
        own: own_addresses(state),
    }
}

/// Returns the addresses at which every wanted packet has a socket. Empty if another program
/// follows ours, because it may answer without a socket.
fn own_addresses(state: &State) -> Vec<IpAddr> {
    let mut interfaces = state.intent.config.interfaces.iter();
    if interfaces.any(|interface| interface.next.is_some()) {
        return Vec::new();
    }
    state.protection.all().own_addresses().collect()
}
