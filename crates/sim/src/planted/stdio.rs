//! Bugs between the framer and those who use it.

use steadfast_core::stdio::{Framer, Line};

use super::Bug;

/// What a reader takes when a piece of the stream has been read and no line ended with it.
pub(crate) fn after_a_piece(bug: Option<Bug>, framer: &mut Framer) -> Option<Line> {
    match bug {
        Some(Bug::PieceTakenForLine) => framer.finish(),
        _ => None,
    }
}

/// How many of the calls that a dead child leaves behind are settled.
pub(crate) const fn settled_of(bug: Option<Bug>, calls: usize) -> usize {
    match bug {
        Some(Bug::PendingCallForgotten) => calls.saturating_sub(1),
        _ => calls,
    }
}
