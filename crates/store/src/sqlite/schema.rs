//! The tables, their version, and the way from one version to the next.
//!
//! All names begin with `steadfast_`: a tool author's own tables may live in the same file, since that is what lets an
//! effect commit together with its record.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use steadfast_core::fingerprint::Secret;

use super::OpenError;

/// One script a version: from what stands at its place to the next.
const MIGRATIONS: [&str; 3] = [
    // A rowid table appends in the order of time and its index holds 8 bytes a key: see docs/adr/0002-ledger-schema.md.
    "CREATE TABLE steadfast_record (
        id INTEGER PRIMARY KEY,
        hash INTEGER NOT NULL,
        address BLOB NOT NULL,
        tenant TEXT NOT NULL,
        principal TEXT NOT NULL,
        server TEXT NOT NULL,
        key TEXT NOT NULL,
        operation TEXT NOT NULL,
        fingerprint BLOB NOT NULL,
        state INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        doubtful INTEGER NOT NULL,
        owner BLOB,
        boot BLOB,
        until INTEGER,
        answer BLOB,
        version TEXT,
        claimed_at INTEGER NOT NULL,
        settled_at INTEGER
    );
    CREATE INDEX steadfast_record_by_key ON steadfast_record (hash);
    CREATE INDEX steadfast_record_by_end ON steadfast_record (settled_at) WHERE state IN (3, 4);
    -- How often each operation was executed; counted in the effect's own transaction.
    CREATE TABLE steadfast_execution (operation TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
    -- A task's state is one JSON text: only whole tasks are read and written. What it is looked for by stands beside it.
    CREATE TABLE steadfast_task (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        principal TEXT NOT NULL,
        expires_at INTEGER,
        state TEXT NOT NULL
    );
    CREATE INDEX steadfast_task_by_end ON steadfast_task (expires_at) WHERE expires_at IS NOT NULL;
    -- The last batch that each writer committed: how a failed COMMIT is read back.
    CREATE TABLE steadfast_batch (writer BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;",
    // Who works on a task, as it is for claims: `until` is set as long as a task is unfinished. Beside it what only a
    // worker needs, gone with the task's end. A task of before has a worker of no run of this machine: it is gone.
    "ALTER TABLE steadfast_task ADD COLUMN server TEXT NOT NULL DEFAULT '';
    ALTER TABLE steadfast_task ADD COLUMN operation TEXT NOT NULL DEFAULT '';
    ALTER TABLE steadfast_task ADD COLUMN resume TEXT;
    ALTER TABLE steadfast_task ADD COLUMN answers TEXT;
    ALTER TABLE steadfast_task ADD COLUMN owner BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';
    ALTER TABLE steadfast_task ADD COLUMN boot BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';
    ALTER TABLE steadfast_task ADD COLUMN until INTEGER;
    ALTER TABLE steadfast_task ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    UPDATE steadfast_task SET until = 0
        WHERE state ->> '$.status' = 'Working' OR state -> '$.status.InputRequired' IS NOT NULL;
    CREATE INDEX steadfast_task_open ON steadfast_task (tenant, principal) WHERE until IS NOT NULL;
    CREATE INDEX steadfast_task_by_owner ON steadfast_task (tenant, principal);",
    // The log of calls: one row an attempt, as JSON, in the order in which they ended.
    "CREATE TABLE steadfast_call (number INTEGER PRIMARY KEY, call TEXT NOT NULL, record TEXT NOT NULL);
    CREATE INDEX steadfast_call_by_id ON steadfast_call (call);",
];

const CREATE_META: &str =
    "CREATE TABLE IF NOT EXISTS steadfast_meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";

/// The version that this program writes.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Brings the file to [`KNOWN`], or finds it there. Two processes that open a new file at once do it one after the
/// other.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
    transaction.execute(CREATE_META, []).map_err(sqlite)?;
    let found = version(&transaction).map_err(sqlite)?;
    let Some(missing) = usize::try_from(found).ok().and_then(|found| MIGRATIONS.get(found..)) else {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: KNOWN });
    };
    if missing.is_empty() {
        return Ok(());
    }
    for script in missing {
        transaction.execute_batch(script).map_err(sqlite)?;
    }
    transaction
        .execute("INSERT OR REPLACE INTO steadfast_meta VALUES ('version', ?1)", [KNOWN])
        .map_err(sqlite)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|_| OpenError::NoEntropy(path.to_owned()))?;
    transaction
        .execute("INSERT OR IGNORE INTO steadfast_meta VALUES ('secret', ?1)", [secret])
        .map_err(sqlite)?;
    transaction.commit().map_err(sqlite)
}

/// Whether a file that is only looked at has a schema that this program knows.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let found = version(connection).map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })?;
    if found > KNOWN {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: KNOWN });
    }
    Ok(())
}

/// The secret of this file's fingerprints: made once, with the schema.
pub(crate) fn secret(connection: &Connection) -> rusqlite::Result<Secret> {
    connection
        .query_row("SELECT value FROM steadfast_meta WHERE name = 'secret'", [], |row| row.get(0).map(Secret))
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    let found = connection
        .query_row("SELECT value FROM steadfast_meta WHERE name = 'version'", [], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_the_first_version_are_kept_and_the_unfinished_among_them_have_no_living_worker() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&format!("{CREATE_META}; {}", MIGRATIONS[0])).unwrap();
        connection.execute("INSERT INTO steadfast_meta VALUES ('version', 1)", []).unwrap();
        let statuses = [
            r#""Working""#,
            r#"{"InputRequired":{"open":{"a":"{}"}}}"#,
            r#"{"Completed":{"result":"Working"}}"#,
            r#"{"Failed":{"error":"{}"}}"#,
            r#""Cancelled""#,
        ];
        for (id, status) in statuses.iter().enumerate() {
            connection
                .execute(
                    "INSERT INTO steadfast_task (id, tenant, principal, state) VALUES (?1, 't', 'p', ?2)",
                    (id.to_string(), format!(r#"{{"owner":"Working","status":{status}}}"#)),
                )
                .unwrap();
        }
        migrate(&mut connection, Path::new("x")).unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        let mut open =
            connection.prepare("SELECT id FROM steadfast_task WHERE until = 0 ORDER BY id").unwrap();
        let open: Vec<String> = open.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(open, ["0", "1"]);
        assert_eq!(version(&connection).unwrap(), KNOWN);
    }
}
