//! The life of a durable Task (extension `io.modelcontextprotocol/tasks`): it outlives connections and processes.
//!
//! These are pure transitions; a store runs each inside one durable transaction. Closing a connection is no input: a
//! Task does not know of connections (G14, D-09). `tasks/cancel` records an intent, and only a worker's checkpoint
//! turns it into the state `cancelled`; a worker that finishes first has finished.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Wall;

/// Who may see a Task: checked on every request that names it (TSK-52).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskOwner {
    /// The tenant; `local` where nobody authenticates.
    pub tenant: String,
    /// The principal within the tenant.
    pub principal: String,
}

/// Where a Task stands (TSK-11, TSK-15).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
/// | status | Cancel | Checkpoint | Ask | Answer | Finish | Fail |
/// |---|---|---|---|---|---|---|
/// | working | intent recorded | intent → cancelled; else go on | → input_required | ignored | → completed | → failed |
/// | input_required | intent recorded | intent → cancelled; else go on | more questions | open keys closed; none left → working | → completed | → failed |
/// | completed, failed, cancelled | acknowledged, unchanged | stop | late | ignored | late | late |
///
/// Every change moves `updated_at` strictly forward, so that two states of one Task are never confused (TSK-58).
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

/// What happens to a Task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// The worker has a JSON-RPC error.
    Fail {
        /// The error object.
        error: P,
        /// A diagnosis for a person (TSK-26).
        message: String,
    },
}

