//! The envelope of a message: its sender, its number, and a signature of everything.
//!
//! HMAC-SHA256 (RFC 2104) with the shared secret of all nodes. Without the secret, messages can be
//! neither created nor modified. A node with the secret could send in the name of another, which is
//! why a revoked node must not get a new secret.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::refusal::Refusal;
use crate::bytes::{Reader, Writer, Wrong};
use crate::name::NodeName;
use crate::time::Millis;

/// The version that is written, and the only one that is accepted.
pub const VERSION: u8 = 1;

/// The longest message, in bytes.
pub const MESSAGE_MAX: usize = 512 * 1024;

/// The length of a signature, in bytes.
pub const SIGNATURE: usize = 32;

const MAGIC: &[u8; 3] = b"RLC";

/// The shared secret of a cluster.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        other.signed(&[], &self.sign(&[]))
    }
}

impl Secret {
    /// Creates a secret of any length. 32 random bytes are best.
    pub fn new(secret: &[u8]) -> Self {
        // HMAC accepts keys of any length, so this cannot fail.
        Self(
            Hmac::new_from_slice(secret)
                .unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default())),
        )
    }

    fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE] {
        self.0
            .clone()
            .chain_update(bytes)
            .finalize()
            .into_bytes()
            .into()
    }

    fn signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.0
            .clone()
            .chain_update(bytes)
            .verify_slice(signature)
            .is_ok()
    }
}

/// Identifies a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender.
    pub node: NodeName,
    /// The incarnation of the sender: higher with each start.
    pub incarnation: u64,
    /// The number of the message in this incarnation: higher with each message.
    pub sequence: u64,
    /// The time of sending, by the sender's wall clock.
    pub sent: Millis,
}

/// Creates a message.
pub fn seal(secret: &Secret, header: &Header, body: &[u8]) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(body.len() + 128));
    writer.0.extend_from_slice(MAGIC);
    writer.0.push(VERSION);
    writer.name(&header.node);
    writer.fixed(header.incarnation);
    writer.number(header.sequence);
    writer.fixed(header.sent);
    writer.0.extend_from_slice(body);
    let signature = secret.sign(&writer.0);
    writer.0.extend_from_slice(&signature);
    writer.0
}

/// Checks a message, and returns its header and body.
///
/// # Errors
///
/// It is not a message, too long, truncated, of another version, or not signed with the secret.
pub fn open<'a>(secret: &Secret, message: &'a [u8]) -> Result<(Header, &'a [u8]), Refusal> {
    if message.len() > MESSAGE_MAX {
        return Err(Refusal::Oversized {
            bytes: message.len(),
        });
    }
    let (signed, signature) = message
        .split_at_checked(message.len().saturating_sub(SIGNATURE))
        .ok_or(Refusal::Foreign)?;
    let mut reader = Reader(signed);
    if reader.bytes(MAGIC.len(), "the magic").ok() != Some(MAGIC.as_slice()) {
        return Err(Refusal::Foreign);
    }
    // Every version has the version and the name in the same place, so that a newer one can be
    // named.
    let wrong = |wrong: Wrong| Refusal::Cut { wrong };
    let version = reader.byte("the version").map_err(wrong)?;
    let node = reader.name().map_err(wrong)?;
    if !secret.signed(signed, signature) {
        return Err(Refusal::WrongSignature { node });
    }
    if version != VERSION {
        return Err(Refusal::Version { node, version });
    }
    let incarnation = reader.fixed("the incarnation").map_err(wrong)?;
    let sequence = reader.number("the sequence number").map_err(wrong)?;
    let sent = reader.fixed("the time").map_err(wrong)?;
    Ok((
        Header {
            node,
            incarnation,
            sequence,
            sent,
        },
        reader.0,
    ))
}
