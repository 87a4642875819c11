//! What a handler may do while it works: report, log, hear of a cancel, and, in the legacy eras, ask the client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::envelope;
use steadfast_core::exchange::{Progress, Reply};
use steadfast_core::hop::{Era, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::trace::Trace;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::caller::{Caller, Level};
use super::outlet::Outlet;

/// A handler's link to the request it works for. Everything it says leaves on that request's own stream, and nothing
/// leaves once the request has ended (G5, CAN-07).
#[derive(Clone, Debug)]
pub struct Context {
    caller: Arc<Caller>,
    trace: Option<Arc<Trace>>,
    progress: Option<Arc<watch::Sender<Option<Progress>>>>,
    cancelled: CancellationToken,
    gate: Gate,
    questions: Option<Arc<Questions>>,
}

/// The way to the peer, open as long as the request is. Shared by the exchange, which closes it, and its handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<Mutex<Option<Outlet>>>);

/// Why a client was not asked, or did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AskError {
    /// MSG-18: the modern era has no requests from server to client.
    #[error("this client cannot be asked while the call runs; return the questions as input_required")]
    NotServed,
    /// Nobody will answer any more.
    #[error("the call or its session ended before the client answered; start the call anew")]
    Ended,
    /// The peer does not read.
    #[error("the question does not fit into what waits for this client; let it read first")]
    NoRoom,
}

impl Context {
    pub(super) const fn new(
        caller: Arc<Caller>,
        trace: Option<Arc<Trace>>,
        progress: Option<Arc<watch::Sender<Option<Progress>>>>,
        cancelled: CancellationToken,
        gate: Gate,
        questions: Option<Arc<Questions>>,
    ) -> Self {
        Self { caller, trace, progress, cancelled, gate, questions }
    }

    /// A context of nobody: what is said goes nowhere and nothing cancels. For calling a service without a server.
    pub fn detached(caller: Caller) -> Self {
        Self::new(Arc::new(caller), None, None, CancellationToken::new(), Gate::default(), None)
    }

    /// The same request seen by work that outlives it, as a task does: it has its own cancel switch, and what it says
    /// goes nowhere (TSK-59, CAN-20).
    #[must_use]
    pub fn outliving(&self, cancelled: CancellationToken) -> Self {
        Self::new(Arc::clone(&self.caller), self.trace.clone(), None, cancelled, Gate::default(), None)
    }

    /// Work that outlives its request and reports to somebody else, who passes it on (LEG-113).
    #[must_use]
    pub(super) fn reporting_to(self, progress: Arc<watch::Sender<Option<Progress>>>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// The same request under another cancel switch.
    #[must_use]
    pub(super) fn under(&self, cancelled: CancellationToken) -> Self {
        Self { cancelled, ..self.clone() }
    }

    /// Who asks.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Where the request stands in its caller's trace, to be continued by what the handler calls (TRC-05).
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
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

    /// Sends a log entry if the caller asked for its level (LOG-01, LOG-02). Never waits; a caller that does not read
    /// loses entries, and its answer says so.
    pub fn log(&self, level: Level, logger: Option<&str>, data: &Value) {
        if self.caller.level.is_none_or(|wanted| level < wanted) {
            return;
        }
        let mut params = json!({ "level": level.as_str(), "data": data });
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        self.notify("notifications/message", &params.to_string());
    }

    /// Sends a notification that belongs to this request (HTTP-12). `params` is the JSON text of an object.
    pub fn notify(&self, method: &str, params: &str) {
        self.gate.say(&envelope::notification(method, params));
    }

    /// Asks the client something while the call runs: `elicitation/create`, `sampling/createMessage`, `roots/list` or
    /// any other request of the legacy eras (LEG-77). `params` is the JSON text of an object. Dropping the future
    /// withdraws the question (LEG-70).
    ///
    /// # Errors
    /// The revision has no such requests, the call ended first, or the peer does not read.
    pub async fn ask(&self, method: &str, params: &str) -> Result<Reply<Bytes>, AskError> {
        let Some(questions) = self.questions.as_ref().filter(|_| self.caller.revision.era() == Era::Legacy)
        else {
            return Err(AskError::NotServed);
        };
        let (id, answer) = questions.open();
        let mut open = Open { questions, gate: &self.gate, id: Some(id.clone()) };
        if !self.gate.say(&envelope::request(&id, method, params)) {
            open.id = None;
            questions.close(&id);
            return Err(if self.gate.is_open() { AskError::NoRoom } else { AskError::Ended });
        }
        tokio::select! {
            answered = answer => {
                open.id = None;
                answered.map_err(|_| AskError::Ended)
            }
            () = self.cancelled.cancelled() => Err(AskError::Ended),
        }
    }

    /// Ends the connection that carries this request's stream, not the request: the client comes back for the rest
    /// after `retry` (LEG-32, LEG-33). Without effect where a stream cannot be resumed.
    pub fn hang_up(&self, retry: std::time::Duration) {
        if self.caller.revision == steadfast_core::hop::Revision::V2025_11_25
            && self.caller.transport == Transport::Http
        {
            self.gate.hang_up(retry);
        }
    }
}

impl Gate {
    pub(super) fn open(outlet: Outlet) -> Self {
        Self(Arc::new(Mutex::new(Some(outlet))))
    }

    /// Whether the message waits for the peer now.
    fn say(&self, message: &str) -> bool {
        self.with(|outlet| outlet.say(Bytes::copy_from_slice(message.as_bytes())))
    }

    fn hang_up(&self, retry: std::time::Duration) {
        self.with(|outlet| outlet.hang_up(retry));
    }

    fn is_open(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Uses the way, if it is still open.
    pub(super) fn with<T: Default>(&self, act: impl FnOnce(&Outlet) -> T) -> T {
        lock(&self.0).as_ref().map(act).unwrap_or_default()
    }

    /// Takes the way from the handler, for good.
    pub(super) fn close(&self) -> Option<Outlet> {
        lock(&self.0).take()
    }
}

/// A question that is withdrawn when its asker goes away.
struct Open<'a> {
    questions: &'a Questions,
    gate: &'a Gate,
    id: Option<RequestId>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.questions.close(&id);
            self.gate.say(&envelope::cancelled(&id, Some("the call that asked has ended")));
        }
    }
}

/// The open questions of one legacy session, by ids that are never used twice (LEG-11).
#[derive(Debug, Default)]
pub(crate) struct Questions {
    next: AtomicU64,
    open: Mutex<HashMap<RequestId, oneshot::Sender<Reply<Bytes>>>>,
}

impl Questions {
    fn open(&self) -> (RequestId, oneshot::Receiver<Reply<Bytes>>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = RequestId::from(format!("ask-{number}").as_str());
        let (sender, receiver) = oneshot::channel();
        lock(&self.open).insert(id.clone(), sender);
        (id, receiver)
    }

    fn close(&self, id: &RequestId) {
        lock(&self.open).remove(id);
    }

    /// Hands an answer to its asker; says whether anybody had asked.
    pub(crate) fn answer(&self, id: &RequestId, reply: Reply<Bytes>) -> bool {
        let asker = lock(&self.open).remove(id);
        asker.is_some_and(|asker| asker.send(reply).is_ok())
    }

    /// Nobody will answer any more.
    pub(super) fn end(&self) {
        lock(&self.open).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
