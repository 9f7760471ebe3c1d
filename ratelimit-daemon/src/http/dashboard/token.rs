//! The token of `[metrics] token_file`: whoever shows it may ban and unban through the listener of
//! the metrics (RFC 6750).

use std::path::PathBuf;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use ratelimit_core::{
    api::{Code, Refused},
    config::cluster::SECRET_MIN,
};
use subtle::ConstantTimeEq;
use tracing::warn;

use crate::{
    cluster::read_file,
    control::{self, Handle, queries::dashboard_token},
    http::{
        answers::{Failure, as_problem},
        control_api, cross_origin,
        peer::Peer,
    },
};

/// The routes that the token permits.
pub fn router(controller: Handle) -> Router {
    control_api::ban_commands(controller.clone())
        .layer(middleware::from_fn_with_state(controller, admit))
}

async fn admit(State(controller): State<Handle>, mut request: Request, next: Next) -> Response {
    let asked = format!("{} {}", request.method(), request.uri().path());
    let response = match check(&controller, request.headers()).await {
        Ok(()) => {
            let peer = Peer::with_token();
            let what = format!("{asked} by {}", peer.author());
            request.extensions_mut().insert(peer);
            control::asked_as(what, next.run(request)).await
        }
        Err(failure) => failure.into_response(),
    };
    let response = as_problem(response, &asked).await;
    if let Some(code) = response.extensions().get::<Code>() {
        controller.workload().refuse(*code);
    }
    response
}

/// Whether a request shows the token.
async fn check(controller: &Handle, headers: &HeaderMap) -> Result<(), Failure> {
    cross_origin::check(headers)?;
    let failure = |status, error: &'static str, hint: &'static str| {
        Failure(status, Refused::because(error).hint(hint))
    };
    let file = controller.ask(|it| dashboard_token(&it.state));
    let Ok(Some(file)) = file.await else {
        return Err(failure(
            StatusCode::NOT_FOUND,
            "unknown path, or a command on a read-only listener",
            "use the control socket, or set token_file in [metrics]",
        ));
    };
    let Some(shown) = shown(headers) else {
        return Err(failure(
            StatusCode::UNAUTHORIZED,
            "the token is missing",
            "send `Authorization: Bearer TOKEN`",
        ));
    };
    let Some(token) = read(file).await else {
        return Err(failure(
            StatusCode::SERVICE_UNAVAILABLE,
            "ratelimitd cannot read its token",
            "see the log of ratelimitd",
        ));
    };
    // Constant time, so that it reveals nothing about where they differ.
    if bool::from(shown.ct_eq(&token)) {
        return Ok(());
    }
    Err(failure(
        StatusCode::UNAUTHORIZED,
        "the token is wrong",
        "use the token in token_file of [metrics]",
    ))
}

fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

/// Reads the token file on each use, so a new token needs no reload.
async fn read(file: PathBuf) -> Option<Vec<u8>> {
    let text = match read_file(&file).await {
        Ok(text) => text,
        Err(error) => {
            warn!(file = %file.display(), %error, "cannot read the token of the dashboard");
            return None;
        }
    };
    let token = text.trim_ascii();
    if token.len() >= SECRET_MIN {
        return Some(token.to_vec());
    }
    warn!(
        file = %file.display(),
        "the file has no token of at least {SECRET_MIN} characters: `openssl rand -hex 32` makes \
         one"
    );
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_what_stands_behind_its_scheme() {
        for (value, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ", Some("")),
            ("abc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(shown(&headers), expected.map(str::as_bytes), "{value}");
        }
        assert_eq!(shown(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn a_file_with_a_short_token_or_none_lets_nobody_in() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        assert_eq!(read(file.clone()).await, None);
        for (text, is_token) in [
            ("", false),
            ("\n", false),
            ("short\n", false),
            ("0123456789abcdef\n", true),
        ] {
            fs::write(&file, text).unwrap();
            let read = read(file.clone()).await;
            assert_eq!(
                read.as_deref(),
                is_token.then_some(text.trim().as_bytes()),
                "{text}"
            );
        }
    }
}
