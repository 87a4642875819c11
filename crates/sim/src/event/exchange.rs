//! What can be seen of one request on one hop.

use serde::{Serialize, Serializer};
use steadfast_core::exchange::requester::End;
use steadfast_core::exchange::responder::Answer;
use steadfast_core::exchange::table::Unroutable;
use steadfast_core::exchange::{Clock, Ignored, Operation, Reply, Terminal};
use steadfast_core::hop::{Era, Hop, Transport};

use super::{Body, Id};

/// One of the two ends of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The end that asked.
    Client,
    /// The end that answers.
    Server,
}

/// What can be seen of one request on one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Exchange {
    /// A side begins: the client when its caller asks, the server when it accepted the request.
    Started(Started),
    /// A message leaves a side.
    Put {
        /// Who sent it.
        by: Side,
        /// What was sent.
        message: Message,
    },
    /// A message reached a side.
    Got {
        /// Who received it.
        by: Side,
        /// What was received.
        message: Message,
    },
    /// The client closed the response stream (HTTP).
    Closed,
    /// The server saw that the client closed the response stream.
    CloseSeen,
    /// The connection broke: what was under way is gone.
    Broke,
    /// A side saw that the connection broke.
    LossSeen {
        /// Who saw it.
        by: Side,
    },
    /// Time came to the limit or the held-back progress that a side had asked to be woken for.
    Woken {
        /// Who was woken.
        by: Side,
    },
    /// The caller gave up.
    GaveUp,
    /// The server's application ends a listen.
    ListenRevoked,
    /// The caller was told of progress.
    CallerProgress {
        /// How far.
        value: u32,
    },
    /// The caller was told the end.
    CallerEnd {
        /// Which end.
        #[serde(serialize_with = "as_end")]
        end: End<Body>,
    },
    /// The handler reported progress.
    HandlerProgress {
        /// How far.
        value: u32,
    },
    /// The handler has its answer.
    HandlerAnswer {
        /// The answer.
        #[serde(serialize_with = "as_reply")]
        answer: Reply<Body>,
    },
    /// The handler was told to stop.
    HandlerStop,
    /// The handler is gone.
    HandlerGone,
    /// The server's exchange ended.
    ServerEnd {
        /// How.
        #[serde(serialize_with = "as_terminal")]
        terminal: Terminal,
    },
    /// A machine recorded an event that changed nothing.
    Ignored {
        /// Whose machine.
        by: Side,
        /// What it was.
        #[serde(serialize_with = "as_ignored")]
        what: Ignored,
    },
    /// A cancel that led nowhere.
    Unroutable {
        /// Why.
        #[serde(serialize_with = "as_unroutable")]
        why: Unroutable,
    },
    /// Nothing can happen any more, and the connection is ended in good order.
    HungUp,
    /// What is left after that.
    AtRest {
        /// Machines that still want to be woken.
        timers: u8,
        /// Ids that are still in use, at both sides.
        ids: u8,
        /// Handlers that still run.
        handlers: u8,
    },
}

/// What a side knows of the request when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Started {
    /// Which side.
    pub by: Side,
    /// The request's id on this hop.
    pub id: Id,
    /// The token under which it may be told of progress.
    pub token: Option<Id>,
    /// The hop it lives on.
    #[serde(serialize_with = "as_hop")]
    pub hop: Hop,
    /// What is asked for.
    #[serde(serialize_with = "as_operation")]
    pub operation: Operation,
    /// The idle limit of this side, in milliseconds.
    pub idle_ms: u64,
    /// The absolute limit of this side, in milliseconds.
    pub maximum_ms: u64,
    /// The least time between two progress events that this side hands on, in milliseconds.
    pub interval_ms: u64,
}

