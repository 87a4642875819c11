//! The server half: requests come in, a [`Service`] answers them, the core decides what is sent and when.

mod admit;
mod batch;
mod caller;
mod changes;
mod context;
mod drive;
mod endpoint;
pub mod http;
mod listen;
mod outlet;
mod peer;
mod session;
pub mod stdio;
pub mod toolkit;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use steadfast_core::exchange::{Limits, Reply};
use steadfast_core::sse::queue;
use steadfast_core::subscription::Filter;

pub use caller::{Caller, Capabilities, Level, TASKS_EXTENSION};
pub use changes::{Changes, Heard, Listening};
pub use context::{AskError, Context};

/// The answer of a service: the JSON bytes of `result` or of `error`, passed on as they are.
pub type Answer = Reply<Bytes>;

/// A future that a [`Service`] returns.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What stands behind an endpoint: local tools, or a route that forwards.
///
/// The endpoint owns what belongs to a hop: framing, sessions, the handshake's negotiation, ids, clocks, cancels,
/// progress, `ping`, `logging/setLevel`, listening and its tags. The service owns what belongs to the methods: it is
/// told the [`Caller`] with every request and answers in that caller's revision.
pub trait Service: Send + Sync + 'static {
    /// Whether the method exists for this caller; what does not is answered `-32601` without being handed over
    /// (CAP-15).
    fn knows(&self, method: &str, caller: &Caller) -> bool;

    /// Answers one request. The future is polled once where the request was read; if it has no answer then, it runs on
    /// in a task of its own. So it must not block, and least of all before it first waits. A panic ends that call only.
    ///
    /// `initialize` and `server/discover` come here too. Of the first the answer needs `protocolVersion`, which is the
    /// caller's revision, `capabilities`, `serverInfo` and, where there are any, `instructions`.
    fn answer(&self, request: Request, context: Context) -> Answering;

    /// Looks at a request before anything is done for it, for what dictates an HTTP status (HTTP-22): parameters that
    /// headers mirror, and capabilities that the client must have (CAP-08). `None` where nothing is wrong.
    fn object(&self, request: &Request, caller: &Caller, headers: &dyn MirroredParams) -> Option<Objection> {
        let _ = (request, caller, headers);
        None
    }

    /// Listens for changes in a caller's name. What is granted may be less than what is wanted: of tasks and resources
    /// only those that the caller may see, of lists only those that can change (SUB-06, AMB-35). `None` if this
    /// service never tells of changes.
    fn listen(
        &self,
        caller: &Caller,
        wanted: Filter,
    ) -> Pin<Box<dyn Future<Output = Option<Listening>> + Send>> {
        let _ = (caller, wanted);
        Box::pin(std::future::ready(None))
    }
}

/// A request, its payload untouched.
#[derive(Clone, Debug)]
pub struct Request {
    /// The JSON-RPC method.
    pub method: String,
    /// The JSON text of `params`; `{}` where there was none.
    pub params: String,
}

/// The `Mcp-Param-*` headers of a request. Over stdio there are none, and nothing is expected of them.
pub trait MirroredParams {
    /// The value of `Mcp-Param-{name}`.
    fn get(&self, name: &str) -> Mirrored;
}

/// What a header says of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirrored {
    /// This transport has no headers: nothing is to be compared.
    NotHere,
    /// The header is missing.
    Absent,
    /// The header's value, decoded (HDR-09).
    Value(String),
    /// The header occurs twice, or its value cannot be decoded (HDR-13, HDR-17).
    Invalid,
}

/// Why a request is refused before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// `-32020` for a header that does not say what the body says, `-32021` for a missing capability, `-32602` for
    /// params without the method's shape.
    pub code: i64,
    /// The JSON text of the `error` object.
    pub error: String,
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
    /// Whether the handshake revisions are served beside the modern one (VER-20).
    pub legacy: bool,
    /// The largest message taken, in bytes.
    pub max_message_bytes: usize,
    /// What may wait of one request for a peer that does not read: messages, their bytes, and its final response.
    pub buffer: queue::Limits,
    /// How many requests may be under way at once: on one connection of stdio, at one HTTP endpoint. A request is
    /// under way until its handler has ended and its answer was taken by the peer.
    pub max_in_flight: usize,
    /// How many bytes may wait for all peers of this endpoint together (`max_buffered`, ruling 17).
    pub max_buffered_bytes: usize,
    /// How long a peer may take no byte of what waits for it before it is disconnected (`write_stall`, ruling 17).
    pub write_stall: std::time::Duration,
    /// The longest silence on an open stream before a comment is sent (D-18, F055).
    pub keep_alive: std::time::Duration,
    /// How long requests may go on when the server is asked to end, before they are told to stop; and how long
    /// those that were told may take.
    pub drain: std::time::Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            progress_interval: std::time::Duration::from_millis(50),
            legacy: true,
            max_message_bytes: crate::message::MAX_MESSAGE_BYTES,
            buffer: BUFFER,
            max_in_flight: 1_024,
            max_buffered_bytes: 512 << 20,
            write_stall: std::time::Duration::from_secs(30),
            keep_alive: std::time::Duration::from_secs(15),
            drain: std::time::Duration::from_secs(2),
        }
    }
}
