//! The durable ledger: one key, one effect, however many attempts, connections, processes and restarts (G7).

mod jobs;
mod rows;
mod view;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use steadfast_core::fingerprint::{Fingerprint, Key, Scope, Secret};
use steadfast_core::ijson::{Document, Fault};
use steadfast_core::ledger::{
    Claim, Enforcement, LEASE, NotUnknown, Owner, RENEW_EVERY, Record, Resolution, SettleError, Settlement,
    Verdict,
};

use crate::clock::{Clock, SystemClock};
use crate::file::{File, Transition, wait};
use crate::sqlite::{self, Effect, Every, Job, OpenError, Reply, StoreError, Writer};
use crate::tasks::{Holds, Tasks};
use jobs::{Done, ExecutionJob, Held, without_running};
pub use rows::Line;
pub use view::LedgerView;

/// A stored answer: the upstream's own bytes, and the protocol version they are written in (ruling 16). Its `Debug`
/// says how many.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The protocol version, such as `2026-07-28`.
    pub version: String,
    /// The JSON text of the result.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({:?}, {} bytes)", self.version, self.bytes.len())
    }
}

/// How a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// Where time comes from; a test moves one by hand.
    pub clock: Arc<dyn Clock>,
    /// How long the worker of a task is taken for alive after its last sign of life (ruling 10). It is renewed at least
    /// three times as often.
    pub task_lease: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock::new()), task_lease: LEASE }
    }
}

/// One business intent: whose key it is, and what the key is bound to.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Whose key.
    pub scope: Scope,
    /// Which intent.
    pub key: Key,
    /// The operation's own name, as the server knows it.
    pub operation: String,
    /// Operation and arguments, see [`Ledger::fingerprint`].
    pub fingerprint: Fingerprint,
}

/// One execution of a tool's effect.
#[derive(Clone)]
pub struct Execution<'a> {
    /// Whose key it is.
    pub scope: Scope,
    /// Which business intent; without one the same call twice runs twice.
    pub key: Option<Key>,
    /// The operation's own name.
    pub operation: &'a str,
    /// The JSON text of the arguments, without the member that carries the key. Empty means `{}`.
    pub arguments: &'a [u8],
}

impl fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("scope", &self.scope)
            .field("key", &self.key)
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

/// What an execution gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Executed {
    /// The answer, rebuilt from stored bytes where there is a key: a fresh copy for every caller (D-13).
    pub answer: Vec<u8>,
    /// Whether an earlier execution gave it.
    pub replayed: bool,
}

impl fmt::Debug for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.replayed { "replayed" } else { "executed" };
        write!(f, "Executed({word}, {} bytes)", self.answer.len())
    }
}

/// An effect's own refusal: its part of the transaction was undone, the key stays free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(
    /// One sentence for the caller.
    pub String,
);

impl From<rusqlite::Error> for Refusal {
    /// A statement that failed inside an effect. SQLite's words name tables and columns, never values.
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("the store refused a statement of this operation: {error}"))
    }
}