/// A message between the two ends of a hop, as far as reliability depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A request.
    Request {
        /// Its id.
        id: Id,
        /// Its progress token.
        token: Option<Id>,
    },
    /// `notifications/cancelled`, in either direction.
    Cancelled {
        /// The request it names.
        id: Id,
    },
    /// `notifications/progress`.
    Progress {
        /// The token it names.
        token: Id,
        /// How far.
        value: u32,
    },
    /// A response.
    Response {
        /// The request it answers.
        id: Id,
        /// What it says.
        #[serde(serialize_with = "as_answer")]
        answer: Answer<Body>,
    },
}

/// The word for a terminal state in reports: `completed`, `timed_out_idle` and so on.
pub const fn terminal_word(terminal: Terminal) -> &'static str {
    match terminal {
        Terminal::Completed => "completed",
        Terminal::Failed => "failed",
        Terminal::Cancelled => "cancelled",
        Terminal::TimedOut(Clock::Idle) => "timed_out_idle",
        Terminal::TimedOut(Clock::Maximum) => "timed_out_max",
        Terminal::Lost => "transport_lost",
    }
}

/// What was ignored, for a person: `late response` and so on.
pub const fn ignored_words(what: Ignored) -> &'static str {
    match what {
        Ignored::LateResponse => "late response",
        Ignored::DuplicateResponse => "duplicate response",
        Ignored::LateProgress => "late progress",
        Ignored::ForeignProgress => "progress of another request",
        Ignored::StaleProgress => "progress that does not rise",
        Ignored::LateCancel => "late cancel",
        Ignored::DuplicateCancel => "duplicate cancel",
        Ignored::ForbiddenCancel => "cancel of what must not be cancelled",
        Ignored::DisconnectWithoutMeaning => "disconnect that is no cancel",
        Ignored::LateLoss => "late loss of the transport",
        Ignored::LateSend => "late send",
    }
}

fn as_terminal<S: Serializer>(terminal: &Terminal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(terminal_word(*terminal))
}

fn as_end<S: Serializer>(end: &End<Body>, serializer: S) -> Result<S::Ok, S::Error> {
    match end {
        End::Answered(reply) => as_reply(reply, serializer),
        End::CancelledByPeer => serializer.serialize_str("cancelled_by_peer"),
        End::Cancelled | End::TimedOut(_) | End::Lost => as_terminal(&end.terminal(), serializer),
    }
}

fn as_reply<S: Serializer>(reply: &Reply<Body>, serializer: S) -> Result<S::Ok, S::Error> {
    match reply {
        Reply::Result(body) => serializer.serialize_newtype_variant("reply", 0, "result", body),
        Reply::Error(body) => serializer.serialize_newtype_variant("reply", 1, "error", body),
    }
}

fn as_answer<S: Serializer>(answer: &Answer<Body>, serializer: S) -> Result<S::Ok, S::Error> {
    match answer {
        Answer::Reply(reply) => as_reply(reply, serializer),
        Answer::TimedOut(clock) => {
            serializer.serialize_newtype_variant("answer", 2, "timed_out", clock.as_str())
        }
        Answer::NoAnswer => serializer.serialize_str("no_answer"),
    }
}

fn as_ignored<S: Serializer>(what: &Ignored, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(ignored_words(*what))
}

fn as_unroutable<S: Serializer>(why: &Unroutable, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match why {
        Unroutable::Malformed => "malformed",
        Unroutable::Unknown => "unknown id",
        Unroutable::WrongTransport => "wrong transport",
        Unroutable::NotCancellable => "not cancellable",
    })
}

fn as_hop<S: Serializer>(hop: &Hop, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match (hop.transport, hop.era) {
        (Transport::Stdio, Era::Modern) => "stdio-modern",
        (Transport::Stdio, Era::Legacy) => "stdio-legacy",
        (Transport::Http, Era::Modern) => "http-modern",
        (Transport::Http, Era::Legacy) => "http-legacy",
    })
}

fn as_operation<S: Serializer>(operation: &Operation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match operation {
        Operation::Ordinary => "ordinary",
        Operation::Listen => "listen",
        Operation::Initialize => "initialize",
        Operation::Probe => "probe",
        Operation::Augmented => "augmented",
    })
}
