//! The key of a request that a proxy asks about.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use crate::{config::SourceConfig, diagnostic::Problem};

use super::KEY_BYTES_MAX;

/// Separates the parts of a key. No header contains it.
const SEPARATOR: char = '\n';

/// Begins the key of a client's address. A value that a client sends must not begin so: it would
/// use up the quota of another client.
const OF_CLIENT: &str = "client ";

/// A part of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Part {
    /// The source that the client belongs to.
    Client,
    /// The value of a header.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// The segments that a template takes of the path. Other requests are not limited.
    Path(PathTemplate),
}

/// A template of paths: `/api/{}/...`. `{}` takes a segment, and `...` matches the rest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathTemplate {
    segments: Vec<Segment>,
    has_rest: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Segment {
    Fixed(String),
    Captured,
}

/// A request as a proxy describes it.
pub trait Request {
    /// Returns the value of a header, if the request has it.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;

    /// Returns the cookies of the request.
    fn cookies(&self) -> Cow<'_, str>;

    /// Returns the path and query of the request.
    fn target(&self) -> Option<Cow<'_, str>>;

    /// Returns the address of the client.
    fn client(&self) -> Option<IpAddr>;
}

/// Returns the key of a request, or `None` if it is not limited. A request without the header or
/// cookie, or with one that is too long, looks like a client's address or has several values,
/// counts for its client: leaving it out gains nothing.
pub fn key(parts: &[Part], request: &impl Request, source: &SourceConfig) -> Option<String> {
    let client = || client(request, source);
    let mut key = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            key.push(SEPARATOR);
        }
        let value = match part {
            Part::Client => None,
            Part::Header(name) => request.header(name).map(Cow::into_owned),
            Part::Cookie(name) => cookie(&request.cookies(), name),
            Part::Path(template) => Some(template.take(&request.target()?)?),
        };
        let value = value.filter(|value| fits(value));
        key.push_str(&value.unwrap_or_else(client));
    }
    if key.len() <= KEY_BYTES_MAX {
        Some(key)
    } else {
        Some(client())
    }
}

fn fits(value: &str) -> bool {
    let is_ambiguous = value.starts_with(OF_CLIENT) || value.contains(SEPARATOR);
    !value.is_empty() && value.len() <= KEY_BYTES_MAX && !is_ambiguous
}

fn client(request: &impl Request, source: &SourceConfig) -> String {
    let client = request.client();
    let client = client.map(|client| source.around(client.to_canonical()).to_string());
    format!("{OF_CLIENT}{}", client.as_deref().unwrap_or("unknown"))
}

/// Returns the value of a cookie (RFC 6265, section 5.4), decoded and without quotation marks, as
/// many applications read it: another spelling must not be another key. `None` if there are
/// several: which one an application reads is its own choice.
fn cookie(cookies: &str, name: &str) -> Option<String> {
    let pairs = cookies.split(';').filter_map(|pair| pair.split_once('='));
    let mut own = pairs.filter(|(key, _)| key.trim() == name);
    let (_, first) = own.next()?;
    let is_single = own.all(|(_, other)| other == first);
    is_single.then(|| decode(first.trim().trim_matches('"')))
}

impl PathTemplate {
    /// Returns the segments that the template takes of a path, or the template if it takes none.
    fn take(&self, target: &str) -> Option<String> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        // Servers differ in whether `%2F` separates segments.
        self.take_segments(&segments(path))
            .or_else(|| self.take_segments(&normalized(path.split('/').map(decode))))
    }

    fn take_segments(&self, path: &[String]) -> Option<String> {
        let is_length = path.len() == self.segments.len();
        if !(is_length || self.has_rest && path.len() > self.segments.len()) {
            return None;
        }
        let mut taken = Vec::new();
        for (segment, own) in self.segments.iter().zip(path) {
            match segment {
                Segment::Fixed(text) if text != own => return None,
                Segment::Fixed(_) => {}
                Segment::Captured => taken.push(own.as_str()),
            }
        }
        if taken.is_empty() {
            return Some(self.to_string());
        }
        Some(taken.join("/"))
    }
}

/// Returns the segments of a path as a server reads them.
fn segments(path: &str) -> Vec<String> {
    normalized(decode(path).split('/').map(str::to_owned))
}

