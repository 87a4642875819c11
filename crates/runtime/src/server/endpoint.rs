//! What all connections of one endpoint share: the service, the limits, and the wish to end.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{Options, Service};
use crate::clock::Clock;

/// One endpoint. Clones are the same.
#[derive(Clone)]
pub(super) struct Endpoint(Arc<Shared>);

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) service: Arc<dyn Service>,
    pub(super) options: Options,
    /// Thrown when the server is asked to end: listens end gracefully, nothing new is admitted.
    pub(super) ending: CancellationToken,
    /// Thrown when the time to finish is over: what still runs is told to stop.
    pub(super) cut: CancellationToken,
    buffered: Buffered,
    under_way: Arc<Semaphore>,
}

impl Deref for Endpoint {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The bytes that wait for all peers of an endpoint together.
#[derive(Clone, Debug)]
pub(super) struct Buffered {
    bytes: Arc<AtomicUsize>,
    limit_bytes: usize,
}

/// The right to be under way; given back when it is dropped.
pub(super) type Permit = OwnedSemaphorePermit;

impl Endpoint {
    pub(super) fn new(service: Arc<dyn Service>, options: Options) -> Self {
        Self(Arc::new(Shared {
            clock: Clock::start(),
            service,
            options,
            ending: CancellationToken::new(),
            cut: CancellationToken::new(),
            buffered: Buffered::new(options.max_buffered_bytes),
            under_way: Arc::new(Semaphore::new(options.max_in_flight)),
        }))
    }

    /// The right to begin one more request; `None` when as many as may be are under way, too much waits for peers
    /// that do not read, or the server ends. Given before any work is done (table ORDER, step 13).
    pub(super) fn admit(&self) -> Option<Permit> {
        if self.ending.is_cancelled() || self.buffered.is_full() {
            return None;
        }
        Arc::clone(&self.under_way).try_acquire_owned().ok()
    }

    /// The account of what waits.
    pub(super) fn buffered(&self) -> &Buffered {
        &self.buffered
    }

    /// How many requests are under way.
    pub(super) fn under_way(&self) -> usize {
        self.options.max_in_flight - self.under_way.available_permits()
    }

    /// Asks for the end and waits until nothing is under way, for at most twice `options.drain`: the first is for
    /// requests to finish, the second for handlers that were told to stop.
    pub(super) async fn end(&self) {
        self.ending.cancel();
        let all = u32::try_from(self.options.max_in_flight).unwrap_or(u32::MAX);
        let idle = || async {
            // Never closed; with all permits in hand nothing is under way.
            let _all = self.under_way.acquire_many(all).await;
        };
        let drain = self.options.drain;
        if tokio::time::timeout(drain, idle()).await.is_err() {
            self.cut.cancel();
            let _ = tokio::time::timeout(drain, idle()).await;
        }
        self.cut.cancel();
    }
}

impl Buffered {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { bytes: Arc::new(AtomicUsize::new(0)), limit_bytes }
    }

    /// Whether nothing more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit_bytes
    }

    /// Whether `bytes` more may wait. A hint: two that ask at once may both hear yes, and exceed the limit by one
    /// message each.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit_bytes
    }

    /// A queue held `before` bytes and holds `after`.
    pub(super) fn moved(&self, before: usize, after: usize) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// How many bytes wait.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
