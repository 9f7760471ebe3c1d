//! The dashboard: one page, and its data as server-sent events (HTML, section 9.2).
//!
//! The control socket offers it to every user who may command the daemon; `ssh -L
//! 9800:/run/ratelimit/control.sock HOST` forwards it to a browser. On the metrics listener it
//! requires `[metrics] dashboard = true`, and is read-only without a [`token`].

mod found;
pub mod token;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    body::Bytes,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use ratelimit_core::api::{Access, LiveRequest, PacketRequest, Refused};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::found::Found;
use super::{
    answers::{Failure, Parameters},
    cross_origin, history_api,
};
use crate::{
    clock,
    control::{
        Handle, Unanswered,
        queries::{self, Packet},
    },
    stream::{Streams, Writer},
    traffic_log::TrafficLog,
};

const PAGE: &str = include_str!("dashboard/page.html");
const SCRIPT: &str = include_str!("dashboard/script.js");
const HISTORY: &str = include_str!("dashboard/history.js");
const ICON: &str = include_str!("dashboard/icon.svg");
const STYLE: &str = include_str!("dashboard/style.css");

/// No foreign content, and no embedding in other pages.
const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The interval at which packets are counted.
const PERIOD: Duration = Duration::from_secs(1);
/// The time for which all viewers share a result. Finding the busiest sources scans their table.
const STATS_LAST: Duration = Duration::from_millis(900);
const STATUS_LAST: Duration = Duration::from_millis(1_900);
const LISTS_LAST: Duration = Duration::from_millis(4_900);
/// Counting the entries of an LRU map scans it.
const FILL_LASTS: Duration = Duration::from_secs(10);
/// To find answers takes at most so small a part of the time: a million bans take long.
const PART: u32 = 20;
/// The duration of a stream. A browser opens the next one before a connection from the network is
/// cut.
const STREAM_LASTS: Duration = Duration::from_secs(50);
/// Busiest sources that are shown.
const TOP: usize = 50;
/// Events that are sent: the last ones that are no drops.
const EVENTS: usize = 100;

/// The clients of the dashboard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Audience {
    /// Clients of the control socket.
    Socket,
    /// A client on the port of the metrics, if the configuration permits it.
    Network,
}

#[derive(Clone)]
struct Dashboard {
    controller: Handle,
    audience: Audience,
    latest: Arc<Latest>,
}

