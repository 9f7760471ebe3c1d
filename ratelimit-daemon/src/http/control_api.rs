//! The control API: each route is one command or query. `api/openapi.rs` describes them.
//!
//! Work for each request of a connection is done outside the routes, because axum clones all layers
//! of a route for each request.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    BoxError, Extension, Router,
    body::{Bytes, HttpBody},
    extract::{DefaultBodyLimit, Path, Request, State},
    http::{self, HeaderMap, Method, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, post},
};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use miniz_oxide::inflate::decompress_to_vec;
use ratelimit_core::{
    api::{
        APPLY_BYTES_MAX, ApplyRequest, BanFilter, Check, Code, DiffRequest, PacketRequest,
        REQUEST_BYTES_MAX, Refused, ReloadRequest, SSH_PEER, SUDO_USER, TopDestinationsRequest,
        TopRequest,
    },
    lists,
    prefix::Prefix,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::{
    control::{
        self, Controller, Handle,
        commands::{
            Allow, AllowEverywhere, Apply, Ban, BanByProgram, Command, Confirm, Detach, Disallow,
            DisallowEverywhere, LimitEverywhere, ProtectSshPeer, Reload, RemoveLimits,
            RemoveLimitsEverywhere, RemoveList, RevokeNode, RollBack, SetLimits, SetPassAll, Unban,
            UnbanByProgram, UnbanMatching,
        },
        queries::{self, Diff, Packet},
    },
    recording::Recorder,
    stream::Streams,
    traffic_log::TrafficLog,
};

use super::{
    answers::{
        Body, Failure, Noticed, Notices, Parameters, answered, as_problem, change, read, written,
    },
    capture_api, cross_origin,
    dashboard::{self, Audience},
    event_api, key_api, list_api, metrics_api,
    peer::Peer,
    upstream_api,
};

/// The number of sources that `top` shows by default.
const TOP_DEFAULT: usize = 20;
/// The most sources `top` shows.
const TOP_MAX: usize = 10_000;

/// The longest wait of `status` for the controller before it reports what keeps it busy.
const STATUS_PATIENCE: Duration = Duration::from_secs(3);

/// The result of a handler.
type Answer = Result<Response, Failure>;

/// The control API.
#[derive(Clone)]
pub struct ControlApi {
    routes: TowerToHyperService<Router>,
    controller: Handle,
    recorder: Recorder,
}

impl ControlApi {
    /// Commands for the controller, and captures.
    pub fn new(controller: Handle, recorder: Recorder, history: TrafficLog) -> Self {
        Self {
            routes: TowerToHyperService::new(
                routes(controller.clone())
                    .merge(key_api::router(controller.keys().clone()))
                    .merge(metrics_api::router(controller.clone()))
                    .merge(dashboard::router(
                        controller.clone(),
                        history,
                        Audience::Socket,
                    )),
            ),
            controller,
            recorder,
        }
    }

    /// Carries out what a peer asks for, on a connection with these streams.
    pub(super) async fn answer<B>(
        &self,
        peer: &Peer,
        streams: &Streams,
        mut request: http::Request<B>,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if !peer.is_permitted() {
            return forbidden(peer).into_response();
        }
        // The headers of a request that a proxy passes on are a visitor's.
        let no_headers = HeaderMap::new();
        let headers = if request.uri().path().starts_with(key_api::FORWARD_AUTH) {
            &no_headers
        } else {
            request.headers()
        };
        if let Err(failure) = cross_origin::check(headers) {
            return failure.into_response();
        }
        let noted = self.note_ssh_peer(headers);
        let is_command = request.method() != Method::GET;
        if is_command {
            noted.await;
        } else {
            // It changes no ban, so it does not wait for a controller that is stuck.
            let _ = timeout(STATUS_PATIENCE, noted).await;
        }
        let claimed = headers.get(SUDO_USER);
        let claimed = claimed.and_then(|claimed| claimed.to_str().ok());
        let peer = peer.on_behalf_of(claimed.unwrap_or_default());
        let extensions = request.extensions_mut();
        extensions.insert(peer.clone());
        extensions.insert(streams.clone());
        extensions.insert(self.recorder.clone());
        let asked = format!("{} {}", request.method(), request.uri().path());
        let what = format!("{asked} by {}", peer.author);
        let Ok(response) = control::asked_as(what, self.routes.call(request)).await;
        let response = as_problem(response, &asked).await;
        if is_command && let Some(code) = response.extensions().get::<Code>() {
            self.controller.workload().refuse(*code);
        }
        response
    }

    /// Protects the other end of the SSH session that the request was typed in, before it is
    /// carried out.
    async fn note_ssh_peer(&self, headers: &HeaderMap) {
        let peer = headers.get(SSH_PEER);
        let peer = peer.and_then(|peer| peer.to_str().ok()?.parse::<IpAddr>().ok());
        if let Some(peer) = peer {
            // If the controller has stopped, the request itself fails.
            let _ = self.controller.post(ProtectSshPeer(peer)).await;
        }
    }
}

fn forbidden(peer: &Peer) -> Failure {
    let refused = Refused::because(format!("{} may not control ratelimitd", peer.author))
        .hint("use root, or a member of the group of the socket");
    Failure(StatusCode::FORBIDDEN, refused)
}

/// The answer to a user who has as many requests under way as connections.
pub(super) fn too_many_connections() -> Response {
    let refused = Refused::because("too many concurrent requests of this user")
        .hint("wait for one of them to finish");
    Failure(StatusCode::SERVICE_UNAVAILABLE, refused).into_response()
}

fn cluster_routes() -> Router<Handle> {
    Router::new()
        .route("/v1/cluster", gets(queries::cluster_state))
        .route(
            "/v1/cluster/allows",
            posts(AllowEverywhere).merge(deletes(DisallowEverywhere)),
        )
        .route(
            "/v1/cluster/limits",
            posts(LimitEverywhere).merge(deletes(RemoveLimitsEverywhere)),
        )
        .route("/v1/cluster/revoke", posts(RevokeNode))
}

/// Only bans and unbans, for restricted clients.
pub(super) fn ban_commands(controller: Handle) -> Router {
    Router::new()
        .route("/v1/bans", ban_and_unban())
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(controller)
}

fn ban_and_unban() -> MethodRouter<Handle> {
    posts(Ban).merge(deletes(Unban))
}

fn ban_routes() -> Router<Handle> {
    Router::new()
        .route("/v1/bans", get(bans).merge(ban_and_unban()))
        .route("/v1/bans/matching", deletes(UnbanMatching))
        .route(
            "/v1/bans/program",
            posts(BanByProgram).merge(deletes(UnbanByProgram)),
        )
}

fn routes(controller: Handle) -> Router {
    ban_routes()
        .merge(cluster_routes())
        .route("/v1/status", get(status))
        .route(
            "/v1/allows",
            gets(|it| Ok(queries::allows(&it.state)))
                .merge(posts(Allow))
                .merge(deletes(Disallow)),
        )
        .route(
            "/v1/limits",
            gets(|it| Ok(queries::limits(&it.state)))
                .merge(posts(SetLimits))
                .merge(deletes(RemoveLimits)),
        )
        .route(
            "/v1/lists",
            gets(|it| Ok(queries::lists(it))).merge(deletes(RemoveList)),
        )
        .route(
            "/v1/import",
            post(list_api::import).layer(DefaultBodyLimit::max(lists::BYTES_MAX)),
        )
        .route("/v1/progress", get(list_api::progress))
        .route("/v1/export", get(list_api::export))
        .route("/v1/upstream", get(upstream_api::routes))
        .route("/v1/check/{address}", get(check))
        .route("/v1/top", get(top))
        .route("/v1/top/destinations", get(top_destinations))
        .route("/v1/stats", gets(|it| queries::stats(&it.state)))
        .route("/v1/events", get(event_api::events))
        .route("/v1/events/cursor", get(event_api::cursor))
        .route(
            "/v1/capture",
            post(capture_api::begin).delete(capture_api::end),
        )
        .route("/v1/reload", post(reload))
        .route(
            "/v1/diff",
            post(diff).layer(DefaultBodyLimit::max(APPLY_BYTES_MAX)),
        )
        .route("/v1/detach", post(detach))
        .route(
            "/v1/protected",
            gets(|it| Ok(queries::protected(&it.state))),
        )
        .route("/v1/config", gets(queries::settings))
        .route(
            "/v1/apply",
            post(apply).layer(DefaultBodyLimit::max(APPLY_BYTES_MAX)),
        )
        .route("/v1/confirm", post(confirm))
        .route("/v1/rollback", post(roll_back))
        .route("/v1/pass-all", posts(SetPassAll))
        .route("/v1/openapi.json", get(openapi))
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(controller)
}

/// A file, because the code that makes it from the types takes 0.7 MB of the program.
async fn openapi() -> impl IntoResponse {
    let compressed = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json"));
    let document = decompress_to_vec(compressed).expect("the build script has compressed it");
    ([(CONTENT_TYPE, "application/json")], document)
}

async fn confirm(State(controller): State<Handle>, Extension(peer): Extension<Peer>) -> Answer {
    let author = peer.author;
    change(&controller, Confirm(author)).await
}

async fn roll_back(State(controller): State<Handle>, Extension(peer): Extension<Peer>) -> Answer {
    let lists = control::read_previous(&controller).await?;
    let is_root = peer.is_root();
    let author = peer.author;
    let command = RollBack {
        lists,
        author,
        is_root,
    };
    change(&controller, command).await
}

async fn status(State(controller): State<Handle>, Extension(peer): Extension<Peer>) -> Answer {
    let reported = async {
        let status = queries::status(&controller, peer.is_root()).await?;
        read(&controller, |_| Ok(status)).await
    };
    let reported = timeout(STATUS_PATIENCE, reported).await;
    reported.unwrap_or_else(|_| Err(busy(&controller)))
}

/// The answer of a daemon that has no time to answer.
fn busy(controller: &Handle) -> Failure {
    let with = controller.busy().map(|with| with.to_string());
    let with = with.as_deref().unwrap_or("busy with many requests");
    let refused = Refused::because(format!("ratelimitd does not respond: it is {with}")).hint(
        "the kernel continues to enforce; if this persists, check the log and restart ratelimitd",
    );
    Failure(StatusCode::SERVICE_UNAVAILABLE, refused)
}

async fn bans(
    State(controller): State<Handle>,
    Parameters(filter): Parameters<BanFilter>,
) -> Answer {
    let bans = queries::bans(&controller, filter).await?;
    read(&controller, |_| Ok(bans)).await
}

async fn check(
    State(controller): State<Handle>,
    Path(address): Path<String>,
    Parameters(packet): Parameters<PacketRequest>,
) -> Answer {
    let Ok(address) = address.parse::<IpAddr>() else {
        let error = format!("`{address}` is not an IPv4 or IPv6 address");
        return Err(Failure::bad_request(error));
    };
    let packet = Packet { address, packet };
    let databases = controller.ask(|it| queries::databases(&it.state)).await?;
    let place = queries::places(databases, vec![address]).await.pop();
    let check = move |it: &Controller| {
        let check = queries::check(it, packet)?;
        Ok(Check {
            place: place.flatten(),
            ..check
        })
    };
    read(&controller, check).await
}

async fn top(
    State(controller): State<Handle>,
    Parameters(query): Parameters<TopRequest>,
) -> Answer {
    let count = top_count(query.count)?;
    let with = query.with.split(',').filter(|text| !text.is_empty());
    let with: Result<Vec<Prefix>, _> = with.map(str::parse).collect();
    let with = with.map_err(|error| Failure::bad_request(error.to_string()))?;
    let mut top = queries::top(&controller, count, with).await?;
    if let Ok(rows) = &mut top {
        let databases = controller.ask(|it| queries::databases(&it.state)).await?;
        let addresses = rows.iter().map(|row| row.source.address()).collect();
        let places = queries::places(databases, addresses).await;
        for (row, place) in rows.iter_mut().zip(places) {
            row.place = place;
        }
    }
    read(&controller, |_| top).await
}

async fn top_destinations(
    State(controller): State<Handle>,
    Parameters(query): Parameters<TopDestinationsRequest>,
) -> Answer {
    let count = top_count(query.count)?;
    let fullest = move |it: &Controller| queries::fullest_destinations(&it.state, count);
    read(&controller, fullest).await
}

fn top_count(asked: Option<usize>) -> Result<usize, Failure> {
    let count = asked.unwrap_or(TOP_DEFAULT);
    if count == 0 || count > TOP_MAX {
        let error = format!("the count {count} is not between 1 and {TOP_MAX}");
        return Err(Failure::bad_request(error));
    }
    Ok(count)
}

fn gets<T: Serialize + Send + 'static>(
    question: fn(&Controller) -> Result<T, Refused>,
) -> MethodRouter<Handle> {
    get(async move |State(controller): State<Handle>| read(&controller, question).await)
}

