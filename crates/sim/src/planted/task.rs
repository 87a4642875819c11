//! Bugs between a Task's transitions and those who use them.

use super::Bug;

/// Whether the handle leaves before the Task is durable.
pub(crate) fn gives_early(bug: Option<Bug>) -> bool {
    bug == Some(Bug::HandleBeforeDurable)
}

/// Whether a question counts as taken.
pub(crate) fn takes_a_question(bug: Option<Bug>, taken: bool) -> bool {
    taken || bug == Some(Bug::InputKeyReused)
}

/// Whether an end counts as taken.
pub(crate) fn takes_an_end(bug: Option<Bug>, taken: bool) -> bool {
    taken || bug == Some(Bug::FinalStateReplaced)
}

/// The status that a caller is told.
pub(crate) fn status(bug: Option<Bug>, cancel_pending: bool, status: &'static str) -> &'static str {
    match bug {
        Some(Bug::AcknowledgementTakenForEnd) if cancel_pending => "cancelled",
        _ => status,
    }
}
