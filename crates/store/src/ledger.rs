//! The durable ledger: one key, one effect, however many attempts, connections, processes and restarts (G7).

mod rows;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use steadfast_core::fingerprint::{Fingerprint, Key, Scope, Secret};
use steadfast_core::ijson::{Document, Fault};
use steadfast_core::ledger::{
    Claim, Enforcement, NotUnknown, Owner, RENEW_EVERY, Record, Resolution, SettleError, Settlement, Stamp,
    Verdict,
};

use crate::clock::{Clock, SystemClock};
use crate::file::File;
use crate::sqlite::{self, Effect, Every, Job, OpenError, StoreError, Turn, Writer};
use crate::tasks::Tasks;
pub use rows::Line;

/// A stored answer: the upstream's own bytes, and the protocol version they are written in (ruling 16).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The protocol version, such as `2026-07-28`.
    pub version: String,
    /// The JSON text of the result.
    pub bytes: Vec<u8>,
}

/// How a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// Where time comes from; a test moves one by hand.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock::new()) }
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
#[derive(Clone, Debug)]
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

/// What an execution gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The answer, rebuilt from stored bytes where there is a key: a fresh copy for every caller (D-13).
    pub answer: Vec<u8>,
    /// Whether an earlier execution gave it.
    pub replayed: bool,
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
    /// An earlier attempt may have been executed; nothing ran here (G8).
    #[error(
        "an earlier attempt under this idempotency key may have been executed; reconcile it before you go on"
    )]
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
pub struct Ledger {
    file: Arc<File>,
    secret: Secret,
    owner: Owner,
    /// The claims that this process holds, by address: their leases are renewed (ruling 10).
    held: Held,
}

type Held = Arc<Mutex<BTreeMap<[u8; 32], u64>>>;

