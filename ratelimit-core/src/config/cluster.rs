//! The hosts that share bans and limits, and the store between them: `[cluster]`.

mod store;

use std::{ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

pub use self::store::{Store, StoreError};
use super::{
    crowdsec::{Key, Secret, read_key},
    report::At,
    table::{Section, Value},
};

/// The default period.
const PERIOD: Duration = Duration::from_millis(250);
/// The valid range of periods.
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
const SECRET_HINT: &str = "write secret_file = \"/etc/ratelimit/cluster.secret\", with the same \
                           text on all nodes: `openssl rand -hex 32` makes one";

/// The cluster that this host is a node of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cluster {
    /// The store.
    pub store: Store,
    /// The authorities that may sign the certificate of the store. `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Client certificate for servers that request one.
    pub certificate: Option<Certificate>,
    /// The name of this node.
    pub node: Arc<str>,
    /// The secret that all nodes share.
    pub secret: Key,
    /// The interval of reports by a node; the same on all nodes.
    pub period: Duration,
    /// The number of nodes by which shared limits are divided; 0 if it is not known.
    pub nodes: u32,
}

/// Files of a certificate and its key, in PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certificate {
    /// The certificate, with those between it and the authority that the server knows.
    pub cert_file: PathBuf,
    /// The private key of the certificate.
    pub key_file: PathBuf,
}

/// Reads `[cluster]`; `None` if errors were reported.
pub(super) fn read(mut section: Section<'_>) -> Option<At<Cluster>> {
    let url = section.require("url", &format!("write {URL_EXAMPLE}"));
    let store = url.and_then(|value| value.parsed::<Store>(URL_EXAMPLE));
    let is_tls = store.as_ref().is_none_or(Store::is_tls);
    let ca_file = read_tls_file(&mut section, "ca_file", CA_EXAMPLE, is_tls);
    let certificate = read_certificate(&mut section, is_tls);
    let hint = format!("write {NODE_EXAMPLE}, a name that no other node has");
    let node = section.require("node", &hint);
    let node = node.and_then(|value| read_node(&value));
    let secret = read_key(
        &mut section,
        ["secret", "secret_file"],
        SECRET_HINT,
        |text| {
            let long = Some(text).filter(|text| text.len() >= SECRET_MIN);
            long.and_then(Secret::new).ok_or_else(|| {
                format!(
                    "the `secret` of [cluster] must be one word of at least {SECRET_MIN} characters"
                )
            })
        },
    );
    let period = section.duration("period", &PERIOD_RANGE, PERIOD);
    let nodes = section.take("nodes");
    let nodes = nodes.map_or(Some(0), |value| value.integer_in(1..=NODES_MAX, 3));
    let spot = section.finish();
    let value = Cluster {
        store: store?,
        ca_file,
        certificate,
        node: node?,
        secret: secret?,
        period,
        nodes: nodes?,
    };
    Some(At { value, spot })
}

/// Reads the path of a file for TLS.
fn read_tls_file(
    section: &mut Section<'_>,
    key: &'static str,
    example: &str,
    is_tls: bool,
) -> Option<PathBuf> {
    let value = section.take(key)?;
    let path = value.absolute_path(example)?;
    if !is_tls {
        let message = format!("[cluster] has `{key}`, but its `url` does not use TLS");
        return value.refuse(message, "write url = \"rediss://HOST:6379\"");
    }
    Some(path)
}

fn read_certificate(section: &mut Section<'_>, is_tls: bool) -> Option<Certificate> {
    let (cert_file, key_file) = (section.has("cert_file"), section.has("key_file"));
    let lacking = match (cert_file, key_file) {
        (true, false) => Some(("cert_file", "key_file", KEY_EXAMPLE)),
        (false, true) => Some(("key_file", "cert_file", CERT_EXAMPLE)),
        (true, true) | (false, false) => None,
    };
    if let Some((there, lacking, example)) = lacking {
        let message = format!("[cluster] has `{there}` but no `{lacking}`");
        section.complain(message, format!("write {example}"));
    }
    let cert_file = read_tls_file(section, "cert_file", CERT_EXAMPLE, is_tls);
    let key_file = read_tls_file(section, "key_file", KEY_EXAMPLE, is_tls);
    Some(Certificate {
        cert_file: cert_file?,
        key_file: key_file?,
    })
}

fn read_node(value: &Value<'_>) -> Option<Arc<str>> {
    let text = value.text(NODE_EXAMPLE)?;
    let fits = (1..=NODE_MAX).contains(&text.len());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if fits && text.bytes().all(is_plain) {
        return Some(text.into());
    }
    let message = format!(
        "`{text}` is not a valid node name: use 1 to {NODE_MAX} letters, digits, `-`, `_` and `.`"
    );
    value.refuse(message, format!("write {NODE_EXAMPLE}"))
}
