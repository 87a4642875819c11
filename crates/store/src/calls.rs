//! The log of calls: what is remembered of each attempt once its process is gone (G15). What a record says is its
//! writer's own; here it is a text under its call's id.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, mem};

use rusqlite::Connection;

use crate::clock::SystemClock;
use crate::file::{File, Transition, wait};
use crate::sqlite::{self, Every, Job, OpenError, Reply, StoreError};

/// How long a record waits for others to be stored with: a process that is killed loses no more (ruling 11).
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Records that may wait; what is beyond them is dropped, oldest first.
const WAITING: usize = 4_096;

/// A bounded log that never holds up who writes to it. Dropping it stores what waits.
pub struct CallLog {
    file: File,
    waiting: Arc<Waiting>,
}

struct Waiting {
    records: Mutex<VecDeque<(String, String)>>,
    /// Why records were lost, if some were.
    lost: Mutex<Option<StoreError>>,
    kept: u32,
}

impl CallLog {
    /// Opens or creates a file, which may be that of a ledger, and keeps the newest `kept` records in it.
    ///
    /// # Errors
    /// The file cannot be used; the error says why and how to mend it.
    pub fn open(path: impl AsRef<Path>, kept: u32) -> Result<Self, OpenError> {
        let waiting = Arc::new(Waiting { records: Mutex::default(), lost: Mutex::default(), kept });
        let due = Arc::clone(&waiting);
        let make = move || {
            let told = Arc::clone(&due);
            let heard = move |stored: Result<(), StoreError>| {
                if let Err(why) = stored {
                    told.lose(why);
                }
            };
            let any = !lock(&due.records).is_empty();
            any.then(|| due.job(Box::new(heard))).into_iter().collect()
        };
        let every = Every { interval: FLUSH_EVERY, make: Box::new(make) };
        let file = File::open(path.as_ref(), Arc::new(SystemClock::new()), sqlite::random_u128(), every)?;
        Ok(Self { file, waiting })
    }

    /// Leaves a record of a call to be stored, without waiting.
    pub fn append(&self, call: &str, record: String) {
        self.waiting.push(call.to_owned(), record);
    }

    /// Waits until everything so far is stored.
    ///
    /// # Errors
    /// Some of it is not, now or since the last time.
    pub fn flush(&self) -> Result<(), StoreError> {
        // Also where nothing waits: what was taken from there a moment ago is stored before this.
        wait(|reply| self.file.writer.submit(self.waiting.job(reply)))?;
        lock(&self.waiting.lost).take().map_or(Ok(()), Err)
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

impl fmt::Debug for CallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLog").finish_non_exhaustive()
    }
}

impl Waiting {
    fn push(&self, call: String, record: String) {
        let mut records = lock(&self.records);
        if records.len() == WAITING {
            records.pop_front();
            self.lose(StoreError::QueueFull);
        }
        records.push_back((call, record));
    }

    /// Stores what waits.
    fn job(&self, reply: Reply<()>) -> Box<dyn Job> {
        let records = mem::take(&mut *lock(&self.records));
        let bytes = records.iter().map(|(_, record)| record.len()).sum();
        let kept = self.kept;
        Transition::job(move |connection, _| insert(connection, &records, kept), bytes, reply)
    }

    fn lose(&self, why: StoreError) {
        *lock(&self.lost) = Some(why);
    }
}

fn insert(connection: &Connection, records: &VecDeque<(String, String)>, kept: u32) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT INTO steadfast_call (call, record) VALUES (?1, ?2)")?;
    for (call, record) in records {
        insert.execute([call, record])?;
    }
    let surplus = "DELETE FROM steadfast_call WHERE number <= (SELECT max(number) FROM steadfast_call) - ?1";
    connection.prepare_cached(surplus)?.execute([kept]).map(drop)
}

/// A log that is only looked at; the file is not touched.
pub struct CallView(Connection);

impl CallView {
    /// Opens an existing file read-only.
    ///
    /// # Errors
    /// There is no such file, or it is not a store that this version knows.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        sqlite::open_read_only(path.as_ref()).map(Self)
    }

    /// The records of a call, in the order in which they ended.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(&self, call: &str) -> Result<Vec<String>, StoreError> {
        let mut found =
            self.0.prepare("SELECT record FROM steadfast_call WHERE call = ?1 ORDER BY number")?;
        let records = found.query_map([call], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(records)
    }
}

impl fmt::Debug for CallView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallView").finish_non_exhaustive()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g15_records_outlive_their_writer_and_the_oldest_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        assert!(CallView::open(&path).is_err(), "looking creates nothing");
        let log = CallLog::open(&path, 3).unwrap();
        for (call, record) in [("a", "1"), ("b", "2"), ("a", "3")] {
            log.append(call, record.to_owned());
        }
        log.flush().unwrap();
        let view = CallView::open(&path).unwrap();
        assert_eq!(view.of("a").unwrap(), ["1", "3"]);
        // Another process on the same file, and one that says no more than its end.
        let other = CallLog::open(&path, 3).unwrap();
        other.append("c", "4".to_owned());
        drop(other);
        drop(log);
        assert_eq!(view.of("a").unwrap(), ["3"]);
        assert_eq!(
            (view.of("b").unwrap(), view.of("c").unwrap()),
            (vec!["2".to_owned()], vec!["4".to_owned()])
        );
        assert_eq!(view.of("d").unwrap(), [""; 0]);
    }

    #[test]
    fn what_waits_is_bounded_and_a_loss_is_known() {
        let waiting = Waiting { records: Mutex::default(), lost: Mutex::default(), kept: 1 };
        for number in 0..WAITING {
            waiting.push("a".to_owned(), number.to_string());
        }
        assert_eq!(*lock(&waiting.lost), None);
        waiting.push("a".to_owned(), "last".to_owned());
        let records = lock(&waiting.records);
        let ends = [records.front(), records.back()].map(|record| record.map(|(_, text)| text.as_str()));
        assert_eq!((records.len(), ends), (WAITING, [Some("1"), Some("last")]));
        assert_eq!(*lock(&waiting.lost), Some(StoreError::QueueFull));
    }
}
