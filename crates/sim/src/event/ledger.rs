//! What can be seen of attempts under idempotency keys: at the store, at the upstream and at the callers.

use serde::Serialize;
use steadfast_core::ledger::Enforcement;

use super::Body;

/// What can be seen of attempts under idempotency keys. An attempt is a process that serves one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Ledger {
    /// An attempt begins.
    Begun {
        /// Its number.
        attempt: u8,
        /// The key that its caller gave.
        key: u8,
        /// Which arguments its caller gave.
        arguments: u8,
        /// Who enforces the key.
        #[serde(serialize_with = "as_enforcement")]
        enforcement: Enforcement,
    },
    /// The claim of an attempt is durable, or was found to be impossible.
    Claimed {
        /// Whose.
        attempt: u8,
        /// What it met.
        verdict: Verdict,
        /// When that was decided, on the monotonic clock: a lease counts from here.
        decided_ms: u64,
    },
    /// The lease of an attempt was lengthened, durably.
    Renewed {
        /// Whose.
        attempt: u8,
    },
    /// The first byte of an attempt's request left.
    Sent {
        /// Whose.
        attempt: u8,
    },
    /// The upstream executed the effect.
    Executed {
        /// For which attempt.
        attempt: u8,
        /// What it answers.
        body: Body,
    },
    /// What an attempt heard from the upstream.
    Heard {
        /// Which attempt.
        attempt: u8,
        /// What it heard.
        answer: Answer,
    },
    /// The settlement of an attempt is durable, or was refused.
    Settled {
        /// Whose.
        attempt: u8,
        /// Under which epoch.
        epoch: u64,
        /// What was to be stored.
        settled: Settled,
        /// Whether the record took it.
        accepted: bool,
    },
    /// An unknown record was settled by asking the upstream.
    Reconciled {
        /// What was found.
        found: Option<Body>,
    },
    /// What an attempt told its caller.
    Told {
        /// Which attempt.
        attempt: u8,
        /// What.
        told: Told,
    },
    /// The process of an attempt died.
    Crashed {
        /// Whose.
        attempt: u8,
    },
    /// Nothing can happen any more; every lease is over.
    AtRest {
        /// Which key.
        key: u8,
        /// Where its record stands; `missing` if there is none.
        state: &'static str,
        /// Whether a transaction is still open.
        locked: bool,
    },
}

/// What a claim met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The attempt executes.
    Run {
        /// Under this epoch.
        epoch: u64,
        /// An earlier attempt may have executed.
        again: bool,
    },
    /// Another one executes.
    Join,
    /// A task executes.
    JoinTask,
    /// It was executed.
    Replay {
        /// With this answer.
        body: Body,
    },
    /// The key is bound to something else.
    Mismatch,
    /// Nobody knows whether it was executed.
    Unknown,
}

/// What an attempt heard from the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A result.
    Result(Body),
    /// A proof that nothing was executed (ruling 2).
    Refusal,
    /// Nothing, for ever.
    Silence,
    /// A question that must be answered first (ruling 8).
    Question,
    /// The handle of a task that executes (ruling 8).
    Handle,
}

/// What an attempt stored as its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Executed.
    Committed(Body),
    /// Certainly not executed.
    Rejected,
    /// Nobody knows.
    Unknown,
    /// The next leg is awaited.
    AwaitingInput,
    /// A task executes.
    HeldByTask,
}

/// What an attempt told its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The result of this very attempt.
    Result(Body),
    /// The stored result of an earlier one.
    Replay(Body),
    /// It was certainly not executed.
    Refusal,
    /// The key belongs to something else.
    Mismatch,
    /// Nobody knows whether it was executed.
    Unknown,
    /// It was executed, and the result could not be stored (ruling 11).
    NotStored,
    /// A question.
    Question,
    /// The handle of a task.
    Handle,
}

fn as_enforcement<S: serde::Serializer>(enforcement: &Enforcement, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match enforcement {
        Enforcement::Gateway => "gateway",
        Enforcement::Upstream => "upstream",
    })
}
