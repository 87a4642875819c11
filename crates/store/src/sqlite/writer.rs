//! The one thread that writes: what waits is committed in one go, and nobody is told before COMMIT (ruling 12).

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension};
use steadfast_core::ledger::Stamp;

use super::effect::EffectGuard;
use crate::clock::Clock;

/// Jobs that may wait for the writer.
const QUEUE: usize = 1_024;
/// Bytes of answers that may wait for the writer where nobody waits with them.
const QUEUE_BYTES: usize = 64 << 20;
/// Jobs of one transaction at most.
const BATCH: usize = 256;
/// No further job begins once its transaction holds so many bytes of answers.
const TRANSACTION_BYTES: usize = 16 << 20;
/// No further job begins once its transaction is so old: another process waits 5 s for the file, and no longer.
const TRANSACTION_LIMIT: Duration = Duration::from_millis(500);

/// Why something is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// More waits for the writer than it takes on, in items or in bytes.
    #[error(
        "the store has as many changes waiting as it takes on, and took no further one; try again shortly"
    )]
    QueueFull,
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
    /// COMMIT failed, and the file cannot be asked whether it has the transaction: the one error after which something
    /// may be stored.
    #[error(
        "the store failed at COMMIT and cannot be read, so the change may or may not be stored; check its disk"
    )]
    Doubtful,
    /// The transaction ended inside this job, and all of it was undone.
    #[error(
        "the store's transaction was lost inside this change, and nothing was stored; use no OR ROLLBACK in an effect, \
         and check the disk"
    )]
    Lost,
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
    /// An effect or a callback waited for the thread that it runs on.
    #[error(
        "an effect or a callback called the ledger that runs it and would wait for itself; call it from outside"
    )]
    Reentrant,
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
    /// How many bytes of an answer it carries: those that it brought, and once it ran those that it wrote.
    fn bytes(&self) -> usize;
    /// Does the work and keeps its outcome.
    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn;
    /// Tells the caller: the outcome is durable, or why it is not.
    fn tell(self: Box<Self>, stored: Result<(), StoreError>);
}

/// How a caller is told: on the writer's thread, so it must only hand over.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// Jobs that come by themselves, made anew each time.
pub(crate) struct Every {
    pub(crate) interval: Duration,
    pub(crate) make: Box<dyn Fn() -> Vec<Box<dyn Job>> + Send>,
}

/// The writer of one process on one file.
pub(crate) struct Writer {
    jobs: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    /// Bytes of the jobs in the queue.
    queued: Arc<AtomicUsize>,
}

impl Writer {
    /// Starts the thread. `every` comes on the same thread: the renewal of leases.
    pub(crate) fn start(
        connection: Connection,
        clock: Arc<dyn Clock>,
        name: u128,
        every: Every,
    ) -> rusqlite::Result<Self> {
        let commit = |connection: &Connection| statement(connection, "COMMIT");
        let mut state = State::new(connection, clock, name, TRANSACTION_LIMIT, Box::new(commit))?;
        state.due = Instant::now() + every.interval;
        state.every = Some(every);
        let queued = Arc::clone(&state.queued);
        let (jobs, queue) = sync_channel(QUEUE);
        let run = move || state.run(&queue);
        let thread = std::thread::Builder::new().name("steadfast-writer".into()).spawn(run).ok();
        Ok(Self { jobs: Some(jobs), thread, queued })
    }

    /// Hands a job over whose caller waits; waits itself while the queue is full. On the writer's own thread that would
    /// be for ever.
    pub(crate) fn submit(&self, job: Box<dyn Job>) {
        let Some(jobs) = self.open() else { return tell(job, Err(StoreError::Closed)) };
        if self.is_own_thread() {
            return tell(job, Err(StoreError::Reentrant));
        }
        self.queued.fetch_add(job.bytes(), Ordering::Relaxed);
        if let Err(unsent) = jobs.send(job) {
            tell(unsent.0, Err(StoreError::Closed));
        }
    }

    /// Hands a job over without ever waiting; tells it at once if the queue is full.
    pub(crate) fn offer(&self, job: Box<dyn Job>) {
        let Some(jobs) = self.open() else { return tell(job, Err(StoreError::Closed)) };
        let bytes = job.bytes();
        let before = self.queued.fetch_add(bytes, Ordering::Relaxed);
        // One alone is taken whatever its size: a message's own limit bounds it.
        let sent = if before > 0 && before.saturating_add(bytes) > QUEUE_BYTES {
            Err(TrySendError::Full(job))
        } else {
            jobs.try_send(job)
        };
        let (job, why) = match sent {
            Ok(()) => return,
            Err(TrySendError::Full(job)) => (job, StoreError::QueueFull),
            Err(TrySendError::Disconnected(job)) => (job, StoreError::Closed),
        };
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
        tell(job, Err(why));
    }

