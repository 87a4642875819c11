//! Bugs between a breaker and those who ask it.

use steadfast_core::policy::breaker::Observed;

use super::Bug;

/// Whether a refused call is sent all the same.
pub(crate) fn sends_all_the_same(bug: Option<Bug>) -> bool {
    bug == Some(Bug::OpenBreakerSends)
}

/// What a caller's cancel is reported as.
pub(crate) fn of_a_cancel(bug: Option<Bug>) -> Observed {
    match bug {
        Some(Bug::CancelCountedAsFailure) => Observed::Failure,
        Some(Bug::CancelCountedAsSuccess) => Observed::Success,
        _ => Observed::Neutral,
    }
}
