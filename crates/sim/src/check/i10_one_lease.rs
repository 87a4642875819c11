//! I-10: at most one live lease a key; a settlement under a stale epoch is refused.

use steadfast_core::ledger::LEASE;
use steadfast_core::time::{Instant, Now};

use super::Verdict;
use crate::event::{Ledger, Verdict as Claimed};

#[derive(Clone, Debug, Default)]
pub(super) struct OneLease {
    last_epoch: u64,
    lease: Option<(u8, Instant)>,
    last_holder: Option<u8>,
}

impl OneLease {
    pub(super) fn see(&mut self, now: Now, event: &Ledger) -> Verdict {
        match *event {
            Ledger::Claimed { attempt, verdict: Claimed::Run { epoch, .. }, decided_ms } => {
                let decided = Instant::from_millis(decided_ms);
                if self.lease.is_some_and(|(_, until)| decided < until) {
                    return Err("a key was claimed while another lease on it was alive");
                }
                if epoch <= self.last_epoch {
                    return Err("a claim did not get a new epoch");
                }
                self.last_epoch = epoch;
                self.last_holder = Some(attempt);
                self.lease = Some((attempt, decided.saturating_add(LEASE)));
            }
            Ledger::Renewed { attempt } => match &mut self.lease {
                Some((holder, until)) if *holder == attempt && now.mono < *until => {
                    *until = now.mono.saturating_add(LEASE);
                }
                _ => return Err("a lease was renewed that its holder did not have any more"),
            },
            Ledger::Settled { attempt, accepted: true, .. } => {
                if self.last_holder != Some(attempt) {
                    return Err("a settlement under a stale epoch was stored");
                }
                self.lease = None;
            }
            Ledger::Reconciled { .. } => {
                if self.lease.is_some_and(|(_, until)| now.mono < until) {
                    return Err("a record was reconciled under a living lease");
                }
                self.lease = None;
            }
            _ => {}
        }
        Ok(())
    }
}