impl Ledger {
    /// Opens or creates a file.
    ///
    /// # Errors
    /// The place or the file could not keep the promises; the error says why and how to mend it.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let failed = |source| OpenError::Sqlite { path: path.to_owned(), source };
        let connection = sqlite::open(path)?;
        let secret = sqlite::secret(&connection).map_err(failed)?;
        let name = sqlite::random_u128();
        let held = Held::default();
        let renewed = Arc::clone(&held);
        let renew = move || -> Option<Box<dyn Job>> {
            let held = lock(&renewed).clone();
            if held.is_empty() { None } else { Some(Box::new(Renewal(held))) }
        };
        let every = Every { interval: RENEW_EVERY, make: Box::new(renew) };
        let file = Arc::new(File {
            writer: Writer::start(connection, Arc::clone(&options.clock), name, every).map_err(failed)?,
            reader: Mutex::new(sqlite::open_read_only(path)?),
            clock: options.clock,
        });
        Ok(Self { file, secret, owner: Owner(name), held })
    }

    /// The durable tasks in the same file.
    pub fn tasks(&self) -> Tasks {
        Tasks::new(Arc::clone(&self.file))
    }

    /// What a key is bound to: the operation's own name and its canonical arguments, under this file's secret.
    pub fn fingerprint(&self, operation: &str, arguments: &Document) -> Fingerprint {
        Fingerprint::of(&self.secret, operation, arguments)
    }

    /// Runs an effect at most once under its key: claim, execution count, effect and answer are one durable
    /// transaction (D-12, ruling 12). Without a key it runs each time.
    ///
    /// The effect may run again if its transaction was lost before it was durable; it must do nothing but its SQL.
    ///
    /// # Errors
    /// Nothing ran, or what ran was undone: the error says which.
    pub fn execute<F>(&self, execution: Execution<'_>, effect: F) -> Result<Executed, ExecuteError>
    where
        F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    {
        let (reply, answer) = sync_channel(1);
        self.execute_then(execution, effect, move |executed| {
            // A caller that left does not need to know.
            let _ = reply.send(executed);
        });
        answer.recv().unwrap_or(Err(StoreError::Closed.into()))
    }

    /// As [`Self::execute`], without waiting: `done` is called once, on the writer's thread or this one, and must
    /// only hand over.
    pub fn execute_then<F, D>(&self, execution: Execution<'_>, effect: F, done: D)
    where
        F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send + 'static,
        D: FnOnce(Result<Executed, ExecuteError>) + Send + 'static,
    {
        let intent = match self.intent_of(&execution) {
            Ok(intent) => intent,
            Err(fault) => return done(Err(fault.into())),
        };
        if let Some(verdict) = intent.as_ref().and_then(|intent| self.replay(intent)) {
            return done(verdict);
        }
        self.file.writer.submit(Box::new(ExecutionJob {
            intent,
            operation: execution.operation.to_owned(),
            owner: self.owner,
            effect,
            outcome: None,
            done: Box::new(done),
        }));
    }

    /// Claims a key for an effect that happens elsewhere. A claim of [`Verdict::Run`] is this process's own until it
    /// is settled, and is renewed while this ledger lives.
    ///
    /// # Errors
    /// Nothing is stored, so nothing may be sent (ruling 11).
    pub fn claim(&self, intent: &Intent, enforcement: Enforcement) -> Result<Claimed, StoreError> {
        let claim = Claim { fingerprint: intent.fingerprint, owner: self.owner, enforcement };
        let committed = self.read(&intent.scope, &intent.key)?.filter(|row| row.is_committed());
        if let Some(row) = committed {
            // What is committed never changes, so reading it needs no turn of the writer.
            let mut record = Some(row.record);
            return Ok(Record::claim(&mut record, claim, self.file.clock.stamp()));
        }
        let address = intent.scope.address(&intent.key);
        let claimed = intent.clone();
        let verdict = self.file.change(move |connection, now| {
            let row = rows::find(connection, &address)?;
            let (id, mut record) = row.map_or((None, None), |row| (Some(row.id), Some(row.record)));
            let before = record.clone();
            let verdict = Record::claim(&mut record, claim, now);
            if let Some(record) = record.filter(|record| before.as_ref() != Some(record)) {
                rows::store(connection, id, &claimed, &address, &record)?;
            }
            Ok(verdict)
        })?;
        if let Verdict::Run { epoch, .. } = verdict {
            lock(&self.held).insert(address, epoch);
        }
        Ok(verdict)
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
        let address = scope.address(key);
        // Stored or not, nobody executes any more: a lease that is not settled must run out.
        lock(&self.held).remove(&address);
        self.file.change(move |connection, now| {
            let Some(mut row) = rows::find(connection, &address)? else {
                return Ok(Err(SettleError::Missing));
            };
            let settled = row.record.settle(epoch, settlement.clone(), now);
            if settled.is_ok() {
                rows::update(connection, row.id, &row.record)?;
            }
            Ok(settled)
        })
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

    /// Reads a tool author's own tables, on a connection that cannot write.
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
        Ok(self.read(scope, key)?.map(|row| row.into_line(self.file.clock.stamp())))
    }

    /// The answer of a committed record, and the operation that gave it: how a caller whose response was lost finds
    /// what happened.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn answer(&self, scope: &Scope, key: &Key) -> Result<Option<(String, Answer)>, StoreError> {
        Ok(self.read(scope, key)?.and_then(rows::Row::into_answer))
    }

    fn read(&self, scope: &Scope, key: &Key) -> Result<Option<rows::Row>, StoreError> {
        self.file.look(|connection| rows::find(connection, &scope.address(key)))
    }

    /// The verdict that needs no turn of the writer: a committed record is for ever. A short cut, taken while nobody
    /// waits for the writer; where many do, they share its commits, and it decides in any case.
    fn replay(&self, intent: &Intent) -> Option<Result<Executed, ExecuteError>> {
        if !self.file.writer.is_idle() {
            return None;
        }
        let row = self.read(&intent.scope, &intent.key).ok()?.filter(rows::Row::is_committed)?;
        let claim =
            Claim { fingerprint: intent.fingerprint, owner: self.owner, enforcement: Enforcement::Gateway };
        let verdict = Record::claim(&mut Some(row.record), claim, self.file.clock.stamp());
        Some(without_running(verdict))
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

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("owner", &self.owner).finish_non_exhaustive()
    }
}

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
        let now = self.clock.stamp();
        let mut lines = Vec::new();
        rows::newest_first(&self.connection, |row| {
            let line = row.into_line(now);
            if state.is_none_or(|state| state == line.state) {
                lines.push(line);
            }
            lines.len() < limit
        })?;
        Ok(lines)
    }

    /// All records under a key's text, whatever their scope.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn show(&self, key: &str) -> Result<Vec<Line>, StoreError> {
        let now = self.clock.stamp();
        let mut lines = Vec::new();
        rows::newest_first(&self.connection, |row| {
            let line = row.into_line(now);
            if line.key == key {
                lines.push(line);
            }
            true
        })?;
        Ok(lines)
    }

    /// How often an operation has been executed on this store.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn executions(&self, operation: &str) -> Result<u64, StoreError> {
        Ok(rows::executions(&self.connection, operation)?)
    }
}

