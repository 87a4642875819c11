//! I-12: a crash between send and settlement leaves an unknown that is visible and never silently repeated;
//! what was executed is never told or kept as if it had not been.

use steadfast_core::ledger::Enforcement;

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Answer, Ledger, Settled, Told};

#[derive(Clone, Debug, Default)]
pub(super) struct UnknownIsSaid {
    upstream_enforces: bool,
    /// How many requests left that are not proven unexecuted.
    in_doubt: u8,
    executions: u8,
    /// Whether the effect had been executed when an attempt was settled as rejected.
    executed_before: Attempts<bool>,
    committed: bool,
}

impl UnknownIsSaid {
    pub(super) fn see(&mut self, event: &Ledger) -> Verdict {
        match *event {
            Ledger::Begun { enforcement, .. } => {
                self.upstream_enforces = enforcement == Enforcement::Upstream
            }
            Ledger::Sent { .. } => {
                self.in_doubt += 1;
                if self.in_doubt > 1 && !self.upstream_enforces {
                    return Err("a doubtful request was repeated, and nobody enforces its key");
                }
            }
            Ledger::Executed { .. } => {
                self.executions += 1;
                if self.executions > 1 {
                    return Err("the effect was executed twice");
                }
            }
            // Refused, or answered with a question: in either case nothing is in flight any more.
            Ledger::Heard { answer: Answer::Refusal | Answer::Question, .. } => {
                self.in_doubt = self.in_doubt.saturating_sub(1);
            }
            Ledger::Settled { settled: Settled::Committed(_), accepted: true, .. }
            | Ledger::Reconciled { found: Some(_) } => self.committed = true,
            Ledger::Reconciled { found: None } => self.in_doubt = 0,
            Ledger::Settled { attempt, settled: Settled::Rejected, .. } => {
                self.executed_before.set(attempt, self.executions > 0);
            }
            Ledger::Told { attempt, told: Told::Refusal }
                if self.executed_before.get(attempt) != Some(false) =>
            {
                return Err("what was executed was told as not executed");
            }
            Ledger::AtRest { state, .. } => match state {
                "committed" if !self.committed => return Err("a record is committed that nobody committed"),
                "committed" => {}
                _ if self.committed => return Err("a committed result is gone"),
                // A task executes, and its end settles the record.
                "unknown" | "held_by_task" => {}
                _ if self.executions > 0 => return Err("what was executed is not visible in the record"),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }
}
