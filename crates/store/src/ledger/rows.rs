//! Records as rows.

use std::fmt;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use steadfast_core::fingerprint::Fingerprint;
use steadfast_core::ledger::{Owner, Record, Stamp, State};
use steadfast_core::time::{Instant, Wall};

use super::{Answer, Intent};
use crate::clock::rfc_3339;

/// Records forgotten by one call: bounds the transaction that others wait for.
const PURGE_LIMIT: i64 = 10_000;

/// A record as a person reads it. It holds no arguments: they are never stored.
#[derive(Clone, PartialEq, Eq, serde::Serialize)]
pub struct Line {
    /// Whose key.
    pub tenant: String,
    /// Whose key.
    pub principal: String,
    /// Towards which server.
    pub server: String,
    /// The key's text.
    pub key: String,
    /// What the key is bound to, with its arguments.
    pub operation: String,
    /// Where it stands: `claimed`, `awaiting_input`, `held_by_task`, `committed`, `rejected` or `unknown`.
    pub state: &'static str,
    /// How many claims there were.
    pub epoch: u64,
    /// The size of the stored answer, in bytes.
    pub answer_bytes: Option<usize>,
    /// When the key was first claimed, RFC 3339.
    pub claimed_at: String,
    /// When the last attempt ended, RFC 3339.
    pub settled_at: Option<String>,
}

impl fmt::Debug for Line {
    /// Without the key, which is the caller's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({}, {}, epoch {})", self.operation, self.state, self.epoch)
    }
}

/// A record with its place, and whose it is. `R` is its answer, or only the size of it.
pub(super) struct Row<R> {
    pub(super) id: i64,
    tenant: String,
    principal: String,
    server: String,
    key: String,
    operation: String,
    pub(super) record: Record<R>,
}

impl Row<Answer> {
    pub(super) const fn is_committed(&self) -> bool {
        matches!(self.record.state, State::Committed { .. })
    }

    pub(super) fn into_answer(self) -> Option<(String, Answer)> {
        match self.record.state {
            State::Committed { answer } => Some((self.operation, answer)),
            State::Claimed { .. }
            | State::AwaitingInput
            | State::HeldByTask { .. }
            | State::Rejected
            | State::Unknown => None,
        }
    }
}

impl Row<usize> {
    pub(super) fn into_line(mut self, now: Stamp) -> Line {
        self.record.expire(now);
        let answer_bytes = match self.record.state {
            State::Committed { answer: bytes } | State::HeldByTask { handle: bytes } => Some(bytes),
            State::Claimed { .. } | State::AwaitingInput | State::Rejected | State::Unknown => None,
        };
        Line {
            tenant: self.tenant,
            principal: self.principal,
            server: self.server,
            key: self.key,
            operation: self.operation,
            state: self.record.state.as_str(),
            epoch: self.record.epoch,
            answer_bytes,
            claimed_at: rfc_3339(self.record.claimed_at),
            settled_at: self.record.settled_at.map(rfc_3339),
        }
    }
}

/// Reading whole records: one place names the columns.
macro_rules! select {
    ($answer:literal, $which:literal) => {
        concat!(
            "SELECT id, tenant, principal, server, key, operation, fingerprint, state, epoch, doubtful, owner, boot, ",
            "until, claimed_at, settled_at, version, ",
            $answer,
            " AS answer FROM steadfast_record ",
            $which
        )
    };
}

/// The record of one address. The index holds 64 bits of it; the rest is compared.
pub(super) fn find(connection: &Connection, address: &[u8; 32]) -> rusqlite::Result<Option<Row<Answer>>> {
    let sql = select!("answer", "WHERE hash = ?1 AND address = ?2");
    connection.prepare_cached(sql)?.query_row((hash(address), address), |row| read(row, answer)).optional()
}

