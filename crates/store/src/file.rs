//! One open file: the writer, a reader, and the clock that both go by.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use steadfast_core::ledger::Stamp;

use crate::clock::Clock;
use crate::sqlite::{self, Every, Job, OpenError, Reply, StoreError, Turn, Writer};

/// What the ledger and the tasks of one file share.
pub(crate) struct File {
    pub(crate) reader: Mutex<Connection>,
    /// After the reader: fields drop in order, and only a writer that closes last copies the log back into the file.
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<dyn Clock>,
}

impl File {
    /// Opens or creates the file and starts its writer under a name that no other has.
    pub(crate) fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        name: u128,
        every: Every,
    ) -> Result<Self, OpenError> {
        let connection = sqlite::open(path)?;
        let writer = Writer::start(connection, Arc::clone(&clock), name, every)
            .map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })?;
        Ok(Self { writer, reader: Mutex::new(sqlite::open_read_only(path)?), clock })
    }

    /// Reads, on a connection that cannot write.
    pub(crate) fn look<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        Ok(read(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))?)
    }

    /// One transition inside the writer's transaction; waits for it.
    pub(crate) fn change<T, F>(&self, transition: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Stamp) -> rusqlite::Result<T> + Send + 'static,
    {
        self.change_by(0, transition)
    }

    /// As [`Self::change`], for a transition that carries `bytes` of a payload.
    pub(crate) fn change_by<T, F>(&self, bytes: usize, transition: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Stamp) -> rusqlite::Result<T> + Send + 'static,
    {
        wait(|reply| self.writer.submit(Transition::job(transition, bytes, reply)))
    }
}

/// Waits for what a callback is told. One that is dropped untold was dropped by a writer that ended.
pub(crate) fn wait<T, E>(start: impl FnOnce(Box<dyn FnOnce(Result<T, E>) + Send>)) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (told, outcome) = sync_channel(1);
    start(Box::new(move |news| {
        // Who waits is below, so the channel is open.
        let _ = told.send(news);
    }));
    outcome.recv().unwrap_or_else(|_| Err(StoreError::Closed.into()))
}

/// One transition as a job.
pub(crate) struct Transition<T, F> {
    transition: F,
    bytes: usize,
    outcome: Option<rusqlite::Result<T>>,
    reply: Reply<T>,
}

impl<T, F> Transition<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection, Stamp) -> rusqlite::Result<T> + Send + 'static,
{
    /// `bytes` of an answer that the transition carries.
    pub(crate) fn job(transition: F, bytes: usize, reply: Reply<T>) -> Box<dyn Job> {
        Box::new(Self { transition, bytes, outcome: None, reply })
    }
}

impl<T, F> Job for Transition<T, F>
where
    T: Send,
    F: FnMut(&Connection, Stamp) -> rusqlite::Result<T> + Send,
{
    fn is_effect(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, connection: &Connection, now: Stamp) -> Turn {
        self.outcome = Some((self.transition)(connection, now));
        Turn::Keep
    }

    fn tell(self: Box<Self>, stored: Result<(), StoreError>) {
        let Self { outcome, reply, .. } = *self;
        let outcome = outcome.map_or(Err(StoreError::Closed), |outcome| outcome.map_err(StoreError::from));
        reply(stored.and(outcome));
    }
}
