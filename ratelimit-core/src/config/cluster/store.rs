//! The address of the store of a cluster.

use std::{fmt, str::FromStr};

use http::Uri;

use crate::diagnostic::Problem;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// `redis://[USER:PASSWORD@]HOST[:PORT][,HOST...][/DATABASE]`, `rediss://` with TLS,
/// `redis+sentinel://` and `rediss+sentinel://` with
/// `/SERVICE[/DATABASE][?sentinel=[USER]:PASSWORD]`, or the path of a Unix socket. No log shows a
/// password.
#[derive(Clone, Eq, PartialEq)]
pub struct Store {
    shown: String,
    way: Way,
}

#[derive(Clone, Eq, PartialEq)]
enum Way {
    /// The URL of a Unix socket.
    Socket(String),
    Servers(Servers),
}

#[derive(Clone, Eq, PartialEq)]
struct Servers {
    is_tls: bool,
    /// `USER:PASSWORD@`, or nothing.
    credentials: String,
    /// The hosts, each with its port.
    hosts: Vec<String>,
    /// The service name for sentinels. `None` if the hosts are the servers.
    service: Option<String>,
    /// `USER:PASSWORD@` of the sentinels, or nothing.
    of_sentinels: String,
    /// `/2`, or nothing.
    database: String,
}

/// The error of an invalid address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// Something that is not an address, whose text may have a password.
    #[error("`url` of [cluster] is not the address of a Redis or Valkey server")]
    Syntax,
    /// Something that is no user and password of sentinels.
    #[error("`url` of [cluster] has a query that is not the user and password of sentinels")]
    Query,
    /// A sentinel URL without the name of the monitored servers.
    #[error("`url` of [cluster] does not name the service of the sentinels")]
    Service,
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(error.to_string(), error.hint())
    }
}

impl StoreError {
    /// The hint that follows the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Syntax => {
                "write \"redis://HOST:6379\", \"rediss://USER:PASSWORD@HOST:6379/0\", or the \
                 socket, \"/run/redis/redis-server.sock\""
            }
            Self::Query => {
                "write \"redis+sentinel://HOST1:26379,HOST2:26379/mymaster?sentinel=USER:PASSWORD\""
            }
            Self::Service => "write \"redis+sentinel://HOST1:26379,HOST2:26379/mymaster\"",
        }
    }
}

impl Store {
    /// The servers to ask, or the sentinels, as they are named; one where it is a socket.
    pub fn hosts(&self) -> Vec<&str> {
        match &self.way {
            Way::Socket(url) => vec![url],
            Way::Servers(hosts) => hosts.hosts.iter().map(String::as_str).collect(),
        }
    }

    /// Returns the service name for sentinels. `None` without sentinels.
    pub fn service(&self) -> Option<&str> {
        match &self.way {
            Way::Socket(_) => None,
            Way::Servers(hosts) => hosts.service.as_deref(),
        }
    }

    /// Whether connections are encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(&self.way, Way::Servers(hosts) if hosts.is_tls)
    }

    /// The whole address of a server as a client takes it, with the password.
    pub fn expose(&self, host: &str) -> String {
        match &self.way {
            Way::Socket(url) => url.clone(),
            Way::Servers(hosts) => {
                let (credentials, database) = (&hosts.credentials, &hosts.database);
                format!("{}://{credentials}{host}{database}", hosts.scheme())
            }
        }
    }

    /// The whole address of a sentinel.
    pub fn sentinel(&self, host: &str) -> String {
        match &self.way {
            Way::Socket(url) => url.clone(),
            Way::Servers(hosts) => {
                format!("{}://{}{host}", hosts.scheme(), hosts.of_sentinels)
            }
        }
    }
}

impl Servers {
    fn scheme(&self) -> &'static str {
        if self.is_tls { "rediss" } else { "redis" }
    }

    fn read(text: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = text.split_once("://").ok_or(StoreError::Syntax)?;
        let (is_tls, is_sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis+sentinel" => (false, true),
            "rediss+sentinel" => (true, true),
            _ => return Err(StoreError::Syntax),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, places) = match authority.rsplit_once('@') {
            Some((credentials, places)) => (format!("{credentials}@"), places),
            None => (String::new(), authority),
        };
        let of_sentinels = match query {
            None => String::new(),
            Some(query) if is_sentinel => read_query(query)?,
            Some(_) => return Err(StoreError::Syntax),
        };
        let port = if is_sentinel { SENTINEL_PORT } else { PORT };
        let hosts = places.split(',').map(|place| read_host(place, port));
        let hosts: Vec<String> = hosts.collect::<Option<_>>().ok_or(StoreError::Syntax)?;
        let is_address = |host: &String| {
            [&credentials, &of_sentinels]
                .into_iter()
                .all(|credentials| {
                    let uri = format!("redis://{credentials}{host}").parse::<Uri>();
                    uri.is_ok_and(|uri| uri.authority().is_some())
                })
        };
        if !hosts.iter().all(is_address) {
            return Err(StoreError::Syntax);
        }
        let (service, database) = if is_sentinel {
            let (service, database) = path.split_once('/').unwrap_or((path, ""));
            (Some(read_service(service)?), database)
        } else {
            (None, path)
        };
        let database = database.trim_matches('/');
        let is_database = database.is_empty() || database.parse::<u8>().is_ok();
        if !is_database {
            return Err(StoreError::Syntax);
        }
        Ok(Self {
            is_tls,
            credentials,
            hosts,
            service,
            of_sentinels,
            database: match database {
                "" => String::new(),
                number => format!("/{number}"),
            },
        })
    }
}

