//! Durable tasks: created before their handle is given out, and there after every restart (G14, TSK-13).

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use steadfast_core::task::{Effect, Input, Task, TaskError, TaskOwner};
use steadfast_core::time::Wall;

use crate::file::File;
use crate::sqlite::StoreError;

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
            write(connection, &named, &task)?;
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
        let (id, caller) = (id.to_owned(), caller.clone());
        self.file.change(move |connection, now| {
            let Some(mut task) = read(connection, &id)?.filter(|task| task.belongs_to(&caller)) else {
                return Ok(Err(TaskFailure::NotFound));
            };
            match task.handle(now.wall, input.clone()) {
                Ok(effect) => {
                    write(connection, &id, &task)?;
                    Ok(Ok((effect, task)))
                }
                Err(refused) => Ok(Err(refused.into())),
            }
        })?
    }

    /// Deletes the tasks whose retention is over; says how many.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn purge(&self) -> Result<usize, TaskFailure> {
        Ok(self.file.change(|connection, now| {
            let expired = expired(connection, now.wall)?;
            for id in &expired {
                connection.prepare_cached("DELETE FROM steadfast_task WHERE id = ?1")?.execute([id])?;
            }
            Ok(expired.len())
        })?)
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

fn write(connection: &Connection, id: &str, task: &Task<String>) -> rusqlite::Result<()> {
    let state = serde_json::to_string(task)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO steadfast_task VALUES (?1, ?2)")?
        .execute((id, state))
        .map(drop)
}

fn expired(connection: &Connection, now: Wall) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT id, state FROM steadfast_task")?;
    let mut rows = statement.query([])?;
    let mut expired = Vec::new();
    while let Some(row) = rows.next()? {
        if parse(&row.get::<_, String>(1)?)?.is_expired(now) {
            expired.push(row.get(0)?);
        }
    }
    Ok(expired)
}

fn parse(state: &str) -> rusqlite::Result<Task<String>> {
    serde_json::from_str(state).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(error))
    })
}
