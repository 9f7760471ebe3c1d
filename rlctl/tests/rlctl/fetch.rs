//! `rlctl fetch`, against a server of HTTP.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    thread,
    time::{Duration, SystemTime},
};

const MODIFIED: &str = "Mon, 02 Nov 2026 08:00:00 GMT";
const NOT_MODIFIED: &str = "HTTP/1.1 304 Not Modified\r\n\r\n";
const LATER: &str = "Mon, 02 Nov 2026 09:00:00 GMT";

#[test]
fn a_list_is_fetched_once_and_only_a_list_takes_the_place_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drop.txt");
    let url = serve(vec![
        ok("192.0.2.0/24 ; SBL1\n2001:db8::/32\n", MODIFIED),
        NOT_MODIFIED.into(),
        ok("<html>sign in</html>\n", LATER),
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into(),
    ]);
    let config = config(directory.path(), &url);
    // Written by hand, and newer than the copy on the server.
    fs::write(&file, "203.0.113.1\n").unwrap();
    let said = succeeded(&fetch(&config, &[]));
    assert_eq!(
        said,
        "list drop: fetched 2 entries; the daemon loads them within 5m\n"
    );
    let first = fs::read_to_string(&file).unwrap();
    assert_eq!(first, "192.0.2.0/24 ; SBL1\n2001:db8::/32\n");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let tag = fs::File::open(directory.path().join(".drop.txt.etag")).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
    tag.set_modified(long_ago).unwrap();
    assert_eq!(succeeded(&fetch(&config, &[])), "list drop: unchanged\n");
    // The daemon tells from it how old the list is.
    assert!(tag.metadata().unwrap().modified().unwrap() > long_ago);
    for expected in ["", "404"] {
        let output = fetch(&config, &["--json"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer[0]["state"], "failed");
        assert!(answer[0]["error"].as_str().unwrap().contains(expected));
        assert_eq!(fs::read_to_string(&file).unwrap(), first);
    }
    // No partial download and no page that is not a list is left behind.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    let output = fetch(&config, &["other"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no list `other` with a `url`"), "{error}");
}

/// The server gives no length, and does not end.
#[test]
fn a_list_without_an_end_is_cut_off_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/drop.txt", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let lines = b"# nothing\n".repeat(100_000);
        while stream.write_all(&lines).is_ok() {}
    });
    let config = config(directory.path(), &url);
    let output = fetch(&config, &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("exceeds 256"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn what_a_subscriber_pays_with_is_neither_an_argument_nor_shown() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let curl = directory.path().join("curl");
    let script = format!(
        "#!/bin/sh\n\
         echo \"$@\" > {0}.arguments\n\
         cat > {0}.stdin\n\
         echo 'curl: (6) no https://u:pass@h/a?key=token' >&2\n\
         exit 6\n",
        seen.display()
    );
    // Another process writes it. A child that another test forks meanwhile would have the open file
    // too, and the script would be a busy text file.
    let made = Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .args([curl.as_os_str(), script.as_ref()])
        .status()
        .unwrap();
    assert!(made.success());
    let config = config(directory.path(), "https://u:pass@h/a?key=token");
    let mut command = command(&config, &["--json"]);
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", directory.path().display());
    let output = command.env("PATH", path).output().unwrap();
    let read = |ending| fs::read_to_string(seen.with_extension(ending)).unwrap();
    assert_eq!(read("stdin"), "url = \"https://u:pass@h/a?key=token\"\n");
    let said = format!("{}{output:?}", read("arguments"));
    assert!(said.contains("https://(secret)@h/a?(secret)"), "{said}");
    assert!(!said.contains("pass") && !said.contains("token"), "{said}");
    assert!(said.contains("--proto-redir =https"), "{said}");
}

#[test]
fn a_list_that_covers_too_much_is_not_put_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let url = serve(vec![
        ok(
            "8.0.0.0/8\n16.0.0.0/8\n17.0.0.0/8\n18.0.0.0/8\n19.0.0.0/8\n",
            MODIFIED,
        ),
        ok("198.18.0.0/16\n", MODIFIED),
    ]);
    let config = config(directory.path(), &url);
    let file = directory.path().join("drop.txt");
    fs::write(&file, "192.0.2.0/24\n").unwrap();
    for expected in ["more than 1/64", "more than 10 times as much"] {
        let output = fetch(&config, &[]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains(expected) && said.contains("allow_wide = true"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "192.0.2.0/24\n");
    }
}

/// A configuration with one list, which is downloaded from `url`.
fn config(directory: &Path, url: &str) -> std::path::PathBuf {
    let config = directory.join("config.toml");
    let file = directory.join("drop.txt");
    let toml = format!(
        "[[interface]]\n\
         name = \"eth0\"\n\
         [policy.default]\n\
         limits = []\n\
         [list.drop]\n\
         file = \"{}\"\n\
         url = \"{url}\"\n",
        file.display()
    );
    fs::write(&config, toml).unwrap();
    config
}

fn fetch(config: &Path, arguments: &[&str]) -> Output {
    command(config, arguments).output().unwrap()
}

fn command(config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlctl"));
    command.args(["fetch", "--config"]).arg(config);
    command.args(arguments).env("no_proxy", "*");
    command
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ok(text: &str, modified: &str) -> String {
    let length = text.len();
    format!(
        "HTTP/1.1 200 OK\r\n\
         content-length: {length}\r\n\
         last-modified: {modified}\r\n\
         etag: \"{modified}\"\r\n\
         \r\n\
         {text}"
    )
}

/// Gives each of these answers once. A `304` is given only to a conditional request.
fn serve(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/drop.txt", listener.local_addr().unwrap());
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect();
            let conditions = [
                format!("If-Modified-Since: {MODIFIED}"),
                format!("If-None-Match: \"{MODIFIED}\""),
            ];
            let is_conditional = conditions.iter().all(|it| head.contains(it));
            let is_not_modified = answer.contains(" 304 ");
            let answer = if is_not_modified && !is_conditional {
                ok("192.0.2.99\n", LATER)
            } else {
                answer
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}