/// A host with its port.
fn read_host(place: &str, port: u16) -> Option<String> {
    let uri: Uri = format!("redis://{place}").parse().ok()?;
    let authority = uri.authority()?;
    let is_plain = authority.as_str() == place && !authority.host().is_empty();
    let rest = place.strip_prefix(authority.host())?;
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None if rest.is_empty() => port,
        None => return None,
    };
    is_plain.then(|| format!("{}:{port}", authority.host()))
}

/// Parses `sentinel=USER:PASSWORD` of a host.
fn read_query(query: &str) -> Result<String, StoreError> {
    let value = query.strip_prefix("sentinel=").ok_or(StoreError::Query)?;
    let is_whole = value.contains(':') && !value.contains(['&', '@', '/', '?']);
    if is_whole {
        Ok(format!("{value}@"))
    } else {
        Err(StoreError::Query)
    }
}

fn read_service(text: &str) -> Result<String, StoreError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() {
        return Err(StoreError::Service);
    }
    if text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(StoreError::Syntax)
    }
}

impl FromStr for Store {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let socket = text.strip_prefix("unix://").unwrap_or(text);
        if socket.starts_with('/') {
            return Ok(Self {
                shown: socket.split('?').next().unwrap_or_default().to_owned(),
                way: Way::Socket(format!("unix://{socket}")),
            });
        }
        let hosts = Servers::read(text)?;
        let sentinel = if hosts.service.is_some() {
            "+sentinel"
        } else {
            ""
        };
        let service = hosts.service.as_ref().map(|service| format!("/{service}"));
        let shown = format!(
            "{}{sentinel}://{}{}{}",
            hosts.scheme(),
            hosts.hosts.join(","),
            service.unwrap_or_default(),
            hosts.database
        );
        Ok(Self {
            shown,
            way: Way::Servers(hosts),
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
            ("redis://[::1]", "redis://[::1]:6379"),
            (
                "redis://u:p@store.example:6380/2",
                "redis://store.example:6380/2",
            ),
            ("redis://:p@store.example", "redis://store.example:6379"),
            ("rediss://u:p@a,b:7000", "rediss://a:6379,b:7000"),
            (
                "redis+sentinel://u:p@a,b:7000/main/1",
                "redis+sentinel://a:26379,b:7000/main/1",
            ),
            (
                "redis+sentinel://u:p@a/main?sentinel=su:sp",
                "redis+sentinel://a:26379/main",
            ),
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
    fn a_server_is_asked_with_its_password_and_a_sentinel_with_its_own() {
        let store: Store = "rediss+sentinel://u:p@a,b:7000/main/1".parse().unwrap();
        assert_eq!(store.hosts(), ["a:26379", "b:7000"]);
        assert_eq!(store.service(), Some("main"));
        assert_eq!(store.sentinel("b:7000"), "rediss://b:7000");
        assert_eq!(store.expose("c:1"), "rediss://u:p@c:1/1");
        let store: Store = "redis+sentinel://u:p@a/main?sentinel=:s%40p"
            .parse()
            .unwrap();
        assert_eq!(store.sentinel("a:26379"), "redis://:s%40p@a:26379");
        assert_eq!(store.expose("c:1"), "redis://u:p@c:1");
        let store: Store = "/run/redis.sock".parse().unwrap();
        assert_eq!(store.expose(store.hosts()[0]), "unix:///run/redis.sock");
    }

    #[test]
    fn an_invalid_address_is_refused_and_not_quoted() {
        for text in [
            "",
            "127.0.0.1:6379",
            "http://127.0.0.1:6379",
            "redis://",
            "redis://host:0",
            "redis://host:port",
            "redis://host/database",
            "redis://host?db=2",
            "redis://a,,b",
            "redis://u:p@host:70000",
            "redis+sentinel://a/main/x",
            "redis+sentinel://a/ma in",
            "run/redis.sock",
        ] {
            assert_eq!(text.parse::<Store>(), Err(StoreError::Syntax), "{text}");
        }
        for query in [
            "db=2",
            "sentinel=word",
            "sentinel=u:p&x=1",
            "sentinel=u:p@h",
            "",
        ] {
            let text = format!("redis+sentinel://a/main?{query}");
            assert_eq!(text.parse::<Store>(), Err(StoreError::Query), "{text}");
        }
        let sentinels = "redis+sentinel://a:26379".parse::<Store>();
        assert_eq!(sentinels, Err(StoreError::Service));
    }
}
