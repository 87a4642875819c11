//! Tasks as rows.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_core::ledger::{Owner, Stamp};
use steadfast_core::task::{Hold, Task, TaskOwner};
use steadfast_core::time::{Instant, Wall};

use super::{NewTask, TaskFailure};

/// Tasks forgotten by one call: bounds the transaction that others wait for.
const PURGE_LIMIT: i64 = 10_000;
/// Tasks that one call finds for whoever looks after them.
const SWEEP_LIMIT: i64 = 1_000;
/// How long an ended task stays at least, so that who saw it working sees its end.
const KEEP_ENDED: Duration = Duration::from_secs(300);

/// A task, who works on it, and what only its worker is told.
pub(super) struct Row {
    pub(super) task: Task<String>,
    pub(super) hold: Hold,
    pub(super) operation: String,
    pub(super) resume: Option<String>,
    /// Every answer that the task was given, by key: a successor finds those that its predecessor took.
    pub(super) answers: BTreeMap<String, String>,
}

impl Row {
    /// The row, if the task is this caller's.
    pub(super) fn of(&mut self, caller: &TaskOwner) -> Result<&mut Self, TaskFailure> {
        if self.task.belongs_to(caller) { Ok(self) } else { Err(TaskFailure::NotFound) }
    }
}

pub(super) fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<Row>> {
    connection
        .prepare_cached(
            "SELECT state, owner, boot, until, epoch, operation, resume, answers FROM steadfast_task WHERE id = ?1",
        )?
        .query_row([id], |row| {
            let answers: Option<String> = row.get(7)?;
            Ok(Row {
                task: parse(&row.get::<_, String>(0)?)?,
                hold: hold(row, 1)?,
                operation: row.get(5)?,
                resume: row.get(6)?,
                answers: answers.map(|answers| parse(&answers)).transpose()?.unwrap_or_default(),
            })
        })
        .optional()
}

pub(super) fn insert(
    connection: &Connection,
    id: &str,
    new: &NewTask,
    task: &Task<String>,
    hold: &Hold,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO steadfast_task (id, tenant, principal, server, operation, resume, expires_at, state, owner,
                 boot, until, epoch)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(rusqlite::params![
            id,
            new.owner.tenant,
            new.owner.principal,
            new.server,
            new.operation,
            new.resume,
            end_of(task),
            text(task)?,
            hold.owner.0.to_be_bytes(),
            hold.boot.to_be_bytes(),
            signed(hold.until.as_nanos()),
            signed(hold.epoch),
        ])
        .map(drop)
}

/// Writes a task that changed. One that is over has no worker, and what only a worker needs is gone with it.
pub(super) fn update(connection: &Connection, id: &str, row: &Row) -> rusqlite::Result<()> {
    let Row { task, hold, resume, answers, .. } = row;
    let open = !task.status().is_final();
    let answers = (open && !answers.is_empty()).then(|| text(answers)).transpose()?;
    connection
        .prepare_cached(
            "UPDATE steadfast_task SET expires_at = ?2, state = ?3, owner = ?4, boot = ?5, until = ?6, epoch = ?7,
                 resume = ?8, answers = ?9 WHERE id = ?1",
        )?
        .execute(rusqlite::params![
            id,
            end_of(task),
            text(task)?,
            hold.owner.0.to_be_bytes(),
            hold.boot.to_be_bytes(),
            open.then(|| signed(hold.until.as_nanos())),
            signed(hold.epoch),
            resume.as_ref().filter(|_| open),
            answers,
        ])
        .map(drop)
}

