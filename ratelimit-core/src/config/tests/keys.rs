use super::*;
use crate::{
    config::{File, parse},
    keys::{OnRefused, Part},
};

#[test]
fn a_key_space_has_limits_of_requests_and_defaults() {
    let text = r#"[keys.users]
limits = [{ requests = 15, per = "1s" }, { requests = 9, per = "31d", algorithm = "token-bucket", burst = 3 }]
[keys.login]
limits = [{ requests = 1, per = "1m", algorithm = "sliding-log" }]
capacity = 5
key = ["client", { header = "X-User" }, { cookie = "s" }, { path = "/api/{}/..." }]
on_refused = { after = 7, within = "1m", ban = "1h" }
"#;
    let keys = load_text(&format!("{MINIMAL}{text}")).keys;
    assert_eq!((keys.listen, keys.trusted_proxies.len()), (None, 2));
    let users = &keys.spaces["users"];
    let limits: Vec<String> = users.limits.iter().map(ToString::to_string).collect();
    assert_eq!(
        limits,
        [
            "15 requests per 1s",
            "9 requests per 31d (token-bucket, burst 3)"
        ]
    );
    assert_eq!((users.capacity, users.key.len()), (100_000, 0));
    let login = &keys.spaces["login"];
    assert_eq!(login.capacity, 5);
    let path = "/api/{}/...".parse().unwrap();
    let parts = [
        Part::Client,
        Part::Header("x-user".to_owned()),
        Part::Cookie("s".to_owned()),
        Part::Path(path),
    ];
    assert_eq!(login.key, parts);
    let on_refused = OnRefused {
        after: 7,
        within: Duration::from_mins(1),
        ban: Duration::from_hours(1),
    };
    assert_eq!(login.on_refused, Some(on_refused));
}

#[test]
fn what_a_key_space_cannot_have_is_refused_at_its_place() {
    for (text, message) in [
        ("[keys.a]\n", "[keys.a] has no `limits`"),
        ("[keys.a]\nlimits = []\n", "`limits` of [keys.a] is empty"),
        (
            "[keys.a]\nlimits = [{ packets = 1, per = \"1s\" }]\n",
            "unknown key `packets` in a limit",
        ),
        (
            "[keys.a]\nlimits = [{ requests = 0, per = \"1s\" }]\n",
            "an amount of 0 would refuse every request",
        ),
        (
            "[keys.a]\nlimits = [{ requests = 1, per = \"1s\", scope = \"cluster\" }]\n",
            "a limit has scope = \"cluster\", and there is no [cluster]",
        ),
        (
            "[cluster]\nurl = \"redis://h\"\nnode = \"a\"\n\
             secret = \"0123456789abcdef0123456789abcdef\"\nnodes = 3\n[keys.a]\n\
             limits = [{ requests = 2, per = \"1s\", scope = \"cluster\" }]\n",
            "3 nodes cannot share a limit of 2: each has at least 1",
        ),
        (
            "[keys.\"a b\"]\nlimits = [{ requests = 1, per = \"1s\" }]\n",
            "`a b` is not a valid name for a key space",
        ),
        (
            "[keys.check]\nlimits = [{ requests = 1, per = \"1s\" }]\n",
            "a key space cannot have the name `check`",
        ),
        (
            "[keys]\nlisten = \"9180\"\n",
            "`9180` is not an address with a port",
        ),
        (
            "[keys]\nlisten = \"0.0.0.0:9180\"\n",
            "`listen` of [keys] is 0.0.0.0:9180, but `trusted_proxies` is missing",
        ),
        (
            "[keys.a]\nlimits = [{ requests = 1, per = \"1s\" }]\nkey = \"user\"\n",
            "unknown key `user`",
        ),
        (
            "[keys.a]\n\
             limits = [{ requests = 1, per = \"1s\" }]\n\
             key = { header = \"a\", cookie = \"b\" }\n",
            "a part of a key is either a header, a cookie or a path",
        ),
        (
            "[keys.a]\nlimits = [{ requests = 1, per = \"1s\" }]\nkey = { header = \"a b\" }\n",
            "`a b` is not a valid name of a header or cookie",
        ),
        (
            "[keys.a]\nlimits = [{ requests = 1, per = \"1s\" }]\nkey = { path = \"api\" }\n",
            "the path `api` does not begin with /",
        ),
        (
            "[keys.a]\n\
             limits = [{ requests = 1024, per = \"1s\", algorithm = \"sliding-log\" }]\n\
             capacity = 1_000_000\n",
            "the usage of 1000000 keys takes 8200B each with these limits, more than 1 GiB in all",
        ),
        (
            "[keys.a]\n\
             limits = [{ requests = 1, per = \"1s\" }]\n\
             on_refused = { after = 1, within = \"1m\" }\n",
            "`on_refused` has no `ban`",
        ),
    ] {
        let file = File {
            path: "config.toml".into(),
            text: format!("{MINIMAL}{text}"),
        };
        let error = parse(&[file]).unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}
