//! Subscriptions: one wish to hear of changes, over as many requests as it takes (SUB).
//!
//! When to listen, when to return and what a loss makes stale is decided by
//! [`subscription::Subscription`](steadfast_core::subscription::Subscription); this drives it over the wire of either
//! era.

mod backlog;
mod legacy;
mod modern;
mod run;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::subscription::{Change, Filter, Refetch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Client, Error, Facts};
use backlog::Backlog;
use run::Holder;

/// What a subscription tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenEvent {
    /// The server tells from now on.
    Acknowledged {
        /// What was asked for and is not granted: nothing will be heard of it (SUB-07, SUB-33).
        missing: Filter,
        /// What the server says of itself now. It is asked again after every loss, since it may have changed.
        facts: Option<Facts>,
    },
    /// Something changed. Equal changes that wait to be read are one.
    Changed {
        /// What.
        change: Change,
        /// The notification's params as they came; of a task the whole task (TSK-55).
        params: Bytes,
    },
    /// These may have changed while nobody listened, or more changed than may wait to be read: fetch them again.
    Gap(Vec<Refetch>),
    /// The server tells no more, for now; it is listened to again without further ado (ruling 20).
    Ended {
        /// It said so by its result: at its next use, or after 8 s to 5 min, it is asked again. Otherwise something
        /// broke, and it is asked again after 250 ms to 8 s.
        graceful: bool,
        /// What is not known to be fresh any more.
        stale: Vec<Refetch>,
    },
    /// The server refuses to tell. This is the last event.
    Refused(Error),
}

/// A wish to hear of changes. It lasts until it is closed or dropped, or the client is closed, or the server refuses.
pub struct Subscription {
    events: Arc<Backlog>,
    close: CancellationToken,
    running: JoinHandle<()>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Subscription {
    /// The next event; `None` once it is over. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ListenEvent> {
        self.events.next().await
    }

    /// Ends it, and returns once the server was told in the way of its transport (SUB-12).
    pub async fn close(mut self) {
        self.close.cancel();
        // Its end is all that matters.
        let _ = (&mut self.running).await;
    }
}

impl Drop for Subscription {
    /// As [`Self::close`], without waiting.
    fn drop(&mut self) {
        self.close.cancel();
    }
}

impl Client {
    /// Listens for changes from now on: on a modern server by `subscriptions/listen`, on a legacy one by
    /// `resources/subscribe` and the notices that it sends by itself. What was heard of the catalogs reaches this client's
    /// own as well. Several subscriptions may be held at once (SUB-10).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn listen(&self, filter: Filter) -> Subscription {
        let events = Arc::new(Backlog::new(filter.clone()));
        let close = CancellationToken::new();
        let holder =
            Holder { client: self.clone(), filter, events: Arc::clone(&events), close: close.clone() };
        Subscription { events, close, running: tokio::spawn(holder.run()) }
    }
}
