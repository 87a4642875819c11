//! One open file: the writer, a reader, and the clock that both go by.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use steadfast_core::ledger::Stamp;

use crate::clock::Clock;
use crate::sqlite::{Job, Reply, StoreError, Turn, Writer};

/// What the ledger and the tasks of one file share.
pub(crate) struct File {
    pub(crate) writer: Writer,
    pub(crate) reader: Mutex<Connection>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl File {
    /// Reads, on a connection that cannot write.
    pub(crate) fn look<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        Ok(read(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))?)
    }

    /// One transition inside the writer's transaction.
    pub(crate) fn change<T, F>(&self, transition: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Stamp) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = sync_channel(1);
        self.writer.submit(Box::new(Transition {
            transition,
            outcome: None,
            reply: Box::new(move |outcome| {
                let _ = reply.send(outcome);
            }),
        }));
        answer.recv().unwrap_or(Err(StoreError::Closed))
    }
}

struct Transition<T, F> {
    transition: F,
    outcome: Option<rusqlite::Result<T>>,
    reply: Reply<T>,
}

impl<T, F> Job for Transition<T, F>
where
    T: Send,
    F: FnMut(&Connection, Stamp) -> rusqlite::Result<T> + Send,
{
    fn is_effect(&self) -> bool {
        false
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