impl std::fmt::Debug for LedgerView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerView").finish_non_exhaustive()
    }
}

/// What a verdict other than to run means for an effect.
fn without_running(verdict: Claimed) -> Result<Executed, ExecuteError> {
    match verdict {
        Verdict::Replay(answer) => Ok(Executed { answer: answer.bytes, replayed: true }),
        Verdict::Mismatch => Err(ExecuteError::Mismatch),
        Verdict::Join | Verdict::JoinTask(_) => Err(ExecuteError::Running),
        Verdict::Unknown | Verdict::Run { .. } => Err(ExecuteError::Unknown),
    }
}

/// Lengthens the leases of the claims that this process holds.
struct Renewal(BTreeMap<[u8; 32], u64>);

impl Job for Renewal {
    fn is_effect(&self) -> bool {
        false
    }

    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn {
        for (address, epoch) in &self.0 {
            if let Ok(Some(mut row)) = rows::find(connection, address)
                && row.record.renew(*epoch, now).is_ok()
            {
                // What cannot be renewed now is tried again with the next round, well before the lease is over.
                let _ = rows::update(connection, row.id, &row.record);
            }
        }
        Turn::Keep
    }

    fn tell(self: Box<Self>, _: Result<(), StoreError>) {}
}

struct ExecutionJob<F> {
    intent: Option<Intent>,
    operation: String,
    owner: Owner,
    effect: F,
    outcome: Option<Result<Executed, ExecuteError>>,
    done: Box<dyn FnOnce(Result<Executed, ExecuteError>) + Send>,
}

impl<F> ExecutionJob<F>
where
    F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal>,
{
    fn execute(&mut self, connection: &Connection, now: Stamp) -> Result<Executed, ExecuteError> {
        let store = |error: rusqlite::Error| ExecuteError::Store(error.into());
        let Some(intent) = &self.intent else {
            let execution = rows::count(connection, &self.operation).map_err(store)?;
            let answer = (self.effect)(&Effect::new(connection, execution, now))?;
            return Ok(Executed { answer, replayed: false });
        };
        let address = intent.scope.address(&intent.key);
        let row = rows::find(connection, &address).map_err(store)?;
        let (id, mut record) = row.map_or((None, None), |row| (Some(row.id), Some(row.record)));
        let claim =
            Claim { fingerprint: intent.fingerprint, owner: self.owner, enforcement: Enforcement::Gateway };
        let verdict = Record::claim(&mut record, claim, now);
        let (Verdict::Run { epoch, .. }, Some(mut record)) = (verdict.clone(), record) else {
            return without_running(verdict);
        };
        let execution = rows::count(connection, &self.operation).map_err(store)?;
        let bytes = (self.effect)(&Effect::new(connection, execution, now))?;
        // A local effect has no protocol version: its answer is the author's own.
        let answer = Answer { version: String::new(), bytes };
        record
            .settle(epoch, Settlement::Committed(answer), now)
            .map_err(|_| StoreError::Damaged("a claim cannot be settled"))?;
        let answer = rows::store(connection, id, intent, &address, &record).map_err(store)?;
        Ok(Executed { answer, replayed: false })
    }
}

impl<F> Job for ExecutionJob<F>
where
    F: FnMut(&Effect<'_>) -> Result<Vec<u8>, Refusal> + Send,
{
    fn is_effect(&self) -> bool {
        true
    }

    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn {
        let outcome = self.execute(connection, now);
        let turn = if outcome.is_ok() { Turn::Keep } else { Turn::Undo };
        self.outcome = Some(outcome);
        turn
    }

    fn tell(self: Box<Self>, stored: Result<(), StoreError>) {
        let outcome = match stored {
            Ok(()) => self.outcome.unwrap_or(Err(ExecuteError::Store(StoreError::Closed))),
            Err(error) => Err(error.into()),
        };
        (self.done)(outcome);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
