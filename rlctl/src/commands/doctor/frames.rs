//! Frames as the program sees them: length, and receive offloads.

use ratelimit_interface::{self as interface, AttachMode, InterfaceState};

use super::{
    device::{self, Device},
    finding::Finding,
};

/// Bytes of a page that XDP keeps: headroom in front (`XDP_PACKET_HEADROOM`),
/// `struct skb_shared_info` behind, and the longest Ethernet header with two VLAN tags. Some
/// drivers keep a little more.
const KEPT_OF_PAGE: usize = 256 + 320 + 22;

/// What frames of several packets count as at TCX.
const COUNTED: &str = "a merged frame counts for its packets";

/// Whether frames of the MTU reach a program in the driver.
pub fn mtu(state: &InterfaceState, device: &Device) -> Finding {
    let page = rustix::param::page_size();
    let room = u32::try_from(page.saturating_sub(KEPT_OF_PAGE)).unwrap_or(u32::MAX);
    mtu_of(state, device, room)
}

fn mtu_of(state: &InterfaceState, device: &Device, room: u32) -> Finding {
    let check = "mtu";
    let (name, mtu) = (&state.name, state.mtu);
    if mtu <= room {
        return Finding::ok(check, format!("{mtu}, a frame fits into one page"));
    }
    let runs_native = matches!(state.program, Some((AttachMode::Native, _)));
    match device.xdp {
        _ if state.is_at_tcx() => Finding::ok(check, format!("{mtu}, which tcx mode takes")),
        _ if runs_native => Finding::ok(check, format!("{mtu}, and a program runs in the driver")),
        Some(xdp) if !xdp.is_native() => {
            Finding::ok(check, format!("{mtu}, which generic mode takes"))
        }
        Some(xdp) if xdp.takes_several_buffers() => Finding::ok(
            check,
            format!("{mtu}, supported by the driver in several buffers"),
        ),
        Some(_) => Finding::warning(
            check,
            mtu.to_string(),
            format!(
                "frames exceed one page, which this driver does not support with XDP: native mode \
                 fails above about {room}"
            ),
        )
        .fix(format!("ip link set dev {name} mtu {room}")),
        None => Finding::unknown(
            check,
            mtu.to_string(),
            format!("above about {room}, native mode needs a driver with multi-buffer XDP"),
        )
        .fix("rlctl status"),
    }
}

/// Whether the device puts frames together before the program sees them.
pub fn lro(state: &InterfaceState, device: &Device) -> Finding {
    let check = "lro";
    let Some(features) = &device.features else {
        return unread(check, &state.name);
    };
    let on: Vec<&str> = ["rx-lro", "rx-gro-hw"]
        .into_iter()
        .filter(|feature| features.contains(*feature))
        .collect();
    if on.is_empty() {
        return Finding::ok(check, "off");
    }
    let found = format!("on: {}", on.join(" and "));
    if state.is_at_tcx() {
        return Finding::ok(check, format!("{found}, and {COUNTED}"));
    }
    let why = "the device puts packets together: several count as one, \
               and most drivers refuse native XDP so";
    let features = on.join(" off ");
    Finding::warning(check, found, why)
        .fix(format!("ethtool --features {} {features} off", state.name))
}

/// Whether the stack puts frames together before the program sees them.
pub fn gro(state: &InterfaceState, device: &Device) -> Finding {
    let check = "gro";
    let Some(is_on) = device.has("rx-gro") else {
        return unread(check, &state.name);
    };
    if state.is_at_tcx() {
        let is_on = if is_on { "on" } else { "off" };
        return Finding::ok(check, format!("{is_on}, and {COUNTED}"));
    }
    let runs_native = matches!(state.program, Some((AttachMode::Native, _)));
    let may_be_native = device.xdp.is_some_and(device::XdpFeatures::is_native);
    let will_be_native = runs_native || (state.program.is_none() && may_be_native);
    if state.is_uncut() && !will_be_native {
        let kind = state.kind.as_deref().unwrap_or("virtual interface");
        let found = format!("frames arrive as the other end of this {kind} sends them");
        let why = "in generic mode here, frames of up to 64 kB that their sender has not cut (TSO) \
                   count as one packet: write mode = \"native\", or turn TSO off at the other end";
        return Finding::warning(check, found, why);
    }
    if !state.is_stacked() || will_be_native {
        let is_on = if is_on { "on" } else { "off" };
        return Finding::ok(check, format!("{is_on}, the program comes before it"));
    }
    let beneath = interface::beneath(state).unwrap_or_default();
    let merging: Vec<String> = beneath
        .iter()
        .filter(|name| merges(name))
        .cloned()
        .collect();
    stacked(state, &beneath, &merging)
}

