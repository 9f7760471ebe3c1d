//! The address of the local API.

use std::{fmt, path::PathBuf, str::FromStr};

use http::Uri;

use crate::diagnostic::Problem;

/// `http://HOST[:PORT][/PATH]`, or the path of a Unix socket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// HTTP over TCP.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port; 80 by default.
        port: u16,
        /// Path before `/v1`, without a trailing slash.
        path: String,
    },
    /// HTTP over a Unix socket, which `CrowdSec` listens on from 1.6.3 on.
    Unix(PathBuf),
}

/// The error of an invalid address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// The daemon has no TLS.
    #[error("`{0}` uses TLS, which ratelimitd does not support")]
    Tls(String),
    /// Something else.
    #[error("`{0}` is not the address of a local API")]
    Syntax(String),
}

impl From<AddressError> for Problem {
    fn from(error: AddressError) -> Self {
        Self::new(error.to_string(), error.hint())
    }
}

impl AddressError {
    /// The hint that follows the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Tls(_) => {
                "write the http:// address of an API on this host, or of a proxy that adds TLS"
            }
            Self::Syntax(_) => {
                "write \"http://127.0.0.1:8080\", or the socket, \"/run/crowdsec.sock\""
            }
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let socket = text.strip_prefix("unix://").unwrap_or(text);
        if socket.starts_with('/') {
            return Ok(Self::Unix(socket.into()));
        }
        let wrong = || AddressError::Syntax(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(AddressError::Tls(text.to_owned())),
            _ => return Err(wrong()),
        }
        let authority = uri.authority().ok_or_else(wrong)?;
        let host = authority.host();
        // `authority` does not distinguish a user before the host from a port that is not a number.
        let behind = authority.as_str().strip_prefix(host).ok_or_else(wrong)?;
        let port = match behind.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None => Some(80),
        };
        let host = host.trim_matches(['[', ']']);
        match port {
            Some(port) if uri.query().is_none() && !host.is_empty() => Ok(Self::Tcp {
                host: host.to_owned(),
                port,
                path: uri.path().trim_end_matches('/').to_owned(),
            }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, path } if host.contains(':') => {
                write!(formatter, "http://[{host}]:{port}{path}")
            }
            Self::Tcp { host, port, path } => write!(formatter, "http://{host}:{port}{path}"),
            Self::Unix(socket) => write!(formatter, "{}", socket.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_is_understood() {
        for (text, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://lapi.example", "http://lapi.example:80"),
            (
                "http://lapi.example:81/crowdsec/",
                "http://lapi.example:81/crowdsec",
            ),
            ("/run/crowdsec.sock", "/run/crowdsec.sock"),
            ("unix:///run/crowdsec.sock", "/run/crowdsec.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for text in [
            "",
            "127.0.0.1:8080",
            "ftp://127.0.0.1",
            "http://",
            "http://:8080",
            "http://127.0.0.1:",
            "http://127.0.0.1:0",
            "http://127.0.0.1:65536",
            "http://key@127.0.0.1:8080",
            "http://127.0.0.1:8080?key=1",
            "run/crowdsec.sock",
        ] {
            let wrong = AddressError::Syntax(text.to_owned());
            assert_eq!(text.parse::<Address>(), Err(wrong));
        }
        let tls = "https://lapi.example";
        let wrong = AddressError::Tls(tls.to_owned());
        assert_eq!(tls.parse::<Address>(), Err(wrong));
    }
}