/// Removes empty segments, dots, and parameters behind `;`, which servers of Java ignore.
fn normalized(path: impl Iterator<Item = String>) -> Vec<String> {
    let mut segments = Vec::new();
    for mut segment in path {
        segment.truncate(segment.find(';').unwrap_or(segment.len()));
        match segment.as_str() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments
}

/// Decodes `%41`. Anything else stays as it is.
fn decode(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl FromStr for PathTemplate {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let hint =
            "write for example \"/api/{}/...\": `{}` takes a segment, `...` matches the rest";
        let refuse = |message: String| Err(Problem::new(message, hint));
        let Some(path) = text.strip_prefix('/') else {
            return refuse(format!("the path `{text}` does not begin with /"));
        };
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let has_rest = parts.last() == Some(&"...");
        if has_rest {
            parts.pop();
        }
        let is_odd = |part: &&str| {
            *part == "..."
                || *part != "{}" && part.contains(['{', '}', '?', '#'])
                || segments(part).len() != 1
        };
        if let Some(odd) = parts.iter().copied().find(|part| is_odd(part)) {
            return refuse(format!("the path `{text}` cannot have `{odd}` there"));
        }
        let segments = parts.into_iter().map(|part| match part {
            "{}" => Segment::Captured,
            text => Segment::Fixed(decode(text)),
        });
        Ok(Self {
            segments: segments.collect(),
            has_rest,
        })
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Fixed(text) => write!(formatter, "/{text}")?,
                Segment::Captured => formatter.write_str("/{}")?,
            }
        }
        match (self.has_rest, self.segments.is_empty()) {
            (true, _) => formatter.write_str("/..."),
            (false, true) => formatter.write_str("/"),
            (false, false) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct TestRequest {
        headers: BTreeMap<&'static str, &'static str>,
        target: &'static str,
    }

    impl Request for TestRequest {
        fn header(&self, name: &str) -> Option<Cow<'_, str>> {
            self.headers.get(name).map(|it| (*it).into())
        }

        fn cookies(&self) -> Cow<'_, str> {
            self.header("cookie").unwrap_or_default()
        }

        fn target(&self) -> Option<Cow<'_, str>> {
            Some(self.target.into())
        }

        fn client(&self) -> Option<IpAddr> {
            let client = self.headers.get("client").unwrap_or(&"192.0.2.1");
            client.parse().ok()
        }
    }

    fn key(parts: &[Part], asked: &TestRequest) -> Option<String> {
        super::key(parts, asked, &SourceConfig::default())
    }

    #[test]
    fn a_template_takes_segments_of_the_path_that_a_server_would_read() {
        for (template, target, expected) in [
            ("/api/{}/...", "/api/alice/orders?page=2", Some("alice")),
            ("/api/{}/...", "/api/alice", Some("alice")),
            ("/api/{}/...", "/api", None),
            ("/api/{}", "/api/alice/orders", None),
            ("/{}/of/{}", "/a/of/b", Some("a/b")),
            ("/login", "/login?user=1", Some("/login")),
            ("/login", "//x/%2e%2e/./log%69n/", Some("/login")),
            ("/login", "/logout", None),
            ("/login", "/x/..;a=1/login;b=2/;/", Some("/login")),
            ("/user/{}", "/user/a%2Fb", Some("a/b")),
            ("/user/{}", "/user%2Fa", Some("a")),
            ("/%C3%A9t%C3%A9/{}", "/été/x", Some("x")),
            ("/...", "/any/thing", Some("/...")),
            ("/", "/", Some("/")),
        ] {
            let template: PathTemplate = template.parse().unwrap();
            let asked = TestRequest {
                target,
                ..TestRequest::default()
            };
            let taken = key(&[Part::Path(template.clone())], &asked);
            assert_eq!(taken.as_deref(), expected, "{template} {target}");
        }
        for wrong in [
            "api", "/a/.../b", "/a{}", "/a?b", "/a#b", "/a/../b", "/%2e", "/a%2fb",
        ] {
            assert!(wrong.parse::<PathTemplate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_without_the_header_or_cookie_counts_for_its_client() {
        let parts = [Part::Header("x-user".to_owned())];
        let mut asked = TestRequest::default();
        let by_client = Some("client 192.0.2.1".to_owned());
        assert_eq!(key(&parts, &asked), by_client);
        asked.headers.insert("x-user", "");
        assert_eq!(key(&parts, &asked), by_client);
        let long: &str = "x".repeat(KEY_BYTES_MAX + 1).leak();
        asked.headers.insert("x-user", long);
        assert_eq!(key(&parts, &asked), by_client);
        asked.headers.insert("x-user", "client 198.51.100.9");
        assert_eq!(key(&parts, &asked), by_client);
        let path = [Part::Path("/{}".parse().unwrap())];
        asked.target = "/client%20198.51.100.9";
        assert_eq!(key(&path, &asked), by_client);
        asked.headers.insert("x-user", "alice");
        assert_eq!(key(&parts, &asked).as_deref(), Some("alice"));
        asked
            .headers
            .insert("cookie", "a=1; session=s3; xsession=4");
        let parts = [Part::Cookie("session".to_owned()), Part::Client];
        assert_eq!(key(&parts, &asked).as_deref(), Some("s3\nclient 192.0.2.1"));
        for spelling in ["\"s3\"", "%73%33", "s%33"] {
            asked
                .headers
                .insert("cookie", format!("session={spelling}").leak());
            assert_eq!(key(&parts[..1], &asked).as_deref(), Some("s3"));
        }
        asked.headers.insert("cookie", "session=s3%0Aclient 1");
        assert_eq!(key(&parts[..1], &asked), by_client);
        asked.headers.insert("cookie", "session=random; session=s3");
        assert_eq!(key(&parts[..1], &asked), by_client);
    }

    #[test]
    fn a_client_counts_as_the_source_that_packets_count_for() {
        let mut asked = TestRequest::default();
        for (client, expected) in [
            ("::ffff:198.51.100.7", "client 198.51.100.7"),
            ("2001:db8:1::1", "client 2001:db8:1::/64"),
            ("2001:db8:1::6", "client 2001:db8:1::/64"),
            ("unknown", "client unknown"),
        ] {
            asked.headers.insert("client", client);
            assert_eq!(key(&[Part::Client], &asked).as_deref(), Some(expected));
        }
    }
}
