//! Bans over the API as other programs send them: HTTP over the control socket, one ban a request.

use std::{
    io::{BufRead, BufReader, Write},
    net::Ipv4Addr,
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{harness::cpu_nanos, installation::Installation};

/// Programs that ban at the same time, each on a connection of its own. Each waits for its answer before it asks again.
const CLIENTS: u32 = 16;

/// Bans `count` addresses from `first` on, and prints how long that takes.
pub fn measure(installation: &mut Installation, first: u32, count: u32) -> Result<()> {
    let start = (Instant::now(), cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID)?);
    installation.serve(|socket| {
        thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|client| {
                let numbers = (client..count).step_by(CLIENTS as usize);
                scope.spawn(move || ban(socket, numbers.map(|number| first + number)))
            });
            let clients: Vec<_> = clients.collect();
            clients
                .into_iter()
                .try_for_each(|client| client.join().expect("it does not panic"))
        })
    })?;
    let (wall, cpu) = (
        start.0.elapsed(),
        cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID)? - start.1,
    );
    println!(
        "{count} bans over the API, {CLIENTS} clients: {:.2} s, {:.2} s on CPUs with the clients",
        wall.as_secs_f64(),
        cpu / 1e9
    );
    Ok(())
}

fn ban(socket: &Path, addresses: impl Iterator<Item = u32>) -> Result<()> {
    let stream = UnixStream::connect(socket).context("connecting to the control socket")?;
    let (mut requests, mut answers) = (&stream, BufReader::new(&stream));
    for address in addresses {
        let address = Ipv4Addr::from_bits(address);
        let body = format!("{{\"prefixes\":[\"{address}\"],\"seconds\":3600,\"reason\":null}}");
        let length = body.len();
        let request = format!(
            "POST /v1/bans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        requests.write_all(request.as_bytes())?;
        read_answer(&mut answers)?;
    }
    Ok(())
}

fn read_answer(answers: &mut impl BufRead) -> Result<()> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let is_done = line.starts_with("HTTP/1.1 200 ");
    let status = line.trim_end().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        answers.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    answers.read_exact(&mut body)?;
    let text = String::from_utf8_lossy(&body);
    ensure!(is_done, anyhow!("{status}: {text}"));
    Ok(())
}
