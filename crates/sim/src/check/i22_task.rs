//! I-22: a Task takes legal edges only, a final state absorbs, a handle is given only once `tasks/get` would
//! find it, and input keys are never used again. An acknowledged cancel is an intent, not an end (D-09).

use super::Verdict;
use crate::event::Task;

#[derive(Clone, Debug, Default)]
pub(super) struct TaskEdges {
    durable: bool,
    handle_given: bool,
    cancel_acknowledged: bool,
    /// The final state, once there is one.
    ended: Option<&'static str>,
    /// A bit a key.
    used: u32,
    open: u32,
}

impl TaskEdges {
    pub(super) fn see(&mut self, event: &Task) -> Verdict {
        match *event {
            Task::Durable => self.durable = true,
            Task::HandleGiven if !self.durable => {
                return Err("a handle was given before the task was durable");
            }
            Task::HandleGiven => self.handle_given = true,
            Task::CancelAcknowledged => self.cancel_acknowledged = true,
            Task::Checkpoint { stop } => {
                let due = self.ended.is_some() || self.cancel_acknowledged;
                if stop != due {
                    return Err("a checkpoint told the worker something else than what was asked for");
                }
                if stop {
                    self.ended.get_or_insert("cancelled");
                }
            }
            Task::Asked { key, taken: true } => {
                let bit = 1 << (key % 32);
                if self.ended.is_some() || self.used & bit != 0 {
                    return Err("a question was taken after the end, or under a key that had been used");
                }
                self.used |= bit;
                self.open |= bit;
            }
            Task::Answered { key, taken } => {
                let bit = 1 << (key % 32);
                let due = self.ended.is_none() && self.open & bit != 0;
                if taken != due {
                    return Err("an answer was taken that nobody had asked for, or ignored that was open");
                }
                self.open &= !bit;
            }
            Task::Ended { result, taken } => {
                if taken != self.ended.is_none() {
                    return Err("an end was taken after the end, or the first one was not");
                }
                self.ended.get_or_insert(if result { "completed" } else { "failed" });
            }
            Task::Told { status } => return self.told(status),
            Task::Asked { taken: false, .. } | Task::Reported | Task::ConnectionClosed | Task::Reopened => {}
        }
        Ok(())
    }

    fn told(&self, status: &str) -> Verdict {
        let due = match (self.durable, self.ended) {
            (false, _) => "missing",
            (true, Some(ended)) => ended,
            (true, None) if self.open != 0 => "input_required",
            (true, None) => "working",
        };
        if status == due {
            Ok(())
        } else if self.handle_given && status == "missing" {
            Err("a task whose handle was given cannot be found")
        } else if status == "cancelled" {
            Err("an acknowledged cancel was told as the end")
        } else {
            Err("the status is not what the events before it make of it")
        }
    }
}