    fn is_own_thread(&self) -> bool {
        let own = std::thread::current().id();
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == own)
    }

    fn open(&self) -> Option<&SyncSender<Box<dyn Job>>> {
        self.jobs.as_ref().filter(|_| self.thread.is_some())
    }
}

impl Drop for Writer {
    /// What was handed over is still written.
    fn drop(&mut self) {
        self.jobs.take();
        // The last owner may be a callback, on the very thread that would be waited for.
        let own = self.is_own_thread();
        if let Some(thread) = self.thread.take().filter(|_| !own) {
            let _ = thread.join();
        }
    }
}

struct State {
    connection: Connection,
    clock: Arc<dyn Clock>,
    name: [u8; 16],
    /// The number of the transaction under way; with the name it marks it, so that one whose COMMIT failed can be
    /// looked for.
    number: i64,
    effect: EffectGuard,
    limit: Duration,
    /// COMMIT; a test makes it fail.
    commit: Commit,
    every: Option<Every>,
    /// When they come next.
    due: Instant,
    queued: Arc<AtomicUsize>,
}

type Commit = Box<dyn FnMut(&Connection) -> rusqlite::Result<()> + Send>;

/// A job that waits, and why its effect failed if it alone did.
struct Entry {
    job: Box<dyn Job>,
    failed: Option<StoreError>,
}

/// What became of one transaction.
enum Ended {
    /// The first so many jobs are durable.
    Durable(usize),
    /// It did not begin, after waiting for another process.
    NotBegun(StoreError),
    /// It is gone, by the doing of the job at this place.
    LostBy(usize, StoreError),
    /// It is gone with its first so many jobs, and nobody can say by whose doing.
    Lost(usize, StoreError),
    /// Nobody can say whether its first so many jobs are stored.
    Doubtful(usize),
}

impl State {
    fn new(
        mut connection: Connection,
        clock: Arc<dyn Clock>,
        name: u128,
        limit: Duration,
        commit: Commit,
    ) -> rusqlite::Result<Self> {
        let effect = EffectGuard::install(&mut connection)?;
        let name = name.to_be_bytes();
        let due = Instant::now();
        let queued = Arc::default();
        Ok(Self { connection, clock, name, number: 0, effect, limit, commit, every: None, due, queued })
    }

    fn run(&mut self, queue: &Receiver<Box<dyn Job>>) {
        loop {
            let mut batch = match queue.recv_timeout(self.due.saturating_duration_since(Instant::now())) {
                Ok(job) => vec![job],
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut bytes: usize = batch.iter().map(|job| job.bytes()).sum();
            while batch.len() < BATCH
                && bytes < TRANSACTION_BYTES
                && let Ok(job) = queue.try_recv()
            {
                bytes += job.bytes();
                batch.push(job);
            }
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.settle(batch);
        }
    }

    /// Runs jobs in as few transactions as it takes, and tells each how it ended.
    fn settle(&mut self, batch: Vec<Box<dyn Job>>) {
        let mut waiting: VecDeque<Entry> = batch.into_iter().map(|job| Entry { job, failed: None }).collect();
        let mut share = waiting.len().max(1);
        loop {
            // Between two transactions, however many jobs wait: their effects may be slow, and a lease must not run out
            // for it.
            for job in self.own_jobs() {
                waiting.push_front(Entry { job, failed: None });
            }
            if waiting.is_empty() {
                return;
            }
            let together = share.min(waiting.len());
            match self.transaction(&mut waiting.make_contiguous()[..together]) {
                Ended::Durable(count) => {
                    for Entry { job, failed } in waiting.drain(..count) {
                        tell(job, failed.map_or(Ok(()), Err));
                    }
                }
                Ended::NotBegun(why) => tell_all(waiting.drain(..), &why),
                Ended::LostBy(place, why) => tell_all(waiting.remove(place), &why),
                // The one that spoiled it is found by running each alone; the others are not to suffer for it.
                Ended::Lost(count, _) if count > 1 => share = 1,
                Ended::Lost(count, why) => tell_all(waiting.drain(..count), &why),
                Ended::Doubtful(count) => tell_all(waiting.drain(..count), &StoreError::Doubtful),
            }
        }
    }

    /// The jobs that come by themselves, if it is time for them.
    fn own_jobs(&mut self) -> Vec<Box<dyn Job>> {
        let Some(every) = self.every.as_ref().filter(|_| Instant::now() >= self.due) else {
            return Vec::new();
        };
        self.due = Instant::now() + every.interval;
        (every.make)()
    }

    fn transaction(&mut self, jobs: &mut [Entry]) -> Ended {
        self.number += 1;
        if let Err(error) = statement(&self.connection, "BEGIN IMMEDIATE") {
            return Ended::NotBegun(error.into());
        }
        let mut count = 0;
        match self.work(jobs, &mut count) {
            Ok(None) => {}
            Ok(Some(why)) => {
                self.abandon();
                return Ended::LostBy(count - 1, why);
            }
            Err(error) => {
                self.abandon();
                return Ended::Lost(count.max(1), error.into());
            }
        }
        match (self.commit)(&self.connection) {
            Ok(()) => Ended::Durable(count),
            // The log could not grow to the commit frame, and nothing follows that frame: a recovery has nothing to
            // bring back. Reading back would need a commit of its own, which a full disk refuses too.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                self.abandon();
                Ended::Lost(count, error.into())
            }
            Err(error) => {
                self.abandon();
                match self.is_durable() {
                    Ok(true) => Ended::Durable(count),
                    Ok(false) => Ended::Lost(count, error.into()),
                    Err(_) => Ended::Doubtful(count),
                }
            }
        }
    }

