//! `rlctl --json`: the output of each verb matches its schema, that of the API or of `rlctl`.

use std::{fs, path::Path, slice};

use ratelimit_core::api::openapi;
use ratelimit_tests::{
    cluster::{Node, wait_for_all},
    redis::Redis,
    require_package, require_root,
    service::Service,
};
use serde_json::{Deserializer, Value, json};

const CONFIG: &str = r#"
[policy.default]
limits = [{ packets = 100, per = "1s" }]
[policy.partner]
sources = ["203.0.113.0/24"]
limits = [{ packets = 7, per = "1m", algorithm = "sliding-window" }]
[history]
watch = ["203.0.113.9"]
[keys.users]
limits = [{ requests = 15, per = "1s" }]
"#;
const FETCH: &str =
    "[list.none]\nurl = \"https://localhost:1/none\"\nfile = \"/nonexistent/none.txt\"\n";

/// In this order, on one daemon. A verb prints what the API answers.
const ANSWERS: &[(&str, &str, &str)] = &[
    ("status", "get", "/v1/status"),
    ("status --maps", "get", "/v1/status"),
    (
        "ban 198.51.100.7 --for 1h --reason scan",
        "post",
        "/v1/bans",
    ),
    ("list bans", "get", "/v1/bans"),
    ("unban 198.51.100.7", "delete", "/v1/bans"),
    (
        "ban 198.51.100.8 --program sshd",
        "post",
        "/v1/bans/program",
    ),
    (
        "unban --within 198.51.100.0/24",
        "delete",
        "/v1/bans/matching",
    ),
    ("allow add 192.0.2.7 --for 1h", "post", "/v1/allows"),
    ("list allows", "get", "/v1/allows"),
    ("allow rm 192.0.2.7", "delete", "/v1/allows"),
    (
        "limit set --packets 5 --per 1s --prefix 192.0.2.9 --for 2h",
        "post",
        "/v1/limits",
    ),
    (
        "limit set --packets 5 --per 1s --destination 192.0.2.9 --for 2h",
        "post",
        "/v1/limits",
    ),
    ("list limits", "get", "/v1/limits"),
    ("limit rm --prefix 192.0.2.9", "delete", "/v1/limits"),
    ("import $DIR/list.txt --list drop", "post", "/v1/import"),
    ("list lists", "get", "/v1/lists"),
    ("import --remove drop", "delete", "/v1/lists"),
    ("keys users", "get", "/v1/keys/{space}"),
    ("keys users alice", "post", "/v1/keys/check"),
    ("keys users alice --reset", "delete", "/v1/keys"),
    ("check 198.51.100.7", "get", "/v1/check/{address}"),
    (
        "check 203.0.113.9 --proto udp --dport 53",
        "get",
        "/v1/check/{address}",
    ),
    ("top", "get", "/v1/top"),
    ("top --destinations", "get", "/v1/top/destinations"),
    (
        "top --destinations --batch -n 2 --interval 100ms",
        "get",
        "/v1/top/destinations",
    ),
    ("stats", "get", "/v1/stats"),
    ("stats --since 1h", "get", "/v1/history"),
    ("events --kind changes", "get", "/v1/events"),
    ("list protected", "get", "/v1/protected"),
    ("config show --with-origin", "get", "/v1/config"),
    ("reload --dry-run", "post", "/v1/diff"),
    ("reload --dry-run $DIR/other.toml", "post", "/v1/diff"),
    ("reload", "post", "/v1/reload"),
    ("apply $DIR/other.toml --confirm 10m", "post", "/v1/apply"),
    ("rollback", "post", "/v1/rollback"),
    ("apply $DIR/other.toml --confirm 10m", "post", "/v1/apply"),
    ("confirm", "post", "/v1/confirm"),
    // Its limits have been looked at for more than a second by then.
    ("stats --quota 203.0.113.9", "get", "/v1/history"),
    ("pass-all on --for 5m", "post", "/v1/pass-all"),
    ("pass-all off", "post", "/v1/pass-all"),
    ("detach", "post", "/v1/detach"),
];

