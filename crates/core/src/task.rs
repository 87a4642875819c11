//! The life of a durable Task (extension `io.modelcontextprotocol/tasks`): it outlives connections and processes.
//!
//! These are pure transitions; a store runs each inside one durable transaction. Closing a connection is no input: a
//! Task does not know of connections (G14, D-09), nor of `notifications/cancelled` (CAN-17, CAN-20). `tasks/cancel`
//! records an intent, and only a worker's checkpoint turns it into the state `cancelled`; a worker that finishes first
//! has finished.
//!
//! The loss of a worker is no input either. Whoever notices it fails the Task, or, where the work can be resumed, gives
//! it to a successor, who finds it as it was: the same intent, the same open questions, the same used keys.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Wall;

pub mod follow;
mod hold;

pub use hold::{Hold, HoldError};

/// Who may see a Task: checked on every request that names it (TSK-52).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskOwner {
    /// The tenant; `local` where nobody authenticates.
    pub tenant: String,
    /// The principal within the tenant.
    pub principal: String,
}

/// Where a Task stands (TSK-11, TSK-15). Its `Debug` leaves out what payloads say.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status<P> {
    /// A worker works.
    Working,
    /// Questions are open, by key.
    InputRequired {
        /// Each open question.
        open: BTreeMap<String, P>,
    },
    /// It ended with a result, `isError` included (TSK-25).
    Completed {
        /// What the request would have been answered with.
        result: P,
    },
    /// It ended with a JSON-RPC error.
    Failed {
        /// What the request would have been answered with.
        error: P,
    },
    /// A worker observed the cancel.
    Cancelled,
}

impl<P> Status<P> {
    /// The word on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired { .. } => "input_required",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it is over, for ever.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Working | Self::InputRequired { .. } => false,
            Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled => true,
        }
    }
}

/// One Task. `P` is opaque JSON: a result, an error, a question, an answer.
///
/// | status | Cancel | Checkpoint | Report | Ask | Answer | Finish | Fail | Expire |
/// |---|---|---|---|---|---|---|---|---|
/// | working | intent recorded | intent → cancelled; else go on | message kept | → input_required | ignored | → completed | → failed | after the ttl → failed; else refused |
/// | input_required | intent recorded | intent → cancelled; else go on | message kept | more questions | open keys closed; none left → working | → completed | → failed | after the ttl → failed; else refused |
/// | completed, failed, cancelled | acknowledged, unchanged | stop | late | late | ignored | late | late | late |
///
/// Every change moves `updated_at` strictly forward, so that two states of one Task are never confused (TSK-58).
/// The payload of a status cannot be another status's: a failed Task has no result (TSK-28).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task<P> {
    owner: TaskOwner,
    status: Status<P>,
    message: Option<String>,
    cancel_requested: bool,
    created_at: Wall,
    updated_at: Wall,
    ttl: Option<Duration>,
    poll_interval: Option<Duration>,
    used_keys: BTreeSet<String>,
}

/// What happens to a Task. Its `Debug` leaves out what payloads say.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Input<P> {
    /// `tasks/cancel`.
    Cancel,
    /// The worker looks whether it should stop.
    Checkpoint,
    /// The worker says how far it is.
    Report {
        /// For a person.
        message: String,
    },
    /// The worker asks questions, each under a key of its own.
    Ask(BTreeMap<String, P>),
    /// `tasks/update`: answers by key.
    Answer(BTreeMap<String, P>),
    /// The worker has a result.
    Finish(P),
    /// The worker has a JSON-RPC error, or it was lost and nobody can resume its work.
    Fail {
        /// The error object.
        error: P,
        /// A diagnosis for a person (TSK-26).
        message: String,
    },
    /// Somebody looks whether the retention of an unfinished Task is over (TSK-23).
    Expire {
        /// The error object; it carries the outcome, where an effect is unknown (ruling 13).
        error: P,
        /// A diagnosis for a person (TSK-26).
        message: String,
    },
}

