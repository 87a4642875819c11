//! What an author's effect may do inside the writer's transaction, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, ffi};
use steadfast_core::ledger::Stamp;

/// How long one effect may hold the transaction that others wait for (ruling 12).
const LIMIT: Duration = Duration::from_secs(1);
/// SQLite's own steps between two looks at the clock while an effect runs.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;

/// Bounds an effect: its time, and what its SQL may do.
#[derive(Clone)]
pub(super) struct EffectGuard {
    origin: Instant,
    /// When the running effect must be over, in nanoseconds after the origin; 0 while none runs.
    until_nanos: Arc<AtomicU64>,
}

impl EffectGuard {
    /// The hooks are set once: setting them anew would make SQLite prepare every statement again.
    pub(super) fn install(connection: &mut Connection) -> rusqlite::Result<Self> {
        let guard = Self { origin: Instant::now(), until_nanos: Arc::default() };
        let clock = guard.clone();
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || clock.is_over()))?;
        let gate = guard.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| match context.action {
            // The transaction is not the effect's own: others wait for it.
            AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::Pragma { .. }
                if gate.runs() =>
            {
                Authorization::Deny
            }
            _ => Authorization::Allow,
        }))?;
        Ok(guard)
    }

    pub(super) fn begin(&self) {
        let until = (self.origin.elapsed() + LIMIT).as_nanos();
        self.until_nanos.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the effect ended in time.
    pub(super) fn end(&self) -> bool {
        let in_time = !self.is_over();
        self.until_nanos.store(0, Ordering::Relaxed);
        in_time
    }

    fn runs(&self) -> bool {
        self.until_nanos.load(Ordering::Relaxed) != 0
    }

    fn is_over(&self) -> bool {
        let until = self.until_nanos.load(Ordering::Relaxed);
        until != 0 && self.origin.elapsed().as_nanos() >= u128::from(until)
    }
}

/// What an effect may do: its own SQL, inside the transaction that also holds the record.
pub struct Effect<'a> {
    connection: &'a Connection,
    execution: u64,
    now: Stamp,
}

impl<'a> Effect<'a> {
    pub(crate) const fn new(connection: &'a Connection, execution: u64, now: Stamp) -> Self {
        Self { connection, execution, now }
    }

    /// How many times this operation has been executed on this store, this time included.
    pub const fn execution(&self) -> u64 {
        self.execution
    }

    /// When this execution happens.
    pub const fn now(&self) -> steadfast_core::time::Wall {
        self.now.wall
    }

    /// Runs one statement and says how many rows it changed.
    ///
    /// # Errors
    /// What SQLite says; statements that begin, end or nest transactions are not authorized, nor are those that name
    /// anything that begins with `steadfast_`.
    pub fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.prepare(sql)?.execute(params)
    }

    /// Reads the first column of the first row, if there is one.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn query<T: FromSql>(&self, sql: &str, params: impl Params) -> rusqlite::Result<Option<T>> {
        self.query_row(sql, params, |row| row.get(0))
    }

    /// Reads the first row, if there is one.
    ///
    /// # Errors
    /// What SQLite or `read` says.
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.prepare(sql)?.query_row(params, read).optional()
    }

    /// Whether the transaction is still there. `OR ROLLBACK`, an interrupted write and a failing disk end it, and an
    /// effect may overlook that; each further statement would commit on its own.
    pub(crate) fn is_within(&self) -> bool {
        !self.connection.is_autocommit()
    }

    fn prepare(&self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        let refuse = |code, why: &str| {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(why.to_owned())))
        };
        if !self.is_within() {
            return refuse(ffi::SQLITE_ABORT, "the transaction is gone");
        }
        // The ledger's own tables are what keeps a key's promise, and a temporary one of their name would hide them.
        if sql.to_ascii_lowercase().contains("steadfast_") {
            return refuse(ffi::SQLITE_AUTH, "not authorized");
        }
        let statement = self.connection.prepare_cached(sql)?;
        // The authorizer is asked when a statement is prepared, and the writer's own are in the cache. Those that
        // neither write nor answer control the transaction.
        if statement.readonly() && statement.column_count() == 0 {
            return refuse(ffi::SQLITE_AUTH, "not authorized");
        }
        Ok(statement)
    }
}
