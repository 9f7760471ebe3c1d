//! Brings the tables of the kernel to the compiled state: entries, prefix-length filters, counters,
//! and room for all of it.

pub mod enforcer;
pub mod entry_counters;
pub mod list_room;
pub mod map_plan;
pub mod prefix_filters;