/// What came of an input that was taken. Its `Debug` leaves out what payloads say.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Effect<P> {
    /// Acknowledged; the status did not change.
    Acknowledged,
    /// The worker goes on.
    GoOn,
    /// The worker stops; what it still produces is not stored.
    Stop,
    /// The status changed.
    Changed,
    /// These answers were open and are the worker's now; all other keys were ignored (TSK-36).
    Answered(Vec<(String, P)>),
    /// The Task was over already: recorded as late, nothing changed (G1).
    Late,
}

/// Why an input was refused; the Task is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TaskError {
    /// TSK-33, TSK-34.
    #[error("the input key {0:?} was used before in this task; ask under a new key")]
    KeyReused(String),
    /// A question needs at least one key.
    #[error("a task cannot ask without a question; give at least one input request")]
    NothingAsked,
    /// TSK-24.
    #[error(
        "the retention of this task is not over; let it expire at its creation time plus its ttl, if it has one"
    )]
    NotExpired,
}

impl<P: Clone> Task<P> {
    /// A Task that a worker is about to work on. A store makes it durable before its handle leaves (TSK-13).
    pub const fn create(
        owner: TaskOwner,
        now: Wall,
        ttl: Option<Duration>,
        poll_interval: Option<Duration>,
    ) -> Self {
        Self {
            owner,
            status: Status::Working,
            message: None,
            cancel_requested: false,
            created_at: now,
            updated_at: now,
            ttl,
            poll_interval,
            used_keys: BTreeSet::new(),
        }
    }

    /// Takes one event.
    ///
    /// # Errors
    /// A key is used a second time, nothing is asked, or the retention is not over; nothing is changed then.
    pub fn handle(&mut self, now: Wall, input: Input<P>) -> Result<Effect<P>, TaskError> {
        let over = self.status.is_final();
        Ok(match (input, over) {
            (Input::Cancel, true) => Effect::Acknowledged,
            (Input::Cancel, false) => {
                if !self.cancel_requested {
                    self.cancel_requested = true;
                    self.touch(now);
                }
                Effect::Acknowledged
            }
            (Input::Checkpoint, true) => Effect::Stop,
            (Input::Checkpoint, false) if self.cancel_requested => {
                self.end(now, Status::Cancelled, None);
                Effect::Stop
            }
            (Input::Checkpoint, false) => Effect::GoOn,
            (
                Input::Report { .. }
                | Input::Ask(_)
                | Input::Finish(_)
                | Input::Fail { .. }
                | Input::Expire { .. },
                true,
            ) => Effect::Late,
            (Input::Report { message }, false) => {
                self.message = Some(message);
                self.touch(now);
                Effect::GoOn
            }
            (Input::Ask(questions), false) => self.ask(now, questions)?,
            (Input::Answer(answers), _) => self.answer(now, answers),
            (Input::Finish(result), false) => {
                self.end(now, Status::Completed { result }, None);
                Effect::Changed
            }
            (Input::Expire { .. }, false) if !self.is_expired(now) => return Err(TaskError::NotExpired),
            (Input::Fail { error, message } | Input::Expire { error, message }, false) => {
                self.end(now, Status::Failed { error }, Some(message));
                Effect::Changed
            }
        })
    }

