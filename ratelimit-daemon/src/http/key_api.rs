//! Requests of applications and proxies about keys, answered without the controller.

use std::{borrow::Cow, net::IpAddr};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{COOKIE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
    routing::{get, post},
};
use ratelimit_core::{
    api::{KeyRequest, KeyReset, KeysRequest, ObtainRequest, OneOrMany, REQUEST_BYTES_MAX},
    keys,
};

use super::answers::{Body, Failure, Parameters};
use crate::keys::Keys;

/// The beginning of the path at which proxies ask. The headers of such a request are a visitor's.
pub const FORWARD_AUTH: &str = "/v1/forward-auth/";
/// The keys that are listed unless the request says it.
const TOP_DEFAULT: usize = 20;
/// The most keys that are listed.
const TOP_MAX: usize = 10_000;

/// Returns the routes for applications and proxies.
pub fn public_router(keys: Keys) -> Router {
    Router::new()
        .route("/v1/obtain", post(obtain))
        .route(&format!("{FORWARD_AUTH}{{space}}"), get(forward_auth))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(keys)
}

/// Returns the routes of the control socket.
pub fn router(keys: Keys) -> Router {
    let own = Router::new()
        .route("/v1/keys", axum::routing::delete(reset))
        .route("/v1/keys/check", post(check))
        .route("/v1/keys/{space}", get(top))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(keys.clone());
    public_router(keys).merge(own)
}

async fn obtain(
    State(keys): State<Keys>,
    Body(request): Body<OneOrMany<ObtainRequest>>,
) -> Result<Response, Failure> {
    match request {
        OneOrMany::One(request) => {
            let answers = keys.obtain(&[request])?;
            Ok(Json(answers.first()).into_response())
        }
        OneOrMany::Many(requests) => Ok(Json(keys.obtain(&requests)?).into_response()),
    }
}

/// Answers 204 or 429 about the request that the headers describe.
async fn forward_auth(
    State(keys): State<Keys>,
    Path(space): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let request = Forwarded {
        client: client_of(&headers, |address| keys.is_trusted(address)),
        headers: &headers,
    };
    let Some(decision) = keys.decide(&space, &request)? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let mut fields = HeaderMap::new();
    let mut insert = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.insert(name, value);
        }
    };
    insert(
        "ratelimit-policy",
        keys::rate_limit_policy(&space, &decision.levels),
    );
    insert("ratelimit", keys::rate_limit(&space, &decision.levels));
    if decision.obtained.amount > 0 {
        return Ok((StatusCode::NO_CONTENT, fields).into_response());
    }
    if let Some(after) = decision.obtained.retry_after {
        fields.insert(RETRY_AFTER, keys::retry_after_seconds(after).into());
    }
    Ok((StatusCode::TOO_MANY_REQUESTS, fields).into_response())
}

async fn top(
    State(keys): State<Keys>,
    Path(space): Path<String>,
    Parameters(request): Parameters<KeysRequest>,
) -> Result<Response, Failure> {
    let count = request.count.unwrap_or(TOP_DEFAULT);
    if count == 0 || count > TOP_MAX {
        let error = format!("the count {count} is not between 1 and {TOP_MAX}");
        return Err(Failure::bad_request(error));
    }
    Ok(Json(keys.top(&space, count)?).into_response())
}

async fn check(
    State(keys): State<Keys>,
    Body(request): Body<KeyRequest>,
) -> Result<Response, Failure> {
    Ok(Json(keys.check(&request.space, &request.key)?).into_response())
}

async fn reset(
    State(keys): State<Keys>,
    Body(request): Body<KeyRequest>,
) -> Result<Response, Failure> {
    let reset = keys.reset(&request.space, &request.key)?;
    Ok(Json(KeyReset { reset }).into_response())
}

/// A request that a proxy describes with `X-Forwarded-For` and `X-Forwarded-Uri`.
struct Forwarded<'h> {
    headers: &'h HeaderMap,
    client: Option<IpAddr>,
}

impl keys::Request for Forwarded<'_> {
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?;
        // Which of several an application reads is its own choice.
        values.all(|other| other == first).then(|| text(first))
    }

    fn cookies(&self) -> Cow<'_, str> {
        // HTTP/2 may have a field for each of them (RFC 9113, section 8.2.3).
        let fields: Vec<_> = self.headers.get_all(COOKIE).iter().map(text).collect();
        fields.join(";").into()
    }

    fn target(&self) -> Option<Cow<'_, str>> {
        keys::Request::header(self, "x-forwarded-uri")
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }
}

/// Returns a value that a client sent, whatever its encoding: an unreadable one would not be
/// limited.
fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Returns the last address of `X-Forwarded-For` that is not a trusted proxy: those before it are
/// what the client claims. `None` if the one that counts cannot be read, such as `unknown`.
fn client_of(headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let values = headers.get_all("x-forwarded-for").into_iter().rev();
    // In bytes: a client may have sent some that are not ASCII before the address of a proxy.
    let hops = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    let mut client = None;
    for hop in hops {
        client = Some(str::from_utf8(hop).ok()?.trim().parse().ok()?);
        if !client.is_some_and(&is_trusted) {
            break;
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use ratelimit_core::{config::SourceConfig, keys::Part};

    use super::*;

    #[test]
    fn what_is_not_ascii_is_read_and_all_cookies_are_together() {
        let mut headers = HeaderMap::new();
        let bytes = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
        headers.insert("x-forwarded-uri", bytes(b"/login?\xe9"));
        headers.insert("x-user", bytes("josé".as_bytes()));
        headers.append("cookie", bytes(b"name=\xe9"));
        headers.append("cookie", bytes(b"session=abc"));
        headers.append("x-twice", bytes(b"random"));
        headers.append("x-twice", bytes(b"own"));
        let request = Forwarded {
            headers: &headers,
            client: None,
        };
        let key = |part| keys::key(&[part], &request, &SourceConfig::default()).unwrap();
        assert_eq!(key(Part::Path("/login".parse().unwrap())), "/login");
        assert_eq!(key(Part::Header("x-user".to_owned())), "josé");
        assert_eq!(key(Part::Cookie("session".to_owned())), "abc");
        assert_eq!(key(Part::Header("x-twice".to_owned())), "client unknown");
    }

    #[test]
    fn the_client_is_never_an_address_that_it_claims_itself() {
        let client = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            client_of(&headers, |address| address.is_loopback())
        };
        let own = "192.0.2.1".parse().ok();
        assert_eq!(client(&["198.51.100.9, 192.0.2.1, 127.0.0.1"]), own);
        assert_eq!(client(&["198.51.100.9", "192.0.2.1"]), own);
        assert_eq!(client(&["é, 198.51.100.9, 192.0.2.1"]), own);
        assert_eq!(client(&["127.0.0.1"]), "127.0.0.1".parse().ok());
        assert_eq!(client(&["198.51.100.9, 192.0.2.1:443"]), None);
        assert_eq!(client(&["198.51.100.9, unknown, 127.0.0.1"]), None);
        assert_eq!(client(&[]), None);
    }
}
