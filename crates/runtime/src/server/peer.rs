//! What the peer does to a request while it runs.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// One thing that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerEvent {
    /// Its `notifications/cancelled` named this request.
    Cancelled,
    /// Its connection or response stream is gone.
    Disconnected,
}

/// The peer as one request sees it, which hears of at most one cancel and one disconnect at a time. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    cancelled: bool,
    disconnected: bool,
    waker: Option<Waker>,
}

impl Peer {
    /// Tells the request. Nothing is heard of it once the request is over.
    pub(super) fn tell(&self, event: PeerEvent) {
        let mut told = self.told();
        match event {
            PeerEvent::Cancelled => told.cancelled = true,
            PeerEvent::Disconnected => told.disconnected = true,
        }
        if let Some(waker) = told.waker.take() {
            drop(told);
            waker.wake();
        }
    }

    /// Waits for the next event. Dropping the future loses nothing.
    pub(super) async fn event(&self) -> PeerEvent {
        poll_fn(|context| {
            let mut told = self.told();
            if std::mem::take(&mut told.cancelled) {
                Poll::Ready(PeerEvent::Cancelled)
            } else if std::mem::take(&mut told.disconnected) {
                Poll::Ready(PeerEvent::Disconnected)
            } else {
                told.waker = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
