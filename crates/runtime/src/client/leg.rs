//! The seam between a request and its transport: what [`drive`](super::drive) needs of one, and what it says back.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{CancelNotice, CancelSignal, Progress, Spec};
use steadfast_core::ids::{ProgressToken, RequestId};
use steadfast_core::policy::failure::{ErrorAnswer, Failure};
use tokio::sync::mpsc;

use crate::message;

/// Lets the first byte leave. It runs right after the machine was told so, never before.
pub(super) type Launch = Box<dyn FnOnce() + Send>;

/// One request as it leaves: its params are complete, `_meta` included.
pub(super) struct Outgoing<'a> {
    pub(super) spec: &'a Spec,
    pub(super) method: &'a str,
    pub(super) params: &'a str,
    /// The headers beside those that the transport derives itself: `Mcp-Param-*` (HDR-19) and credentials. Nothing of
    /// them is ever logged. Without effect on stdio.
    pub(super) headers: Vec<(String, String)>,
}

/// One request's way to the peer, as a transport offers it.
pub(super) struct Leg {
    /// Gets ready to send without sending: a connection, a place in the writer's queue. An error ends the request with
    /// nothing sent.
    pub(super) prepare: Pin<Box<dyn Future<Output = Result<Launch, Detail>> + Send>>,
    /// What the peer says about this request; its end without a word is the loss of the transport.
    pub(super) heard: mpsc::Receiver<Heard>,
    /// Tells the peer that we gave up. Must not wait.
    pub(super) signal: Box<dyn FnMut(&CancelSignal) + Send>,
}

/// Something the peer said about a request.
#[derive(Debug)]
pub(super) enum Heard {
    /// It goes to the machine. [`Input::Lost`] is every end without a JSON-RPC response; the detail says which.
    Input(Input<Bytes>, Detail),
    /// A notification that belongs to this request: a log message on its stream, or what a `subscriptions/listen` is
    /// told.
    Note {
        method: String,
        /// The params object as it came; `{}` if absent.
        params: Bytes,
    },
}

/// What a transport adds to an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Detail {
    /// How it failed, where the transport knows better than "lost": set with every [`Input::Lost`], and by an error of
    /// [`Leg::prepare`].
    pub(super) failure: Option<Failure>,
    /// The HTTP status, where the answer was a whole HTTP response and no event of a stream.
    pub(super) status: Option<u16>,
    /// Whether the request carried the id of a legacy session.
    pub(super) in_session: bool,
    /// `Retry-After`, already a duration.
    pub(super) retry_after: Option<Duration>,
    /// `WWW-Authenticate`, for whoever fetches credentials.
    pub(super) challenge: Option<String>,
    /// For the error's sentence: a status, an exit code with the last lines of stderr, why there was no connection.
    /// Never payload.
    pub(super) remark: Option<String>,
}

impl Detail {
    /// The loss of a transport, and why.
    pub(super) fn failed(failure: Failure, remark: impl Into<String>) -> Self {
        Self { failure: Some(failure), remark: Some(remark.into()), ..Self::default() }
    }

    /// This with the message that something was lost.
    pub(super) const fn lost(self) -> Heard {
        Heard::Input(Input::Lost, self)
    }

    /// The failure that an error answer is, by its code and by what the transport adds (ruling 2).
    pub(super) fn of_error(&self, code: i64, names_missing_meta: bool, rejects: &[i64]) -> Failure {
        let answer = ErrorAnswer {
            status: self.status,
            code: Some(code),
            names_missing_meta,
            in_session: self.in_session,
        };
        answer.failure(rejects)
    }
}

impl From<Input<Bytes>> for Heard {
    fn from(input: Input<Bytes>) -> Self {
        Self::Input(input, Detail::default())
    }
}

/// What a connection says outside its requests' streams. It goes to the [`Inbox`] of that connection and no other:
/// what an old connection still says reaches no new one (STD-19).
#[derive(Debug)]
pub(super) enum Inbound {
    /// A notification that belongs to no request in flight: change notices of a legacy server, log messages.
    Notification {
        method: String,
        /// The params object as it came; `{}` if absent.
        params: Bytes,
    },
    /// Progress under a token of ours whose request has its answer: of a legacy task, or of nobody (LEG-113).
    Progress { token: ProgressToken, progress: Progress },
    /// A request of a legacy server, to be answered by [`Link::respond`](super::link::Link::respond).
    Request {
        id: RequestId,
        method: String,
        params: Bytes,
        /// The request of ours on whose HTTP stream it came (ruling 6).
        during: Option<RequestId>,
    },
    /// The server takes back a request of its own (`notifications/cancelled`, legacy).
    Withdrawn { id: RequestId },
    /// A response that no request of ours waits for: late, a second one, or to an id that was never used. Only its
    /// id is kept (F013, F014).
    Stray { id: Option<RequestId> },
    /// Something that is no message: a log line on stdout, a line beyond the limit, half a line at the end. The
    /// sentence says what.
    Noise { what: String },
}

/// Where a connection puts what it hears outside its requests. Never waits: what finds no place is dropped, and that
/// something was dropped is remembered, so that what it covered is fetched again.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    sender: mpsc::Sender<Inbound>,
}

/// How many of them may wait to be looked at.
const INBOX: usize = 256;

impl Inbox {
    /// A new one, and its reading end.
    pub(super) fn new() -> (Self, mpsc::Receiver<Inbound>) {
        let (sender, receiver) = mpsc::channel(INBOX);
        (Self { sender }, receiver)
    }

    /// Leaves a message that is neither progress nor the answer of a request that waits; `during` is the request on whose
    /// stream it came.
    pub(super) fn hear(&self, message: Message<'_>, during: Option<&RequestId>) {
        let inbound = match message {
            Message::Response { id, .. } => Inbound::Stray { id },
            Message::Request { id, method, params } => {
                let (method, params) = (method.into_owned(), message::params_bytes(params));
                Inbound::Request { id, method, params, during: during.cloned() }
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                match envelope::cancel_notice_of(params.map(RawValue::get)) {
                    CancelNotice::Names { id, .. } => Inbound::Withdrawn { id },
                    CancelNotice::Malformed => return,
                }
            }
            Message::Notification { method, params } => {
                Inbound::Notification { method: method.into_owned(), params: message::params_bytes(params) }
            }
        };
        self.put(inbound);
    }

    /// Leaves something to be looked at; `false` if it was dropped.
    pub(super) fn put(&self, inbound: Inbound) -> bool {
        self.sender.try_send(inbound).is_ok()
    }
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// One sentence: the exit code or signal with the tail of stderr, or how the stream broke.
    pub(super) why: String,
    /// It was closed by us.
    pub(super) by_us: bool,
}
