//! Over a Unix socket, against something that gives one answer. The tests with a real API cover
//! TCP.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    thread,
};

use super::*;

const ADDED: &str = include_str!("../recorded/added.json");

#[tokio::test]
async fn a_request_says_who_asks_and_what_for() {
    for (whole, startup) in [(true, "true"), (false, "false")] {
        let (answer, head) = exchange(&answer("200 OK", ADDED), whole).await;
        assert_eq!(answer.unwrap(), ADDED.as_bytes());
        let line = format!("GET /v1/decisions/stream?startup={startup}&dedup=false HTTP/1.1");
        let agent = format!("user-agent: {AGENT}");
        for line in [line.as_str(), "x-api-key: 8f3e4d", agent.as_str()] {
            assert!(head.iter().any(|it| it == line), "{line}: {head:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_the_api() {
    let forbidden = answer("403 Forbidden", r#"{"message":"access forbidden"}"#);
    let error = exchange(&forbidden, true).await.0.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the key was rejected (access forbidden)")
    );
    for (response, reported) in [
        (
            answer("500 Internal Server Error", r#"{"message":"query failed"}"#),
            "status 500 Internal Server Error (query failed)",
        ),
        (
            answer("404 Not Found", "<html>"),
            "status 404 Not Found (without a reason)",
        ),
    ] {
        let error = exchange(&response, true).await.0.unwrap_err();
        assert_eq!(error.to_string(), reported);
    }
}

#[tokio::test]
async fn of_a_refusal_no_more_is_read_and_told_than_a_log_should_hold() {
    for (message, reported) in [
        ("x".repeat(1000), "x".repeat(MESSAGE_MAX)),
        ("x".repeat(57 << 20), "without a reason".to_owned()),
    ] {
        let body = format!(r#"{{"message":"{message}"}}"#);
        let response = answer("500 Internal Server Error", &body);
        let error = exchange(&response, true).await.0.unwrap_err();
        let expected = format!("status 500 Internal Server Error ({reported})");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_none() {
    let cut = answer("200 OK", ADDED);
    let (answer, _) = exchange(&cut[..cut.len() - 9], true).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.starts_with("the connection failed: "), "{error}");
}

#[tokio::test]
async fn nobody_there_and_no_key_are_told() {
    let address = "/nonexistent/crowdsec.sock".parse().unwrap();
    let key = Key::Given(Secret::new("8f3e4d").unwrap());
    let error = Client::new(address, key).pull(true).await.unwrap_err();
    assert!(error.to_string().starts_with("connecting: "), "{error}");

    let address = "/nonexistent/crowdsec.sock".parse().unwrap();
    let key = Key::File("/nonexistent/key".into());
    let error = Client::new(address, key).pull(true).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("reading the key from /nonexistent/key: "),
        "{error}"
    );
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn all_of(answer: anyhow::Result<Answer>) -> anyhow::Result<Vec<u8>> {
    let (mut answer, mut all) = (answer?, Vec::new());
    while let Some(bytes) = answer.next().await? {
        all.extend(bytes);
    }
    Ok(all)
}

/// The client's result for `response`, and the head of its request.
async fn exchange(response: &str, whole: bool) -> (anyhow::Result<Vec<u8>>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("crowdsec.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let response = response.to_owned();
    let api = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        // The client must not read all of it.
        let _ = stream.write_all(response.as_bytes());
        head
    });
    let key_file = directory.path().join("key");
    std::fs::write(&key_file, "8f3e4d\n").unwrap();
    let client = Client::new(Address::Unix(socket), Key::File(key_file));
    let answer = all_of(client.pull(whole).await).await;
    // The connection is closed by this thread.
    let head = tokio::task::spawn_blocking(|| api.join().unwrap());
    (answer, head.await.unwrap())
}
