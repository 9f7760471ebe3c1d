//! A connection to the store: two, since the one that waits for messages carries nothing else meanwhile. Each call has a deadline.

use std::time::Duration;

use ratelimit_cluster::{Arrival, Millis, NodeName};
use ratelimit_core::config::cluster::Store;
use redis::{AsyncConnectionConfig, Client, Cmd, Value, aio::MultiplexedConnection, cmd};

use super::Heard;

/// The stream that all nodes append to and read.
const STREAM: &str = "ratelimit:stream";
/// What the keys of stored parts begin with.
const PART: &str = "ratelimit:part";
/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(1);
/// How long a call may take.
const DEADLINE: Duration = Duration::from_millis(1_500);
/// How long the store holds a question for messages until one comes, in milliseconds.
const WAIT_MS: u64 = 300;
/// The most messages of an answer: with the longest ones 16 MB.
const MESSAGES_MAX: u64 = 32;
/// The parts that are asked for at once.
const PARTS_MAX: u16 = 8;
/// Messages stay in the stream for so long; who misses them reads parts.
const KEPT: Millis = 60_000;
/// A part is kept for so long after what it states ended, as clocks differ.
const PART_KEPT: Millis = 120_000;
/// No part is kept for longer, however long what it states lasts.
const PART_KEPT_MAX: Millis = 366 * 86_400_000;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It does not answer, or answers with an error.
    #[error("{0}")]
    Redis(#[from] redis::RedisError),
    /// It answers what no such server answers.
    #[error("an answer that is none of Redis or Valkey, to {0}")]
    Nonsense(&'static str),
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

/// What carries messages to the store, and reads parts.
pub struct Link {
    connection: MultiplexedConnection,
    /// When the last message that was read was stored.
    seen: Millis,
}

/// What reads messages as they come.
pub struct Stream {
    connection: MultiplexedConnection,
    after: EntryId,
}

/// Connects twice. The stream is read from its end on.
///
/// # Errors
///
/// When the store does not let this node in, or does not answer in time.
async fn connect(store: &Store) -> Result<(Link, Stream), LinkError> {
    let client = Client::open(store.expose())?;
    let config = || {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECTING))
            .set_response_timeout(Some(DEADLINE))
    };
    let mut writing = client
        .get_multiplexed_async_connection_with_config(&config())
        .await?;
    let reading = client
        .get_multiplexed_async_connection_with_config(&config())
        .await?;
    let last = ask(
        &mut writing,
        cmd("XREVRANGE").arg(&[STREAM, "+", "-", "COUNT", "1"]),
    )
    .await?;
    let last = entries(last).ok_or(LinkError::Nonsense("XREVRANGE"))?;
    let after = last.last().map(|(id, _)| *id).unwrap_or_default();
    let link = Link {
        connection: writing,
        seen: after.millis,
    };
    let stream = Stream {
        connection: reading,
        after,
    };
    Ok((link, stream))
}

async fn ask(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, LinkError> {
    Ok(command.query_async(connection).await?)
}

impl Link {
    /// Connects. The stream is read from its end on.
    ///
    /// # Errors
    ///
    /// When the store does not let this node in, or does not answer in time.
    pub async fn connect(store: &Store) -> Result<(Self, Stream), LinkError> {
        connect(store).await
    }

    /// Takes notice of when a message was stored: those long before it may go.
    pub fn saw(&mut self, stored: Millis) {
        self.seen = self.seen.max(stored);
    }

    /// Appends a message to the stream.
    ///
    /// # Errors
    ///
    /// When the store does not take it in time.
    pub async fn publish(&mut self, message: &[u8]) -> Result<(), LinkError> {
        let mut append = cmd("XADD");
        append.arg(STREAM).arg("MINID").arg("~");
        append.arg(self.seen.saturating_sub(KEPT)).arg("*");
        append.arg("m").arg(message);
        ask(&mut self.connection, &append).await.map(drop)
    }

    /// Stores a part of what a node stated, until the wall clock shows `until`.
    ///
    /// # Errors
    ///
    /// When the store does not take it in time.
    pub async fn store(
        &mut self,
        node: &NodeName,
        part: u16,
        message: &[u8],
        (now, until): (Millis, Millis),
    ) -> Result<(), LinkError> {
        let left = until.saturating_sub(now).min(PART_KEPT_MAX) + PART_KEPT;
        let mut set = cmd("SET");
        set.arg(part_key(node, part))
            .arg(message)
            .arg("PX")
            .arg(left);
        ask(&mut self.connection, &set).await.map(drop)
    }

    /// Some of the parts that a node stored, from the part `from` on, and which are next.
    ///
    /// # Errors
    ///
    /// When the store does not answer in time.
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
    ///
    /// # Errors
    ///
    /// When the store does not answer in time.
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

/// The entries of the one stream that was asked for; none where none came in time.
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

/// The entries of an answer. The message of one that is none of ours is empty, which is refused as what it is.
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
    let message = match fields {
        Value::Array(fields) => fields.into_iter().nth(1).and_then(bytes),
        _ => None,
    };
    Some((id, message.unwrap_or_default()))
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
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
    fn an_answer_that_is_nonsense_is_told_from_one_without_messages() {
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
