//! What a caller says of one call, and of the run that it belongs to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::exchange::{Limits, Progress};
use steadfast_core::trace::Trace;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Called in order with each rising value. `Sync`, since a call that waits is shared with what may give it up.
pub type OnProgress = Box<dyn FnMut(Progress) + Send + Sync>;
/// Called with method and params of a notification that belongs to the request.
pub type OnNote = Box<dyn FnMut(&str, &Bytes) + Send + Sync>;

/// How one call is treated. Nothing of it outlives the call.
#[derive(Default)]
pub struct CallOptions {
    /// Both clocks of every attempt; absent: the tool's, else the server's.
    pub limits: Option<Limits>,
    /// When the whole call must be over, counted from now: attempts, pauses and rounds together.
    pub deadline: Option<Duration>,
    /// Throw it to give up: the wait ends at once, the right signal leaves, and nothing is promised about effects.
    pub cancel: CancellationToken,
    /// The business intent's key. It is what a repetition is recognised by, never a request id.
    pub key: Option<String>,
    /// The least time between two calls of `on_progress`; zero for every event.
    pub progress_interval: Duration,
    /// Without it no progress is asked for.
    pub on_progress: Option<OnProgress>,
    /// The run of an agent that this call belongs to.
    pub run: Option<Run>,
    /// The trace that this call continues; absent: one of its own.
    pub trace: Option<Trace>,
    /// From which level on the server shall log for this request, where it is modern: `debug` … `emergency`.
    pub log_level: Option<String>,
    /// Called with what the server says about this request before its answer: log messages, or what a listen is told.
    pub on_note: Option<OnNote>,
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("limits", &self.limits)
            .field("deadline", &self.deadline)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// One task of an agent: what all its calls, to whatever server, share and no other task does (D-41).
#[derive(Clone, Debug)]
pub struct Run(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: String,
    cancel: CancellationToken,
    ends_at: Option<Instant>,
    calls_left: AtomicU32,
}

impl Run {
    /// A run with an id for the audit, `within` which all its calls must be over, and with so many requests to spend.
    pub fn new(id: &str, within: Option<Duration>, calls: u32) -> Self {
        Self(Arc::new(Shared {
            id: id.to_owned(),
            cancel: CancellationToken::new(),
            ends_at: within.and_then(|within| Instant::now().checked_add(within)),
            calls_left: AtomicU32::new(calls),
        }))
    }

    /// Its id, as every record of its calls names it.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Gives all its calls up.
    pub fn cancel(&self) {
        self.0.cancel.cancel();
    }

    pub(super) fn cancel_token(&self) -> &CancellationToken {
        &self.0.cancel
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        self.0.ends_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Takes one request from the budget.
    pub(super) fn spend(&self) -> Result<(), ()> {
        let less = |left: u32| left.checked_sub(1);
        self.0.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(drop).map_err(drop)
    }
}
