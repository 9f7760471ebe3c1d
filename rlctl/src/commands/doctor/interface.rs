//! Checks of one interface and its driver.

use ratelimit_core::{
    api::InterfaceStatus,
    config::{Config, Mode},
};
use ratelimit_interface::{self as interface, AttachMode, InterfaceState};

use super::{
    Circumstances, answers,
    device::{self, Device},
    finding::Finding,
    frames, program,
    queues::Subject,
};

/// All findings about one interface.
pub fn examine(name: &str, known: &Circumstances) -> Vec<Finding> {
    let of_interface = |finding: Finding| finding.on(name);
    let state = match interface::query(name) {
        Ok(Some(state)) => state,
        Ok(None) => {
            let why = "if it is configured, it is protected as soon as it exists";
            let finding = Finding::error("interface", "there is no such interface", why);
            return vec![finding.fix("ip link").on(name)];
        }
        Err(error) => {
            let finding = Finding::unknown("interface", "unread", format!("{error:#}"));
            return vec![finding.fix(format!("ip link show dev {name}")).on(name)];
        }
    };
    let device = device::read(name, state.index).unwrap_or_default();
    let daemon = known.status.iter().flat_map(|it| &it.interfaces);
    let daemon = daemon.into_iter().find(|it| it.name == name);
    let config = known.config.iter().flat_map(|it| &it.interfaces);
    let config = config.into_iter().find(|it| it.name == name);
    // Netlink does not report programs at TCX.
    let is_at_tcx = match daemon {
        Some(it) => it.mode.as_deref() == Some("tcx"),
        None => config.is_some_and(|it| it.mode == Mode::Tcx),
    };
    let program = is_at_tcx.then_some((AttachMode::Tcx, 0));
    let state = InterfaceState {
        program: program.or(state.program),
        ..state
    };
    let is_wanted = daemon.is_some() || config.is_some();
    let has_challenge = known.config.iter().any(|it| it.challenge.is_some());
    let answers = has_challenge.then(|| answers::examine(&state, &device, config));
    let queues = Subject::new(&state, &device, has_challenge);
    let findings = [
        driver(&state),
        link_layer(&state, known.config.as_ref()),
        native(&state, &device, &queues, daemon),
        program::examine(&state, daemon, is_wanted),
        frames::mtu(&state, &device),
        frames::lro(&state, &device),
        frames::gro(&state, &device),
        queues.examine(),
        frames::vlan(&state, &device, has_challenge),
    ];
    findings
        .into_iter()
        .chain(answers)
        .chain(tunnel(&state, known.config.as_ref()))
        .map(of_interface)
        .collect()
}

fn driver(state: &InterfaceState) -> Finding {
    let check = "driver";
    if let Some(kind) = &state.kind {
        return Finding::ok(check, format!("{kind}, a virtual interface"));
    }
    if state.index == 1 {
        return Finding::ok(check, "loopback");
    }
    let Some((bus, device)) = &state.device else {
        let why = "the kernel names no device: Linux before 5.15, or an interface without one";
        return Finding::unknown(check, "unknown", why)
            .fix(format!("ethtool --driver {}", state.name));
    };
    match device::driver(bus, device) {
        Ok(name) => Finding::ok(check, format!("{name}, at {bus} {device}")),
        Err(error) => Finding::unknown(check, format!("{bus} {device}"), error.to_string())
            .fix(format!("ethtool --driver {}", state.name)),
    }
}

/// Whether what comes out of a tunnel was judged before.
fn tunnel(state: &InterfaceState, config: Option<&Config>) -> Option<Finding> {
    let twice = config?.judged_twice(&state.name, state.kind.as_deref())?;
    let found = "packets are counted twice";
    Some(Finding::warning("tunnel", found, twice))
}

/// Checks the first header of frames. Without Ethernet, there is no VLAN for a class.
fn link_layer(state: &InterfaceState, config: Option<&Config>) -> Finding {
    use ratelimit_common::parse::LinkLayer;
    let check = "link-layer";
    match interface::link_layer(state.index) {
        Ok(Some(LinkLayer::Ethernet)) => Finding::ok(check, "Ethernet"),
        Ok(Some(LinkLayer::None)) => {
            let found = "IP without a header in front";
            let Some(class) = config.and_then(Config::class_of_vlan) else {
                return Finding::ok(check, found);
            };
            let why =
                format!("{class} needs a VLAN tag, which packets of this interface do not have");
            Finding::warning(check, found, why)
        }
        Ok(None) => Finding::error(
            check,
            "the interface has gone",
            "it disappeared during the check",
        ),
        Err(error) => Finding::error(check, "not supported", format!("{error:#}"))
            .fix(format!("ip -details link show dev {}", state.name)),
    }
}

fn native(
    state: &InterfaceState,
    device: &Device,
    queues: &Subject,
    daemon: Option<&InterfaceStatus>,
) -> Finding {
    let check = "native-xdp";
    let ours = daemon.filter(|it| it.attached);
    let runs_native = matches!(state.program, Some((AttachMode::Native, _)));
    let runs_generic = ours.is_some() && matches!(state.program, Some((AttachMode::Generic, _)));
    match device.xdp {
        _ if state.is_at_tcx() => Finding::ok(check, "not needed: the program runs at TCX"),
        _ if runs_native => Finding::ok(check, "yes, and a program runs in the driver"),
        Some(features) if features.is_native() && runs_generic => {
            let why = "generic mode costs several times as much per packet; it is configured, or \
                       the driver refused native mode";
            let why = match queues.why() {
                Some(driver) => format!("{why} ({driver})"),
                None => why.to_owned(),
            };
            Finding::warning(check, "yes, and the program runs in generic mode", why)
                .fix("journalctl --unit ratelimitd --grep 'refuses XDP'")
        }
        Some(features) if features.is_native() => Finding::ok(check, "yes"),
        Some(_) => {
            let why = "generic mode costs several times as much per packet";
            queues.hidden(device).map_or_else(
                || Finding::warning(check, "no", why),
                |(why, fix)| Finding {
                    fix,
                    ..Finding::warning(check, "hidden by the driver", why)
                },
            )
        }
        None => {
            let why = "Linux tells since 6.3; ratelimitd tries native mode first, \
                       and reports which one it got";
            Finding::unknown(check, "unknown", why).fix("rlctl status")
        }
    }
}
