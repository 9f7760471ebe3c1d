//! The packet decision of `ratelimit`.
//!
//! One pure function, [`decide`], takes a packet's bytes, the time and the [`Tables`], and answers
//! with a [`Verdict`]. The XDP program runs it in the kernel; tests, fuzzers and the daemon run the
//! same code on the host.
//!
//! This crate never does I/O, reads no clock, allocates nothing, and cannot panic: the BPF verifier
//! refuses code that could.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
// Tests run on the host, where a panic is how a test fails.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        clippy::wildcard_enum_match_arm,
        reason = "a panic is how a test fails"
    )
)]

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod absent;
pub mod address;
pub mod aggregate;
pub mod algorithm;
pub mod arrival;
pub mod atomic_words;
pub mod ban_budget;
pub mod bits;
pub mod capture;
pub mod challenge;
pub mod charge;
pub mod class;
pub mod classify;
pub mod compact;
pub mod compare_and_swap;
pub mod cpu_state;
pub mod cursor;
pub mod direct;
pub mod established;
pub mod event;
pub mod features;
pub mod flow;
pub mod frame_size;
pub mod generation;
pub mod interface;
pub mod layers;
pub mod layout;
pub mod lease;
pub mod limit;
pub mod list;
pub mod neighbour_discovery;
pub mod new_sources;
pub mod node;
pub mod parse;
pub mod pipeline;
#[cfg(feature = "user")]
mod pod;
pub mod policy;
pub mod policy_ban;
pub mod prefix_filter;
pub mod refused;
pub mod sample;
pub mod settings;
pub mod source;
pub mod source_filter;
pub mod source_limits;
pub mod store;
pub mod strikes;
pub mod tables;
pub mod time;
pub mod verdict;

pub use address::{Address, Family, Ipv4, Ipv6};
pub use arrival::Arrival;
pub use atomic_words::AtomicWords;
pub use ban_budget::{BanBudget, BanBudgets, Evidence};
pub use class::ClassSet;
pub use cursor::Cursor;
pub use flow::Flow;
pub use limit::{Limit, Unit};
pub use list::ListEntry;
pub use pipeline::decide;
pub use policy::Policy;
pub use policy_ban::PolicyBan;
pub use refused::Refusals;
pub use settings::Settings;
pub use source::{Record, SourceKey};
pub use strikes::BanRule;
pub use tables::{FamilyTables, Tables};
pub use time::Instant;
pub use verdict::{DropReason, PassReason, Verdict};
