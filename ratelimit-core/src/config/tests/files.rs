use super::*;

#[test]
fn without_files_everything_is_missing() {
    let error = crate::config::parse(&[]).unwrap_err();
    let missing = error.diagnostics().iter();
    let missing: Vec<_> = missing.map(|it| (&it.file, &*it.problem.message)).collect();
    assert_eq!(
        missing,
        [(&None, "no [policy.default]"), (&None, "no interface")]
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_the_place() {
    check_behind_minimal(
        "[allow
",
        "config.toml:8:7: syntax error: unclosed table
8 | [allow
  |       ^ expected `]`",
    );
    check_behind_minimal(
        "observe = yes
",
        r#"config.toml:8:11: syntax error: neither a number nor a string
8 | observe = yes
  |           ^^^ write "yes", or a number, true or false"#,
    );
    check_behind_minimal(
        "[policy.b]
limits = [{ packets = 1, per = 10s }]
",
        r#"config.toml:9:32: syntax error: neither a number nor a string
9 | limits = [{ packets = 1, per = 10s }]
  |                                ^^^ write "10s", or a number, true or false"#,
    );
    check_behind_minimal(
        "a: 1
",
        "config.toml:8:2: syntax error: invalid unquoted key
8 | a: 1
  |  ^ expected letters, numbers, `-`, `_`",
    );
    check_behind_minimal(
        "observe = 
",
        "config.toml:8:11: syntax error: a value is missing
8 | observe = 
  |           ^ write it here",
    );
    check_behind_minimal(
        r#"x = "a
"#,
        r#"config.toml:8:7: syntax error: invalid basic string
8 | x = "a
  |       ^ expected `"`"#,
    );
    check_behind_minimal(
        "x = [1 2]
",
        "config.toml:8:6: syntax error: neither a number nor a string
8 | x = [1 2]
  |      ^^^ write strings in quotes, and a comma between values",
    );
    check_behind_minimal(
        r#"x = { a = 1 b = "2" }
"#,
        r#"config.toml:8:11: syntax error: neither a number nor a string
8 | x = { a = 1 b = "2" }
  |           ^^^ write strings in quotes, and a comma between values"#,
    );
    check_behind_minimal(
        "= 1
",
        "config.toml:8:1: syntax error: unquoted keys cannot be empty
8 | = 1
  | ^ expected letters, numbers, `-`, `_`",
    );
    check_behind_minimal(
        "x = 007
",
        "config.toml:8:5: syntax error: unexpected leading zero
8 | x = 007
  |     ^ remove or correct it",
    );
    check_behind_minimal(
        "[[policy.b]]
[policy.b]
",
        "config.toml:9:9: `b` is defined twice
9 | [policy.b]
  |         ^ make them one",
    );
}

#[test]
fn every_file_that_is_no_toml_is_named_and_nothing_else() {
    check_files(
        &[
            ("config.toml", "observe = yes"),
            (
                "conf.d/10-a.toml",
                "x = 
",
            ),
            (
                "conf.d/20-b.toml",
                "y = 1
",
            ),
        ],
        r#"config.toml:1:11: syntax error: neither a number nor a string
1 | observe = yes
  |           ^^^ write "yes", or a number, true or false
conf.d/10-a.toml:1:5: syntax error: a value is missing
1 | x = 
  |     ^ write it here"#,
    );
}

#[test]
fn a_file_that_is_absent_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    check_path(
        &directory,
        "config.toml",
        "\
config.toml: no such file
hint: create it, or use an existing one",
    );
}

#[test]
fn a_path_that_is_a_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("ratelimit")).unwrap();
    check_path(
        &directory,
        "ratelimit",
        "\
ratelimit: is a directory
hint: name a file, such as ratelimit/config.toml",
    );
}

#[test]
fn a_file_that_is_not_utf8_is_refused_with_the_place() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.toml"), b"# caf\xe9 bar\n").unwrap();
    check_path(
        &directory,
        "config.toml",
        "\
config.toml:1:6: the byte 0xe9 is not UTF-8
1 | # caf\u{fffd} bar
  |      ^ save the file as UTF-8",
    );
}

#[test]
fn the_files_are_read_in_the_order_of_their_names() {
    let (answer, directory) = inspect_files(&[
        ("config.toml", MINIMAL),
        ("conf.d/20-b.toml", "[[interface]]\nname = \"b\"\n"),
        ("conf.d/10-a.toml", "[[interface]]\nname = \"a\"\n"),
        ("conf.d/.hidden.toml", "not read"),
    ]);
    let config = answer.unwrap().0;
    let names: Vec<&str> = config
        .interfaces
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["eth0", "a", "b"]);
    let files = ["config.toml", "conf.d/10-a.toml", "conf.d/20-b.toml"];
    assert_eq!(config.files, files.map(|file| directory.path().join(file)));
}

#[test]
fn a_thousand_problems_are_told_by_the_first_hundred() {
    let sources = "\"nowhere\",\n".repeat(1000);
    let toml = format!("{MINIMAL}[allow]\nsources = [\n{sources}]\n");
    let (answer, _directory) = inspect_files(&[("config.toml", &toml)]);
    assert_eq!(answer.unwrap_err().diagnostics().len(), 100);
}

#[track_caller]
fn check_path(directory: &TempDir, name: &str, expected: &str) {
    let error = inspect(&directory.path().join(name)).unwrap_err();
    assert_eq!(without(directory, &error.to_string()), expected);
}
