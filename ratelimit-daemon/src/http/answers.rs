//! Answers of the controller as JSON, with what every answer has beside them.

use axum::{
    Extension, Json,
    extract::{
        FromRequest, FromRequestParts, Query, Request,
        rejection::{JsonRejection, QueryRejection},
    },
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE},
        request::Parts,
    },
    response::{IntoResponse, Response},
};
use ratelimit_core::api::{
    PASS_ALL, PROBLEM_JSON, PassAllStatus, Problem, REQUEST_BYTES_MAX, Refused, UNENFORCED, UNKEPT,
    Unenforced,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::control::{
    Controller, Handle, Unanswered,
    commands::{Command, LookAtLinks, ReadOnly},
};

/// The most that is taken from an error in other words.
const SAID_BYTES: usize = 4096;

/// The response to a failed request.
#[derive(Debug)]
pub struct Failure(pub StatusCode, pub Refused);

impl Failure {
    /// The daemon is out of capacity or shutting down.
    pub fn unavailable(error: impl Into<String>) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, Refused::because(error))
    }

    /// It makes no sense.
    pub fn bad_request(error: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, Refused::because(error))
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self(StatusCode::CONFLICT, refused)
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        Self::unavailable(unanswered.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(status, refused) = self;
        let problem = Problem::new(status.as_u16(), refused);
        let code = Extension(problem.code);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            // RFC 9110 requires it with this status.
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        (code, headers, (status, Json(problem))).into_response()
    }
}

/// Asks the controller, and turns its answer into JSON.
pub async fn read<T: Serialize + Send + 'static>(
    controller: &Handle,
    question: impl FnOnce(&Controller) -> Result<T, Refused> + Send + 'static,
) -> Result<Response, Failure> {
    change(controller, ReadOnly(question)).await
}

/// Has the controller carry out a command, and turns its answer into JSON.
pub async fn change<T: Serialize + Send + 'static>(
    controller: &Handle,
    command: impl Command<Answer = Result<T, Refused>>,
) -> Result<Response, Failure> {
    Ok(written(controller.call(Noticed(command)).await?).await)
}

pub async fn written<T: Serialize + Send + 'static>(answer: Answered<T>) -> Response {
    // Off the runtime, because a million bans take a second, in which other requests are answered.
    let written = tokio::task::spawn_blocking(|| answered(answer)).await;
    written.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// The answer of the controller, and the notices of every answer.
pub type Answered<T> = (Result<T, Refused>, Notices);

/// Warnings in the headers of every answer.
pub struct Notices {
    /// Whether everything passes.
    pub opened: Option<PassAllStatus>,
    /// The reasons why changes could not be saved.
    pub unkept: Vec<String>,
    /// Interfaces that are not protected.
    pub unenforced: Vec<Unenforced>,
}

/// A command whose answer comes with what every answer has.
pub struct Noticed<C>(pub C);

impl<C: Command> Command for Noticed<C> {
    type Answer = (C::Answer, Notices);

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.run(LookAtLinks);
        let answer = self.0.run(controller);
        let notices = Notices {
            opened: controller.feeds.pass_all.status().cloned(),
            unkept: controller.unkept(),
            unenforced: controller.unenforced(),
        };
        (answer, notices)
    }
}

pub fn answered<T: Serialize>((answer, notices): Answered<T>) -> Response {
    let answer = answer.map(Json).map_err(Failure::from);
    (notices.headers(), answer).into_response()
}

impl Notices {
    fn headers(self) -> HeaderMap {
        let opened = self.opened.and_then(|opened| in_header(&opened));
        let unkept = (!self.unkept.is_empty()).then(|| in_header(&self.unkept));
        let unenforced = (!self.unenforced.is_empty()).then(|| in_header(&self.unenforced));
        let headers = [
            (PASS_ALL, opened),
            (UNKEPT, unkept.flatten()),
            (UNENFORCED, unenforced.flatten()),
        ];
        headers
            .into_iter()
            .filter_map(|(name, value)| Some((HeaderName::from_static(name), value?)))
            .collect()
    }
}

fn in_header(value: &impl Serialize) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&serde_json::to_vec(value).ok()?).ok()
}

/// Parameters of the query, or an error message.
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|rejection| {
            Failure(rejection.status(), Refused::because(rejection.body_text()))
        })
    }
}

/// A body of JSON, or a refusal in words.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let body: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        body.map(|Json(body)| Self(body)).map_err(|rejection| {
            let status = rejection.status();
            let refused = if status == StatusCode::PAYLOAD_TOO_LARGE {
                Refused::because(format!("the request exceeds {REQUEST_BYTES_MAX} bytes"))
                    .hint("send the list in parts")
            } else {
                Refused::because(rejection.body_text())
            };
            Failure(status, refused)
        })
    }
}

/// An error as all others are, also where the router or an extractor said it in its own way.
pub async fn as_problem(response: Response, request: &str) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let media = response.headers().get(CONTENT_TYPE);
    if !is_error || media.is_some_and(|media| media == PROBLEM_JSON) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let said = axum::body::to_bytes(body, SAID_BYTES).await;
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    let detail = match said.trim() {
        "" => format!("{request}: {status}"),
        said => said.to_owned(),
    };
    let problem = Failure(status, Refused::because(detail)).into_response();
    head.headers.remove(CONTENT_LENGTH);
    let (own, body) = problem.into_parts();
    head.headers.extend(own.headers);
    head.extensions.extend(own.extensions);
    Response::from_parts(head, body)
}
