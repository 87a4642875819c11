//! I-07: a write without a key that somebody enforces upstream has at most one attempt that is not proven
//! unexecuted.

use steadfast_core::policy::classify::{Enforced, Failure, RetryClass};

use super::Verdict;
use crate::event::Call;

#[derive(Clone, Debug, Default)]
pub(super) struct OneDoubtfulAttempt {
    may_repeat: bool,
    left: bool,
    /// An earlier attempt may have been executed.
    in_doubt: bool,
}

impl OneDoubtfulAttempt {
    pub(super) fn see(&mut self, event: &Call) -> Verdict {
        match *event {
            Call::Opened { class, .. } => {
                self.may_repeat =
                    matches!(class, RetryClass::Safe | RetryClass::Conditional(Enforced::ByUpstream));
            }
            Call::Attempt { .. } => self.left = false,
            Call::Left if self.in_doubt && !self.may_repeat => {
                return Err(
                    "a write was sent again that may have been executed, and nobody would recognise it",
                );
            }
            Call::Left => self.left = true,
            Call::Failed { failure, .. } => self.in_doubt |= self.left && !is_proof(failure),
            Call::Answered | Call::GaveUp | Call::Over { .. } => {}
        }
        Ok(())
    }
}

/// What proves that nothing was executed although bytes left (ruling 2), and nothing else does.
const fn is_proof(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::NotDispatched
            | Failure::VersionRefused
            | Failure::HeadersRefused
            | Failure::RejectedByContract
            | Failure::SessionGone
            | Failure::Unauthenticated
            | Failure::RefusedByHttp
            | Failure::RateLimited
            | Failure::Declared { outcome: steadfast_core::error::Outcome::NotExecuted, .. }
    )
}
