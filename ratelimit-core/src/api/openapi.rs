//! The description of the API, after `OpenAPI` 3.1: <https://spec.openapis.org/oas/v3.1.0>. Its schemas are those of the types.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    Allow, AllowRequest, Applied, ApplyRequest, Attempt, Ban, BanFilter, BanRequest,
    CaptureRequest, Changed, Check, ClusterStatus, CursorNow, Detached, DiffRequest, Event,
    EventRequest, ExportRequest, History, HistoryRequest, ImportRequest, Imported, LimitRequest,
    LimitTarget, ListTarget, ListView, LiveRequest, PROBLEM_JSON, PacketRequest, PassAllRequest,
    PassAllStatus, PolicyView, PrefixesRequest, Problem, ProgramBanRequest, ProgramUnbanRequest,
    Progress, ProtectedView, ReloadRequest, Reloaded, RevokeRequest, Revoked, Setting, StatsRow,
    Status, SuggestRequest, Suggested, TopDestinationsRequest, TopRequest, TopSource,
    UnbanMatchingRequest, UnbanRequest, WiderLimits,
};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// The description, as JSON.
#[allow(clippy::too_many_lines, reason = "a few for each request")]
pub fn document() -> Value {
    let mut api = Api::default();
    api.get::<(), Status>("/v1/status", "What is enforced, and where");
    api.get::<BanFilter, Vec<Ban>>("/v1/bans", "The bans in force");
    api.post::<BanRequest, Changed>("/v1/bans", "Ban prefixes, all or none");
    api.delete::<UnbanRequest, Changed>("/v1/bans", "Lift the bans of prefixes");
    api.delete::<UnbanMatchingRequest, Changed>(
        "/v1/bans/matching",
        "Lift all bans that a filter has",
    );
    api.post::<ProgramBanRequest, Changed>(
        "/v1/bans/program",
        "Ban for a program, such as fail2ban",
    );
    api.delete::<ProgramUnbanRequest, Changed>("/v1/bans/program", "Lift bans of a program");
    api.get::<(), Vec<Allow>>("/v1/allows", "The allow list");
    api.post::<AllowRequest, Changed>("/v1/allows", "Allow prefixes, all or none");
    api.delete::<PrefixesRequest, Changed>("/v1/allows", "Take prefixes off the allow list");
    api.get::<(), Vec<PolicyView>>("/v1/limits", "The policies and their limits");
    api.post::<LimitRequest, Changed>("/v1/limits", "Set runtime limits of a prefix, or of all");
    api.delete::<LimitTarget, Changed>("/v1/limits", "Remove runtime limits");
    api.get::<PacketRequest, Check>(
        "/v1/check/{address}",
        "What happens to packets of an address",
    );
    api.get::<TopRequest, Vec<TopSource>>("/v1/top", "The sources that send most");
    api.get::<TopDestinationsRequest, Vec<WiderLimits>>(
        "/v1/top/destinations",
        "The destinations whose limits are fullest",
    );
    api.get::<SuggestRequest, Suggested>(
        "/v1/suggest",
        "Limits that fit what was seen in the last days",
    );
    api.get::<(), Vec<StatsRow>>(
        "/v1/stats",
        "Packets by interface, family, verdict and reason",
    );
    api.operation("get", "/v1/events", "Events, one JSON document a line")
        .queries::<EventRequest>()
        .answers_as::<Event>("application/x-ndjson");
    api.get::<(), CursorNow>("/v1/events/cursor", "Behind the last event");
    api.operation(
        "post",
        "/v1/capture",
        "Capture dropped packets, until the client goes",
    )
    .takes::<CaptureRequest>()
    .answers_as::<String>("application/vnd.tcpdump.pcap");
    api.operation("delete", "/v1/capture", "End the capture")
        .answers_nothing();
    api.get::<(), Vec<ListView>>("/v1/lists", "The lists");
    api.delete::<ListTarget, Changed>("/v1/lists", "Remove an imported list");
    api.operation("post", "/v1/import", "Import a list, in any format")
        .queries::<ImportRequest>()
        .takes_as::<String>("application/octet-stream")
        .answers::<Imported>();
    api.get::<(), Progress>("/v1/progress", "How far the import is");
    api.operation("get", "/v1/export", "Entries, as lines of text")
        .queries::<ExportRequest>()
        .answers_as::<String>(TEXT);
    api.operation("post", "/v1/reload", "Read the configuration again")
        .queries::<ReloadRequest>()
        .answers::<Reloaded>();
    api.post::<DiffRequest, Reloaded>("/v1/diff", "What a reload would change, or a configuration");
    api.operation("post", "/v1/detach", "Take the program off all interfaces")
        .answers::<Detached>();
    api.get::<(), Vec<ProtectedView>>("/v1/protected", "What cannot be banned without force");
    api.get::<(), Vec<Setting>>("/v1/config", "The settings in force, and what set each");
    api.get::<(), ClusterStatus>("/v1/cluster", "The store and the nodes of the cluster");
    api.post::<AllowRequest, Changed>("/v1/cluster/allows", "Allow prefixes on all nodes");
    api.delete::<PrefixesRequest, Changed>(
        "/v1/cluster/allows",
        "Take prefixes off the allow lists of all nodes",
    );
    api.post::<LimitRequest, Changed>("/v1/cluster/limits", "Set runtime limits on all nodes");
    api.delete::<LimitTarget, Changed>("/v1/cluster/limits", "Remove runtime limits on all nodes");
    api.post::<RevokeRequest, Revoked>(
        "/v1/cluster/revoke",
        "Count a node for nothing, everywhere",
    );
    api.post::<ApplyRequest, Applied>("/v1/apply", "Try a configuration for a time");
    api.operation("post", "/v1/confirm", "Keep the configuration on trial")
        .answers::<Attempt>();
    api.operation(
        "post",
        "/v1/rollback",
        "Take the configuration on trial back, or the last reload",
    )
    .answers::<Attempt>();
    api.post::<PassAllRequest, Option<PassAllStatus>>(
        "/v1/pass-all",
        "Let everything pass, or end that",
    );
    api.operation(
        "get",
        "/v1/live",
        "What a dashboard shows, as server-sent events",
    )
    .queries::<LiveRequest>()
    .answers_as::<String>("text/event-stream");
    api.get::<HistoryRequest, History>("/v1/history", "What packets came in the last days");
    api.get::<(), Map<String, Value>>("/v1/openapi.json", "This description");
    api.finish()
}

struct Api {
    schemas: Schemas,
    paths: Map<String, Value>,
}

/// What is read leaves out what has a default. What is written has each field, or leaves out those that say nothing.
struct Schemas {
    /// Of requests: each stands where it is used, as types that are written as well have another schema there.
    read: SchemaGenerator,
    /// Of answers.
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

/// One request.
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
                "default": { "description": "Refused", "content": { PROBLEM_JSON: { "schema": refused } } },
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
                "description": "HTTP over the Unix socket of ratelimitd. Times are RFC 3339, durations are seconds. Where there is nothing to say, a required field of an answer is null, and another one is absent.",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "http://localhost", "description": "/run/ratelimit/control.sock" }],
            "paths": self.paths,
            "components": { "schemas": definitions },
        })
    }
}

impl Operation<'_> {
    /// Each field of an object is a parameter.
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
        self.value["responses"]["200"] = json!({ "description": "Done", "content": content });
    }

    fn answers_nothing(self) {
        self.value["responses"]["204"] = json!({ "description": "Done" });
    }
}

fn content(media: &str, schema: &Schema) -> Value {
    json!({ media: { "schema": schema } })
}

/// Takes `null` from the fields of objects that may be absent: those are left out where there is nothing to say.
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
