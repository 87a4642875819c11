//! Durable tasks: created before their handle is given out, and there after every restart (G14, TSK-13).
//!
//! Two sides change a task. A caller names it, and only its own are found: [`Tasks`]. Its worker holds it, and a worker
//! that lost its hold changes nothing: [`Work`].

mod rows;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use steadfast_core::ledger::{Owner, Stamp};
use steadfast_core::task::{Effect, Hold, HoldError, Input, Task, TaskError, TaskOwner};

use crate::file::File;
use crate::sqlite::StoreError;
pub(crate) use work::Holds;
pub use work::{Seen, Taken, Work};

/// The tasks of one file, as one process sees them. Payloads are JSON texts. Clones are the same tasks.
#[derive(Clone)]
pub struct Tasks {
    file: Arc<File>,
    owner: Owner,
    lease: Duration,
    holds: Holds,
}

/// A task as it is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Who may see it.
    pub owner: TaskOwner,
    /// Which server works on it: only a process of that server looks after it once its worker is gone.
    pub server: String,
    /// What is worked on, such as the tool's name.
    pub operation: String,
    /// What a successor needs to go on, such as the arguments; kept until the task ends. `None` where a successor
    /// could not: then nothing of the call is stored.
    pub resume: Option<String>,
    /// How long it is kept, counted from its creation on the wall clock; `None` for ever.
    pub ttl: Option<Duration>,
    /// How often a caller should ask.
    pub poll_interval: Option<Duration>,
    /// How many unfinished tasks its owner may have, this one included (LEG-117).
    pub max_open: u32,
}

