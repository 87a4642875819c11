//! What can be seen of a durable Task: at the store, at the worker and at the caller.

use serde::Serialize;

/// What can be seen of a durable Task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Task {
    /// The Task is durable: `tasks/get` would find it on every replica.
    Durable,
    /// The caller was given its handle.
    HandleGiven,
    /// `tasks/cancel` was acknowledged.
    CancelAcknowledged,
    /// The worker looked whether it should stop.
    Checkpoint {
        /// What it was told.
        stop: bool,
    },
    /// The worker said how far it is.
    Reported,
    /// The worker asked a question.
    Asked {
        /// Under this key.
        key: u8,
        /// Whether the question was taken.
        taken: bool,
    },
    /// The caller answered a question.
    Answered {
        /// Under this key.
        key: u8,
        /// Whether the answer was taken.
        taken: bool,
    },
    /// The worker ended with a result, or with an error.
    Ended {
        /// A result, not an error.
        result: bool,
        /// Whether the end was taken.
        taken: bool,
    },
    /// The caller's connection closed.
    ConnectionClosed,
    /// The process died and another one opened the store.
    Reopened,
    /// `tasks/get` was answered.
    Told {
        /// With this status; `missing` if there is no such Task.
        status: &'static str,
    },
}
