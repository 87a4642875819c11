//! Opening the file, and refusing one that could not keep the promises.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema;

/// How long a statement waits for another process's transaction (ruling 10).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pages in the log before they are copied back: rarer than SQLite's 1,000, see docs/adr/0002-ledger-schema.md.
const CHECKPOINT_PAGES: i64 = 8_000;

/// Why a file cannot be the store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A store that is gone with its process would promise nothing.
    #[error("the store {0:?} is not a file, so it would be lost with this process; give it a path")]
    NotAFile(PathBuf),
    /// Its folder cannot be used.
    #[error("the folder of the store {path:?} cannot be used: {source}; create it and make it writable")]
    Folder {
        /// The store's path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Locks and syncs of network file systems cannot be relied on (ruling 10).
    #[error(
        "the store {path:?} is on a network file system ({kind}), whose locks cannot be relied on; use a local disk"
    )]
    NetworkFileSystem {
        /// The store's path.
        path: PathBuf,
        /// Which one.
        kind: &'static str,
    },
    /// SQLite keeps a log beside each name, so two names of one file know nothing of each other's commits.
    #[error(
        "the store {0:?} is one of several hard links to its file, which would each get a log; keep one name"
    )]
    SeveralNames(PathBuf),
    /// A new store needs a secret for its fingerprints.
    #[error(
        "the system gave no random bytes for the secret of the new store {0:?}; try again once it has booted"
    )]
    NoEntropy(PathBuf),
    /// Written by a newer version.
    #[error(
        "the store {path:?} has schema version {found} and this version knows {known}; use the newer steadfast"
    )]
    Newer {
        /// The store's path.
        path: PathBuf,
        /// The file's schema version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Not a database, damaged, or not writable.
    #[error("the store {path:?} cannot be opened: {source}; check the file and its permissions")]
    Sqlite {
        /// The store's path.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// SQLite did not take a setting that durability rests on.
    #[error(
        "the store {path:?} does not keep {setting} (it says {found:?}), so nothing would be durable; use a local disk"
    )]
    Setting {
        /// The store's path.
        path: PathBuf,
        /// Which one.
        setting: &'static str,
        /// What was read back.
        found: String,
    },
}

/// Opens the file for writing, creates or migrates its schema, and reads back what durability rests on.
pub(crate) fn open(path: &Path) -> Result<Connection, OpenError> {
    check_place(path)?;
    let is_new = !path.exists();
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    let mut connection = Connection::open(path).map_err(sqlite)?;
    if is_new {
        // It will hold results and a secret; SQLite gives its log the same mode.
        let restricted = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
        restricted.map_err(|source| OpenError::Folder { path: path.to_owned(), source })?;
    }
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite)?;
    write_ahead(&connection).map_err(sqlite)?;
    // FULL: a commit is on the disk before it is acknowledged, not only in the log's page cache.
    connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
    for (pragma, setting, expected) in
        [("journal_mode", "journal_mode=WAL", "wal"), ("synchronous", "synchronous=FULL", "2")]
    {
        let found: rusqlite::types::Value =
            connection.pragma_query_value(None, pragma, |row| row.get(0)).map_err(sqlite)?;
        let found = match found {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        if found != expected {
            return Err(OpenError::Setting { path: path.to_owned(), setting, found });
        }
    }
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(sqlite)?;
    connection.set_prepared_statement_cache_capacity(64);
    schema::migrate(&mut connection, path)?;
    Ok(connection)
}

/// Turns the file to write-ahead logging. SQLite needs a new file for itself then and does not wait for it, so of
/// several processes that open one at once all but the first try again.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begun.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

/// Opens the file for looking only: nothing is created, migrated or written.
pub(crate) fn open_read_only(path: &Path) -> Result<Connection, OpenError> {
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite)?;
    schema::check(&connection, path)?;
    Ok(connection)
}

fn check_place(path: &Path) -> Result<(), OpenError> {
    let name = path.to_string_lossy();
    if name.is_empty() || name == ":memory:" || name.starts_with("file:") {
        return Err(OpenError::NotAFile(path.to_owned()));
    }
    if fs::metadata(path).is_ok_and(|file| file.is_file() && file.nlink() > 1) {
        return Err(OpenError::SeveralNames(path.to_owned()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place =
        |source: rustix::io::Errno| OpenError::Folder { path: path.to_owned(), source: source.into() };
    // The file itself if there is one: the name may be a link to another file system.
    let found = rustix::fs::statfs(if path.exists() { path } else { folder }).map_err(place)?;
    match network_file_system(found.f_type as u32) {
        Some(kind) => Err(OpenError::NetworkFileSystem { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

/// The name of a network file system by its magic number (statfs(2)). FUSE is not one: behind it may be a local disk.
const fn network_file_system(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517b => Some("SMB"),
        0xff53_4d42 => Some("CIFS"),
        0xfe53_4d42 => Some("SMB2"),
        0x0102_1997 => Some("9P"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ruling_10_network_file_systems_and_memory_are_refused() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        assert_eq!(network_file_system(0xef53), None);
        for path in ["", ":memory:", "file:x?mode=memory"] {
            assert!(matches!(open(Path::new(path)), Err(OpenError::NotAFile(_))), "{path}");
        }
        assert!(matches!(open(Path::new("/no/such/folder/x.db")), Err(OpenError::Folder { .. })));
    }
}
