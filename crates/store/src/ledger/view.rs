//! Looking into a ledger without touching it.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::Options;
use super::rows::{self, Line};
use crate::clock::Clock;
use crate::sqlite::{self, OpenError, StoreError};

/// A ledger that is only looked at; the file is not touched.
pub struct LedgerView {
    connection: Connection,
    clock: Arc<dyn Clock>,
}

impl LedgerView {
    /// Opens an existing file read-only.
    ///
    /// # Errors
    /// There is no such file, or it is not a store that this version knows.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Ok(Self { connection: sqlite::open_read_only(path.as_ref())?, clock: options.clock })
    }

    /// The newest records first, at most `limit`, all or those in one state.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self, state: Option<&str>, limit: usize) -> Result<Vec<Line>, StoreError> {
        // Which claims are over is not the file's to say but the clock's, so states are told apart here.
        self.lines(None, limit, |line| state.is_none_or(|state| state == line.state))
    }

    /// All records under a key's text, whatever their scope.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn show(&self, key: &str) -> Result<Vec<Line>, StoreError> {
        self.lines(Some(key), usize::MAX, |_| true)
    }

    /// How often an operation has been executed on this store.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn executions(&self, operation: &str) -> Result<u64, StoreError> {
        Ok(rows::executions(&self.connection, operation)?)
    }

    fn lines(
        &self,
        key: Option<&str>,
        limit: usize,
        wanted: impl Fn(&Line) -> bool,
    ) -> Result<Vec<Line>, StoreError> {
        let now = self.clock.stamp();
        let mut lines = Vec::new();
        rows::newest_first(&self.connection, key, |row| {
            if lines.len() < limit {
                let line = row.into_line(now);
                if wanted(&line) {
                    lines.push(line);
                }
            }
            lines.len() < limit
        })?;
        Ok(lines)
    }
}

impl std::fmt::Debug for LedgerView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerView").finish_non_exhaustive()
    }
}
