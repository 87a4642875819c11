//! The one thread that writes: what waits is committed in one go, and nobody is told before COMMIT (ruling 12).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row};
use steadfast_core::ledger::Stamp;

use crate::clock::Clock;

/// Jobs that may wait for the writer; beyond that callers wait.
const QUEUE: usize = 1_024;
/// Jobs of one transaction at most: bounds the time that another process waits for the file.
const BATCH: usize = 256;
/// How long one effect may hold the transaction that others wait for (ruling 12).
const EFFECT_LIMIT: Duration = Duration::from_secs(1);
/// SQLite's own steps between two looks at the clock while an effect runs.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;
/// How often a transaction that was lost is run again before its jobs are told so.
const RETRIES: u32 = 2;

/// Why something is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process held the file for longer than the busy timeout.
    #[error(
        "the store is busy: another process holds its file for more than 5 s; try again, or look for that process"
    )]
    Busy,
    /// The disk is full.
    #[error("the store's disk is full, so nothing was stored; free some space")]
    Full,
    /// Anything else that SQLite says.
    #[error("the store failed and nothing was stored: {0}; check the file and its disk")]
    Failed(String),
    /// A stored row is not what this program writes.
    #[error("the store's row for this key is damaged ({0}); restore the file from a backup")]
    Damaged(&'static str),
    /// The effect took longer than its limit and was rolled back.
    #[error(
        "the effect took longer than 1 s inside the store's transaction and was rolled back; do less in it"
    )]
    Interrupted,
    /// The effect panicked and was rolled back.
    #[error("the effect panicked and was rolled back; see the program's own log")]
    Panicked,
    /// The writer ended.
    #[error("the store is closed; open it again")]
    Closed,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::OperationInterrupted) => Self::Interrupted,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// How a job left its part of the transaction.
pub(crate) enum Turn {
    /// Keep what it wrote.
    Keep,
    /// Undo what it wrote, and nothing else.
    Undo,
}

/// One caller's part of a transaction. It may be run again if the transaction is lost before it is durable.
pub(crate) trait Job: Send {
    /// Whether the job runs an author's code: in a savepoint, under the effect limit, its panics caught.
    fn is_effect(&self) -> bool;
    /// Does the work and keeps its outcome.
    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn;
    /// Tells the caller: the outcome is durable, or why it is not.
    fn tell(self: Box<Self>, stored: Result<(), StoreError>);
}

/// How a caller is told: on the writer's thread, so it must only hand over.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// A job that comes by itself, made anew each time.
pub(crate) struct Every {
    pub(crate) interval: Duration,
    pub(crate) make: Box<dyn Fn() -> Option<Box<dyn Job>> + Send>,
}

/// The writer of one process on one file.
pub(crate) struct Writer {
    jobs: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    /// Jobs that were handed over and not told yet.
    waiting: Arc<AtomicUsize>,
}

impl Writer {
    /// Starts the thread. `every` comes on the same thread: the renewal of leases.
    pub(crate) fn start(
        mut connection: Connection,
        clock: Arc<dyn Clock>,
        name: u128,
        every: Every,
    ) -> rusqlite::Result<Self> {
        let effect = EffectGuard::install(&mut connection)?;
        let (jobs, queue) = sync_channel(QUEUE);
        let waiting = Arc::<AtomicUsize>::default();
        let told = Arc::clone(&waiting);
        let mut state = State { connection, clock, name: name.to_be_bytes(), batch: 0, effect, told };
        let run = move || state.run(&queue, &every);
        let thread = std::thread::Builder::new().name("steadfast-writer".into()).spawn(run).ok();
        Ok(Self { jobs: Some(jobs), thread, waiting })
    }

    /// Hands a job over; waits only while the queue is full.
    pub(crate) fn submit(&self, job: Box<dyn Job>) {
        let Some(jobs) = self.jobs.as_ref().filter(|_| self.thread.is_some()) else {
            return job.tell(Err(StoreError::Closed));
        };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(unsent) = jobs.send(job) {
            unsent.0.tell(Err(StoreError::Closed));
        }
    }

    /// Whether nobody waits for the writer just now.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            // What was handed over is still written; a writer that panicked has told nobody anything false.
            let _ = thread.join();
        }
    }
}

struct State {
    connection: Connection,
    clock: Arc<dyn Clock>,
    name: [u8; 16],
    /// The number of the batch under way; with the name it marks a transaction, so that one whose COMMIT failed can
    /// be looked for.
    batch: i64,
    effect: EffectGuard,
    told: Arc<AtomicUsize>,
}

/// A job of a batch, and why its effect failed if it alone did.
struct Entry {
    job: Box<dyn Job>,
    failed: Option<StoreError>,
}

/// What became of one transaction.
enum Ended {
    Durable,
    /// It is gone, and so is the job at this place, which was told.
    LostBy(usize, StoreError),
    Lost(StoreError),
}

impl State {
    fn run(&mut self, queue: &Receiver<Box<dyn Job>>, every: &Every) {
        let mut due = Instant::now() + every.interval;
        loop {
            let mut batch = match queue.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(job) => vec![job],
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut own = false;
            if Instant::now() >= due {
                due = Instant::now() + every.interval;
                let job = (every.make)();
                own = job.is_some();
                batch.extend(job);
            }
            while batch.len() < BATCH
                && let Ok(job) = queue.try_recv()
            {
                batch.push(job);
            }
            let (taken, own) = (batch.len(), usize::from(own));
            if taken > 0 {
                self.commit(batch);
                self.told.fetch_sub(taken - own, Ordering::Relaxed);
            }
        }
    }

