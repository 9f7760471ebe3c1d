//! The pure part of the control plane: model, configuration, lists, API types, tables in memory,
//! captures, detection.
//!
//! It uses no kernel, database or network. Time is an argument.
// A new variant must be handled everywhere.
#![warn(clippy::wildcard_enum_match_arm)]

#[macro_use]
mod from_text;

pub mod api;
pub mod atomic_ring;
pub mod author;
pub mod ban;
pub mod capture;
pub mod challenge;
pub mod class;
pub mod class_tables;
pub mod compile;
pub mod config;
pub mod counter_slots;
pub mod detection;
pub mod diagnostic;
pub mod exposition;
pub mod folding;
pub mod geo;
pub mod histogram;
pub mod intent;
pub mod ip_family;
pub mod keys;
pub mod limit;
pub mod list_file;
pub mod lists;
pub mod log_size;
pub mod memory;
pub mod memory_tables;
pub mod new_sources;
pub mod origin;
pub mod policies;
pub mod prefix;
pub mod quantity;
pub mod rules;
pub mod simulation;
pub mod snapshot;
pub mod tcp_connections;
pub mod upstream;
pub mod watched;
