//! `tunnels` of `[source]`: the tunnels of which the source is that of the packet inside.

use ratelimit_common::parse::{Tunnels, tunnel::Tunnel};

use super::{report::Spot, suggestion, table::Value};
use crate::diagnostic::Problem;

const EXAMPLE: &str = "tunnels = [\"gre\", \"vxlan:4789\"]";

/// Reads the list.
pub(super) fn read(value: Value<'_>) -> Tunnels {
    let report = value.report;
    let mut tunnels = Tunnels::NONE;
    let mut seen: Vec<(Tunnel, u16, Spot)> = Vec::new();
    for value in value.list(EXAMPLE).unwrap_or_default() {
        let Some((tunnel, port)) = read_word(&value) else {
            continue;
        };
        let is_taken = |(_, other, _): &&(_, u16, _)| tunnel.port().is_some() && *other == port;
        if let Some((_, _, first)) = seen.iter().find(|(other, ..)| *other == tunnel) {
            let what = format!("duplicate {}", tunnel.label());
            report.add_repeated(&value.spot, first, &what, "keep one of them");
        } else if let Some((other, _, first)) = seen.iter().find(is_taken) {
            let (label, other) = (tunnel.label(), other.label());
            let what = format!("{label} and {other} have the same UDP port {port}");
            let hint = format!("write the port of each, as in \"{label}:NUMBER\"");
            report.add_repeated(&value.spot, first, &what, &hint);
        } else {
            tunnels = tunnels.with(tunnel, port);
            seen.push((tunnel, port, value.spot));
        }
    }
    tunnels
}

/// `gre`, or `vxlan:4789`.
fn read_word(value: &Value<'_>) -> Option<(Tunnel, u16)> {
    let text = value.text("\"gre\"")?;
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let Some(tunnel) = Tunnel::ALL.into_iter().find(|it| it.label() == name) else {
        let with_port = |tunnel: Tunnel| match (tunnel.port(), port) {
            (Some(_), Some(port)) => format!("{}:{port}", tunnel.label()),
            _ => tunnel.label().to_owned(),
        };
        let known = Tunnel::ALL.map(with_port);
        let suggested = suggestion::word(text, &known.each_ref().map(String::as_str));
        return value.accept(Err(
            suggested.for_problem(&format!("unknown tunnel `{name}`"))
        ));
    };
    match (tunnel.port(), port) {
        (default, None) => Some((tunnel, default.unwrap_or(0))),
        (None, Some(_)) => {
            let problem = Problem::new(format!("{name} has no port"), format!("write \"{name}\""));
            value.accept(Err(problem.replaced_by(format!("\"{name}\""))))
        }
        (Some(default), Some(port)) => {
            // Digits alone: `parse` takes a sign.
            let is_plain = port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|port| is_plain && *port != 0);
            let wrong = || {
                let hint = format!("write a number from 1 to 65535, as in \"{name}:{default}\"");
                Problem::new(format!("`{port}` is not a UDP port"), hint)
            };
            Some((tunnel, value.accept(number.ok_or_else(wrong))?))
        }
    }
}

/// Formats tunnels: `gre`, `vxlan:4789`.
pub fn words(tunnels: Tunnels) -> Vec<String> {
    let named = Tunnel::ALL.into_iter();
    let named = named.filter(|tunnel| tunnels.has(*tunnel));
    let word = |tunnel: Tunnel| match tunnel.port() {
        Some(_) => format!("{}:{}", tunnel.label(), tunnels.port(tunnel)),
        None => tunnel.label().to_owned(),
    };
    named.map(word).collect()
}

/// `gre, vxlan:4789`, or `none`.
pub fn text(tunnels: Tunnels) -> String {
    match &words(tunnels)[..] {
        [] => "none".to_owned(),
        words => words.join(", "),
    }
}

/// The tunnel that Linux ends at interfaces of a kind.
pub fn of_device(kind: &str) -> Option<Tunnel> {
    match kind {
        "gre" | "gretap" | "ip6gre" | "ip6gretap" => Some(Tunnel::Gre),
        "ipip" | "sit" | "ip6tnl" => Some(Tunnel::Ipip),
        "vxlan" => Some(Tunnel::Vxlan),
        "geneve" => Some(Tunnel::Geneve),
        "ppp" => Some(Tunnel::Pppoe),
        _ => None,
    }
}
