//! I-26: whole valid lines only, wherever the stream is cut; a dead child settles every pending call exactly
//! once.

use std::collections::VecDeque;

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Line, Stdio};

#[derive(Clone, Debug, Default)]
pub(super) struct WholeLines {
    written: VecDeque<Line>,
    /// Whether a call is settled, and how the child answered it.
    settled: Attempts<bool>,
    answered: Attempts<()>,
}

impl WholeLines {
    pub(super) fn see(&mut self, event: &Stdio) -> Verdict {
        match *event {
            Stdio::Called { call } => self.settled.set(call, false),
            Stdio::Wrote { line } => self.written.push_back(line),
            Stdio::Died { half: true } => self.written.push_back(Line::Unfinished),
            Stdio::Died { half: false } => {}
            Stdio::Took { line } => {
                if self.written.pop_front() != Some(line) {
                    return Err("a line was taken that was not written so");
                }
                if let Line::Answer(call) = line {
                    self.answered.set(call, ());
                }
            }
            Stdio::Read if !self.written.is_empty() => return Err("a whole line was read and not taken"),
            Stdio::Read => {}
            Stdio::Settled { call, answered } => {
                if self.settled.get(call) != Some(false) {
                    return Err("a call was settled twice, or never made");
                }
                if answered != self.answered.get(call).is_some() {
                    return Err("a call was settled as something else than what the child said of it");
                }
                self.settled.set(call, true);
            }
            Stdio::AtRest { pending: 1.. } => return Err("the child is dead and a call still waits"),
            Stdio::AtRest { .. } if self.settled.all().any(|settled| !settled) => {
                return Err("a call was never settled");
            }
            Stdio::AtRest { .. } => {}
        }
        Ok(())
    }
}
