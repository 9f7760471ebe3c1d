//! Users of the servers: each request comes when it is due, from the next of many addresses, whatever became of those before.

use std::{
    future::Future,
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

use anyhow::{Context, Result};
use ratelimit_tests::lab::Namespace;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, UdpSocket},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

use super::servers::{QUERY, SERVER};

/// Requests a second of each kind.
const PER_SECOND: u32 = 250;
/// After so long a user is gone. A lost SYN is sent again after a second, so one that is lost fails.
const PATIENCE: Duration = Duration::from_millis(500);
/// The users: as many addresses from the first on.
const USERS: u32 = 200;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// Where they are, behind the router that is the far end.
pub const NETWORK: &str = "10.77.1.0/24";

/// The flag of an answer that did not fit.
const TRUNCATED: u8 = 2;

/// What the users got.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Of those that asked, the part that was answered.
    pub part: f64,
    /// How long each waited that was answered, in milliseconds, the shortest first.
    pub waits: Vec<f64>,
}

impl Served {
    /// How long the `part` of those that were answered waited at most, in milliseconds; `None` when nobody was.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "thousands"
    )]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let last = self.waits.len().checked_sub(1)?;
        self.waits
            .get((last as f64 * part).round() as usize)
            .copied()
    }
}

/// Asks both servers for so long; answers what became of the web requests and of the queries.
pub fn ask(far: &Namespace, duration: Duration) -> Result<[Served; 2]> {
    far.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("making a runtime")?;
        runtime.block_on(async {
            let web = tokio::spawn(pace(duration, web));
            let queries = tokio::spawn(pace(duration, query));
            Ok([web.await??, queries.await??])
        })
    })
}

/// Sends requests at their pace, and waits for what becomes of them.
async fn pace<F>(duration: Duration, request: impl Fn(Ipv4Addr) -> F) -> Result<Served>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let start = Instant::now();
    let mut asked: Vec<JoinHandle<Option<f64>>> = vec![];
    for number in 0.. {
        let due = start + Duration::from_secs(1) / PER_SECOND * number;
        if due >= start + duration {
            break;
        }
        sleep_until(due).await;
        let user = Ipv4Addr::from_bits(FIRST.to_bits() + number % USERS);
        let request = request(user);
        asked.push(tokio::spawn(async move {
            let answered = timeout_at(due + PATIENCE, request).await;
            answered.ok()?.ok()?;
            Some(due.elapsed().as_secs_f64() * 1e3)
        }));
    }
    let count = asked.len();
    let mut waits = vec![];
    for one in asked {
        waits.extend(one.await?);
    }
    waits.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let part = waits.len() as f64 / count as f64;
    Ok(Served { part, waits })
}

/// A connection, a page, and its end.
async fn web(user: Ipv4Addr) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddrV4::new(user, 0).into())?;
    let mut stream = socket.connect(SocketAddrV4::new(SERVER, 80).into()).await?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await?;
    is_right(answer.starts_with(b"HTTP/1.1 200"))
}

/// A query, and the address that it asks for; over TCP where the answer is truncated, as resolvers ask then (RFC 7766, 5).
async fn query(user: Ipv4Addr) -> io::Result<()> {
    let socket = UdpSocket::bind(SocketAddrV4::new(user, 0)).await?;
    socket.connect(SocketAddrV4::new(SERVER, 53)).await?;
    socket.send(&QUERY).await?;
    let mut answer = [0; 512];
    let bytes = socket.recv(&mut answer).await?;
    if bytes > 2 && answer[2] & TRUNCATED != 0 {
        return query_over_tcp(user).await;
    }
    is_answer(&answer[..bytes])
}

async fn query_over_tcp(user: Ipv4Addr) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddrV4::new(user, 0).into())?;
    let mut stream = socket.connect(SocketAddrV4::new(SERVER, 53).into()).await?;
    let bytes = u16::try_from(QUERY.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&bytes.to_be_bytes(), &QUERY[..]].concat())
        .await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    is_answer(&answer)
}

/// Whether it is without error, and has one answer.
fn is_answer(answer: &[u8]) -> io::Result<()> {
    is_right(answer.get(2..8) == Some(&[0x84, 0, 0, 1, 0, 1]))
}

fn is_right(is: bool) -> io::Result<()> {
    is.then_some(())
        .ok_or_else(|| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_of_those_that_were_answered() {
        let served = Served {
            part: 0.5,
            waits: (0..=100).map(f64::from).collect(),
        };
        assert_eq!(
            (served.quantile(0.5), served.quantile(0.99)),
            (Some(50.0), Some(99.0))
        );
        assert_eq!(Served::default().quantile(0.5), None);
    }
}