/// Why an execution gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The effect itself refused; nothing is stored.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The key is bound to something else (I-08); nothing ran.
    #[error(
        "this idempotency key was used for another operation or other arguments; use a new key for a new intent"
    )]
    Mismatch,
    /// Another attempt under this key executes now; nothing ran here.
    #[error(
        "another attempt under this idempotency key is running; wait for its result and ask again with the same key"
    )]
    Running,
    /// An attempt may have been executed: an earlier one, or this one if its COMMIT failed and the file could not be
    /// read back (G8). It is never run again from here.
    #[error("this operation may have been executed already; reconcile it before you go on")]
    Unknown,
    /// The arguments have no canonical form; nothing ran.
    #[error("the arguments cannot be bound to the idempotency key: {0}")]
    Arguments(#[from] Fault),
    /// Nothing is stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A claim's verdict.
pub type Claimed = Verdict<Answer>;

/// The ledger of one process on one file. Share it by reference or in an `Arc`; dropping it waits for its writer.
///
/// What waits has a twin that ends in `_then` and never does: it calls back once, on the writer's thread or the
/// caller's own, and the callback must only hand over. It is refused when more than the writer takes on waits already.
pub struct Ledger {
    file: Arc<File>,
    secret: Secret,
    owner: Owner,
    held: Held,
    tasks: Tasks,
}

/// Whether to wait while the writer's queue is full ([`Writer::submit`]) or to be refused ([`Writer::offer`]).
type HandOver = fn(&Writer, Box<dyn Job>);

impl Drop for Ledger {
    /// Nobody can settle its claims any more, also where the file stays open for its tasks: their leases run out.
    fn drop(&mut self) {
        self.held.let_all_go();
    }
}

impl Ledger {
    /// Opens or creates a file.
    ///
    /// # Errors
    /// The place or the file could not keep the promises; the error says why and how to mend it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |source| OpenError::Sqlite { path: path.to_owned(), source };
        let name = sqlite::random_u128();
        let held = Held::default();
        let (holds, lease) = (Holds::default(), options.task_lease);
        let renewed = (held.clone(), holds.clone());
        let every = Every {
            interval: RENEW_EVERY.min(lease / 3),
            make: Box::new(move || renewed.0.renewal().into_iter().chain(renewed.1.renewal(lease)).collect()),
        };
        let file = Arc::new(File::open(path, options.clock, name, every)?);
        let secret =
            sqlite::secret(&file.reader.lock().unwrap_or_else(PoisonError::into_inner)).map_err(failed)?;
        let owner = Owner(name);
        let tasks = Tasks::new(Arc::clone(&file), owner, lease, holds);
        Ok(Self { file, secret, owner, held, tasks })
    }

    /// The durable tasks in the same file. They keep it open, and their workers alive, also without this ledger.
    pub fn tasks(&self) -> Tasks {
        self.tasks.clone()
    }

    /// A key of this file for one purpose, the same for every process that opens it: to seal what leaves the process and
    /// comes back. It tells nothing of the file's other secrets.
    pub fn key_for(&self, purpose: &str) -> [u8; 32] {
        self.secret.key_for(purpose)
    }

    /// What a key is bound to: the operation's own name and its canonical arguments, under this file's secret.
    pub fn fingerprint(&self, operation: &str, arguments: &Document) -> Fingerprint {
        Fingerprint::of(&self.secret, operation, arguments)
    }

    /// Runs an effect at most once under its key: claim, execution count, effect and answer are one durable
    /// transaction (D-12, ruling 12). Without a key it runs each time.
    ///
    /// The effect may run again if its transaction was lost before it was durable; it must do nothing but its SQL, and
    /// it must not call the ledger. Its limit of 1 s interrupts SQL; other work is only found too long afterwards.
    ///
    /// # Errors
    /// Nothing ran, or what ran was undone: the error says which.
    pub fn execute<F>(&self, execution: Execution<'_>, effect: F) -> Result<Executed, ExecuteError>
    where
        F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    {
        wait(|done| self.start(Writer::submit, execution, effect, done))
    }

    /// As [`Self::execute`], without waiting.
    pub fn execute_then<F, D>(&self, execution: Execution<'_>, effect: F, done: D)
    where
        F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static,
        D: FnOnce(Result<Executed, ExecuteError>) + Send + 'static,
    {
        self.start(Writer::offer, execution, effect, Box::new(done));
    }

    fn start<F>(&self, hand_over: HandOver, execution: Execution<'_>, effect: F, done: Done)
    where
        F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    {
        let intent = match self.intent_of(&execution) {
            Ok(intent) => intent,
            Err(fault) => return done(Err(fault.into())),
        };
        if let Some(verdict) = intent.as_ref().and_then(|intent| self.for_ever(intent, Enforcement::Gateway))
        {
            return done(without_running(verdict));
        }
        let operation = execution.operation.to_owned();
        hand_over(
            &self.file.writer,
            Box::new(ExecutionJob::new(intent, operation, self.owner, effect, done)),
        );
    }

    /// Claims a key for an effect that happens elsewhere. A claim of [`Verdict::Run`] is this process's own until it
    /// is settled, and is renewed while this ledger lives.
    ///
    /// # Errors
    /// Nothing is stored, so nothing may be sent (ruling 11).
    pub fn claim(&self, intent: &Intent, enforcement: Enforcement) -> Result<Claimed, StoreError> {
        wait(|done| self.start_claim(Writer::submit, intent, enforcement, done))
    }

    /// As [`Self::claim`], without waiting.
    pub fn claim_then<D>(&self, intent: &Intent, enforcement: Enforcement, done: D)
    where
        D: FnOnce(Result<Claimed, StoreError>) + Send + 'static,
    {
        self.start_claim(Writer::offer, intent, enforcement, Box::new(done));
    }

    fn start_claim(
        &self,
        hand_over: HandOver,
        intent: &Intent,
        enforcement: Enforcement,
        done: Reply<Claimed>,
    ) {
        if let Some(verdict) = self.for_ever(intent, enforcement) {
            return done(Ok(verdict));
        }
        let claim = Claim { fingerprint: intent.fingerprint, owner: self.owner, enforcement };
        let address = intent.scope.address(&intent.key);
        let intent = intent.clone();
        let transition = move |connection: &Connection, now| {
            let row = rows::find(connection, &address)?;
            let (id, mut record) = row.map_or((None, None), |row| (Some(row.id), Some(row.record)));
            let before = record.clone();
            let verdict = Record::claim(&mut record, claim, now);
            match (&verdict, id, record) {
                // Only who runs binds the key.
                (Verdict::Run { .. }, id, Some(record)) => {
                    rows::store(connection, id, &intent, &address, &record)?;
                }
                // A claim that meets a lease that is over says so to all.
                (_, Some(id), Some(record)) if before.as_ref() != Some(&record) => {
                    rows::update(connection, id, &record)?;
                }
                (_, _, Some(_) | None) => {}
            }
            Ok(verdict)
        };
        let held = self.held.clone();
        let done = Box::new(move |verdict| {
            if let Ok(Verdict::Run { epoch, .. }) = verdict {
                held.hold(address, epoch);
            }
            done(verdict);
        });
        hand_over(&self.file.writer, Transition::job(transition, 0, done));
    }

    /// Ends a claim of this or an earlier process.
    ///
    /// # Errors
    /// The epoch is stale, there is no such claim, or nothing is stored.
    pub fn settle(
        &self,
        scope: &Scope,
        key: &Key,
        epoch: u64,
        settlement: Settlement<Answer>,
    ) -> Result<Result<(), SettleError>, StoreError> {
        wait(|done| self.start_settling(Writer::submit, scope, key, epoch, settlement, done))
    }

    /// As [`Self::settle`], without waiting.
    pub fn settle_then<D>(
        &self,
        scope: &Scope,
        key: &Key,
        epoch: u64,
        settlement: Settlement<Answer>,
        done: D,
    ) where
        D: FnOnce(Result<Result<(), SettleError>, StoreError>) + Send + 'static,
    {
        self.start_settling(Writer::offer, scope, key, epoch, settlement, Box::new(done));
    }

    fn start_settling(
        &self,
        hand_over: HandOver,
        scope: &Scope,
        key: &Key,
        epoch: u64,
        settlement: Settlement<Answer>,
        done: Reply<Result<(), SettleError>>,
    ) {
        let address = scope.address(key);
        // Stored or not, nobody executes under this claim any more: if it is not settled, its lease must run out.
        self.held.let_go(&address, epoch);
        let bytes = match &settlement {
            Settlement::Committed(answer) | Settlement::HeldByTask(answer) => answer.bytes.len(),
            Settlement::Rejected | Settlement::Unknown | Settlement::AwaitingInput => 0,
        };
        let transition = move |connection: &Connection, now| {
            let Some(mut row) = rows::find(connection, &address)? else {
                return Ok(Err(SettleError::Missing));
            };
            let settled = row.record.settle(epoch, settlement.clone(), now);
            if settled.is_ok() {
                rows::update(connection, row.id, &row.record)?;
            }
            Ok(settled)
        };
        hand_over(&self.file.writer, Transition::job(transition, bytes, done));
    }

    /// Settles an unknown record by what was found out; compare-and-set, so of two reconcilers one wins (ruling 10).
    ///
    /// # Errors
    /// The record is not unknown, or nothing is stored.
    pub fn reconcile(
        &self,
        scope: &Scope,
        key: &Key,
        resolution: Resolution<Answer>,
    ) -> Result<Result<(), NotUnknown>, StoreError> {
        let address = scope.address(key);
        self.file.change(move |connection, now| {
            let Some(mut row) = rows::find(connection, &address)? else {
                return Ok(Err(NotUnknown { state: "missing" }));
            };
            let reconciled = row.record.reconcile(resolution.clone(), now);
            if reconciled.is_ok() {
                rows::update(connection, row.id, &row.record)?;
            }
            Ok(reconciled)
        })
    }

    /// Makes a tool author's own tables, next to the ledger's: statements that may run at every start, such as
    /// `CREATE TABLE IF NOT EXISTS`.
    ///
    /// # Errors
    /// What SQLite says; nothing of it stays then.
    pub fn prepare(&self, schema: &'static str) -> Result<(), StoreError> {
        self.file.change(move |connection, _| {
            connection.execute_batch("SAVEPOINT prepare")?;
            let prepared = connection.execute_batch(schema);
            connection.execute_batch(if prepared.is_ok() {
                "RELEASE prepare"
            } else {
                "ROLLBACK TO prepare; RELEASE prepare"
            })?;
            prepared
        })
    }

    /// Reads a tool author's own tables, on a connection that cannot write. All readers of a ledger take turns, so
    /// `read` must not call the ledger.
    ///
    /// # Errors
    /// What SQLite or `read` says.
    pub fn look<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.file.look(read)
    }

    /// Forgets records that were settled for `retention`; what is claimed, awaiting or unknown stays (ruling 15).
    /// Says how many it forgot, at most 10,000 a call.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn purge(&self, retention: Duration) -> Result<usize, StoreError> {
        self.file.change(move |connection, now| rows::purge(connection, retention, now.wall))
    }

    /// The record of a key as a person reads it, its lease judged by now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lookup(&self, scope: &Scope, key: &Key) -> Result<Option<Line>, StoreError> {
        let row = self.file.look(|connection| rows::glance(connection, &scope.address(key)))?;
        Ok(row.map(|row| row.into_line(self.file.clock.stamp())))
    }

    /// The answer of a committed record, and the operation that gave it: how a caller whose response was lost finds
    /// what happened.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn answer(&self, scope: &Scope, key: &Key) -> Result<Option<(String, Answer)>, StoreError> {
        let row = self.file.look(|connection| rows::find(connection, &scope.address(key)))?;
        Ok(row.and_then(rows::Row::into_answer))
    }

    /// The verdict that needs no turn of the writer, since what is committed never changes. A short cut, taken only
    /// while nobody else reads: the writer decides in any case.
    fn for_ever(&self, intent: &Intent, enforcement: Enforcement) -> Option<Claimed> {
        let address = intent.scope.address(&intent.key);
        let reader = match self.file.reader.try_lock() {
            Ok(reader) => reader,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        let row = rows::find(&reader, &address).ok()?.filter(rows::Row::is_committed)?;
        let claim = Claim { fingerprint: intent.fingerprint, owner: self.owner, enforcement };
        Some(Record::claim(&mut Some(row.record), claim, self.file.clock.stamp()))
    }

    fn intent_of(&self, execution: &Execution<'_>) -> Result<Option<Intent>, Fault> {
        let Some(key) = execution.key.clone() else { return Ok(None) };
        let arguments = match execution.arguments {
            [] => Document::empty_object(),
            bytes => Document::parse(bytes)?,
        };
        Ok(Some(Intent {
            scope: execution.scope.clone(),
            key,
            operation: execution.operation.to_owned(),
            fingerprint: self.fingerprint(execution.operation, &arguments),
        }))
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("owner", &self.owner).finish_non_exhaustive()
    }
}
