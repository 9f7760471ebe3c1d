//! The hosts that share bans and limits, and the store between them: `[cluster]`.

mod store;

use std::{ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

pub use self::store::{Store, StoreError};
use super::{
    crowdsec::{Key, Secret},
    report::{At, Report, Spot},
    table::{Section, Value},
};
use crate::diagnostic::Problem;

/// How long a period is unless the configuration says otherwise.
const PERIOD: Duration = Duration::from_millis(250);
/// How long it may be.
const PERIOD_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10);
/// The most nodes that divide a limit.
const NODES_MAX: u32 = 10_000;
/// The longest name of a node, in bytes.
const NODE_MAX: usize = 64;
/// The shortest secret, in bytes: shorter ones can be guessed by whoever reads the store.
pub const SECRET_MIN: usize = 16;

const URL_EXAMPLE: &str = "url = \"redis://127.0.0.1:6379\"";
const CA_EXAMPLE: &str = "ca_file = \"/etc/ratelimit/cluster-ca.pem\"";
const CERT_EXAMPLE: &str = "cert_file = \"/etc/ratelimit/cluster-node.pem\"";
const KEY_EXAMPLE: &str = "key_file = \"/etc/ratelimit/cluster-node.key\"";
const NODE_EXAMPLE: &str = "node = \"edge-1\"";
const SECRET_EXAMPLE: &str = "secret_file = \"/etc/ratelimit/cluster.secret\"";
const SECRET_HINT: &str = "write secret_file = \"/etc/ratelimit/cluster.secret\", with the same text on all nodes: `openssl rand -hex 32` makes one";

/// The cluster that this host is a node of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cluster {
    /// Where the store is.
    pub store: Store,
    /// The certificates of authorities, of which one signed that of the store; those of the system where there is none.
    pub ca_file: Option<PathBuf>,
    /// What this node shows to a server that asks for it.
    pub certificate: Option<Certificate>,
    /// The name of this node.
    pub node: Arc<str>,
    /// What all nodes know and nobody else.
    pub secret: Key,
    /// How often a node reports; the same on all nodes.
    pub period: Duration,
    /// How many nodes there are, by which limits that they share are divided; 0 where it is not reported.
    pub nodes: u32,
}

/// Files of a certificate and its key, in PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certificate {
    /// The certificate, with those between it and the authority that the server knows.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// Reads `[cluster]`; `None` in place of what is wrong, and reported.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> Option<At<Cluster>> {
    let url = section.require("url", &format!("write {URL_EXAMPLE}"), report);
    let store = url.and_then(|value| read_store(value, report));
    let is_tls = store.as_ref().is_none_or(Store::is_tls);
    let ca_file = read_tls_file(&mut section, CA_EXAMPLE, is_tls, report);
    let certificate = read_certificate(&mut section, is_tls, report);
    let hint = format!("write {NODE_EXAMPLE}, a name that no other node has");
    let node = section.require("node", &hint, report);
    let node = node.and_then(|value| read_node(value, report));
    let secret = read_secret(&mut section, report);
    let period = section.take("period");
    let period = period.map_or(Some(PERIOD), |value| {
        let period = value.duration_in(&PERIOD_RANGE, "250ms", report)?;
        Some(period.value)
    });
    let nodes = section.take("nodes");
    let nodes = nodes.map_or(Some(0), |value| value.integer_in(1..=NODES_MAX, 3, report));
    let spot = section.spot.clone();
    section.finish(report);
    let value = Cluster {
        store: store?,
        ca_file: ca_file.ok()?,
        certificate: certificate.ok()?,
        node: node?,
        secret: secret?,
        period: period?,
        nodes: nodes?,
    };
    Some(At { value, spot })
}

fn read_store(value: Value<'_>, report: &mut Report) -> Option<Store> {
    let At { value, spot } = value.text(URL_EXAMPLE, report)?;
    let store = value.parse::<Store>();
    store
        .map_err(|error| report.add(&spot, Problem::new(error.to_string(), error.hint())))
        .ok()
}

/// What is wrong is reported.
struct Reported;

/// Reads the path of a file for TLS, whose key the example begins with.
fn read_tls_file(
    section: &mut Section<'_>,
    example: &'static str,
    is_tls: bool,
    report: &mut Report,
) -> Result<Option<PathBuf>, Reported> {
    let key = example.split(' ').next().unwrap_or_default();
    let Some(value) = section.take(key) else {
        return Ok(None);
    };
    let path = value.absolute_path(example, report).ok_or(Reported)?;
    if !is_tls {
        let message = format!("[cluster] has a `{key}`, and its `url` takes no TLS");
        refuse(&path.spot, message, "url = \"rediss://HOST:6379\"", report);
        return Err(Reported);
    }
    Ok(Some(path.value))
}

fn read_certificate(
    section: &mut Section<'_>,
    is_tls: bool,
    report: &mut Report,
) -> Result<Option<Certificate>, Reported> {
    let cert_file = read_tls_file(section, CERT_EXAMPLE, is_tls, report);
    let key_file = read_tls_file(section, KEY_EXAMPLE, is_tls, report);
    let (there, lacking, example) = match (cert_file?, key_file?) {
        (None, None) => return Ok(None),
        (Some(cert_file), Some(key_file)) => {
            return Ok(Some(Certificate {
                cert_file,
                key_file,
            }));
        }
        (Some(_), None) => ("cert_file", "key_file", KEY_EXAMPLE),
        (None, Some(_)) => ("key_file", "cert_file", CERT_EXAMPLE),
    };
    let message = format!("[cluster] has a `{there}` and no `{lacking}`");
    refuse(&section.spot.clone(), message, example, report);
    Err(Reported)
}

fn read_node(value: Value<'_>, report: &mut Report) -> Option<Arc<str>> {
    let At { value, spot } = value.text(NODE_EXAMPLE, report)?;
    let fits = (1..=NODE_MAX).contains(&value.len());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if fits && value.bytes().all(is_plain) {
        return Some(value.into());
    }
    let message = format!(
        "`{value}` is no name of a node: that is 1 to {NODE_MAX} letters, digits, `-`, `_` and `.`"
    );
    refuse(&spot, message, NODE_EXAMPLE, report);
    None
}

fn read_secret(section: &mut Section<'_>, report: &mut Report) -> Option<Key> {
    match (section.take("secret"), section.take("secret_file")) {
        (Some(secret), None) => {
            let text = secret.text("secret = \"...\"", report)?.value;
            let long = Some(text).filter(|text| text.len() >= SECRET_MIN);
            let secret = long.and_then(|text| Secret::new(&text)).map(Key::Given);
            if secret.is_none() {
                // Not at the secret itself: the line would be shown, and logged.
                let message = format!(
                    "the `secret` of [cluster] is no secret: it is one word of at least {SECRET_MIN} characters"
                );
                report.add(&section.spot, Problem::new(message, SECRET_HINT));
            }
            secret
        }
        (None, Some(file)) => {
            let path = file.absolute_path(SECRET_EXAMPLE, report)?;
            Some(Key::File(path.value))
        }
        (Some(_), Some(file)) => {
            let message = "[cluster] has both `secret` and `secret_file`";
            report.add(&file.spot, Problem::new(message, "remove one of them"));
            None
        }
        (None, None) => {
            section.lacks("secret_file", SECRET_HINT, report);
            None
        }
    }
}

fn refuse(spot: &Spot, message: String, example: &str, report: &mut Report) {
    report.add(spot, Problem::new(message, format!("write {example}")));
}