/// As [`find`], with no more of the answer than its size.
pub(super) fn glance(connection: &Connection, address: &[u8; 32]) -> rusqlite::Result<Option<Row<usize>>> {
    let sql = select!("length(answer)", "WHERE hash = ?1 AND address = ?2");
    connection.prepare_cached(sql)?.query_row((hash(address), address), |row| read(row, size)).optional()
}

/// Hands over all records, or those under one key's text, newest first, until `more` says that it is enough.
pub(super) fn newest_first(
    connection: &Connection,
    key: Option<&str>,
    mut more: impl FnMut(Row<usize>) -> bool,
) -> rusqlite::Result<()> {
    let sql = select!("length(answer)", "WHERE ?1 IS NULL OR key = ?1 ORDER BY id DESC");
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key])?;
    while let Some(row) = rows.next()? {
        if !more(read(row, size)?) {
            break;
        }
    }
    Ok(())
}

/// Writes a record that was claimed anew or made; gives its answer back as it is stored.
pub(super) fn store(
    connection: &Connection,
    id: Option<i64>,
    intent: &Intent,
    address: &[u8; 32],
    record: &Record<Answer>,
) -> rusqlite::Result<Vec<u8>> {
    let columns = Columns::of(record);
    let stored: Option<Vec<u8>> = connection
        .prepare_cached(
            "INSERT INTO steadfast_record (id, hash, address, tenant, principal, server, key, operation,
                 fingerprint, state, epoch, doubtful, owner, boot, until, answer, version, claimed_at, settled_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
             ON CONFLICT (id) DO UPDATE SET operation = ?8, fingerprint = ?9, state = ?10, epoch = ?11,
                 doubtful = ?12, owner = ?13, boot = ?14, until = ?15, answer = ?16, version = ?17, settled_at = ?19
             RETURNING answer",
        )?
        .query_row(
            rusqlite::params![
                id,
                hash(address),
                address,
                intent.scope.tenant,
                intent.scope.principal,
                intent.scope.server,
                intent.key.as_str(),
                intent.operation,
                record.fingerprint.0,
                columns.state,
                signed(record.epoch),
                record.doubtful,
                columns.owner,
                columns.boot,
                columns.until,
                columns.answer,
                columns.version,
                signed(record.claimed_at.as_unix_millis()),
                record.settled_at.map(|wall| signed(wall.as_unix_millis())),
            ],
            |row| row.get(0),
        )?;
    Ok(stored.unwrap_or_default())
}

/// Writes a record that was settled, renewed or reconciled.
pub(super) fn update(connection: &Connection, id: i64, record: &Record<Answer>) -> rusqlite::Result<()> {
    let columns = Columns::of(record);
    connection
        .prepare_cached(
            "UPDATE steadfast_record SET state = ?2, epoch = ?3, doubtful = ?4, owner = ?5, boot = ?6, until = ?7,
                 answer = ?8, version = ?9, settled_at = ?10 WHERE id = ?1",
        )?
        .execute(rusqlite::params![
            id,
            columns.state,
            signed(record.epoch),
            record.doubtful,
            columns.owner,
            columns.boot,
            columns.until,
            columns.answer,
            columns.version,
            record.settled_at.map(|wall| signed(wall.as_unix_millis())),
        ])
        .map(drop)
}

/// Forgets what may be forgotten.
pub(super) fn purge(connection: &Connection, retention: Duration, now: Wall) -> rusqlite::Result<usize> {
    let mut old = Vec::new();
    // The index only narrows the search; the record itself says whether it may go.
    let before =
        now.as_unix_millis().saturating_sub(u64::try_from(retention.as_millis()).unwrap_or(u64::MAX));
    let sql =
        select!("length(answer)", "WHERE state IN (3, 4) AND settled_at <= ?1 ORDER BY settled_at LIMIT ?2");
    {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([signed(before), PURGE_LIMIT])?;
        while let Some(row) = rows.next()? {
            let row = read(row, size)?;
            if row.record.may_be_purged(retention, now) {
                old.push(row.id);
            }
        }
    }
    for id in &old {
        connection.prepare_cached("DELETE FROM steadfast_record WHERE id = ?1")?.execute([id])?;
    }
    Ok(old.len())
}

