//! The outside of a message: who sent it, which one it is, and a signature over all of it.
//!
//! HMAC-SHA256 (RFC 2104) with a secret that all nodes have. So whoever has no secret can neither make nor change a message.
//! A node that has it could speak in the name of another, which is why a revoked node is to be given no new secret.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::refusal::Refusal;
use crate::bytes::{Reader, Writer, Wrong};
use crate::name::NodeName;
use crate::time::Millis;

/// The version that this code writes, and the only one that it reads.
pub const VERSION: u8 = 1;

/// The longest message, in bytes.
pub const MESSAGE_MAX: usize = 512 * 1024;

/// The bytes of a signature.
pub const SIGNATURE: usize = 32;

const MAGIC: &[u8; 3] = b"RLC";

/// What the nodes of a cluster know and nobody else.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// A secret of any length; 32 random bytes are as good as it gets.
    pub fn new(secret: &[u8]) -> Self {
        // A key of any length is one for HMAC, so nothing of this fails.
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

/// Which message of which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The node that sent it.
    pub node: NodeName,
    /// Which life of the node: higher with each start.
    pub incarnation: u64,
    /// Which message of this life: higher with each message.
    pub sequence: u64,
    /// When it was sent, by the node's wall clock.
    pub sent: Millis,
}

/// Writes a message.
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

/// Reads the outside of a message, and gives the inside.
///
/// # Errors
/// It is no message, too long, cut, of another version, or not signed with the secret.
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
    // The version and the name are where they are in every version, so that this can be said of a newer one.
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
