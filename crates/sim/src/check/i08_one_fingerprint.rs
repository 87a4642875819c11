//! I-08: one key, one fingerprint, one scope; anything else under the key is refused before it is sent.

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Ledger, Settled, Told, Verdict as Claimed};

#[derive(Clone, Debug, Default)]
pub(super) struct OneFingerprint {
    arguments: Attempts<u8>,
    /// What the key is bound to.
    bound: Option<u8>,
    /// How many claims since then are not proven unexecuted.
    doubts: u8,
}

impl OneFingerprint {
    pub(super) fn see(&mut self, event: &Ledger) -> Verdict {
        match *event {
            Ledger::Begun { attempt, arguments, .. } => self.arguments.set(attempt, arguments),
            Ledger::Claimed { attempt, verdict, .. } => {
                let same = self.bound == self.arguments.get(attempt);
                match verdict {
                    Claimed::Run { .. } if self.bound.is_some() && self.doubts > 0 && !same => {
                        return Err("a key that is bound to other arguments was claimed");
                    }
                    Claimed::Run { .. } => {
                        self.bound = self.arguments.get(attempt);
                        self.doubts += 1;
                    }
                    Claimed::Join | Claimed::JoinTask | Claimed::Replay { .. } | Claimed::Unknown
                        if !same =>
                    {
                        return Err("other arguments under the key were not refused");
                    }
                    Claimed::Mismatch if same => return Err("equal arguments under the key were refused"),
                    Claimed::Join
                    | Claimed::JoinTask
                    | Claimed::Replay { .. }
                    | Claimed::Unknown
                    | Claimed::Mismatch => {}
                }
            }
            Ledger::Settled { settled: Settled::Rejected, accepted: true, .. } => {
                self.doubts = self.doubts.saturating_sub(1);
            }
            Ledger::Reconciled { found: None } => self.doubts = 0,
            Ledger::Sent { attempt } | Ledger::Told { attempt, told: Told::Result(_) | Told::Replay(_) }
                if self.bound != self.arguments.get(attempt) =>
            {
                return Err("a call with other arguments under the key went through");
            }
            _ => {}
        }
        Ok(())
    }
}