/// What came of an input that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// A key is used a second time, or nothing is asked; nothing is changed then.
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
                self.turn_into(now, Status::Cancelled);
                Effect::Stop
            }
            (Input::Checkpoint, false) => Effect::GoOn,
            (Input::Report { .. } | Input::Ask(_) | Input::Finish(_) | Input::Fail { .. }, true) => {
                Effect::Late
            }
            (Input::Report { message }, false) => {
                self.message = Some(message);
                self.touch(now);
                Effect::GoOn
            }
            (Input::Ask(questions), false) => self.ask(now, questions)?,
            (Input::Answer(answers), _) => self.answer(now, answers),
            (Input::Finish(result), false) => {
                self.turn_into(now, Status::Completed { result });
                Effect::Changed
            }
            (Input::Fail { error, message }, false) => {
                self.message = Some(message);
                self.turn_into(now, Status::Failed { error });
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

    /// A wall clock may stand still or be set back; a Task's order may not.
    fn touch(&mut self, now: Wall) {
        self.updated_at = now.max(self.updated_at.saturating_add(Duration::from_millis(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> TaskOwner {
        TaskOwner { tenant: "t".into(), principal: "p".into() }
    }

    fn task() -> Task<u8> {
        Task::create(owner(), Wall::from_unix_millis(1_000), Some(Duration::from_secs(60)), None)
    }

    fn map(keys: &[&str]) -> BTreeMap<String, u8> {
        keys.iter().map(|key| ((*key).into(), 1)).collect()
    }

    fn at(task: &mut Task<u8>, input: Input<u8>) -> Effect<u8> {
        task.handle(Wall::from_unix_millis(1_000), input).unwrap()
    }

    #[test]
    fn d_09_an_acknowledged_cancel_waits_for_a_checkpoint() {
        let mut it = task();
        assert_eq!(at(&mut it, Input::Checkpoint), Effect::GoOn);
        assert_eq!(at(&mut it, Input::Cancel), Effect::Acknowledged);
        assert_eq!((it.status().as_str(), it.is_cancel_pending()), ("working", true));
        assert_eq!(at(&mut it, Input::Checkpoint), Effect::Stop);
        assert_eq!((it.status().as_str(), it.is_cancel_pending()), ("cancelled", false));
        assert_eq!(at(&mut it, Input::Finish(1)), Effect::Late);
        assert_eq!(it.status(), &Status::Cancelled);
    }

    #[test]
    fn d_09_finishing_before_the_checkpoint_wins() {
        let mut it = task();
        at(&mut it, Input::Cancel);
        assert_eq!(at(&mut it, Input::Finish(7)), Effect::Changed);
        assert_eq!(at(&mut it, Input::Checkpoint), Effect::Stop);
        assert_eq!(it.status(), &Status::Completed { result: 7 });
        // TSK-43: cancelling what is over is acknowledged and changes nothing.
        let before = it.clone();
        assert_eq!(at(&mut it, Input::Cancel), Effect::Acknowledged);
        assert_eq!(it, before);
    }

    #[test]
    fn tsk_33_keys_are_never_used_again_and_partial_answers_leave_the_rest_open() {
        let mut it = task();
        at(&mut it, Input::Ask(map(&["a", "b"])));
        assert_eq!(
            at(&mut it, Input::Answer(map(&["a", "x"]))),
            Effect::Answered(alloc::vec![("a".into(), 1)])
        );
        assert_eq!(it.status(), &Status::InputRequired { open: map(&["b"]) });
        let again = it.handle(Wall::default(), Input::Ask(map(&["a"])));
        assert_eq!(again, Err(TaskError::KeyReused("a".into())));
        assert_eq!(at(&mut it, Input::Answer(map(&["a"]))), Effect::Answered(Vec::new()));
        at(&mut it, Input::Answer(map(&["b"])));
        assert_eq!(it.status(), &Status::Working);
        assert_eq!(it.handle(Wall::default(), Input::Ask(map(&[]))), Err(TaskError::NothingAsked));
    }

    #[test]
    fn amb_25_a_promised_retention_is_only_lengthened() {
        let seconds = Duration::from_secs;
        let mut it = task();
        it.keep_for(Wall::default(), Some(seconds(10)));
        assert_eq!(it.ttl(), Some(seconds(60)));
        assert!(!it.is_expired(Wall::from_unix_millis(60_999)));
        assert!(it.is_expired(Wall::from_unix_millis(61_000)));
        it.keep_for(Wall::default(), Some(seconds(90)));
        assert_eq!(it.ttl(), Some(seconds(90)));
        it.keep_for(Wall::default(), None);
        it.keep_for(Wall::default(), Some(seconds(90)));
        assert_eq!(it.ttl(), None);
        assert!(!it.is_expired(Wall::from_unix_millis(u64::MAX)));
    }

    #[test]
    fn tsk_52_a_task_belongs_to_its_owner() {
        assert!(task().belongs_to(&owner()));
        assert!(!task().belongs_to(&TaskOwner { tenant: "other".into(), ..owner() }));
    }

    /// All strings of events up to six, judged by the rules and not by the implementation.
    #[test]
    fn i_22_edges_are_legal_terminal_absorbs_and_the_order_is_strict() {
        const EVENTS: usize = 7;
        let mut strings = 0;
        for length in 0..=6_u32 {
            for code in 0..EVENTS.pow(length) {
                strings += 1;
                let mut it = task();
                let mut cancel_acknowledged = false;
                for place in 0..length {
                    let key = alloc::format!("k{place}");
                    let open = alloc::format!("k{}", place.saturating_sub(1));
                    let input = match code / EVENTS.pow(place) % EVENTS {
                        0 => Input::Cancel,
                        1 => Input::Checkpoint,
                        2 => Input::Ask(map(&[&key])),
                        3 => Input::Answer(map(&[&open])),
                        4 => Input::Finish(place as u8),
                        5 => Input::Fail { error: 1, message: String::new() },
                        _ => Input::Report { message: key.clone() },
                    };
                    let before = it.clone();
                    at(&mut it, input.clone());
                    let (from, to) = (before.status().as_str(), it.status().as_str());
                    if before.status().is_final() {
                        assert_eq!(it, before, "terminal absorbs");
                        continue;
                    }
                    cancel_acknowledged |= input == Input::Cancel;
                    let legal = match input {
                        Input::Cancel | Input::Report { .. } => from == to,
                        Input::Checkpoint => to == if cancel_acknowledged { "cancelled" } else { from },
                        Input::Ask(_) => to == "input_required",
                        Input::Answer(_) => from == to || (from, to) == ("input_required", "working"),
                        Input::Finish(_) => to == "completed",
                        Input::Fail { .. } => to == "failed",
                    };
                    assert!(legal, "{from} → {to} on {input:?}");
                    assert!(it == before || it.updated_at() > before.updated_at(), "changes are ordered");
                    assert!(it.updated_at() >= it.created_at());
                }
            }
        }
        assert_eq!(strings, (0..=6).map(|length| EVENTS.pow(length)).sum::<usize>());
    }
}