/// The command that a body asks for, and who asks.
type CommandOf<Q, C> = fn(Q, Arc<str>) -> C;

fn posts<Q, C, T>(command: CommandOf<Q, C>) -> MethodRouter<Handle>
where
    Q: DeserializeOwned + Send + 'static,
    C: Command<Answer = Result<T, Refused>>,
    T: Serialize + Send + 'static,
{
    post(move |State(controller), Extension(peer), Body(request)| {
        run(controller, peer, request, command)
    })
}

fn deletes<Q, C, T>(command: CommandOf<Q, C>) -> MethodRouter<Handle>
where
    Q: DeserializeOwned + Send + 'static,
    C: Command<Answer = Result<T, Refused>>,
    T: Serialize + Send + 'static,
{
    delete(move |State(controller), Extension(peer), Body(request)| {
        run(controller, peer, request, command)
    })
}

async fn run<Q, C, T>(
    controller: Handle,
    peer: Peer,
    request: Q,
    command: CommandOf<Q, C>,
) -> Answer
where
    Q: Send + 'static,
    C: Command<Answer = Result<T, Refused>>,
    T: Serialize + Send + 'static,
{
    let command = Noticed(command(request, peer.author));
    if !C::SHARES_TRANSACTION {
        return Ok(answered(controller.call(command).await?));
    }
    let ((answer, notices), unkept) = controller.call_grouped(command).await?;
    // The state after all commands of the group.
    Ok(answered((answer, Notices { unkept, ..notices })))
}

