//! I-09: a committed result never changes, and every replay is identical to it.

use super::Verdict;
use crate::event::{Body, Ledger, Settled, Told, Verdict as Claimed};

#[derive(Clone, Debug, Default)]
pub(super) struct SameAnswer {
    committed: Option<Body>,
}

impl SameAnswer {
    pub(super) fn see(&mut self, event: &Ledger) -> Verdict {
        match *event {
            Ledger::Settled { settled: Settled::Committed(body), accepted: true, .. }
            | Ledger::Reconciled { found: Some(body) } => {
                if self.committed.is_some_and(|committed| committed != body) {
                    return Err("a committed result was replaced");
                }
                self.committed = Some(body);
            }
            Ledger::Settled { settled: Settled::Rejected | Settled::Unknown, accepted: true, .. }
            | Ledger::Reconciled { found: None }
                if self.committed.is_some() =>
            {
                return Err("a committed result was taken back");
            }
            Ledger::Claimed { verdict: Claimed::Replay { body }, .. }
            | Ledger::Told { told: Told::Replay(body), .. }
                if self.committed != Some(body) =>
            {
                return Err("a replay differs from what was committed");
            }
            _ => {}
        }
        Ok(())
    }
}
