//! I-11: no keyed send before a durable claim, and no answer before a durable settlement.

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Ledger, Settled, Told, Verdict as Claimed};

#[derive(Clone, Debug, Default)]
pub(super) struct DurableFirst {
    claimed: Attempts<()>,
    committed: Attempts<()>,
}

impl DurableFirst {
    pub(super) fn see(&mut self, event: &Ledger) -> Verdict {
        match *event {
            Ledger::Claimed { attempt, verdict: Claimed::Run { .. }, .. } => self.claimed.set(attempt, ()),
            Ledger::Settled { attempt, settled: Settled::Committed(_), accepted: true, .. } => {
                self.committed.set(attempt, ());
            }
            Ledger::Sent { attempt } if self.claimed.get(attempt).is_none() => {
                return Err("a request left before its claim was durable");
            }
            Ledger::Told { attempt, told: Told::Result(_) } if self.committed.get(attempt).is_none() => {
                return Err("a result was told before it was durable");
            }
            _ => {}
        }
        Ok(())
    }
}
