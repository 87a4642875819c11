//! What can be seen of calls that a circuit breaker lets through or refuses.

use serde::Serialize;

/// What can be seen around one breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Breaker {
    /// A breaker begins, closed.
    Installed {
        /// So many failures within the window open it.
        failures: u32,
        /// The window, in milliseconds.
        window_ms: u64,
        /// How long it stays open, in milliseconds.
        cooldown_ms: u64,
    },
    /// Somebody asked whether a call may be sent.
    Asked {
        /// The call's number.
        call: u8,
        /// The answer.
        permit: Permit,
    },
    /// The call was sent.
    Sent {
        /// The call's number.
        call: u8,
    },
    /// A call that was sent ended.
    Ended {
        /// The call's number.
        call: u8,
        /// How.
        outcome: Outcome,
    },
}

/// Whether a call may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Permit {
    /// Yes.
    Pass,
    /// Yes, and its end decides.
    Probe,
    /// No.
    Refused,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The server answered.
    Success,
    /// The server did not.
    Failure,
    /// The caller gave up, which says nothing of the server.
    Cancelled,
}