    /// Promises a longer retention; a shorter one is not taken (AMB-25).
    pub fn keep_for(&mut self, now: Wall, ttl: Option<Duration>) {
        let longer = match (self.ttl, ttl) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(promised), Some(asked)) => asked > promised,
        };
        if longer {
            self.ttl = ttl;
            self.touch(now);
        }
    }

    /// Whether its retention is over: an unfinished one may be called failed, and all of it may be deleted (TSK-23,
    /// TSK-24).
    pub fn is_expired(&self, now: Wall) -> bool {
        self.expires_at().is_some_and(|end| end <= now)
    }

    /// When its retention is over; `None` if it never is.
    pub fn expires_at(&self) -> Option<Wall> {
        self.ttl.map(|ttl| self.created_at.saturating_add(ttl))
    }

    /// Whether a caller may see it.
    pub fn belongs_to(&self, caller: &TaskOwner) -> bool {
        self.owner == *caller
    }

    /// Whose it is.
    pub const fn owner(&self) -> &TaskOwner {
        &self.owner
    }

    /// Where it stands.
    pub const fn status(&self) -> &Status<P> {
        &self.status
    }

    /// What the worker or the failure says, for a person.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Whether a cancel was acknowledged and no worker has observed it yet.
    pub const fn is_cancel_pending(&self) -> bool {
        self.cancel_requested && !self.status.is_final()
    }

    /// When it was created.
    pub const fn created_at(&self) -> Wall {
        self.created_at
    }

    /// When it changed last; of two states of one Task the later has the greater one.
    pub const fn updated_at(&self) -> Wall {
        self.updated_at
    }

    /// How long it is kept, counted from its creation; `None` for ever.
    pub const fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// How often a caller should ask.
    pub const fn poll_interval(&self) -> Option<Duration> {
        self.poll_interval
    }

    fn ask(&mut self, now: Wall, questions: BTreeMap<String, P>) -> Result<Effect<P>, TaskError> {
        if questions.is_empty() {
            return Err(TaskError::NothingAsked);
        }
        if let Some(key) = questions.keys().find(|key| self.used_keys.contains(*key)) {
            return Err(TaskError::KeyReused(key.clone()));
        }
        self.used_keys.extend(questions.keys().cloned());
        let mut open = match &self.status {
            Status::InputRequired { open } => open.clone(),
            Status::Working | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled => {
                BTreeMap::new()
            }
        };
        open.extend(questions);
        self.turn_into(now, Status::InputRequired { open });
        Ok(Effect::Changed)
    }

    fn answer(&mut self, now: Wall, answers: BTreeMap<String, P>) -> Effect<P> {
        let mut open = match &self.status {
            Status::InputRequired { open } => open.clone(),
            Status::Working | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled => {
                return Effect::Answered(Vec::new());
            }
        };
        let taken: Vec<(String, P)> =
            answers.into_iter().filter(|(key, _)| open.remove(key).is_some()).collect();
        if !taken.is_empty() {
            let next = if open.is_empty() { Status::Working } else { Status::InputRequired { open } };
            self.turn_into(now, next);
        }
        Effect::Answered(taken)
    }

    fn turn_into(&mut self, now: Wall, status: Status<P>) {
        self.status = status;
        self.touch(now);
    }

    /// What a worker said on its way is no longer so: a completed Task must not say that its effect is unknown.
    fn end(&mut self, now: Wall, status: Status<P>, message: Option<String>) {
        self.message = message;
        self.turn_into(now, status);
    }

    /// A wall clock may stand still or be set back; a Task's order may not.
    fn touch(&mut self, now: Wall) {
        self.updated_at = now.max(self.updated_at.saturating_add(Duration::from_millis(1)));
    }
}

impl<P> fmt::Debug for Status<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputRequired { open } => {
                f.debug_struct("InputRequired").field("open", &open.len()).finish()
            }
            Self::Working | Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled => {
                f.write_str(self.as_str())
            }
        }
    }
}

impl<P> fmt::Debug for Input<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancel => f.write_str("Cancel"),
            Self::Checkpoint => f.write_str("Checkpoint"),
            Self::Report { .. } => f.write_str("Report"),
            Self::Ask(questions) => f.debug_tuple("Ask").field(&questions.len()).finish(),
            Self::Answer(answers) => f.debug_tuple("Answer").field(&answers.len()).finish(),
            Self::Finish(_) => f.write_str("Finish"),
            Self::Fail { .. } => f.write_str("Fail"),
            Self::Expire { .. } => f.write_str("Expire"),
        }
    }
}

impl<P> fmt::Debug for Effect<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged => f.write_str("Acknowledged"),
            Self::GoOn => f.write_str("GoOn"),
            Self::Stop => f.write_str("Stop"),
            Self::Changed => f.write_str("Changed"),
            Self::Answered(taken) => f.debug_tuple("Answered").field(&taken.len()).finish(),
            Self::Late => f.write_str("Late"),
        }
    }
}
