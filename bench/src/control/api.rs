//! Bans over the API as other programs send them: HTTP over the control socket, one ban a request.

use std::{net::Ipv4Addr, path::Path, thread, time::Instant};

use anyhow::{Result, ensure};

use crate::{
    client::{Address, Answer, Client},
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
    let mut client = Client::connect(&Address::Unix(socket.to_owned()))?;
    for request in requests {
        let Answer { status, body } = client.ask(request.as_bytes())?;
        ensure!(
            status.starts_with("HTTP/1.1 200 "),
            "refused: {}",
            String::from_utf8_lossy(body)
        );
    }
    thread_nanos()
}