    /// Runs jobs in the open transaction, while it is young, and counts them; says why if the last of them lost it.
    fn work(&self, jobs: &mut [Entry], count: &mut usize) -> rusqlite::Result<Option<StoreError>> {
        self.mark()?;
        let now = self.clock.stamp();
        let begun = Instant::now();
        let mut bytes = 0;
        for entry in jobs {
            if *count > 0 && (begun.elapsed() >= self.limit || bytes >= TRANSACTION_BYTES) {
                break;
            }
            *count += 1;
            let lost = if entry.job.is_effect() {
                self.run_effect(entry, now)?
            } else {
                entry.job.run(&self.connection, now);
                self.connection.is_autocommit().then_some(StoreError::Lost)
            };
            if lost.is_some() {
                return Ok(lost);
            }
            bytes += entry.job.bytes();
        }
        Ok(None)
    }

    /// Runs an author's code in a savepoint of its own. A panic, or too long a time, undoes it alone; if it took the
    /// whole transaction with it, as an interrupted write does in SQLite, the answer says why.
    fn run_effect(&self, entry: &mut Entry, now: Stamp) -> rusqlite::Result<Option<StoreError>> {
        statement(&self.connection, "SAVEPOINT job")?;
        self.effect.begin();
        let turn = catch_unwind(AssertUnwindSafe(|| entry.job.run(&self.connection, now)));
        let in_time = self.effect.end();
        // The panic was reported by the panic hook; its message may hold data and goes nowhere else.
        let turn = turn.map_err(discard);
        entry.failed = match turn {
            Err(()) => Some(StoreError::Panicked),
            Ok(_) if !in_time => Some(StoreError::Interrupted),
            Ok(_) => None,
        };
        if self.connection.is_autocommit() {
            return Ok(Some(entry.failed.take().unwrap_or(StoreError::Lost)));
        }
        match (&entry.failed, turn) {
            (None, Ok(Turn::Keep)) => {}
            (None, Ok(Turn::Undo) | Err(())) | (Some(_), _) => {
                statement(&self.connection, "ROLLBACK TO job")?;
            }
        }
        statement(&self.connection, "RELEASE job")?;
        Ok(None)
    }

    /// Writes which transaction this is, in the transaction itself.
    fn mark(&self) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO steadfast_batch VALUES (?1, ?2)")?
            .execute((self.name, self.number))
            .map(drop)
    }

    /// Whether the transaction is in the file although its COMMIT was reported as failed.
    ///
    /// Asked inside a transaction that commits: what was only half written to the log is overwritten by it, where
    /// else a crash and the recovery after it could still bring it back.
    fn is_durable(&mut self) -> rusqlite::Result<bool> {
        statement(&self.connection, "BEGIN IMMEDIATE")?;
        let found = self.marked().and_then(|found| self.mark().map(|()| found));
        let settled = found.and_then(|found| (self.commit)(&self.connection).map(|()| found));
        self.abandon();
        Ok(settled? == Some(self.number))
    }

    fn marked(&self) -> rusqlite::Result<Option<i64>> {
        self.connection
            .prepare_cached("SELECT number FROM steadfast_batch WHERE writer = ?1")?
            .query_row([self.name], |row| row.get(0))
            .optional()
    }

    fn abandon(&self) {
        if !self.connection.is_autocommit() {
            // If even this fails, the next BEGIN does and says why.
            let _ = statement(&self.connection, "ROLLBACK");
        }
    }
}

