//! The connection to the store: two connections, because one that waits for messages serves nothing
//! else. Each call has a deadline.

use std::{io, path::PathBuf};

use ratelimit_cluster::{Arrival, Millis, NodeName};
use ratelimit_core::config::cluster::Cluster;
use redis::{Cmd, Value, aio::MultiplexedConnection, cmd};

use super::{Heard, route::Route};

/// The stream that all nodes append to and read. In a Redis Cluster all keys with the same word in
/// braces are on one server.
const STREAM: &str = "{ratelimit}:stream";
/// Prefix of the keys of stored parts.
const PART: &str = "{ratelimit}:part";
/// The longest time for which the store may hold a request for messages, in milliseconds.
const WAIT_MS: u64 = 300;
/// The most messages of an answer: with the longest ones 16 MB.
const MESSAGES_MAX: u64 = 32;
/// The number of parts per request.
const PARTS_MAX: u16 = 8;
/// Messages stay in the stream for so long; who misses them reads parts.
const KEPT: Millis = 60_000;
/// A part is kept for so long after what it states ended, as clocks differ.
const PART_KEPT: Millis = 120_000;
/// No part is kept for longer, however long what it states lasts.
const PART_KEPT_MAX: Millis = 366 * 86_400_000;

/// The reason the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It does not answer, or answers with an error.
    #[error("{0}{hint}", hint = hint(.0))]
    Redis(#[from] redis::RedisError),
    /// The file of a certificate or key cannot be read.
    #[error("reading `{0}` of [cluster], {path}: {2}", path = .1.display())]
    File(&'static str, PathBuf, io::Error),
    /// None of the hosts answered in time.
    #[error("no host of `url` led to a server within 3s")]
    Late,
    /// A server does not answer in TLS: one that speaks none waits for more.
    #[error(
        "no TLS response within 1s; if the port does not use TLS, use redis:// or another port"
    )]
    NoTls,
    /// A sentinel does not know the servers.
    #[error(
        "sentinel {0} does not know `{1}`: compare with `sentinel monitor` in its configuration"
    )]
    Unknown(String, String),
    /// The servers of a Redis Cluster send us around.
    #[error(
        "the Redis Cluster servers disagree about the owner of the keys; the last answer was {0}"
    )]
    Moved(String),
    /// A response that no valid server sends.
    #[error("the response to {0} is not one of Redis or Valkey")]
    Nonsense(&'static str),
}

/// Returns a hint for an error that the configuration can fix.
fn hint(error: &redis::RedisError) -> &'static str {
    let text = error.to_string();
    let says = |part: &str| text.contains(part);
    if says("invalid peer certificate") {
        "; `ca_file` of [cluster] must contain the CA of the server certificate, which must name \
         the host of `url`"
    } else if says("parse client certificate") || says("peer sent no certificates") {
        "; `cert_file` of [cluster] must contain a PEM certificate"
    } else if says("extract private key") {
        "; `key_file` of [cluster] must contain a PEM private key without a password"
    } else if says("KeyMismatch") || says("keys may not be consistent") {
        "; `key_file` of [cluster] must match the certificate in `cert_file`"
    } else if says("CertificateRequired") {
        "; the server requires a client certificate: set `cert_file` and `key_file` in [cluster]"
    } else if says("received fatal alert") {
        "; the server rejects the certificate in `cert_file` of [cluster]: it must be valid and \
         signed by a CA that the server trusts"
    } else if says("WRONGPASS") || says("NOAUTH") || says("AuthenticationFailed") {
        "; compare user and password in `url` of [cluster] with those of the server, and of the \
         sentinels after `?sentinel=`"
    } else if says("NoPerm") {
        "; the user needs +xadd +xread +xrevrange +set +mget and ~{ratelimit}:*"
    } else {
        ""
    }
}

/// The place of an entry in the stream: the store's time, and a number.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct EntryId {
    millis: Millis,
    number: u64,
}