/// Lets an unfinished task's hold be lengthened; `false` if there is none any more or it was refused.
pub(super) fn renew(
    connection: &Connection,
    id: &str,
    renew: impl FnOnce(&mut Hold) -> bool,
) -> rusqlite::Result<bool> {
    let found = connection
        .prepare_cached(
            "SELECT owner, boot, until, epoch FROM steadfast_task WHERE id = ?1 AND until IS NOT NULL",
        )?
        .query_row([id], |row| hold(row, 0))
        .optional()?;
    let Some(mut hold) = found else { return Ok(false) };
    if !renew(&mut hold) {
        return Ok(false);
    }
    connection
        .prepare_cached("UPDATE steadfast_task SET until = ?2 WHERE id = ?1")?
        .execute((id, signed(hold.until.as_nanos())))?;
    Ok(true)
}

/// How many unfinished tasks somebody has.
pub(super) fn open_of(connection: &Connection, owner: &TaskOwner) -> rusqlite::Result<u32> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM steadfast_task WHERE tenant = ?1 AND principal = ?2 AND until IS NOT NULL",
        )?
        .query_row((&owner.tenant, &owner.principal), |row| row.get(0))
}

/// A caller's task's place in the order of creation.
pub(super) fn number(connection: &Connection, id: &str, caller: &TaskOwner) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT number FROM steadfast_task WHERE id = ?1 AND tenant = ?2 AND principal = ?3")?
        .query_row((id, &caller.tenant, &caller.principal), |row| row.get(0))
        .optional()
}

pub(super) fn list(
    connection: &Connection,
    caller: &TaskOwner,
    before: i64,
    limit: u32,
) -> rusqlite::Result<Vec<(String, Task<String>)>> {
    let sql = "SELECT id, state FROM steadfast_task WHERE tenant = ?1 AND principal = ?2 AND number < ?3
               ORDER BY number DESC LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, parse(&row.get::<_, String>(1)?)?));
    statement.query_map((&caller.tenant, &caller.principal, before, limit), read)?.collect()
}

/// Unfinished tasks whose lease is over. All unfinished ones are looked at: whether one is over is the clock's to say.
pub(super) fn orphans(connection: &Connection, server: &str, now: Stamp) -> rusqlite::Result<Vec<String>> {
    let sql =
        "SELECT id, owner, boot, until, epoch FROM steadfast_task WHERE until IS NOT NULL AND server = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([server])?;
    let mut orphans = Vec::new();
    while let Some(row) = rows.next()? {
        if hold(row, 1)?.is_over(now) {
            orphans.push(row.get(0)?);
        }
    }
    Ok(orphans)
}

/// Unfinished tasks whose retention is over, with their operations.
pub(super) fn overdue(
    connection: &Connection,
    server: &str,
    now: Wall,
) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT id, operation FROM steadfast_task
               WHERE expires_at <= ?1 AND until IS NOT NULL AND server = ?2 LIMIT ?3";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    connection
        .prepare_cached(sql)?
        .query_map((signed(now.as_unix_millis()), server, SWEEP_LIMIT), read)?
        .collect()
}

pub(super) fn purge(connection: &Connection, now: Wall) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM steadfast_task WHERE number IN (
                 SELECT number FROM steadfast_task WHERE expires_at <= ?1 AND until IS NULL
                 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((signed(now.as_unix_millis()), PURGE_LIMIT))
}

/// When something is due: an unfinished task is failed, one that is over is deleted.
fn end_of(task: &Task<String>) -> Option<i64> {
    let kept = task.updated_at().saturating_add(KEEP_ENDED);
    let end = if task.status().is_final() { task.expires_at()?.max(kept) } else { task.expires_at()? };
    Some(signed(end.as_unix_millis()))
}

/// Owner, boot, until and epoch, from this column on.
fn hold(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Hold> {
    let until: Option<i64> = row.get(first + 2)?;
    Ok(Hold {
        owner: Owner(u128::from_be_bytes(row.get(first)?)),
        boot: u128::from_be_bytes(row.get(first + 1)?),
        until: Instant::from_nanos(until.map_or(0, unsigned)),
        epoch: unsigned(row.get(first + 3)?),
    })
}

fn text<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn parse<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

/// SQLite's integers are signed; what lies beyond them is the end of time.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
