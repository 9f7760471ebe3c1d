//! Describes the API as `OpenAPI` 3.1 (<https://spec.openapis.org/oas/v3.1.0>), with schemas
//! derived from the types.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    Allow, AllowRequest, Applied, ApplyRequest, Attempt, Ban, BanFilter, BanRequest, BusyKey,
    CaptureRequest, Changed, Check, ClusterStatus, CursorNow, Detached, DiffRequest, Event,
    EventRequest, ExportRequest, History, HistoryRequest, ImportRequest, Imported, KeyRequest,
    KeyReset, KeyUsage, KeysRequest, LimitRequest, LimitTarget, ListTarget, ListView, LiveRequest,
    ObtainAnswer, ObtainRequest, OneOrMany, PROBLEM_JSON, PacketRequest, PassAllRequest,
    PassAllStatus, PolicyView, PrefixesRequest, Problem, ProgramBanRequest, ProgramUnbanRequest,
    Progress, ProtectedView, ReloadRequest, Reloaded, RevokeRequest, Revoked, Setting, StatsRow,
    Status, TopDestinationsRequest, TopRequest, TopSource, UnbanMatchingRequest, UnbanRequest,
    UpstreamRoutes, WiderLimits,
};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Returns the document as JSON.
#[allow(clippy::too_many_lines, reason = "a few lines per request")]
pub fn document() -> Value {
    let mut api = Api::default();
    api.get::<(), Status>("/v1/status", "State of the daemon and its datapath");
    api.get::<BanFilter, Vec<Ban>>("/v1/bans", "Bans in force");
    api.post::<BanRequest, Changed>("/v1/bans", "Ban prefixes (all or none)");
    api.delete::<UnbanRequest, Changed>("/v1/bans", "Remove the bans of prefixes");
    api.delete::<UnbanMatchingRequest, Changed>(
        "/v1/bans/matching",
        "Remove all bans that match a filter",
    );
    api.post::<ProgramBanRequest, Changed>(
        "/v1/bans/program",
        "Ban prefixes for a program such as fail2ban",
    );
    api.delete::<ProgramUnbanRequest, Changed>("/v1/bans/program", "Remove bans of a program");
    api.get::<(), Vec<Allow>>("/v1/allows", "Entries of the allow list");
    api.post::<AllowRequest, Changed>("/v1/allows", "Allow prefixes (all or none)");
    api.delete::<PrefixesRequest, Changed>("/v1/allows", "Remove prefixes from the allow list");
    api.get::<(), Vec<PolicyView>>("/v1/limits", "Policies and their limits");
    api.post::<LimitRequest, Changed>(
        "/v1/limits",
        "Set runtime limits for a prefix or for all sources",
    );
    api.delete::<LimitTarget, Changed>("/v1/limits", "Remove runtime limits");
    api.get::<PacketRequest, Check>("/v1/check/{address}", "Verdict for packets from an address");
    api.get::<TopRequest, Vec<TopSource>>("/v1/top", "Busiest sources");
    api.get::<TopDestinationsRequest, Vec<WiderLimits>>(
        "/v1/top/destinations",
        "Destinations closest to their limits",
    );
    api.get::<(), Vec<StatsRow>>(
        "/v1/stats",
        "Packet counts by interface, family, verdict and reason",
    );
    api.operation("get", "/v1/events", "Events as JSON lines")
        .queries::<EventRequest>()
        .answers_as::<Event>("application/x-ndjson");
    api.get::<(), CursorNow>("/v1/events/cursor", "Cursor after the last event");
    api.operation(
        "post",
        "/v1/capture",
        "Capture dropped packets until the client disconnects",
    )
    .takes::<CaptureRequest>()
    .answers_as::<String>("application/vnd.tcpdump.pcap");
    api.operation("delete", "/v1/capture", "End the capture")
        .answers_nothing();
    api.get::<(), Vec<ListView>>("/v1/lists", "Lists and their state");
    api.delete::<ListTarget, Changed>("/v1/lists", "Remove an imported list");
    api.operation(
        "post",
        "/v1/import",
        "Import a list in any supported format",
    )
    .queries::<ImportRequest>()
    .takes_as::<String>("application/octet-stream")
    .answers::<Imported>();
    api.get::<(), Progress>("/v1/progress", "Progress of the import");
    api.operation("get", "/v1/export", "Export entries as lines of text")
        .queries::<ExportRequest>()
        .answers_as::<String>(TEXT);
    api.operation(
        "get",
        "/v1/upstream",
        "Routes as JSON lines, after each change",
    )
    .answers_as::<UpstreamRoutes>("application/x-ndjson");
    api.operation("post", "/v1/reload", "Reload the configuration")
        .queries::<ReloadRequest>()
        .answers::<Reloaded>();
    api.post::<DiffRequest, Reloaded>("/v1/diff", "Compare a configuration with the running one");
    api.operation(
        "post",
        "/v1/detach",
        "Detach the program from all interfaces",
    )
    .answers::<Detached>();
    api.get::<(), Vec<ProtectedView>>("/v1/protected", "Prefixes that need force to be banned");
    api.get::<(), Vec<Setting>>("/v1/config", "Settings in force and their origins");
    api.get::<(), ClusterStatus>("/v1/cluster", "State of the cluster store and the nodes");
    api.post::<AllowRequest, Changed>("/v1/cluster/allows", "Allow prefixes on all nodes");
    api.delete::<PrefixesRequest, Changed>(
        "/v1/cluster/allows",
        "Remove prefixes from the allow lists of all nodes",
    );
    api.post::<LimitRequest, Changed>("/v1/cluster/limits", "Set runtime limits on all nodes");
    api.delete::<LimitTarget, Changed>("/v1/cluster/limits", "Remove runtime limits on all nodes");
    api.post::<RevokeRequest, Revoked>("/v1/cluster/revoke", "Revoke a node on all nodes");
    api.post::<OneOrMany<ObtainRequest>, OneOrMany<ObtainAnswer>>(
        "/v1/obtain",
        "Obtain requests of a key, or of several",
    );
    api.operation(
        "get",
        "/v1/forward-auth/{space}",
        "Decide about a request that a proxy received: 204, or 429 with Retry-After",
    )
    .answers_nothing();
    api.get::<KeysRequest, Vec<BusyKey>>("/v1/keys/{space}", "Keys closest to a limit");
    api.post::<KeyRequest, KeyUsage>("/v1/keys/check", "Usage of a key");
    api.delete::<KeyRequest, KeyReset>("/v1/keys", "Reset the usage of a key");
    api.post::<ApplyRequest, Applied>("/v1/apply", "Try a configuration for a limited time");
    api.operation("post", "/v1/confirm", "Confirm the configuration on trial")
        .answers::<Attempt>();
    api.operation(
        "post",
        "/v1/rollback",
        "Roll back the trial or the last reload",
    )
    .answers::<Attempt>();
    api.post::<PassAllRequest, Option<PassAllStatus>>("/v1/pass-all", "Turn pass-all on or off");
    api.operation("get", "/v1/live", "Dashboard data as server-sent events")
        .queries::<LiveRequest>()
        .answers_as::<String>("text/event-stream");
    api.get::<HistoryRequest, History>("/v1/history", "Packet history of recent days");
    api.get::<(), Map<String, Value>>("/v1/openapi.json", "This OpenAPI document");
    api.finish()
}

