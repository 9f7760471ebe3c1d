//! The configuration without its secrets, which are learned on the way. Comments are left out: they
//! may have secrets too.

use std::fs;

use ratelimit_core::config::{Config, crowdsec::Key};
use toml::{Table, Value};

use super::redactor::{REDACTED, Redactor};

/// Keys with secret values.
const SECRET_KEYS: [&str; 5] = ["key", "secret", "password", "passphrase", "token"];

/// Returns a file with secrets removed, or an error if it is not TOML.
pub fn redacted(text: &str, redactor: &mut Redactor) -> Result<String, String> {
    // A parser error may quote a secret.
    let mut table: Table = text
        .parse()
        .map_err(|_| "not valid TOML, see `rlctl config check`".to_owned())?;
    for (key, value) in &mut table {
        redact(key, value, redactor);
    }
    toml::to_string(&table).map_err(|error| error.to_string())
}

/// Reads secrets from their own files, as far as possible.
pub fn learn_files(config: &Config, redactor: &mut Redactor) {
    let crowdsec = config.crowdsec.iter().map(|it| &it.key);
    let cluster = config.cluster.iter().map(|it| &it.secret);
    for key in crowdsec.chain(cluster) {
        if let Key::File(path) = key
            && let Ok(secret) = fs::read_to_string(path)
        {
            redactor.learn_secret(secret.trim());
        }
    }
}

fn redact(key: &str, value: &mut Value, redactor: &mut Redactor) {
    match value {
        Value::String(text) if SECRET_KEYS.contains(&key) => {
            redactor.learn_secret(text);
            REDACTED.clone_into(text);
        }
        Value::String(text) => *text = url(text, redactor),
        Value::Array(items) => items.iter_mut().for_each(|it| redact(key, it, redactor)),
        Value::Table(table) => {
            for (key, value) in table {
                redact(key, value, redactor);
            }
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// An address of a server without user, password and query. Anything else is as it was.
fn url(text: &str, redactor: &mut Redactor) -> String {
    let (text, query) = match text.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (text, None),
    };
    for value in query.iter().flat_map(|query| query.split('&')) {
        let value = value.split_once('=').map_or(value, |(_, value)| value);
        redactor.learn_secret(
            value
                .split_once(':')
                .map_or(value, |(_, password)| password),
        );
    }
    let query = query.map_or(String::new(), |_| format!("?{REDACTED}"));
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned() + &query;
    };
    let (authority, path) = match rest.find('/') {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let place = match authority.rsplit_once('@') {
        Some((user, place)) => {
            redactor.learn_secret(user.split_once(':').map_or(user, |(_, password)| password));
            format!("{REDACTED}@{place}")
        }
        None => authority.to_owned(),
    };
    let host = place
        .rsplit_once('@')
        .map_or(place.as_str(), |(_, place)| place);
    redactor.learn_host(host.rsplit_once(':').map_or(host, |(host, _)| host));
    format!("{scheme}://{place}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_left_in_the_file_and_each_is_learned() {
        let text = r#"
            # an old password: hunter22
            [crowdsec]
            url = "http://lapi.internal.net:8080"
            key = "abcdef123456"
            [cluster]
            url = "redis://edge:s3cr3tword@store.internal.net:6379/0"
            secret = "0123456789abcdef"
            node = "edge-1"
        "#;
        let mut redactor = Redactor::new(true);
        let shown = redactor_text(text, &mut redactor);
        let secrets = [
            "hunter22",
            "abcdef123456",
            "s3cr3tword",
            "0123456789abcdef",
            "edge:",
        ];
        for secret in secrets {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(shown.contains("redis://REDACTED@host"), "{shown}");
        assert!(shown.contains("node = \"edge-1\""), "{shown}");
        let log =
            "connecting to lapi.internal.net with abcdef123456 and 0123456789abcdef, s3cr3tword";
        let log = redactor.text(log);
        for secret in [
            "abcdef123456",
            "0123456789abcdef",
            "s3cr3tword",
            "internal.net",
        ] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
    }

    #[test]
    fn a_password_of_a_unix_socket_is_taken_out() {
        let text = "[cluster]\nurl = \"unix:///run/redis.sock?pass=s3cr3tword\"";
        let shown = redactor_text(text, &mut Redactor::new(false));
        assert!(shown.contains("unix:///run/redis.sock?REDACTED"), "{shown}");
    }

    #[test]
    fn what_is_no_toml_is_not_shown() {
        let error = redacted("key = \"abc", &mut Redactor::new(true)).unwrap_err();
        assert!(!error.contains("abc"), "{error}");
    }

    fn redactor_text(text: &str, redactor: &mut Redactor) -> String {
        let shown = redacted(text, redactor).unwrap();
        redactor.text(&shown)
    }
}
