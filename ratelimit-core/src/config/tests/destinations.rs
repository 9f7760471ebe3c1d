use super::*;

#[test]
fn destinations_have_limits_of_all_packets_and_of_each_source() {
    let config = load_text(&format!(
        r#"{MINIMAL}
[destination."198.51.100.7/32"]
limits = [{{ packets = 50, per = "1s", match = "tcp-syn" }}]
source_limits = [{{ packets = 5, per = "1s", algorithm = "sliding-log" }}]
[destination."2001:db8::/32"]
source_limits = [{{ bytes = "1MB", per = "1s" }}]
observe = true
"#
    ));
    let all: Vec<(String, usize, usize, bool)> = config
        .destinations
        .iter()
        .map(|(prefix, it)| {
            let (limits, of_sources) = (it.limits.len(), it.source_limits.len());
            (prefix.to_string(), limits, of_sources, it.observe)
        })
        .collect();
    let expected = [
        ("198.51.100.7".to_owned(), 1, 1, false),
        ("2001:db8::/32".to_owned(), 0, 1, true),
    ];
    assert_eq!(all, expected);
}

#[test]
fn a_destination_appears_once_however_it_is_written() {
    let toml = format!(
        "{MINIMAL}[destination.\"198.51.100.7\"]\n\
         limits = [{{ packets = 5, per = \"1s\" }}]\n\
         [destination.\"198.51.100.7/32\"]\n\
         limits = [{{ packets = 5, per = \"1s\" }}]\n"
    );
    let (answer, _directory) = inspect_files(&[("config.toml", &toml)]);
    let error = answer.unwrap_err().to_string();
    for part in [
        "config.toml:10:14: duplicate destination 198.51.100.7",
        "keep one of them",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn limits_that_a_destination_cannot_have_are_refused() {
    check_behind_minimal(
        "[destination.\"198.51.100.7\"]\n\
         limits = [{ packets = 5, per = \"1s\", algorithm = \"sliding-log\" }]\n",
        r#"config.toml:9:11: [destination."198.51.100.7"] cannot have a limit by sliding-log: one log would be written by every CPU for every packet
9 | limits = [{ packets = 5, per = "1s", algorithm = "sliding-log" }]
  |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write algorithm = "sliding-window" or "token-bucket""#,
    );
    let shared = format!(
        "{MINIMAL}[destination.\"198.51.100.7\"]\n\
         source_limits = [{{ packets = 5, per = \"1s\", scope = \"cluster\" }}]\n"
    );
    let (answer, _directory) = inspect_files(&[("config.toml", &shared)]);
    let error = answer.unwrap_err().to_string();
    let expected = "nodes cannot share limits of [destination.\"198.51.100.7\"]";
    assert!(error.contains(expected), "{error}");
    let nine = ["{ packets = 5, per = \"1s\" }"; 9].join(", ");
    let nine = format!("{MINIMAL}[destination.\"198.51.100.7\"]\nlimits = [{nine}]\n");
    let (answer, _directory) = inspect_files(&[("config.toml", &nine)]);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("has 9 limits"), "{error}");
}