struct Api {
    schemas: Schemas,
    paths: Map<String, Value>,
}

/// Requests may omit fields with a default. Responses contain every field, or omit empty ones.
struct Schemas {
    /// Schemas of requests, inlined because types that are also responses have another schema
    /// there.
    read: SchemaGenerator,
    /// Schemas of responses, by name.
    written: SchemaGenerator,
}

impl Default for Api {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let read = settings.clone().with(|it| it.inline_subschemas = true);
        let schemas = Schemas {
            read: read.into_generator(),
            written: settings.for_serialize().into_generator(),
        };
        Self {
            schemas,
            paths: Map::new(),
        }
    }
}

/// An operation of a path.
struct Operation<'a> {
    schemas: &'a mut Schemas,
    value: &'a mut Value,
}

impl Api {
    fn get<Query: JsonSchema, Answer: JsonSchema>(&mut self, path: &str, summary: &str) {
        let operation = self.operation("get", path, summary);
        operation.queries::<Query>().answers::<Answer>();
    }

    fn post<Body: JsonSchema, Answer: JsonSchema>(&mut self, path: &str, summary: &str) {
        let operation = self.operation("post", path, summary);
        operation.takes::<Body>().answers::<Answer>();
    }

    fn delete<Body: JsonSchema, Answer: JsonSchema>(&mut self, path: &str, summary: &str) {
        let operation = self.operation("delete", path, summary);
        operation.takes::<Body>().answers::<Answer>();
    }

