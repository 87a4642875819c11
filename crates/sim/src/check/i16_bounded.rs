//! I-16: queues stay within their limits, the final response is never dropped, order is kept, and nothing is
//! lost in silence.

use super::Verdict;
use crate::event::{Became, Held, Queue, What};

#[derive(Clone, Debug, Default)]
pub(super) struct Bounded {
    items: usize,
    bytes: usize,
    /// A bit a message, by its number: kept for the peer, and what the peer need not see because a later one
    /// says it all.
    kept: u64,
    taken: u64,
    superseded: u64,
    others: u64,
    offered: u64,
    last_taken: Option<u32>,
    /// The last message that was offered and kept, if it is progress.
    last_progress: Option<(u32, u8)>,
    final_offered: Option<u32>,
    final_taken: bool,
}

impl Bounded {
    pub(super) fn see(&mut self, event: &Queue) -> Verdict {
        match *event {
            Queue::Opened { items, bytes } => (self.items, self.bytes) = (items, bytes),
            Queue::Offered { number, what, became, held } => {
                self.offered(number, what, became)?;
                return self.within_limits(held);
            }
            Queue::Taken { number, what, held } => {
                self.taken(number, what, held)?;
                return self.within_limits(held);
            }
            Queue::AtRest { held } => {
                if self.final_offered.is_some() && !self.final_taken {
                    return Err("the final response was dropped");
                }
                if self.kept & self.others & !self.taken != 0 {
                    return Err("a message that was kept and says something of its own was dropped");
                }
                return self.nothing_lost_in_silence(held);
            }
        }
        Ok(())
    }

    fn within_limits(&self, held: Held) -> Verdict {
        let waiting_final = usize::from(self.final_offered.is_some() && !self.final_taken);
        if held.items > self.items + waiting_final {
            return Err("more messages wait than the queue may hold");
        }
        if held.bytes > self.bytes + waiting_final * FINAL_BYTES {
            return Err("more bytes wait than the queue may hold");
        }
        Ok(())
    }

    fn offered(&mut self, number: u32, what: What, became: Became) -> Verdict {
        let bit = 1_u64 << (number % 64);
        match (what, became) {
            (What::Final, Became::Queued) if self.final_offered.is_none() => {
                self.final_offered = Some(number)
            }
            (What::Final, Became::Refused) if self.final_offered.is_some() => return Ok(()),
            (What::Final, _) => return Err("the first final response was not kept, or a second one was"),
            (_, Became::Refused) if self.final_offered.is_some() => return Ok(()),
            (_, Became::Refused) => return Err("a message was refused before the final response"),
            (_, Became::Queued | Became::Coalesced | Became::NotKept) if self.final_offered.is_some() => {
                return Err("a message was taken in after the final response");
            }
            (What::Progress(token), Became::Coalesced) => match self.last_progress {
                Some((before, of)) if of == token && self.taken & (1 << (before % 64)) == 0 => {
                    self.superseded |= 1 << (before % 64);
                }
                _ => return Err("progress superseded something else than the progress before it"),
            },
            (What::Mergeable, Became::Coalesced) => self.superseded |= bit,
            (What::Other, Became::Coalesced) => {
                return Err("a message that says something of its own was merged");
            }
            (_, Became::Queued | Became::NotKept) => {}
        }
        self.offered |= bit;
        if became != Became::NotKept {
            self.kept |= bit & !self.superseded;
            self.last_progress = match what {
                What::Progress(token) => Some((number, token)),
                What::Mergeable if became == Became::Coalesced => self.last_progress,
                What::Other | What::Mergeable | What::Final => None,
            };
        }
        if matches!(what, What::Other | What::Mergeable) {
            self.others |= bit;
        }
        Ok(())
    }

    fn taken(&mut self, number: u32, what: What, held: Held) -> Verdict {
        if self.final_taken {
            return Err("something followed the final response");
        }
        if self.last_taken.is_some_and(|last| number <= last) {
            return Err("messages were taken out of order");
        }
        self.last_taken = Some(number);
        self.taken |= 1 << (number % 64);
        if what == What::Final {
            self.final_taken = true;
            return self.nothing_lost_in_silence(held);
        }
        Ok(())
    }

    fn nothing_lost_in_silence(&self, held: Held) -> Verdict {
        let lost = self.offered & !self.taken & !self.superseded & !self.final_bit();
        match (lost != 0, held.refetch) {
            (true, false) => Err("something is missing, and the peer is not told to fetch it"),
            (false, true) => Err("nothing is missing, and the peer is told to fetch it"),
            (true, true) | (false, false) => Ok(()),
        }
    }

    fn final_bit(&self) -> u64 {
        self.final_offered.map_or(0, |number| 1 << (number % 64))
    }
}

/// Every simulated final response has this size.
pub(crate) const FINAL_BYTES: usize = 5;
