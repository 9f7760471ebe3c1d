//! A bouncer for `CrowdSec`: applies the decisions of its local API as bans with the origin
//! `crowdsec`.
//!
//! ```text
//! GET /v1/decisions/stream -> client -> Answer -> Decisions -> Update -> Controller
//! ```
//!
//! The API is asked for every single decision (`dedup=false`), each with its number. If several ban
//! one address, the longest one applies, and when it is deleted, the next one does. By default, the
//! API reports only the longest, and never which one is next. The first response of a connection
//! contains all decisions and replaces the existing bans; later ones contain changes. When the API
//! is unreachable, bans stay until their own ends.
//!
//! The protocol is that of `crowdsec`, `pkg/apiserver/controllers/v1/decisions.go`; responses of
//! version 1.4.6 are in `recorded/`.

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