/// The last answers, for all who look.
#[derive(Default)]
struct Latest {
    stats: Kept,
    status: Kept,
    top: Kept,
    bans: Mutex<Found>,
    events: Kept,
    fill: Kept<Vec<(&'static str, u64)>>,
}

/// An answer and its expiry.
type Kept<T = Bytes> = Mutex<Option<(Instant, T)>>;

/// The page and its events.
pub fn router(controller: Handle, history: TrafficLog, audience: Audience) -> Router {
    let dashboard = Dashboard {
        controller,
        audience,
        latest: Arc::default(),
    };
    Router::new()
        .route("/", get(async || file("text/html; charset=utf-8", PAGE)))
        .route(
            "/dashboard.js",
            get(async || file("text/javascript", SCRIPT)),
        )
        .route(
            "/history.js",
            get(async || file("text/javascript", HISTORY)),
        )
        .route("/dashboard.css", get(async || file("text/css", STYLE)))
        .route("/dashboard.svg", get(async || file("image/svg+xml", ICON)))
        .route("/v1/live", get(live))
        .with_state(dashboard.clone())
        .merge(history_api::router(history))
        .layer(middleware::from_fn_with_state(dashboard, admit))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// Answers who may look.
async fn admit(
    State(dashboard): State<Dashboard>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    cross_origin::check(request.headers())?;
    if dashboard.audience == Audience::Network {
        let is_open = dashboard
            .controller
            .ask(|it| queries::is_dashboard_open(&it.state));
        if !matches!(is_open.await, Ok(true)) {
            let refused = Refused::because("the dashboard is disabled").hint(
                "set dashboard = true in [metrics], or use ssh -L 9800:/run/ratelimit/control.sock",
            );
            return Err(Failure(StatusCode::NOT_FOUND, refused));
        }
    }
    Ok(next.run(request).await)
}

async fn live(
    State(dashboard): State<Dashboard>,
    Extension(streams): Extension<Streams>,
    Parameters(request): Parameters<LiveRequest>,
) -> Result<Response, Failure> {
    let Some((writer, body)) = streams.begin() else {
        return Err(Failure::unavailable(
            "too many open dashboards, event streams and captures",
        ));
    };
    tokio::spawn(async move {
        let _ = tokio::time::timeout(STREAM_LASTS, follow(&dashboard, &writer, request)).await;
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, body).into_response())
}

/// Writes new data, until the client disconnects or the daemon stops.
async fn follow(dashboard: &Dashboard, writer: &Writer, request: LiveRequest) {
    let mut ticks = clock::ticks(PERIOD);
    let mut sent = Vec::new();
    loop {
        tokio::select! {
            () = writer.ended() => return,
            _ = ticks.tick() => {}
        }
        let Ok(events) = dashboard.now(&request).await else {
            return;
        };
        // Unchanged events are not sent again.
        let new = events.iter().filter(|it| !sent.contains(*it));
        let piece: Vec<u8> = new.flat_map(|it| it.iter().copied()).collect();
        sent = events;
        if !piece.is_empty() && !writer.write(piece.into()).await {
            return;
        }
    }
}

impl Dashboard {
    /// All that is shown, an event each.
    async fn now(&self, request: &LiveRequest) -> Result<Vec<Bytes>, Unanswered> {
        let (controller, latest) = (&self.controller, &self.latest);
        let stats = async || {
            let rows = controller.ask(|it| queries::stats(&it.state));
            Ok(event("stats", &now("rows", &rows.await?.ok())))
        };
        let status = async || {
            let mut status = queries::status(controller, false).await?;
            let fill = async || queries::fill(controller).await;
            let fill = fresh(&latest.fill, FILL_LASTS, fill).await?;
            for map in &mut status.maps {
                let scanned = fill.iter().find(|(name, _)| *name == map.name);
                map.entries = map.entries.or(scanned.map(|(_, entries)| *entries));
            }
            Ok(event("status", &status))
        };
        let top = async || {
            let sources = queries::top(controller, TOP, Vec::new()).await?;
            Ok(event("top", &now("sources", &sources.ok())))
        };
        let events = async || {
            let changes = controller.ask(|it| queries::changes(&it.state, EVENTS));
            Ok(event("events", &changes.await?))
        };
        let mut all = vec![
            fresh(&latest.stats, STATS_LAST, stats).await?,
            fresh(&latest.status, STATUS_LAST, status).await?,
            fresh(&latest.events, STATS_LAST, events).await?,
            fresh(&latest.top, LISTS_LAST, top).await?,
            event("access", &self.access().await?),
        ];
        let text = request.bans.as_deref().unwrap_or_default();
        let mut found = latest.bans.lock().await;
        all.extend(found.find(controller, text, LISTS_LAST, PART).await?);
        drop(found);
        if let Some(address) = request.address {
            let packet = PacketRequest::default();
            let check = controller.ask(move |it| queries::check(it, Packet { address, packet }));
            all.push(event("check", &check.await?.ok()));
        }
        Ok(all)
    }

    async fn access(&self) -> Result<Access, Unanswered> {
        if self.audience == Audience::Socket {
            return Ok(Access::Command);
        }
        let token = self
            .controller
            .ask(|it| queries::dashboard_token(&it.state))
            .await?;
        Ok(token.map_or(Access::Read, |_| Access::Token))
    }
}

/// The cached answer, or a new one if that is too old.
async fn fresh<T: Clone>(
    kept: &Kept<T>,
    lasts: Duration,
    find: impl AsyncFnOnce() -> Result<T, Unanswered>,
) -> Result<T, Unanswered> {
    let mut kept = kept.lock().await;
    if let Some((until, answer)) = &*kept
        && clock::monotonic() < *until
    {
        return Ok(answer.clone());
    }
    let start = clock::monotonic();
    let answer = find().await?;
    let lasts = lasts.max(clock::elapsed(start) * PART);
    *kept = Some((clock::monotonic() + lasts, answer.clone()));
    Ok(answer)
}

/// Counters with their time, because rates are differences.
fn now(name: &str, counted: &impl Serialize) -> Value {
    json!({ "at": clock::wall(), name: counted })
}

fn event(name: &str, value: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(value).expect("keys are strings, and numbers finite");
    format!("event: {name}\nretry: 1000\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_takes_long_to_find_is_found_the_less_often() {
        let kept = Kept::<Bytes>::default();
        let took = Duration::from_millis(50);
        let answer = async |text: &'static str| {
            let slow = async || {
                tokio::time::sleep(took).await;
                Ok(text.into())
            };
            fresh(&kept, Duration::ZERO, slow).await.unwrap()
        };
        let begun = clock::monotonic();
        assert_eq!(answer("first").await, "first");
        // A machine under load may ask again only when the first is too old.
        let second = answer("second").await;
        assert!(second == "first" || clock::elapsed(begun) > took * PART);
        // It is kept no longer than that, whatever finding it took.
        tokio::time::sleep(clock::elapsed(begun) * PART).await;
        assert_eq!(answer("third").await, "third");
    }
}
