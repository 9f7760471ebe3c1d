//! The listeners: the control socket, that of keys, and the one that serves metrics to the network.

mod answers;
mod capture_api;
mod chunked;
mod connection_limit;
mod control_api;
mod cross_origin;
mod dashboard;
mod event_api;
mod history_api;
mod key_api;
mod list_api;
mod listeners;
mod metrics_api;
mod metrics_listener;
mod names;
mod peer;
mod presence;
mod serve;
mod upstream_api;

pub use control_api::ControlApi;
pub use metrics_listener::serve_metrics;
pub use peer::Peer;
pub use serve::{serve_control, serve_keys};
