//! Bugs between a stream's queue and those who fill and empty it.

use super::Bug;

/// Whether what finds no room is kept all the same, beside the queue.
pub(crate) fn keeps_beside(bug: Option<Bug>) -> bool {
    bug == Some(Bug::QueueUnbounded)
}

/// Whether final responses are dropped like anything else.
pub(crate) fn drops_finals(bug: Option<Bug>) -> bool {
    bug == Some(Bug::FinalDropped)
}

/// Whether the peer is told that something is missing.
pub(crate) fn refetch(bug: Option<Bug>, needed: bool) -> bool {
    needed && bug != Some(Bug::LossNotTold)
}