    fn commit(&mut self, batch: Vec<Box<dyn Job>>) {
        let mut batch: Vec<Entry> = batch.into_iter().map(|job| Entry { job, failed: None }).collect();
        let mut retries = RETRIES;
        while !batch.is_empty() {
            self.batch += 1;
            match self.transaction(&mut batch) {
                Ended::Durable => {
                    return batch.into_iter().for_each(|entry| {
                        entry.job.tell(entry.failed.map_or(Ok(()), Err));
                    });
                }
                Ended::LostBy(place, why) => batch.remove(place).job.tell(Err(why)),
                Ended::Lost(_) if retries > 0 => retries -= 1,
                Ended::Lost(why) => {
                    return batch.into_iter().for_each(|entry| entry.job.tell(Err(why.clone())));
                }
            }
        }
    }

    fn transaction(&mut self, batch: &mut [Entry]) -> Ended {
        match self.work(batch) {
            Ok(None) => {}
            Ok(Some((place, why))) => {
                self.abandon();
                return Ended::LostBy(place, why);
            }
            Err(error) => {
                self.abandon();
                return Ended::Lost(error.into());
            }
        }
        match self.statement("COMMIT") {
            Ok(()) => Ended::Durable,
            Err(error) => {
                // The log may have the transaction although we were told of a failure: look before telling anyone.
                self.abandon();
                match self.is_durable() {
                    Ok(true) => Ended::Durable,
                    Ok(false) => Ended::Lost(error.into()),
                    Err(unreadable) => Ended::Lost(unreadable.into()),
                }
            }
        }
    }

    /// Runs all jobs in one open transaction; a job that lost it is named.
    fn work(&mut self, batch: &mut [Entry]) -> rusqlite::Result<Option<(usize, StoreError)>> {
        self.statement("BEGIN IMMEDIATE")?;
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO steadfast_batch VALUES (?1, ?2)")?
            .execute((self.name, self.batch))?;
        let now = self.clock.stamp();
        for (place, entry) in batch.iter_mut().enumerate() {
            let lost = if entry.job.is_effect() {
                self.run_effect(entry, now)?
            } else {
                entry.job.run(&self.connection, now);
                self.connection.is_autocommit().then(|| StoreError::Failed("the transaction was lost".into()))
            };
            if let Some(why) = lost {
                return Ok(Some((place, why)));
            }
        }
        Ok(None)
    }

    /// Runs an author's code in a savepoint of its own. A panic, or too long a time, undoes it alone; if it took the
    /// whole transaction with it, as an interrupted write does in SQLite, the answer says why.
    fn run_effect(&self, entry: &mut Entry, now: Stamp) -> rusqlite::Result<Option<StoreError>> {
        self.statement("SAVEPOINT job")?;
        self.effect.begin();
        let turn = catch_unwind(AssertUnwindSafe(|| entry.job.run(&self.connection, now)));
        let in_time = self.effect.end();
        // The panic was reported by the panic hook; its message may hold data and goes nowhere else.
        entry.failed = match turn {
            Err(_) => Some(StoreError::Panicked),
            Ok(_) if !in_time => Some(StoreError::Interrupted),
            Ok(_) => None,
        };
        if self.connection.is_autocommit() {
            let lost = || StoreError::Failed("the transaction was lost".into());
            return Ok(Some(entry.failed.take().unwrap_or_else(lost)));
        }
        match (&entry.failed, turn) {
            (None, Ok(Turn::Keep)) => {}
            (None, Ok(Turn::Undo) | Err(_)) | (Some(_), _) => self.statement("ROLLBACK TO job")?,
        }
        self.statement("RELEASE job")?;
        Ok(None)
    }

    fn statement(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn abandon(&self) {
        if !self.connection.is_autocommit() {
            // If even this fails, the next BEGIN does and says why.
            let _ = self.statement("ROLLBACK");
        }
    }

    fn is_durable(&self) -> rusqlite::Result<bool> {
        let number: Option<i64> = self
            .connection
            .prepare_cached("SELECT number FROM steadfast_batch WHERE writer = ?1")?
            .query_row([self.name], |row| row.get(0))
            .optional()?;
        Ok(number == Some(self.batch))
    }
}

/// Bounds an effect: its time, and what its SQL may do.
#[derive(Clone)]
struct EffectGuard {
    origin: Instant,
    /// When the running effect must be over, in nanoseconds after the origin; 0 while none runs.
    until_nanos: Arc<AtomicU64>,
}

impl EffectGuard {
    /// The hooks are set once: setting them anew would make SQLite prepare every statement again.
    fn install(connection: &mut Connection) -> rusqlite::Result<Self> {
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

    fn begin(&self) {
        let until = (self.origin.elapsed() + EFFECT_LIMIT).as_nanos();
        self.until_nanos.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the effect ended in time.
    fn end(&self) -> bool {
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
    /// What SQLite says; statements that begin, end or nest transactions are not authorized.
    pub fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.within()?;
        self.connection.prepare_cached(sql)?.execute(params)
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
        self.within()?;
        self.connection.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// After an interrupt the transaction is gone, and a statement would commit on its own.
    fn within(&self) -> rusqlite::Result<()> {
        if self.connection.is_autocommit() {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        Ok(())
    }
}
