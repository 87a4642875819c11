//! I-25: draining ends within a few outputs, and the next timeout is later than now.

use steadfast_core::time::{Instant, Now};

use super::Verdict;

/// No single input of any machine has more consequences than this.
const MOST_OUTPUTS: usize = 8;

#[inline]
pub(super) fn drained(now: Now, outputs: usize, next: Option<Instant>) -> Verdict {
    if outputs > MOST_OUTPUTS {
        return Err("one input had more outputs than any input may have");
    }
    if next.is_some_and(|next| next <= now.mono) {
        return Err("a machine wants to be woken at once, again");
    }
    Ok(())
}
