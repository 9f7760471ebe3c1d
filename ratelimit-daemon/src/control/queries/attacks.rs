//! What the detection of attacks looks for.

use std::net::IpAddr;

use ratelimit_core::detection::Rules;

use crate::control::state::State;

/// What the detection of attacks looks for.
pub struct AttackRules {
    /// The kinds of attacks.
    pub rules: Rules,
    /// Whether packets are sampled all the time, since the configuration names attacks.
    pub always: bool,
    /// The addresses of this host.
    pub own: Vec<IpAddr>,
}

/// What the detection of attacks looks for at the moment.
pub fn attack_rules(state: &State) -> AttackRules {
    AttackRules {
        rules: state.intent.config.attack_rules(),
        always: !state.intent.config.attacks.is_empty(),
        own: own_addresses(state),
    }
}

/// The addresses at which a packet has a socket here, or nobody wants it. None where another program comes behind ours: it may
/// answer without a socket.
fn own_addresses(state: &State) -> Vec<IpAddr> {
    let mut interfaces = state.intent.config.interfaces.iter();
    if interfaces.any(|interface| interface.next.is_some()) {
        return Vec::new();
    }
    state.protection.all().own_addresses().collect()
}