    fn operation(&mut self, method: &str, path: &str, summary: &str) -> Operation<'_> {
        let refused = self.schemas.written.subschema_for::<Problem>();
        let in_path = path.split('{').skip(1).map(|rest| {
            let name = rest.split('}').next();
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        });
        let value = json!({
            "summary": summary,
            "parameters": in_path.collect::<Value>(),
            "responses": {
                "default": { "description": "The request was refused",
                    "content": { PROBLEM_JSON: { "schema": refused } } },
            },
        });
        let of_path = self.paths.entry(path).or_insert_with(|| json!({}));
        of_path[method] = value;
        Operation {
            schemas: &mut self.schemas,
            value: &mut of_path[method],
        }
    }

    fn finish(mut self) -> Value {
        let mut definitions = self.schemas.written.take_definitions(true);
        definitions.values_mut().for_each(without_null);
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "ratelimitd",
                "description": "HTTP over the Unix socket of ratelimitd. Times are RFC 3339, \
                                durations are seconds. Without a value, required fields of a \
                                response are null and optional fields are absent.",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "http://localhost",
                "description": "The default path of the Unix socket is \
                                /run/ratelimit/control.sock" }],
            "paths": self.paths,
            "components": { "schemas": definitions },
        })
    }
}

impl Operation<'_> {
    /// Makes each field of an object a query parameter.
    fn queries<T: JsonSchema>(self) -> Self {
        let schema = T::json_schema(&mut self.schemas.read);
        let is_required = |name: &String| {
            let required = schema.get("required").and_then(Value::as_array);
            required.is_some_and(|it| it.iter().any(|it| it == name))
        };
        let fields = schema.get("properties").and_then(Value::as_object);
        let parameters = fields.into_iter().flatten().map(|(name, schema)| {
            json!({ "name": name, "in": "query", "required": is_required(name), "schema": schema })
        });
        let all = self.value["parameters"].as_array_mut();
        let all = all.expect("it is made as one");
        all.extend(parameters);
        // The order of a map's keys is a feature of `serde_json`, which another crate may turn on.
        all.sort_by_key(|it| (it["in"] == "query", it["name"].to_string()));
        self
    }

    fn takes<T: JsonSchema>(self) -> Self {
        self.takes_as::<T>(JSON)
    }

    fn takes_as<T: JsonSchema>(self, media: &str) -> Self {
        let schema = self.schemas.read.subschema_for::<T>();
        let content = content(media, &schema);
        self.value["requestBody"] = json!({ "required": true, "content": content });
        self
    }

    fn answers<T: JsonSchema>(self) {
        self.answers_as::<T>(JSON);
    }

    fn answers_as<T: JsonSchema>(self, media: &str) {
        let schema = self.schemas.written.subschema_for::<T>();
        let content = content(media, &schema);
        self.value["responses"]["200"] =
            json!({ "description": "The request succeeded", "content": content });
    }

    fn answers_nothing(self) {
        self.value["responses"]["204"] = json!({ "description": "The request succeeded" });
    }
}

fn content(media: &str, schema: &Schema) -> Value {
    json!({ media: { "schema": schema } })
}

/// Removes `null` from the types of optional fields, which are omitted instead.
fn without_null(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let required = required.as_array().map_or(&[][..], Vec::as_slice);
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        if !required.iter().any(|it| it == name) {
            for alternatives in ["type", "anyOf"] {
                let null = [json!("null"), json!({ "type": "null" })];
                if let Some(all) = field.get_mut(alternatives).and_then(Value::as_array_mut) {
                    all.retain(|it| !null.contains(it));
                }
            }
        }
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(without_null),
        Value::Array(all) => all.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn the_description_that_is_shipped_is_that_of_the_types() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/openapi.json");
        let shipped = || -> Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
        let document = document();
        if env::var_os("RATELIMIT_WRITE").is_some() && shipped() != document {
            fs::write(
                &file,
                serde_json::to_string_pretty(&document).unwrap() + "\n",
            )
            .unwrap();
        }
        let is_same = shipped() == document;
        assert!(is_same, "RATELIMIT_WRITE=1 cargo test openapi writes it");
    }
}
