//! Bugs between a subscription's machine and its world.

use super::Bug;

/// Whether every notification is handed on, acknowledged and covered or not.
pub(crate) fn delivers_everything(bug: Option<Bug>) -> bool {
    bug == Some(Bug::EventBeforeAcknowledgement)
}

/// Whether the holder returns at once, whatever the end was.
pub(crate) fn returns_at_once(bug: Option<Bug>) -> bool {
    bug == Some(Bug::ReturnedAtOnce)
}

/// Whether a return asks to go on after the last event.
pub(crate) fn sends_last_event_id(bug: Option<Bug>) -> bool {
    bug == Some(Bug::LastEventIdSent)
}

/// Whether what was missed is not fetched.
pub(crate) fn forgets_to_fetch(bug: Option<Bug>) -> bool {
    bug == Some(Bug::RefetchForgotten)
}

/// Whether the machine is told that its listen has left.
pub(crate) fn says_sent(bug: Option<Bug>) -> bool {
    bug != Some(Bug::SubscriptionDeaf)
}
