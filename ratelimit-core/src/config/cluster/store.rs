//! Where the store of a cluster is.

use std::{fmt, str::FromStr};

use http::Uri;

/// `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or the path of a Unix socket. No log shows the password.
#[derive(Clone, Eq, PartialEq)]
pub struct Store {
    url: String,
    shown: String,
}

/// Why a text is no such address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// The daemon has no TLS.
    #[error("`{0}` takes TLS, which ratelimitd does not speak")]
    Tls(String),
    /// Something that is no address, whose text may have a password.
    #[error("`url` of [cluster] is no address of a Redis or Valkey server")]
    Syntax,
}

impl StoreError {
    /// What to write.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Tls(_) => {
                "write the redis:// address of a server in a network of your own, or of a tunnel that adds TLS"
            }
            Self::Syntax => {
                "write \"redis://HOST:6379\", \"redis://USER:PASSWORD@HOST:6379/0\", or the socket, \"/run/redis/redis-server.sock\""
            }
        }
    }
}

impl Store {
    /// The whole address as a client takes it, with the password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.url
    }
}

impl FromStr for Store {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let socket = text.strip_prefix("unix://").unwrap_or(text);
        if socket.starts_with('/') {
            return Ok(Self {
                url: format!("unix://{socket}"),
                shown: socket.split('?').next().unwrap_or_default().to_owned(),
            });
        }
        let uri: Uri = text.parse().map_err(|_| StoreError::Syntax)?;
        let authority = uri.authority().ok_or(StoreError::Syntax)?;
        let place = authority.as_str();
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let shown = format!("{}://{place}", uri.scheme_str().unwrap_or_default());
        match uri.scheme_str() {
            Some("redis") => {}
            Some("rediss") => return Err(StoreError::Tls(shown)),
            _ => return Err(StoreError::Syntax),
        }
        let port = place
            .strip_prefix(authority.host())
            .ok_or(StoreError::Syntax)?;
        let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port != 0);
        let has_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let database = uri.path().trim_matches('/');
        let has_database = database.is_empty() || database.parse::<u8>().is_ok();
        if authority.host().is_empty() || !has_port || !has_database || uri.query().is_some() {
            return Err(StoreError::Syntax);
        }
        let database = if database.is_empty() {
            String::new()
        } else {
            format!("/{database}")
        };
        Ok(Self {
            url: text.to_owned(),
            shown: shown + &database,
        })
    }
}

impl fmt::Display for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (text, shown) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://[::1]", "redis://[::1]"),
            (
                "redis://u:p@store.example:6380/2",
                "redis://store.example:6380/2",
            ),
            ("redis://:p@store.example", "redis://store.example"),
            ("/run/redis.sock", "/run/redis.sock"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("unix:///run/redis.sock?user=u&pass=p", "/run/redis.sock"),
        ] {
            let store: Store = text.parse().unwrap();
            assert_eq!(
                (store.to_string().as_str(), format!("{store:?}").as_str()),
                (shown, shown)
            );
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_not_quoted() {
        for text in [
            "",
            "127.0.0.1:6379",
            "http://127.0.0.1:6379",
            "redis://",
            "redis://host:0",
            "redis://host:port",
            "redis://host/database",
            "redis://u:p@host:70000",
            "run/redis.sock",
        ] {
            assert_eq!(text.parse::<Store>(), Err(StoreError::Syntax), "{text}");
        }
        let tls = "rediss://u:p@host:6379".parse::<Store>().unwrap_err();
        assert_eq!(tls, StoreError::Tls("rediss://host:6379".to_owned()));
    }
}