/// Why nothing happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// Unknown, deleted, or somebody else's: a caller cannot tell which (TSK-46, TSK-52).
    #[error("there is no such task, or it has expired; check the task id")]
    NotFound,
    /// LEG-117.
    #[error(
        "{limit} tasks of this caller are unfinished, which is as many as may be; wait for one, or cancel one"
    )]
    TooMany {
        /// How many may be.
        limit: u32,
    },
    /// It had ended before; asked only where an ended task refuses (LEG-112).
    #[error("the task is {0} already; ask for its result instead")]
    Over(
        /// The word for its status.
        &'static str,
    ),
    /// The task refused the input.
    #[error(transparent)]
    Refused(#[from] TaskError),
    /// Its worker is somebody else.
    #[error(transparent)]
    Held(#[from] HoldError),
    /// Nothing is stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for TaskFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Tasks {
    pub(crate) const fn new(file: Arc<File>, owner: Owner, lease: Duration, holds: Holds) -> Self {
        Self { file, owner, lease, holds }
    }

    /// Creates a task under an id that nobody can guess (TSK-51), once a lookup by any process would find it, and makes
    /// this process its worker.
    ///
    /// # Errors
    /// Its owner has too many unfinished ones, or nothing is stored.
    pub fn create(&self, new: NewTask) -> Result<(Work, Task<String>), TaskFailure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|_| StoreError::Failed("the system gave no random bytes for a task id".into()))?;
        let id = format!("tk_{:032x}", u128::from_be_bytes(random));
        let (named, owner, lease) = (id.clone(), self.owner, self.lease);
        let task = self.file.change(move |connection, now| {
            if rows::open_of(connection, &new.owner)? >= new.max_open {
                return Ok(Err(TaskFailure::TooMany { limit: new.max_open }));
            }
            let task = Task::create(new.owner.clone(), now.wall, new.ttl, new.poll_interval);
            rows::insert(connection, &named, &new, &task, &Hold::begin(owner, lease, now))?;
            Ok(Ok(task))
        })??;
        Ok((Work::new(self.clone(), id, 1), task))
    }

    /// The task as it is now.
    ///
    /// # Errors
    /// There is none for this caller, or the file cannot be read.
    pub fn get(&self, id: &str, caller: &TaskOwner) -> Result<Task<String>, TaskFailure> {
        self.find(id)
            .and_then(|task| if task.belongs_to(caller) { Ok(task) } else { Err(TaskFailure::NotFound) })
    }

    /// The task as it is now, whoever's it is: for those who look after tasks, never for a caller (TSK-52).
    ///
    /// # Errors
    /// There is none, or the file cannot be read.
    pub fn find(&self, id: &str) -> Result<Task<String>, TaskFailure> {
        let found = self.file.look(|connection| rows::find(connection, id))?;
        found.map(|row| row.task).ok_or(TaskFailure::NotFound)
    }

    /// A caller's tasks with their ids, newest first, at most `limit`: all, or those that are older than the one named.
    ///
    /// # Errors
    /// The one named is not there, or the file cannot be read.
    pub fn list(
        &self,
        caller: &TaskOwner,
        older_than: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, Task<String>)>, TaskFailure> {
        let before = match older_than {
            None => i64::MAX,
            Some(id) => self
                .file
                .look(|connection| rows::number(connection, id, caller))?
                .ok_or(TaskFailure::NotFound)?,
        };
        Ok(self.file.look(|connection| rows::list(connection, caller, before, limit))?)
    }

    /// `tasks/cancel`: records the intent, which the worker observes or not (D-09). A task that is over is unchanged.
    ///
    /// # Errors
    /// There is none for this caller, or nothing is stored.
    pub fn cancel(&self, id: &str, caller: &TaskOwner) -> Result<Task<String>, TaskFailure> {
        let caller = caller.clone();
        let ((), task) = self.change(id, move |row, now| {
            row.of(&caller)?.task.handle(now.wall, Input::Cancel)?;
            Ok(())
        })?;
        Ok(task)
    }

    /// `tasks/cancel` of 2025-11-25: the task is cancelled before this returns, whatever its worker does (LEG-112).
    ///
    /// # Errors
    /// There is none for this caller, it was over, or nothing is stored.
    pub fn cancel_at_once(&self, id: &str, caller: &TaskOwner) -> Result<Task<String>, TaskFailure> {
        let caller = caller.clone();
        let ((), task) = self.change(id, move |row, now| {
            let task = &mut row.of(&caller)?.task;
            if task.status().is_final() {
                return Err(TaskFailure::Over(task.status().as_str()));
            }
            task.handle(now.wall, Input::Cancel)?;
            task.handle(now.wall, Input::Checkpoint)?;
            Ok(())
        })?;
        Ok(task)
    }

    /// `tasks/update`: closes the open questions among these and keeps their answers for the worker, whichever process
    /// it is in; all others are ignored (TSK-36). Says which keys were closed.
    ///
    /// # Errors
    /// There is none for this caller, or nothing is stored.
    pub fn answer(
        &self,
        id: &str,
        caller: &TaskOwner,
        answers: BTreeMap<String, String>,
    ) -> Result<(Vec<String>, Task<String>), TaskFailure> {
        let (caller, bytes) = (caller.clone(), answers.values().map(String::len).sum());
        self.change_by(bytes, id, move |row, now| {
            let effect = row.of(&caller)?.task.handle(now.wall, Input::Answer(answers.clone()))?;
            let Effect::Answered(taken) = effect else { return Ok(Vec::new()) };
            let keys = taken.iter().map(|(key, _)| key.clone()).collect();
            row.answers.extend(taken);
            Ok(keys)
        })
    }

    /// Promises a longer retention, counted from the task's creation; `None` is for ever, a shorter one is not taken
    /// (AMB-25).
    ///
    /// # Errors
    /// There is none for this caller, or nothing is stored.
    pub fn keep_for(
        &self,
        id: &str,
        caller: &TaskOwner,
        ttl: Option<Duration>,
    ) -> Result<Task<String>, TaskFailure> {
        let caller = caller.clone();
        let ((), task) = self.change(id, move |row, now| {
            row.of(&caller)?.task.keep_for(now.wall, ttl);
            Ok(())
        })?;
        Ok(task)
    }

    /// The unfinished tasks of a server whose worker is gone: its lease is over (ruling 10). Those that this process works
    /// on itself are not among them, also where it slept through their leases.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn orphans(&self, server: &str) -> Result<Vec<String>, TaskFailure> {
        let now = self.file.clock.stamp();
        let mut orphans = self.file.look(|connection| rows::orphans(connection, server, now))?;
        orphans.retain(|id| !self.holds.contain(id));
        Ok(orphans)
    }

    /// Makes this process the worker of a task in the place of one that is gone. Of two that try, one succeeds.
    ///
    /// # Errors
    /// The task is over or not there, its worker may be alive, or nothing is stored.
    pub fn take_over(&self, id: &str) -> Result<Taken, TaskFailure> {
        let (owner, lease) = (self.owner, self.lease);
        let ((epoch, operation, resume, answers), task) = self.change(id, move |row, now| {
            if row.task.status().is_final() {
                return Err(TaskFailure::Over(row.task.status().as_str()));
            }
            row.hold.take_over(owner, lease, now)?;
            Ok((row.hold.epoch, row.operation.clone(), row.resume.clone(), row.answers.clone()))
        })?;
        let work = Work::new(self.clone(), id.to_owned(), epoch);
        Ok(Taken { work, operation, resume, seen: Seen { task, answers } })
    }

    /// The unfinished tasks of a server whose retention is over, each with its operation (TSK-23).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn overdue(&self, server: &str) -> Result<Vec<(String, String)>, TaskFailure> {
        let now = self.file.clock.stamp().wall;
        Ok(self.file.look(|connection| rows::overdue(connection, server, now))?)
    }

    /// Fails a task whose retention is over, also under a worker that lives: what it still does comes late. The task
    /// is kept for a while, so that its owner is told `failed` and not that it never was (F104).
    ///
    /// # Errors
    /// There is none, its retention is not over, or nothing is stored.
    pub fn expire(&self, id: &str, error: String, message: String) -> Result<Task<String>, TaskFailure> {
        let ((), task) = self.change(id, move |row, now| {
            let input = Input::Expire { error: error.clone(), message: message.clone() };
            row.task.handle(now.wall, input)?;
            Ok(())
        })?;
        Ok(task)
    }

    /// Deletes tasks that are over and whose retention is too; says how many, at most 10,000 a call. What ended only a
    /// short while ago stays a while: whoever saw it working is to see its end.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn purge(&self) -> Result<usize, TaskFailure> {
        Ok(self.file.change(|connection, now| rows::purge(connection, now.wall))?)
    }

    /// One transition of one task, in one transaction.
    fn change<T, F>(&self, id: &str, change: F) -> Result<(T, Task<String>), TaskFailure>
    where
        T: Send + 'static,
        F: FnMut(&mut rows::Row, Stamp) -> Result<T, TaskFailure> + Send + 'static,
    {
        self.change_by(0, id, change)
    }

    /// As [`Self::change`], by a payload of so many bytes.
    fn change_by<T, F>(&self, bytes: usize, id: &str, mut change: F) -> Result<(T, Task<String>), TaskFailure>
    where
        T: Send + 'static,
        F: FnMut(&mut rows::Row, Stamp) -> Result<T, TaskFailure> + Send + 'static,
    {
        let id = id.to_owned();
        self.file.change_by(bytes, move |connection: &Connection, now| {
            let Some(mut row) = rows::find(connection, &id)? else { return Ok(Err(TaskFailure::NotFound)) };
            let before = (row.task.updated_at(), row.hold);
            match change(&mut row, now) {
                Ok(came) => {
                    // A worker's look that found nothing costs no page; every change of a task moves its time.
                    if before != (row.task.updated_at(), row.hold) {
                        rows::update(connection, &id, &row)?;
                    }
                    Ok(Ok((came, row.task)))
                }
                Err(refused) => Ok(Err(refused)),
            }
        })?
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for NewTask {
    /// Without what a successor needs, which may be a caller's arguments.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewTask({} of {}, resumable: {})", self.operation, self.server, self.resume.is_some())
    }
}
