//! `inner` of `[source]`: the tunnels of which the source is that of the packet inside.

use ratelimit_common::parse::{Tunnels, tunnel::Tunnel};

use super::{
    report::{At, Report, Spot},
    suggestion,
    table::Value,
};
use crate::diagnostic::Problem;

const EXAMPLE: &str = "inner = [\"gre\", \"vxlan:4789\"]";

/// Reads the list.
pub(super) fn read(value: Value<'_>, report: &mut Report) -> Tunnels {
    let mut tunnels = Tunnels::NONE;
    let mut seen: Vec<(Tunnel, u16, Spot)> = Vec::new();
    for value in value.list(EXAMPLE, report).unwrap_or_default() {
        let Some(word) = value.text("\"gre\"", report) else {
            continue;
        };
        let Some((tunnel, port)) = read_word(&word, report) else {
            continue;
        };
        if let Some((_, _, first)) = seen.iter().find(|(other, ..)| *other == tunnel) {
            let what = format!("{} is there twice", tunnel.label());
            report.add_repeated(&word.spot, first, &what, "keep one of them");
            continue;
        }
        let is_taken = |(_, other, _): &&(_, u16, _)| tunnel.port().is_some() && *other == port;
        if let Some((other, _, first)) = seen.iter().find(is_taken) {
            let (label, other) = (tunnel.label(), other.label());
            let what = format!("{label} and {other} have the same UDP port {port}");
            let hint = format!("write the port of each, as in \"{label}:NUMBER\"");
            report.add_repeated(&word.spot, first, &what, &hint);
            continue;
        }
        tunnels = tunnels.with(tunnel, port);
        seen.push((tunnel, port, word.spot));
    }
    tunnels
}

/// `gre`, or `vxlan:4789`.
fn read_word(At { value, spot }: &At<String>, report: &mut Report) -> Option<(Tunnel, u16)> {
    let (name, port) = match value.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (value.as_str(), None),
    };
    let Some(tunnel) = Tunnel::ALL.into_iter().find(|it| it.label() == name) else {
        let with_port = |tunnel: Tunnel| match (tunnel.port(), port) {
            (Some(_), Some(port)) => format!("{}:{port}", tunnel.label()),
            _ => tunnel.label().to_owned(),
        };
        let known = Tunnel::ALL.map(with_port);
        let suggested = suggestion::word(value, &known.each_ref().map(String::as_str));
        report.add(
            spot,
            suggested.for_problem(&format!("unknown tunnel `{name}`")),
        );
        return None;
    };
    match (tunnel.port(), port) {
        (default, None) => Some((tunnel, default.unwrap_or(0))),
        (None, Some(_)) => {
            let message = format!("{name} has no port");
            let hint = format!("write \"{name}\"");
            let problem = Problem::new(message, hint).replaced_by(format!("\"{name}\""));
            report.add(spot, problem);
            None
        }
        (Some(default), Some(port)) => {
            // Digits alone: `parse` takes a sign.
            let is_plain = port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|port| is_plain && *port != 0);
            if number.is_none() {
                let message = format!("`{port}` is no UDP port");
                let hint = format!("write a number from 1 to 65535, as in \"{name}:{default}\"");
                report.add(spot, Problem::new(message, hint));
            }
            Some((tunnel, number?))
        }
    }
}

/// As they are written: `gre`, `vxlan:4789`.
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
