//! Brings the tables of the kernel to what is compiled: entries, filters in front of them, counters, and room for all of it.

pub mod enforcer;
pub mod entry_counters;
pub mod list_room;
pub mod map_plan;
pub mod prefix_filters;
