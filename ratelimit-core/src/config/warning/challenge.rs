//! Warnings about challenges by RST.

use ratelimit_common::challenge::Trigger;

use crate::{
    challenge::Way,
    config::{document::Document, model::Config, report::Report},
    detection::{Answer, Kind},
    diagnostic::Problem,
};

const HINT: &str = "write method = \"syncookie\" in [challenge.tcp]";

/// Reports what relies on sources that prove themselves, where a forged SYN of a live host proves
/// as much.
pub fn find(document: &Document, config: &Config, warnings: &Report) {
    let challenge = config.challenge.as_ref().filter(|it| it.way == Way::Rst);
    let Some(challenge) = challenge else {
        return;
    };
    let prefer = document
        .node
        .as_ref()
        .and_then(|at| at.value.prefer.as_ref());
    if let Some(prefer) = prefer {
        let message = "`prefer` has no effect with method = \"rst\" because a forged SYN of a live \
                       host verifies that host";
        let hint = format!("{HINT}, or remove `prefer`");
        warnings.add(&prefer.spot, Problem::new(message, hint));
    }
    let Some(detection) = &document.detection else {
        return;
    };
    for (kind, rule) in &detection.value.attacks {
        let is_asked = match kind {
            Kind::SynFlood | Kind::TcpFlags => challenge.connections != Trigger::Never,
            Kind::UdpFlood => challenge.queries != Trigger::Never,
            Kind::AckFlood
            | Kind::SynAckReflection
            | Kind::RstFlood
            | Kind::Reflection
            | Kind::IcmpFlood
            | Kind::FragmentFlood
            | Kind::ProtocolFlood
            | Kind::HeavyHitter
            | Kind::Spread => false,
        };
        if is_asked && rule.answer != Answer::Observe {
            let message = format!(
                "[detection.{}] does not ban or limit sources while the challenge is active: with \
                 method = \"rst\" any source may be forged",
                kind.key()
            );
            warnings.add(&detection.spot, Problem::new(message, HINT));
        }
    }
}
