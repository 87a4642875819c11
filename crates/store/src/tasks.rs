//! Durable tasks: created before their handle is given out, and there after every restart (G14, TSK-13).

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use steadfast_core::task::{Effect, Input, Task, TaskError, TaskOwner};
use steadfast_core::time::Wall;

use crate::file::File;
use crate::sqlite::StoreError;

/// Tasks forgotten by one call: bounds the transaction that others wait for.
const PURGE_LIMIT: i64 = 10_000;

/// The tasks of one file. Payloads are JSON texts.
#[derive(Clone)]
pub struct Tasks {
    file: Arc<File>,
}

/// Why nothing happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// Unknown, deleted, or somebody else's: a caller cannot tell which (TSK-46, TSK-52).
    #[error("there is no such task, or it has expired; check the task id")]
    NotFound,
    /// The task refused the input.
    #[error(transparent)]
    Refused(#[from] TaskError),
    /// Nothing is stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Tasks {
    pub(crate) const fn new(file: Arc<File>) -> Self {
        Self { file }
    }

    /// Creates a task and gives its id, which nobody can guess (TSK-51), once a lookup by any process would find it.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn create(
        &self,
        owner: TaskOwner,
        ttl: Option<Duration>,
        poll_interval: Option<Duration>,
    ) -> Result<(String, Task<String>), TaskFailure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|_| StoreError::Failed("the system gave no random bytes for a task id".into()))?;
        let id = format!("tk_{:032x}", u128::from_be_bytes(random));
        let named = id.clone();
        let task = self.file.change(move |connection, now| {
            let task = Task::create(owner.clone(), now.wall, ttl, poll_interval);
            insert(connection, &named, &task)?;
            Ok(task)
        })?;
        Ok((id, task))
    }

    /// The task as it is now.
    ///
    /// # Errors
    /// There is none for this caller, or the file cannot be read.
    pub fn get(&self, id: &str, caller: &TaskOwner) -> Result<Task<String>, TaskFailure> {
        let found = self.file.look(|connection| read(connection, id))?;
        found.filter(|task| task.belongs_to(caller)).ok_or(TaskFailure::NotFound)
    }

    /// A caller's tasks with their ids, newest first, at most `limit`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self, caller: &TaskOwner, limit: u32) -> Result<Vec<(String, Task<String>)>, TaskFailure> {
        Ok(self.file.look(|connection| list(connection, caller, limit))?)
    }

    /// Lets something happen to a task, and says what came of it and how the task is now.
    ///
    /// # Errors
    /// There is none for this caller, it refused, or nothing is stored.
    pub fn handle(
        &self,
        id: &str,
        caller: &TaskOwner,
        input: Input<String>,
    ) -> Result<(Effect<String>, Task<String>), TaskFailure> {
        self.change(id, caller, move |task, now| task.handle(now, input.clone()))
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
        let ((), task) = self.change(id, caller, move |task, now| {
            task.keep_for(now, ttl);
            Ok(())
        })?;
        Ok(task)
    }

    /// Deletes tasks whose retention is over (TSK-23); says how many, at most 10,000 a call.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn purge(&self) -> Result<usize, TaskFailure> {
        Ok(self.file.change(|connection, now| purge(connection, now.wall))?)
    }

    fn change<T, F>(
        &self,
        id: &str,
        caller: &TaskOwner,
        mut change: F,
    ) -> Result<(T, Task<String>), TaskFailure>
    where
        T: Send + 'static,
        F: FnMut(&mut Task<String>, Wall) -> Result<T, TaskError> + Send + 'static,
    {
        let (id, caller) = (id.to_owned(), caller.clone());
        self.file.change(move |connection, now| {
            let Some(mut task) = read(connection, &id)?.filter(|task| task.belongs_to(&caller)) else {
                return Ok(Err(TaskFailure::NotFound));
            };
            match change(&mut task, now.wall) {
                Ok(came) => {
                    update(connection, &id, &task)?;
                    Ok(Ok((came, task)))
                }
                Err(refused) => Ok(Err(refused.into())),
            }
        })?
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

fn read(connection: &Connection, id: &str) -> rusqlite::Result<Option<Task<String>>> {
    let state: Option<String> = connection
        .prepare_cached("SELECT state FROM steadfast_task WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    state.map(|state| parse(&state)).transpose()
}

fn list(
    connection: &Connection,
    caller: &TaskOwner,
    limit: u32,
) -> rusqlite::Result<Vec<(String, Task<String>)>> {
    let sql = "SELECT id, state FROM steadfast_task WHERE tenant = ?1 AND principal = ?2
               ORDER BY number DESC LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, parse(&row.get::<_, String>(1)?)?));
    statement.query_map((&caller.tenant, &caller.principal, limit), read)?.collect()
}

fn insert(connection: &Connection, id: &str, task: &Task<String>) -> rusqlite::Result<()> {
    let owner = task.owner();
    connection
        .prepare_cached(
            "INSERT INTO steadfast_task (id, tenant, principal, expires_at, state) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((id, &owner.tenant, &owner.principal, task.expires_at().map(signed), text(task)?))
        .map(drop)
}

fn update(connection: &Connection, id: &str, task: &Task<String>) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE steadfast_task SET expires_at = ?2, state = ?3 WHERE id = ?1")?
        .execute((id, task.expires_at().map(signed), text(task)?))
        .map(drop)
}

fn purge(connection: &Connection, now: Wall) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM steadfast_task WHERE number IN (
                 SELECT number FROM steadfast_task WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((signed(now), PURGE_LIMIT))
}

fn text(task: &Task<String>) -> rusqlite::Result<String> {
    serde_json::to_string(task).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// SQLite's integers are signed; what lies beyond them is the end of time.
fn signed(wall: Wall) -> i64 {
    i64::try_from(wall.as_unix_millis()).unwrap_or(i64::MAX)
}

fn parse(state: &str) -> rusqlite::Result<Task<String>> {
    serde_json::from_str(state).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(error))
    })
}
