//! The API between `rlctl` and `ratelimitd`, version 1: JSON over HTTP on a Unix socket.
//!
//! [`openapi`] describes every request. Refused requests return a [`Problem`] with status 4xx or
//! 5xx. Times are RFC 3339, durations are seconds.

mod allows;
mod attack;
mod ban_filter;
mod bans;
mod capture;
mod challenge;
mod changed;
mod check;
mod clock;
mod cluster;
mod covering;
mod crowdsec;
mod entry_counter;
mod event;
mod history;
mod keys;
mod limits;
mod lists;
mod live;
mod lockout;
mod new_sources;
pub mod openapi;
mod packet;
mod problem;
mod program;
mod refused;
mod reload;
mod runtime;
mod setting;
mod status;
mod top;
mod unenforced;
mod upstream;

pub use self::{
    allows::*, attack::*, ban_filter::*, bans::*, capture::*, challenge::*, changed::*, check::*,
    clock::*, cluster::*, covering::*, crowdsec::*, entry_counter::*, event::*, history::*,
    keys::*, limits::*, lists::*, live::*, lockout::*, new_sources::*, packet::*, problem::*,
    program::*, refused::*, reload::*, runtime::*, setting::*, status::*, top::*, unenforced::*,
    upstream::*,
};
pub use crate::origin::Origin;

/// The largest body of a request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
