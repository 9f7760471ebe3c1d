//! Bans over the API as other programs send them: HTTP over the control socket, one ban a request.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::Ipv4Addr,
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use crate::{
    harness::{cpu_nanos, thread_nanos},
    installation::Installation,
};

/// Bans `count` addresses from `first` on by this many concurrent clients, and prints the duration.
/// Each has its own connection, and waits for each response.
pub fn measure(
    installation: &mut Installation,
    clients: u32,
    first: u32,
    count: u32,
) -> Result<()> {
    let requests = |client: u32| {
        let numbers = (client..count).step_by(clients as usize);
        numbers.map(|number| request(first + number)).collect()
    };
    let requests: Vec<Vec<String>> = (0..clients).map(requests).collect();
    let start = (Instant::now(), cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID)?);
    let of_clients = installation.serve(|socket| {
        thread::scope(|scope| {
            let clients = requests.iter();
            let clients = clients.map(|requests| scope.spawn(|| ask(socket, requests)));
            let clients: Vec<_> = clients.collect();
            let nanos = clients
                .into_iter()
                .map(|client| client.join().expect("it does not panic"));
            nanos.sum::<Result<f64>>()
        })
    })?;
    let (wall, cpu) = (
        start.0.elapsed(),
        cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID)? - start.1,
    );
    println!(
        "{count} bans over the API, {clients} clients: {:.2} s, {:.2} s on CPUs, {:.2} s of them \
         the clients",
        wall.as_secs_f64(),
        cpu / 1e9,
        of_clients / 1e9
    );
    Ok(())
}

fn request(address: u32) -> String {
    let address = Ipv4Addr::from_bits(address);
    let body = format!("{{\"prefixes\":[\"{address}\"],\"seconds\":3600,\"reason\":null}}");
    let length = body.len();
    format!(
        "POST /v1/bans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// Sends requests on one connection, each after the response to the previous one, and returns the
/// CPU time.
fn ask(socket: &Path, requests: &[String]) -> Result<f64> {
    let stream = UnixStream::connect(socket).context("connecting to the control socket")?;
    let (mut sent, mut answers) = (&stream, BufReader::new(&stream));
    let (mut line, mut body) = (String::new(), Vec::new());
    for request in requests {
        sent.write_all(request.as_bytes())?;
        wait(&stream)?;
        read_answer(&mut answers, &mut line, &mut body)?;
    }
    thread_nanos()
}

/// Waits for an answer, as programs with a time limit do. The kernel wakes who sleeps in `recv`
/// also when the request was read (`unix_write_space`), for nothing.
fn wait(stream: &UnixStream) -> Result<()> {
    let mut readable = libc::pollfd {
        fd: stream.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: it is one structure, and outlives the call.
    let answer = unsafe { libc::poll(&raw mut readable, 1, -1) };
    ensure!(answer == 1, io::Error::last_os_error());
    Ok(())
}

fn read_answer(answers: &mut impl BufRead, line: &mut String, body: &mut Vec<u8>) -> Result<()> {
    line.clear();
    answers.read_line(line)?;
    let is_done = line.starts_with("HTTP/1.1 200 ");
    let mut length = 0;
    loop {
        line.clear();
        answers.read_line(line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    body.resize(length, 0);
    answers.read_exact(body)?;
    ensure!(is_done, "refused: {}", String::from_utf8_lossy(body));
    Ok(())
}