/// A refusal with what root may read of it.
fn shown(refused: Refused, peer: &Peer) -> Refused {
    if peer.is_root() {
        refused.for_root()
    } else {
        refused
    }
}

async fn reload(
    State(controller): State<Handle>,
    Extension(peer): Extension<Peer>,
    Parameters(request): Parameters<ReloadRequest>,
) -> Answer {
    let candidate = control::read_files(&controller).await?;
    let reload = Reload { candidate, request };
    let (answer, notices) = controller.call(Noticed(reload)).await?;
    let answer = answer.map_err(|refused| shown(refused, &peer));
    Ok(written((answer, notices)).await)
}

async fn apply(
    State(controller): State<Handle>,
    Extension(peer): Extension<Peer>,
    Body(request): Body<ApplyRequest>,
) -> Answer {
    let attempted = control::read_request(&controller, request, peer.is_root()).await?;
    let author = peer.author;
    change(&controller, Apply { attempted, author }).await
}

async fn diff(
    State(controller): State<Handle>,
    Extension(peer): Extension<Peer>,
    Body(request): Body<DiffRequest>,
) -> Answer {
    let is_reload = request.tried.is_none();
    let candidate = match request.tried {
        None => control::read_files(&controller).await?,
        Some(tried) => {
            let attempted = control::read_request(&controller, tried, peer.is_root()).await?;
            attempted.map(|attempted| attempted.candidate)
        }
    };
    let candidate = candidate.map_err(|refused| shown(refused, &peer));
    let diff = Diff {
        candidate,
        is_reload,
    };
    change(&controller, diff).await
}

async fn detach(State(controller): State<Handle>, Extension(peer): Extension<Peer>) -> Answer {
    let author = peer.author;
    change(&controller, Detach(author)).await
}

async fn unknown(request: Request) -> Failure {
    let refused = Refused::because(format!(
        "unknown path {} {}",
        request.method(),
        request.uri().path()
    ))
    .hint(
        "rlctl and ratelimitd may be of different versions: compare `rlctl --version` and \
         `ratelimitd --version`",
    );
    Failure(StatusCode::NOT_FOUND, refused)
}
