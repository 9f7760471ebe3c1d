//! A bouncer for `CrowdSec`: what its local API decides is banned here, as origin `crowdsec`.
//!
//! ```text
//! GET /v1/decisions/stream -> client -> Answer -> Decisions -> Update -> Controller
//! ```
//!
//! The API is asked for every decision by itself (`dedup=false`), each with its number. Where several ban one address, the
//! one that lasts longest holds, and when it is deleted the next one does. The API left to itself tells only the longest, and
//! never which is next. The first answer of a connection has all decisions and replaces the bans that are there; those after
//! it have what changed since. When the API is gone, bans stay, each until its own end.
//!
//! The protocol is that of `crowdsec`, `pkg/apiserver/controllers/v1/decisions.go`; answers that version 1.4.6 gave are in
//! `recorded/`.

mod answer;
mod client;
mod decisions;

pub use self::{
    answer::{Decision, Ignored},
    client::Client,
    decisions::{Decisions, Update, Wanted},
};

/// Truncates foreign text.
pub(crate) fn cut(text: &str, characters: usize) -> &str {
    let end = text.char_indices().nth(characters);
    end.map_or(text, |(end, _)| &text[..end])
}