/// Counts one more execution of an operation; gives its number, the first is 1.
pub(super) fn count(connection: &Connection, operation: &str) -> rusqlite::Result<u64> {
    connection
        .prepare_cached(
            "INSERT INTO steadfast_execution VALUES (?1, 1)
             ON CONFLICT (operation) DO UPDATE SET count = count + 1 RETURNING count",
        )?
        .query_row([operation], |row| row.get(0))
        .map(unsigned)
}

/// How often an operation was executed.
pub(super) fn executions(connection: &Connection, operation: &str) -> rusqlite::Result<u64> {
    let found = connection
        .prepare_cached("SELECT count FROM steadfast_execution WHERE operation = ?1")?
        .query_row([operation], |row| row.get(0))
        .optional()?;
    Ok(found.map_or(0, unsigned))
}

struct Columns<'a> {
    state: i64,
    owner: Option<[u8; 16]>,
    boot: Option<[u8; 16]>,
    until: Option<i64>,
    answer: Option<&'a [u8]>,
    version: Option<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(record: &'a Record<Answer>) -> Self {
        let none = Self { state: 0, owner: None, boot: None, until: None, answer: None, version: None };
        let answered = |state, answer: &'a Answer| Self {
            state,
            answer: Some(&answer.bytes),
            version: Some(&answer.version),
            ..none
        };
        match &record.state {
            State::Claimed { owner, boot, until } => Self {
                state: 0,
                owner: Some(owner.0.to_be_bytes()),
                boot: Some(boot.to_be_bytes()),
                until: Some(signed(until.as_nanos())),
                ..none
            },
            State::AwaitingInput => Self { state: 1, ..none },
            State::HeldByTask { handle } => answered(2, handle),
            State::Committed { answer } => answered(3, answer),
            State::Rejected => Self { state: 4, ..none },
            State::Unknown => Self { state: 5, ..none },
        }
    }
}

fn answer(row: &rusqlite::Row<'_>) -> rusqlite::Result<Answer> {
    Ok(Answer { version: row.get("version")?, bytes: row.get("answer")? })
}

fn size(row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
    row.get("answer").map(|size: u32| size as usize)
}

fn read<R>(
    row: &rusqlite::Row<'_>,
    answer: fn(&rusqlite::Row<'_>) -> rusqlite::Result<R>,
) -> rusqlite::Result<Row<R>> {
    let state = match row.get("state")? {
        0 => State::Claimed {
            owner: Owner(u128::from_be_bytes(row.get("owner")?)),
            boot: u128::from_be_bytes(row.get("boot")?),
            until: Instant::from_nanos(unsigned(row.get("until")?)),
        },
        1 => State::AwaitingInput,
        2 => State::HeldByTask { handle: answer(row)? },
        3 => State::Committed { answer: answer(row)? },
        4 => State::Rejected,
        5 => State::Unknown,
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(8, other)),
    };
    let settled_at: Option<i64> = row.get("settled_at")?;
    Ok(Row {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        principal: row.get("principal")?,
        server: row.get("server")?,
        key: row.get("key")?,
        operation: row.get("operation")?,
        record: Record {
            fingerprint: Fingerprint(row.get("fingerprint")?),
            epoch: unsigned(row.get("epoch")?),
            doubtful: row.get("doubtful")?,
            state,
            claimed_at: Wall::from_unix_millis(unsigned(row.get("claimed_at")?)),
            settled_at: settled_at.map(|millis| Wall::from_unix_millis(unsigned(millis))),
        },
    })
}

/// The 64 bits of an address that the index holds.
fn hash(address: &[u8; 32]) -> i64 {
    i64::from_be_bytes([
        address[0], address[1], address[2], address[3], address[4], address[5], address[6], address[7],
    ])
}

/// SQLite's integers are signed; ours are counts and times far below its largest.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
