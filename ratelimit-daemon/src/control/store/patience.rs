//! How long a change waits for a database that somebody else has locked: once, and then not again until one was kept.

use std::{cell::Cell, time::Duration};

use rusqlite::{Connection, ErrorCode};
use tracing::warn;

/// How long the first change waits: somebody may look at the database for a moment.
const FIRST: Duration = Duration::from_secs(1);

/// Whether the database was found locked.
#[derive(Debug, Default)]
pub struct Patience {
    is_over: Cell<bool>,
}

impl Patience {
    /// For a connection that was just opened.
    ///
    /// # Errors
    ///
    /// When the connection takes no such time.
    pub fn begin(connection: &Connection) -> rusqlite::Result<Self> {
        connection.busy_timeout(FIRST)?;
        Ok(Self::default())
    }

    /// Notes how a change went.
    pub fn note<T>(&self, connection: &Connection, answer: &anyhow::Result<T>) {
        let is_locked = match answer {
            Ok(_) => false,
            Err(error) => is_locked(error),
        };
        if is_locked == self.is_over.get() || (answer.is_err() && !is_locked) {
            return;
        }
        let patience = if is_locked { Duration::ZERO } else { FIRST };
        if let Err(error) = connection.busy_timeout(patience) {
            warn!(%error, "how long changes wait for the database could not be set");
            return;
        }
        self.is_over.set(is_locked);
        if is_locked {
            warn!(
                "somebody else has locked the database: changes do not wait for it until one was kept"
            );
        }
    }
}

fn is_locked(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        let error = cause.downcast_ref::<rusqlite::Error>();
        error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::DatabaseBusy)
    })
}