/// A program in generic mode sees the frames of a bridge after its ports have merged them.
fn stacked(state: &InterfaceState, beneath: &[String], merging: &[String]) -> Finding {
    let check = "gro";
    if merging.is_empty() {
        let of = if beneath.is_empty() {
            "nothing is beneath it".to_owned()
        } else {
            format!("off on {}", beneath.join(", "))
        };
        return Finding::ok(check, of);
    }
    let kind = state.kind.as_deref().unwrap_or("virtual interface");
    let merging_names = merging.join(", ");
    let turn_off: Vec<String> = merging
        .iter()
        .map(|name| format!("ethtool --features {name} gro off"))
        .collect();
    let found = format!("on, on {merging_names} beneath this {kind}");
    let why = format!(
        "in generic mode here, frames of up to 64 kB that GRO has put together \
         count as one packet: configure {merging_names} instead, or turn it off"
    );
    Finding::warning(check, found, why).fix(turn_off.join(" && "))
}

fn merges(name: &str) -> bool {
    let state = interface::query(name).ok().flatten();
    let device = state.and_then(|state| device::read(name, state.index).ok());
    device.and_then(|device| device.has("rx-gro")) != Some(false)
}

/// Whether the device takes the VLAN tag out of frames.
pub fn vlan(state: &InterfaceState, device: &Device, has_challenge: bool) -> Finding {
    let check = "vlan-offload";
    if state.is_at_tcx() {
        return Finding::ok(
            check,
            "tags are removed before TCX; classes see them, frames count 4 bytes less, and \
             captures have no tag",
        );
    }
    match device.has("rx-vlan-hw-parse") {
        Some(true) if has_challenge => Finding::warning(
            check,
            "on: tags are not in the frame",
            "challenge answers have no tag then, so clients in VLANs do not receive them",
        )
        .fix(format!("ethtool --features {} rxvlan off", state.name)),
        None => unread(check, &state.name),
        Some(false) => Finding::ok(check, "off, the program reads past the tags of a frame"),
        Some(true) => Finding::ok(
            check,
            "on: tags are not in the frame; limits still work, frames count 4 bytes less, and \
             captures have no tag",
        ),
    }
}

fn unread(check: &'static str, name: &str) -> Finding {
    Finding::unknown(check, "unknown", "the kernel reports no features of it")
        .fix(format!("ethtool --show-features {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lro(features: &[&str], expected: &Finding) {
        let state = InterfaceState {
            index: 2,
            name: "eth0".to_owned(),
            mtu: 1500,
            kind: None,
            lower: None,
            program: None,
            device: None,
            rx_queues_max: 4,
        };
        let features = features.iter().map(|it| (*it).to_owned()).collect();
        let device = Device {
            features: Some(features),
            queues: None,
            xdp: None,
        };
        assert_eq!(
            lro(&state, &device),
            *expected,
            "{features:?}",
            features = device.features
        );
    }

    #[test]
    fn packets_that_the_device_puts_together_are_named_with_what_ends_it() {
        check_lro(&["rx-gro", "rx-checksum"], &Finding::ok("lro", "off"));
        let why = "the device puts packets together: several count as one, and most drivers refuse \
                   native XDP so";
        let one = Finding::warning("lro", "on: rx-lro", why);
        check_lro(
            &["rx-lro", "rx-gro"],
            &one.fix("ethtool --features eth0 rx-lro off"),
        );
        let both = Finding::warning("lro", "on: rx-lro and rx-gro-hw", why);
        let both = both.fix("ethtool --features eth0 rx-lro off rx-gro-hw off");
        check_lro(&["rx-gro-hw", "rx-lro"], &both);
    }
}
