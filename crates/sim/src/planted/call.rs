//! Bugs between the retry policy and those who ask it.

use steadfast_core::policy::classify::{RetryClass, Situation};

use super::Bug;

/// The id under which an attempt is sent.
pub(crate) fn id_of_attempt(bug: Option<Bug>, number: u32) -> i64 {
    match bug {
        Some(Bug::IdReused) => 1,
        _ => number.into(),
    }
}

/// What the policy is asked.
pub(crate) fn situation(bug: Option<Bug>, mut situation: Situation) -> Situation {
    match bug {
        Some(Bug::DoubtfulWriteRetried) => situation.class = RetryClass::Safe,
        Some(Bug::RetriedAfterCancel) => situation.cancelled = false,
        Some(Bug::RetryAfterIgnored) => situation.retry_after = None,
        Some(Bug::AttemptsNotCounted) => situation.attempts = 1,
        _ => {}
    }
    situation
}

/// Whether a cancel ends the pause before the next attempt.
pub(crate) fn minds_a_cancel(bug: Option<Bug>) -> bool {
    bug != Some(Bug::RetriedAfterCancel)
}
