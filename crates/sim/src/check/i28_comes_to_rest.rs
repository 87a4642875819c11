//! I-28: once faults stop, every call ends. What may happen of itself is bounded in every simulation, so an order that
//! goes on and on has somebody in it who waits for something that will not come.

use super::Verdict;

/// No order of any scope has a tenth of it.
const MOST_EVENTS: u32 = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct ComesToRest {
    events: u32,
}

impl ComesToRest {
    #[inline]
    pub(super) fn see(&mut self) -> Verdict {
        self.events += 1;
        if self.events > MOST_EVENTS { Err("something goes on for ever") } else { Ok(()) }
    }
}
