//! The server half: requests come in, a [`Service`] answers them, the core decides what is sent and when.

mod admit;
mod drive;
pub mod http;
mod outlet;
pub mod stdio;
pub mod tools;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::exchange::{Limits, Progress, Reply};
use steadfast_core::sse::queue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The answer of a service: the JSON bytes of `result` or of `error`, passed on as they are.
pub type Answer = Reply<Bytes>;

/// A future that a [`Service`] returns.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What stands behind an endpoint: local tools, or a route that forwards.
pub trait Service: Send + Sync + 'static {
    /// Whether the method exists; what does not is answered `-32601` without being handed over.
    fn knows(&self, method: &str) -> bool;

    /// Answers one request. The future runs in a task of its own; a panic ends that call only.
    fn answer(&self, request: Request, context: Context) -> Answering;
}

/// A request, its payload untouched.
#[derive(Clone, Debug)]
pub struct Request {
    /// The JSON-RPC method.
    pub method: String,
    /// The JSON text of `params`; `{}` where there was none.
    pub params: String,
}

/// What a handler may do while it works.
#[derive(Clone, Debug)]
pub struct Context {
    progress: Option<Arc<watch::Sender<Option<Progress>>>>,
    cancelled: CancellationToken,
}

impl Context {
    /// A context of nobody: progress goes nowhere and nothing cancels. For calling a service without a server.
    pub fn detached() -> Self {
        Self { progress: None, cancelled: CancellationToken::new() }
    }

    /// Whether the caller asked for progress.
    pub const fn wants_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Reports progress. Never waits: of events that come faster than they leave, the latest is kept (G9).
    pub fn progress(&self, progress: Progress) {
        if let Some(sender) = &self.progress {
            sender.send_replace(Some(progress));
        }
    }

    /// The switch that is thrown when the call was cancelled, timed out, or its caller left. What a handler
    /// returns after that is not sent to anyone.
    pub const fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }
}

/// 256 messages, 1 MiB, and a final response as large as any message (product.md `buffer`).
const BUFFER: queue::Limits = match queue::Limits::new(256, 1 << 20, crate::message::MAX_MESSAGE_BYTES) {
    Ok(limits) => limits,
    Err(_) => panic!("a stream cannot work with these limits"),
};

/// How an endpoint treats its requests.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Both clocks of every request but `subscriptions/listen`.
    pub limits: Limits,
    /// The least time between two progress events of one request.
    pub progress_interval: std::time::Duration,
    /// The largest message taken, in bytes.
    pub max_message_bytes: usize,
    /// What may wait of one request for a peer that does not read: messages, their bytes, and its final response.
    pub buffer: queue::Limits,
    /// How many requests may run at once on one connection.
    pub max_in_flight: usize,
    /// How long handlers that were told to stop may take when the server ends.
    pub drain: std::time::Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            progress_interval: std::time::Duration::from_millis(50),
            max_message_bytes: crate::message::MAX_MESSAGE_BYTES,
            buffer: BUFFER,
            max_in_flight: 1_024,
            drain: std::time::Duration::from_secs(2),
        }
    }
}
