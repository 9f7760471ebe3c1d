//! Whether an interface sends back what the program answers to a challenge.

use ratelimit_core::config::{Interface, Mode};
use ratelimit_interface::{AttachMode, InterfaceState};

use super::{device::Device, finding::Finding};

const CHECK: &str = "challenge-answers";

/// Whether the program can answer there. `config` is the interface as it is configured, where it
/// is.
pub fn examine(state: &InterfaceState, device: &Device, config: Option<&Interface>) -> Finding {
    let runs = state.program.map(|(mode, _)| mode);
    let is_generic = match runs {
        Some(mode) => mode == AttachMode::Generic,
        None => config.is_some_and(|it| it.mode == Mode::Generic),
    };
    if is_generic {
        return Finding::ok(CHECK, "sent back before the network stack, in generic mode");
    }
    let is_veth = state.kind.as_deref() == Some("veth");
    match device.xdp {
        // With GRO alone the peer has a queue for XDP frames, but `veth_xdp_flush` wakes no reader.
        Some(features) if is_veth && !features.sends_for_others() => Finding::warning(
            CHECK,
            "dropped: the other end of the veth has no XDP program",
            format!(
                "challenged clients receive no answer; set mode = \"generic\" for {}",
                state.name
            ),
        ),
        Some(_) if is_veth => Finding::unknown(
            CHECK,
            "sent back if the other end of the veth has an XDP program, dropped if it only has GRO",
            format!("mode = \"generic\" for {} needs neither", state.name),
        ),
        Some(features) if features.is_native() => Finding::ok(CHECK, "sent back by the driver"),
        // Then the program runs in generic mode.
        Some(_) => Finding::ok(CHECK, "sent back before the network stack"),
        None => Finding::unknown(
            CHECK,
            "unknown",
            format!(
                "Linux reports this since 6.3; mode = \"generic\" for {} does not depend on the \
                 driver",
                state.name
            ),
        ),
    }
}
