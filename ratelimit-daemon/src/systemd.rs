//! Notifies systemd that the daemon is ready, reloads, stops, and each second that it is alive
//! (`WatchdogSec`).

use sd_notify::NotifyState;
use tracing::debug;

/// Notifies systemd, if it asked for that.
pub fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        debug!(%error, "cannot notify systemd");
    }
}
