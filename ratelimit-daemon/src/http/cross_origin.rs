//! Cross-origin requests are refused: web pages that are open in a browser beside ours must not ask
//! in its name.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, header};
use ratelimit_core::api::Refused;

use super::answers::Failure;

/// Refuses requests that a foreign web page makes a browser send.
///
/// Such a page can resolve its own name to this host (DNS rebinding), but neither an address nor a
/// name without a dot. If the request uses our address, the browser names the origin of the page
/// (`Origin`, RFC 6454).
pub fn check(headers: &HeaderMap) -> Result<(), Failure> {
    require(headers).map_err(|refused| Failure(StatusCode::FORBIDDEN, refused))
}

fn require(headers: &HeaderMap) -> Result<(), Refused> {
    let text = |name| headers.get(name).map(|it| it.to_str().unwrap_or("?"));
    let host = text(header::HOST).unwrap_or_default();
    if !is_ours(host) {
        let refused = Refused::because(
            "Host not allowed: names with a dot are rejected to prevent DNS rebinding",
        );
        return Err(refused.hint("use an IP address or localhost"));
    }
    let is_same = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority == Some(host)
    };
    if text(header::ORIGIN).is_some_and(|origin| !is_same(origin)) {
        return Err(Refused::because("cross-origin requests are not allowed"));
    }
    Ok(())
}

/// Whether a host, with or without a port, cannot be a foreign name.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    !name.contains('.') || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_name_that_somebody_else_may_lead_here_is_refused() {
        for host in [
            "ratelimitd",
            "localhost",
            "localhost:9800",
            "192.0.2.1:9798",
            "[2001:db8::1]:9798",
            "[::1]",
        ] {
            assert!(is_permitted(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9798",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
        ] {
            assert!(!is_permitted(host, None), "{host}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_is_refused() {
        assert!(is_permitted(
            "localhost:9800",
            Some("http://localhost:9800")
        ));
        for origin in [
            "http://evil.example",
            "http://localhost",
            "http://localhost:9801",
            "null",
        ] {
            assert!(!is_permitted("localhost:9800", Some(origin)), "{origin}");
        }
    }

    fn is_permitted(host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        check(&headers).is_ok()
    }
}