/// The same on a node of a cluster.
const OF_A_CLUSTER: &[(&str, &str, &str)] = &[
    ("cluster status", "get", "/v1/cluster"),
    (
        "allow add 192.0.2.7 --for 1h --cluster",
        "post",
        "/v1/cluster/allows",
    ),
    (
        "allow rm 192.0.2.7 --cluster",
        "delete",
        "/v1/cluster/allows",
    ),
    (
        "limit set --packets 5 --per 1s --prefix 192.0.2.9 --for 2h --cluster",
        "post",
        "/v1/cluster/limits",
    ),
    (
        "limit rm --prefix 192.0.2.9 --cluster",
        "delete",
        "/v1/cluster/limits",
    ),
    ("cluster revoke gone --force", "post", "/v1/cluster/revoke"),
    ("cluster revoke gone --undo", "post", "/v1/cluster/revoke"),
    ("status", "get", "/v1/status"),
];

/// A verb prints what `rlctl` found, by the name of its schema.
const OWN: &[(&str, &str)] = &[
    ("config check $DIR/config.toml", "config check"),
    ("config check $DIR/wrong.toml", "config check"),
    ("fetch --config $DIR/fetch.toml", "fetch"),
    ("doctor lo", "doctor"),
    ("config show", "config show"),
    ("protect rl0", "protect"),
    ("demo", "demo"),
    (
        "doctor --archive $DIR/support.tar.gz --config $DIR/config.toml --log $DIR/list.txt",
        "doctor --archive",
    ),
    ("capture -w $DIR/new.pcapng --count 1 --for 1s", "capture"),
    ("top --batch -n 2 --interval 100ms", "top --batch"),
    (
        "simulate $DIR/some.pcap --config $DIR/detection.toml --compare $DIR/config.toml",
        "simulate",
    ),
    ("config check $DIR/none.toml", "config check"),
    ("export", "export"),
    ("export --list kept", "export"),
    // There is no attack.
    ("suggest", "error"),
    ("ban nobody", "error"),
];

