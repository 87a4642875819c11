//! The description of an operation: what its author or operator says of it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exchange::{Limits, LimitsError};
use crate::hop::{Era, Hop, Transport};
use crate::policy::{Contract, Effect, Idempotency, RetryClass};

/// An operation as its author or operator describes it. A fact that is left out is not taken for the better one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The tool's name.
    pub name: String,
    /// How its requests travel: `stdio` or `http`.
    pub transport: Transport,
    /// Which rules they obey: `modern` or `legacy`.
    pub era: Era,
    /// What it does: `read`, `write` or `unknown`. Annotations of a server are no source for it (D-16).
    pub effect: Effect,
    /// Who enforces its key: `none`, `gateway` or `upstream`. Absent beside a key: the gateway (ruling 15).
    pub idempotency: Option<Idempotency>,
    /// The JSON Pointer of the idempotency key in the arguments; absent: it has none.
    pub key: Option<String>,
    /// Where its effect is made certain to be one with its record.
    #[serde(default)]
    pub boundary: Boundary,
    /// Whether the effect happens in a system other than the one that keeps the record; absent: it does.
    #[serde(default = "yes")]
    pub remote_effect: bool,
    /// Who keeps the records of keys.
    #[serde(default)]
    pub ledger: LedgerKind,
    /// Whether a stored result may be changed through a value that was handed out; absent: nobody looked.
    pub results: Option<Results>,
    /// The longest silence, in milliseconds.
    pub idle_timeout_ms: u64,
    /// The longest life, in milliseconds.
    pub max_timeout_ms: u64,
    /// When its caller repeats it; absent: never.
    #[serde(default)]
    pub retry: Retry,
    /// What may wait for a slow reader; absent: nothing bounds it.
    pub queue: Option<Queue>,
    /// What its caller listens for.
    #[serde(default)]
    pub listen: Listen,
    /// Whether it answers with a Task, and what a cancel of it is taken for.
    pub task: Option<TaskCancel>,
}

/// What makes the effect one with its record (D-14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Nothing.
    #[default]
    None,
    /// A lock in one process: gone with it, and unknown to every other.
    ProcessLock,
    /// One database transaction holds both.
    LocalTransaction,
    /// The record's transaction holds a message that is delivered at least once.
    Outbox,
    /// The upstream enforces the same key.
    UpstreamKey,
}

/// Who keeps the records of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerKind {
    /// Nobody.
    #[default]
    None,
    /// One process's memory.
    ProcessLocal,
    /// A durable store that every process shares.
    Durable,
}

/// How stored results are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// Rebuilt from stored bytes each time.
    Fresh,
    /// By reference to what is stored.
    Aliased,
}

/// When a caller repeats a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Never.
    #[default]
    Never,
    /// Whenever a time limit was reached, whatever may have happened.
    OnTimeout,
    /// By class and kind of failure.
    Classified,
}

/// What the acknowledgement of `tasks/cancel` is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCancel {
    /// An intent: a worker's checkpoint decides.
    Intent,
    /// The end of the task.
    End,
}

/// What may wait for a slow reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Messages; at least 2: one that can be dropped, and a final response, which cannot.
    pub items: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What the caller listens for while it uses the operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// Changes of the tools.
    pub tools: bool,
    /// Changes of the prompts.
    pub prompts: bool,
    /// Changes of the resources.
    pub resources: bool,
    /// Updates of these resources.
    pub uris: BTreeSet<String>,
    /// These tasks.
    pub tasks: BTreeSet<String>,
}

const fn yes() -> bool {
    true
}

impl Operation {
    /// The hop that its requests travel on.
    pub const fn hop(&self) -> Hop {
        Hop { transport: self.transport, era: self.era }
    }

    /// How it may be repeated.
    pub fn class(&self) -> RetryClass {
        let has_key = self.key.is_some();
        let of_key = if has_key { Idempotency::Gateway } else { Idempotency::None };
        Contract { effect: self.effect, idempotency: self.idempotency.unwrap_or(of_key) }.class(has_key)
    }

    /// Its two limits.
    ///
    /// # Errors
    /// One is zero, or the idle limit is above the maximum.
    pub fn limits(&self) -> Result<Limits, LimitsError> {
        let [idle, maximum] = [self.idle_timeout_ms, self.max_timeout_ms].map(Duration::from_millis);
        Limits::new(idle, maximum)
    }

    pub(super) const fn changes_something(&self) -> bool {
        match self.effect {
            Effect::Read => false,
            Effect::Write | Effect::Unknown => true,
        }
    }
}

impl Queue {
    pub(super) const fn is_usable(self) -> bool {
        self.items >= 2 && self.bytes > 0
    }
}
