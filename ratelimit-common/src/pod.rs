//! The types that user space may copy into and out of maps as bytes.

use aya::Pod;

use crate::{
    BanBudgets, ClassSet, Ipv4, Ipv6, ListEntry, Policy, PolicyBan, Record, Settings, SourceKey,
    aggregate::Aggregates,
    compact::Set,
    event::Sampler,
    generation::ByGeneration,
    layout::Counter,
    lease::{Demand, Lease},
    list::PrefixKey,
    new_sources::Budget,
    node::Share,
    policy_ban::Tally,
    refused::Refused,
    source::LogKey,
    source_filter::Filter,
};

// SAFETY: `repr(C)`, valid for any bytes, no pointers; so are all that follow. None has padding,
// except at the end of `Refused<Ipv6>`, which user space never writes.
unsafe impl Pod for Counter {}
// SAFETY: as above.
unsafe impl Pod for Aggregates {}
// SAFETY: as above.
unsafe impl Pod for BanBudgets {}
// SAFETY: as above: the size of a type is a multiple of its alignment, so there is no padding
// between the two.
unsafe impl<T: Pod> Pod for ByGeneration<T> {}
// SAFETY: as above.
unsafe impl Pod for crate::capture::Capture {}
// SAFETY: as above.
unsafe impl Pod for crate::challenge::Rules {}
// SAFETY: as above.
unsafe impl Pod for crate::challenge::SharedState {}
// SAFETY: as above.
unsafe impl Pod for crate::cpu_state::CpuState {}
// SAFETY: as above.
unsafe impl Pod for crate::capture::Tally {}
// SAFETY: as above.
unsafe impl Pod for crate::interface::InterfaceRule {}
// SAFETY: as above.
unsafe impl Pod for ClassSet {}
// SAFETY: as above.
unsafe impl Pod for PolicyBan {}
// SAFETY: as above.
unsafe impl Pod for Filter {}
// SAFETY: as above.
unsafe impl Pod for Budget {}
// SAFETY: as above.
unsafe impl Pod for Ipv4 {}
// SAFETY: as above.
unsafe impl Pod for Ipv6 {}
// SAFETY: as above.
unsafe impl Pod for Lease {}
// SAFETY: as above.
unsafe impl Pod for Demand {}
// SAFETY: as above.
unsafe impl Pod for ListEntry {}
// SAFETY: as above.
unsafe impl Pod for LogKey {}
// SAFETY: as above.
unsafe impl Pod for Policy {}
// SAFETY: as above.
unsafe impl Pod for crate::list::lookup_cache::CachedAnswer {}
// SAFETY: as above.
unsafe impl Pod for PrefixKey<Ipv4> {}
// SAFETY: as above.
unsafe impl Pod for PrefixKey<Ipv6> {}
// SAFETY: as above.
unsafe impl Pod for Record {}
// SAFETY: as above.
unsafe impl Pod for Sampler {}
// SAFETY: as above.
unsafe impl Pod for Set {}
// SAFETY: as above.
unsafe impl Pod for crate::sample::Countdown {}
// SAFETY: as above.
unsafe impl Pod for Refused<Ipv4> {}
// SAFETY: as above.
unsafe impl Pod for Refused<Ipv6> {}
// SAFETY: as above.
unsafe impl Pod for Settings {}
// SAFETY: as above.
unsafe impl Pod for Share {}
// SAFETY: as above.
unsafe impl Pod for crate::parse::Tunnels {}
// SAFETY: as above.
unsafe impl Pod for SourceKey<Ipv4> {}
// SAFETY: as above.
unsafe impl Pod for SourceKey<Ipv6> {}
// SAFETY: as above.
unsafe impl Pod for Tally {}