impl EntryId {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (millis, number) = str::from_utf8(bytes).ok()?.split_once('-')?;
        Some(Self {
            millis: millis.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// The connection that sends messages and reads parts.
pub struct Link {
    connection: MultiplexedConnection,
    /// The time at which the last read message was stored.
    seen: Millis,
}

/// The connection that receives messages.
pub struct Stream {
    connection: MultiplexedConnection,
    after: EntryId,
}

async fn ask(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, LinkError> {
    Ok(command.query_async(connection).await?)
}

impl Link {
    /// Connects. The stream is read from its end on.
    pub async fn connect(config: &Cluster) -> Result<(Self, Stream), LinkError> {
        let route = Route::new(config).await?;
        let mut last = cmd("XREVRANGE");
        last.arg(&[STREAM, "+", "-", "COUNT", "1"]);
        let (writing, reading, last) = route.connect(&last).await?;
        let last = entries(last).ok_or(LinkError::Nonsense("XREVRANGE"))?;
        let after = last.last().map(|(id, _)| *id).unwrap_or_default();
        let link = Self {
            connection: writing,
            seen: after.millis,
        };
        let stream = Stream {
            connection: reading,
            after,
        };
        Ok((link, stream))
    }

    /// Takes notice of when a message was stored: those long before it may go.
    pub fn saw(&mut self, stored: Millis) {
        self.seen = self.seen.max(stored);
    }

    /// Appends a message to the stream.
    pub async fn publish(&mut self, message: &[u8]) -> Result<(), LinkError> {
        let mut append = cmd("XADD");
        append.arg(STREAM).arg("MINID").arg("~");
        append.arg(self.seen.saturating_sub(KEPT)).arg("*");
        append.arg("m").arg(message);
        ask(&mut self.connection, &append).await.map(drop)
    }

    /// Stores a part of a node's statements with this lifetime.
    pub async fn store(
        &mut self,
        node: &NodeName,
        part: u16,
        message: &[u8],
        lasts: Millis,
    ) -> Result<(), LinkError> {
        let left = lasts.min(PART_KEPT_MAX) + PART_KEPT;
        let mut set = cmd("SET");
        set.arg(part_key(node, part))
            .arg(message)
            .arg("PX")
            .arg(left);
        ask(&mut self.connection, &set).await.map(drop)
    }

    /// Some of the parts that a node stored, from the part `from` on, and which are next.
    pub async fn fetch(
        &mut self,
        node: &NodeName,
        (from, parts): (u16, u16),
    ) -> Result<(Vec<Heard>, Option<u16>), LinkError> {
        let end = from.saturating_add(PARTS_MAX).min(parts);
        let keys: Vec<String> = (from..end).map(|part| part_key(node, part)).collect();
        let Value::Array(stored) = ask(&mut self.connection, cmd("MGET").arg(keys)).await? else {
            return Err(LinkError::Nonsense("MGET"));
        };
        let stored = stored.into_iter().filter_map(bytes);
        let heard = stored.map(|message| Heard {
            arrival: Arrival::Stored,
            message,
        });
        Ok((heard.collect(), (end < parts).then_some(end)))
    }
}

impl Stream {
    /// Waits a moment for messages, and gives those that came; often none.
    pub async fn read(&mut self) -> Result<Vec<Heard>, LinkError> {
        let mut read = cmd("XREAD");
        read.arg("COUNT")
            .arg(MESSAGES_MAX)
            .arg("BLOCK")
            .arg(WAIT_MS);
        let after = format!("{}-{}", self.after.millis, self.after.number);
        read.arg("STREAMS").arg(STREAM).arg(after);
        let answer = ask(&mut self.connection, &read).await?;
        let came = read_entries(answer).ok_or(LinkError::Nonsense("XREAD"))?;
        if let Some((last, _)) = came.last() {
            self.after = *last;
        }
        let heard = came.into_iter().map(|(id, message)| Heard {
            arrival: Arrival::Stream { stored: id.millis },
            message,
        });
        Ok(heard.collect())
    }
}

fn part_key(node: &NodeName, part: u16) -> String {
    format!("{PART}:{node}:{part}")
}

/// Returns the entries of the requested stream; empty if none arrived in time.
#[expect(clippy::wildcard_enum_match_arm, reason = "Redis may answer anything")]
fn read_entries(answer: Value) -> Option<Vec<(EntryId, Vec<u8>)>> {
    match answer {
        Value::Nil => Some(Vec::new()),
        Value::Array(streams) => {
            let Some(Value::Array(stream)) = streams.into_iter().next() else {
                return None;
            };
            entries(stream.into_iter().nth(1)?)
        }
        _ => None,
    }
}

/// Returns the entries of a response. The message of a foreign entry is empty, and is refused as
/// such.
fn entries(answer: Value) -> Option<Vec<(EntryId, Vec<u8>)>> {
    let Value::Array(entries) = answer else {
        return None;
    };
    entries.into_iter().map(entry).collect()
}

fn entry(entry: Value) -> Option<(EntryId, Vec<u8>)> {
    let Value::Array(parts) = entry else {
        return None;
    };
    let [id, fields] = <[Value; 2]>::try_from(parts).ok()?;
    let id = EntryId::parse(&bytes(id)?)?;
    let message = if let Value::Array(fields) = fields {
        fields.into_iter().nth(1).and_then(bytes)
    } else {
        None
    };
    Some((id, message.unwrap_or_default()))
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::BulkString(bytes) = value {
        Some(bytes)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn one(id: &str) -> Value {
        Value::Array(vec![
            text(id),
            Value::Array(vec![text("m"), text("message")]),
        ])
    }

    #[test]
    fn entries_are_read_with_their_times() {
        let stream = Value::Array(vec![
            text(STREAM),
            Value::Array(vec![one("17-0"), one("18-3")]),
        ]);
        let came = read_entries(Value::Array(vec![stream])).unwrap();
        let times: Vec<_> = came.iter().map(|(id, _)| (id.millis, id.number)).collect();
        assert_eq!(times, [(17, 0), (18, 3)]);
        assert!(came.iter().all(|(_, message)| message == b"message"));
        assert_eq!(read_entries(Value::Nil), Some(Vec::new()));
    }

    #[test]
    fn an_answer_that_is_nonsense_is_distinguished_from_one_without_messages() {
        let wrong = [
            Value::Okay,
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![
                text(STREAM),
                Value::Array(vec![one("x")]),
            ])]),
            Value::Array(vec![Value::Array(vec![text(STREAM), Value::Int(0)])]),
        ];
        for wrong in wrong {
            assert_eq!(read_entries(wrong.clone()), None, "{wrong:?}");
        }
    }
}