fn statement(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn tell_all(entries: impl IntoIterator<Item = Entry>, why: &StoreError) {
    entries.into_iter().for_each(|entry| tell(entry.job, Err(why.clone())));
}

/// Whoever panics at the news must not keep it from the others.
fn tell(job: Box<dyn Job>, stored: Result<(), StoreError>) {
    let told = catch_unwind(AssertUnwindSafe(|| job.tell(stored)));
    let _ = told.map_err(discard);
}

/// What a panic carried may panic once more when it is dropped.
fn discard(payload: Box<dyn Any + Send>) {
    let again = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    // Whoever does it twice gets no third try.
    let _ = again.map_err(std::mem::forget);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use steadfast_core::time::{Instant, Wall};

    use super::*;

    struct NoClock;

    impl Clock for NoClock {
        fn stamp(&self) -> Stamp {
            Stamp { boot: 1, up: Instant::ZERO, wall: Wall::default() }
        }
    }

    /// Inserts its number, and tells it.
    struct Insert(i64, Sender<(i64, Result<(), StoreError>)>);

    impl Job for Insert {
        fn is_effect(&self) -> bool {
            true
        }

        fn bytes(&self) -> usize {
            0
        }

        fn run(&mut self, connection: &Connection, _: Stamp) -> Turn {
            connection.execute("INSERT INTO t VALUES (?1)", [self.0]).expect("an insert");
            Turn::Keep
        }

        fn tell(self: Box<Self>, stored: Result<(), StoreError>) {
            self.1.send((self.0, stored)).expect("a test");
        }
    }

    /// Lets three jobs be settled under a COMMIT of the test's choice; gives what was told, what is stored, and how
    /// many transactions it took.
    fn settle(
        limit: Duration,
        commit: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) -> (Vec<Result<(), StoreError>>, Vec<i64>, i64) {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t (x);
                 CREATE TABLE steadfast_batch (writer BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;",
            )
            .unwrap();
        let mut state = State::new(connection, Arc::new(NoClock), 7, limit, Box::new(commit)).unwrap();
        let (told, news) = channel();
        state.settle((0..3).map(|number| Box::new(Insert(number, told.clone())) as Box<dyn Job>).collect());
        drop(told);
        let mut news: Vec<_> = news.iter().collect();
        news.sort_by_key(|(number, _)| *number);
        let mut stored = state.connection.prepare("SELECT x FROM t ORDER BY rowid").unwrap();
        let stored = stored.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        (news.into_iter().map(|(_, outcome)| outcome).collect(), stored, state.number)
    }

    fn broken<T>() -> rusqlite::Result<T> {
        Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR), None))
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn what_waits_is_committed_in_one_go_and_an_old_transaction_takes_no_further_job() {
        let commit = |connection: &Connection| statement(connection, "COMMIT");
        let all = vec![Ok(()); 3];
        assert_eq!(settle(LONG, commit), (all.clone(), vec![0, 1, 2], 1));
        assert_eq!(settle(Duration::ZERO, commit), (all, vec![0, 1, 2], 3));
    }

    #[test]
    fn ruling_12_a_commit_that_is_only_reported_as_failed_is_read_back_and_runs_nothing_twice() {
        let mut commits = 0;
        let outcome = settle(LONG, move |connection| {
            commits += 1;
            statement(connection, "COMMIT")?;
            if commits == 1 { broken() } else { Ok(()) }
        });
        assert_eq!(outcome, (vec![Ok(()); 3], vec![0, 1, 2], 1));
    }

    #[test]
    fn ruling_12_a_commit_that_failed_is_run_again_job_by_job() {
        let mut commits = 0;
        let outcome = settle(LONG, move |connection| {
            commits += 1;
            if commits == 1 { broken() } else { statement(connection, "COMMIT") }
        });
        assert_eq!(outcome, (vec![Ok(()); 3], vec![0, 1, 2], 4));
    }

    #[test]
    fn g8_a_commit_that_cannot_be_read_back_is_told_as_doubtful_and_not_repeated() {
        let outcome = settle(LONG, |_| broken());
        assert_eq!(outcome, (vec![Err(StoreError::Doubtful); 3], Vec::new(), 1));
        let mut commits = 0;
        let outcome = settle(LONG, move |connection| {
            commits += 1;
            if commits == 1 {
                statement(connection, "COMMIT")?
            }
            broken()
        });
        assert_eq!(outcome, (vec![Err(StoreError::Doubtful); 3], vec![0, 1, 2], 1));
    }

    #[test]
    fn a_store_that_is_busy_runs_nothing_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE t (x); BEGIN IMMEDIATE").unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        let unreachable = Box::new(|_: &Connection| broken());
        let mut state = State::new(connection, Arc::new(NoClock), 7, LONG, unreachable).unwrap();
        let (told, news) = channel();
        state.settle(vec![Box::new(Insert(0, told.clone())), Box::new(Insert(1, told))]);
        let busy = |number| (number, Err(StoreError::Busy));
        assert_eq!(news.iter().collect::<Vec<_>>(), [busy(0), busy(1)]);
    }
}
