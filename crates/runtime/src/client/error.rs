//! How a request can fail, told apart by whose fault it is (product.md "Errors", D-45, ERR-23).

use std::fmt;

use steadfast_core::error::Outcome;
use steadfast_core::exchange::Clock;

/// Why there is no result. A tool's `isError` is one, and not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The peer answered with a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    Protocol {
        /// As it came.
        code: i64,
        /// As it came: of an untrusted party.
        message: String,
        /// The whole error object, as it came.
        raw: String,
        /// What is known of the effect.
        outcome: Outcome,
        /// The call's id in the log.
        call_id: String,
    },
    /// The way to the peer broke, or it answered with something that is no answer.
    #[error("{sentence}; {}", told(*.outcome))]
    Transport {
        /// What happened, in a word.
        category: Category,
        /// Whether bytes may have left.
        sent: bool,
        /// What is known of the effect.
        outcome: Outcome,
        /// What happened, without the outcome.
        sentence: String,
        /// The call's id in the log.
        call_id: String,
    },
    /// Made on this side. Never in the shape of a peer's error (TMO-07).
    #[error("{sentence}; {}", told(*.outcome))]
    Local {
        /// What happened, in a word.
        category: Category,
        /// Which clock fired, if one did.
        clock: Option<Clock>,
        /// What is known of the effect.
        outcome: Outcome,
        /// What happened, without the outcome.
        sentence: String,
        /// The call's id in the log; empty where nothing became a call.
        call_id: String,
    },
}

/// What happened, in a word: `category` in `steadfast/error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The caller gave up.
    ClientCancelled,
    /// A limit was reached.
    Deadline,
    /// The task's budget of calls is used up.
    Budget,
    /// As many requests wait as may.
    QueueFull,
    /// A request waited too long for its turn.
    QueueWait,
    /// The server fails too often; nothing is sent to it for a while.
    BreakerOpen,
    /// Arguments, name, uri or params are not usable.
    Validation,
    /// No or no valid credentials (401), or not allowed (403).
    Authorization,
    /// The key belongs to another operation or other arguments.
    KeyMismatch,
    /// The server speaks no version that we do, or lacks what was asked for.
    Unsupported,
    /// The host answered no question, or too many rounds were asked for.
    Questions,
    /// The client is closed.
    Closed,
    /// The store failed.
    Store,
    /// The child could not be started, or ends too often.
    Spawn,
    /// No connection.
    Connect,
    /// The connection broke, or the process ended.
    TransportLost,
    /// The stream ended before its response.
    StreamEnded,
    /// An HTTP status that is no answer.
    HttpStatus,
    /// The answer is none: not JSON-RPC, of an unknown `resultType`, too large.
    InvalidResponse,
    /// The result breaks the tool's own `outputSchema`: the server's fault, and not to be trusted.
    InvalidOutput,
}

impl Category {
    /// The word in `steadfast/error` and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientCancelled => "client_cancelled",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::QueueFull => "queue_full",
            Self::QueueWait => "queue_wait",
            Self::BreakerOpen => "breaker_open",
            Self::Validation => "validation",
            Self::Authorization => "authorization",
            Self::KeyMismatch => "key_mismatch",
            Self::Unsupported => "unsupported",
            Self::Questions => "questions",
            Self::Closed => "closed",
            Self::Store => "store",
            Self::Spawn => "spawn",
            Self::Connect => "connect",
            Self::TransportLost => "transport_lost",
            Self::StreamEnded => "stream_ended",
            Self::HttpStatus => "http_status",
            Self::InvalidResponse => "invalid_response",
            Self::InvalidOutput => "invalid_output",
        }
    }
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 20] = [
        Self::ClientCancelled,
        Self::Deadline,
        Self::Budget,
        Self::QueueFull,
        Self::QueueWait,
        Self::BreakerOpen,
        Self::Validation,
        Self::Authorization,
        Self::KeyMismatch,
        Self::Unsupported,
        Self::Questions,
        Self::Closed,
        Self::Store,
        Self::Spawn,
        Self::Connect,
        Self::TransportLost,
        Self::StreamEnded,
        Self::HttpStatus,
        Self::InvalidResponse,
        Self::InvalidOutput,
    ];

    /// The category with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == word)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    /// What is known of the effect: only an unkeyed guess is ever left to the caller, and never by us.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Protocol { outcome, .. }
            | Self::Transport { outcome, .. }
            | Self::Local { outcome, .. } => *outcome,
        }
    }

    /// The call's id in the log, for `steadfast explain`; empty where nothing became a call.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Protocol { call_id, .. }
            | Self::Transport { call_id, .. }
            | Self::Local { call_id, .. } => call_id,
        }
    }
}

/// What the outcome means for who reads the sentence.
pub(crate) const fn told(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotExecuted => "it was not executed",
        Outcome::Executed => "it was executed",
        Outcome::Unknown => "it may have been executed, so look before you repeat it",
    }
}