#[test]
fn each_document_fits_its_schema() {
    require_root!();
    let (_lab, service) = Service::in_lab(CONFIG).unwrap();
    write_files(&service);
    for words in [
        "ban 198.51.100.9 --for 1h --reason scan",
        "allow add 192.0.2.0/24",
        "import $DIR/list.txt --list kept",
    ] {
        let words = in_directory(&service, words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        service.rlctl_ok(&words).unwrap();
    }
    let own = OWN.iter().map(|(words, name)| (words, own(name)));
    let answers = ANSWERS.iter();
    let answers = answers.map(|(words, method, path)| (words, of_api(method, path)));
    let faults: Vec<String> = own
        .chain(answers)
        .flat_map(|(words, schema)| faults(&service, words, &schema))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_document_of_a_cluster_fits_its_schema() {
    require_root!();
    require_package!("redis-server");
    let redis = Redis::started().unwrap();
    let node = Node::started(&redis, "edge-1", 1, CONFIG).unwrap();
    wait_for_all(slice::from_ref(&node)).unwrap();
    let answers = OF_A_CLUSTER.iter();
    let faults = answers
        .flat_map(|(words, method, path)| faults(&node.service(), words, &of_api(method, path)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_verb_of_the_help_has_its_schema() {
    let man = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/man");
    // A page for each verb, made from the help. Words are joined by the character that is also in
    // `pass-all`.
    let pages = fs::read_dir(man).unwrap().map(|it| it.unwrap());
    let names = pages.map(|page| page.file_name().into_string().unwrap());
    let verb = |page: String| Some(page.strip_prefix("rlctl-")?.strip_suffix(".1")?.to_owned());
    let verbs: Vec<String> = names.filter_map(verb).collect();
    assert!(verbs.len() > 30, "{verbs:?}");
    let api = ANSWERS.iter().chain(OF_A_CLUSTER).map(|it| it.0);
    let lines = api.chain(OWN.iter().map(|it| it.0));
    let lines: Vec<String> = lines.map(|line| line.replace(' ', "-") + "-").collect();
    let missing = verbs.iter().filter(|verb| {
        let is_group = verbs.iter().any(|it| it.starts_with(&format!("{verb}-")));
        let is_tested = lines.iter().any(|it| it.starts_with(&format!("{verb}-")));
        !is_tested && !is_group
    });
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn a_field_is_null_or_absent_and_never_both() {
    let all = [openapi::document()["components"].clone(), own_schemas()];
    let mut faults = Vec::new();
    for schemas in &all {
        null_and_absent(schemas, "", &mut faults);
    }
    assert!(faults.is_empty(), "{faults:?}");
}

/// The fields of objects that a schema lets be null and absent.
fn null_and_absent(schema: &Value, place: &str, faults: &mut Vec<String>) {
    let required = &schema["required"];
    let is_required = |name: &String| {
        let names = required.as_array();
        names.is_some_and(|names| names.iter().any(|it| it == name))
    };
    let null = [json!("null"), json!({ "type": "null" })];
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let alternatives = ["type", "anyOf", "oneOf"].map(|word| field[word].as_array());
        let mut alternatives = alternatives.into_iter().flatten().flatten();
        if !is_required(name) && alternatives.any(|it| null.contains(it)) {
            faults.push(format!("{place}/{name}"));
        }
    }
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                null_and_absent(value, &format!("{place}/{name}"), faults);
            }
        }
        Value::Array(all) => {
            for value in all {
                null_and_absent(value, place, faults);
            }
        }
        _ => {}
    }
}

fn write_files(service: &Service) {
    let write = |name: &str, bytes: &[u8]| fs::write(service.path(name), bytes).unwrap();
    let config = fs::read_to_string(service.config()).unwrap();
    write("list.txt", b"203.0.114.0/24\n2001:db8:7::/48\n");
    write(
        "other.toml",
        config.replace("packets = 7", "packets = 8").as_bytes(),
    );
    write("wrong.toml", b"[policy.default]\nlimit = []\n[nothing]\n");
    write("fetch.toml", format!("{config}{FETCH}").as_bytes());
    write(
        "detection.toml",
        format!("{config}[detection]\n").as_bytes(),
    );
    // The head of a capture of Ethernet frames, and a frame of 14 zeroes.
    let mut capture = b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00".to_vec();
    capture.extend([0; 8]);
    capture.extend([0, 0, 1, 0, 1, 0, 0, 0]);
    capture.extend([0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0]);
    capture.extend([0; 14]);
    write("some.pcap", &capture);
}

/// The parts that do not fit a schema in the documents that a command line prints.
fn faults(service: &Service, line: &str, schema: &Value) -> Vec<String> {
    let mut words = in_directory(service, line);
    words.push("--json".to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = service.rlctl(&words).unwrap();
    let text = if said.stdout.is_empty() {
        &said.stderr
    } else {
        &said.stdout
    };
    let documents: Vec<Value> = Deserializer::from_str(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{line}: {error}: {said:?}"));
    assert!(!documents.is_empty(), "{line}: {said:?}");
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .unwrap();
    let faults = documents.iter().flat_map(|document| {
        let errors = validator.iter_errors(document);
        errors.map(move |error| format!("{line}: {} {error}: {document}", error.instance_path()))
    });
    faults.collect()
}

/// The words of a line.
fn in_directory(service: &Service, line: &str) -> Vec<String> {
    let directory = service.path("");
    let directory = directory.to_str().unwrap().trim_end_matches('/');
    let words = line.split(' ');
    words.map(|word| word.replace("$DIR", directory)).collect()
}

fn of_api(method: &str, path: &str) -> Value {
    let document = openapi::document();
    let content = &document["paths"][path][method]["responses"]["200"]["content"];
    let schema = content.as_object().unwrap().values().next().unwrap()["schema"].clone();
    json!({ "allOf": [schema], "components": document["components"] })
}

fn own_schemas() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/rlctl.schema.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn own(name: &str) -> Value {
    let all = own_schemas();
    assert!(all["$defs"][name].is_object(), "{name}");
    let reference = format!("#/$defs/{}", name.replace(' ', "%20"));
    json!({ "$ref": reference, "$defs": all["$defs"] })
}
