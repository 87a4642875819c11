//! The life of one request on one hop: [`Requester`] at the end that asked, [`Responder`] at the end that answers.
//!
//! Both share the parts that must not differ: the two [`clocks`], the [`progress`] gate, the
//! [`cancel`] signal by transport and era, and the rule that there is one [`Terminal`] state (G1). What
//! arrives afterwards comes out as [`Ignored`], so that it can be recorded, and changes nothing.
//!
//! One task owns one machine. What the requests of a connection share, the ids in use, is [`table::InFlight`].

pub mod cancel;
pub mod clocks;
mod pace;
pub mod progress;
pub mod requester;
pub mod responder;
pub mod table;

pub use cancel::{CancelNotice, CancelSignal};
pub use clocks::{Clock, Limits, LimitsError};
pub use progress::{Finite, Gate, Offered, Progress};
pub use requester::Requester;
pub use responder::Responder;
pub use table::InFlight;

use core::time::Duration;

use crate::hop::Hop;
use crate::ids::{ProgressToken, RequestId};

/// What is asked for, as far as it changes the life of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Any ordinary request.
    Ordinary,
    /// `subscriptions/listen`: exempt from both clocks (TMO-08, ruling 18); the only request that a server may
    /// end by `notifications/cancelled` (CAN-12, CAN-13).
    Listen,
    /// The legacy handshake, which nobody may cancel (LEG-10).
    Initialize,
    /// The stdio era probe: a timed-out one is not cancelled, since a legacy server may choke on it (AMB-42).
    Probe,
    /// A legacy call that asks to be a task: what ends that is `tasks/cancel`, never `notifications/cancelled`
    /// (LEG-112).
    Augmented,
}

impl Operation {
    /// The operation that a request of this method is. A probe is told apart by its sender, not by its method.
    pub fn of_method(method: &str) -> Self {
        match method {
            "subscriptions/listen" => Self::Listen,
            "initialize" => Self::Initialize,
            _ => Self::Ordinary,
        }
    }
}

/// Everything that a machine must know about its request before the first event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The id on this hop.
    pub id: RequestId,
    /// What is asked for.
    pub operation: Operation,
    /// How this hop speaks.
    pub hop: Hop,
    /// Both limits; without effect on [`Operation::Listen`].
    pub limits: Limits,
    /// Without a token there is no progress (PRG-07).
    pub token: Option<ProgressToken>,
    /// The least time between two progress events handed on; zero hands on every valid one (PRG-10).
    pub progress_interval: Duration,
}

/// How an exchange ended. There is exactly one, and it never changes (G1, I-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Terminal {
    /// Answered with a result.
    Completed,
    /// Answered with a JSON-RPC error.
    Failed,
    /// Given up by the requester, or, a listen only, ended by the server's `notifications/cancelled`.
    Cancelled,
    /// One of the two limits was reached, and which one is part of the outcome (G3).
    TimedOut(Clock),
    /// The way between the two ends broke before an answer.
    Lost,
}

/// An answer: the machine decides about it and never looks inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply<P> {
    /// A result, an `isError` tool result included.
    Result(P),
    /// A JSON-RPC error.
    Error(P),
}

impl<P> Reply<P> {
    const fn terminal(&self) -> Terminal {
        match self {
            Self::Result(_) => Terminal::Completed,
            Self::Error(_) => Terminal::Failed,
        }
    }
}

/// An event that changed nothing, and why: for counting and logging, never for answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// A response to a request that had been given up (D-06, CAN-09).
    LateResponse,
    /// A second response, or the handler's second result.
    DuplicateResponse,
    /// Progress after the end, or of a request that had not been sent.
    LateProgress,
    /// Progress without a token, or under another token than this request's (F038, PRG-12).
    ForeignProgress,
    /// Progress that did not rise: no sign of life (F037, TMO-11).
    StaleProgress,
    /// A cancel after the end; the completion stays (D-05).
    LateCancel,
    /// A second cancel.
    DuplicateCancel,
    /// A cancel of something that must not be cancelled: an `initialize` (LEG-10), or, sent by a server, anything
    /// but a listen on stdio (CAN-14).
    ForbiddenCancel,
    /// A legacy HTTP disconnect, which is no cancel (LEG table ERA, ruling 7).
    DisconnectWithoutMeaning,
    /// The loss of a transport after the end.
    LateLoss,
    /// A `Sent` of a request that was sent or had ended already.
    LateSend,
}

/// Why [`Requester::poll_timeout`] or [`Responder::poll_timeout`] wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKind {
    /// A limit will be reached.
    Limit(Clock),
    /// A progress event is held back by the rate and will be due.
    Progress,
}
