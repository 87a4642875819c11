//! I-21: after an abrupt end listen again with backoff, under a new id and without `Last-Event-ID`, and fetch
//! what it covered; after a graceful end no storm.

use steadfast_core::time::Now;

use super::Verdict;
use crate::event::{Ending, Subscription};

#[derive(Clone, Debug, Default)]
pub(super) struct Return {
    listen: u64,
    wanted: u8,
    granted: Option<u8>,
    was_active: bool,
    losses: u32,
    listened_at: u64,
    /// The listen that ended last and how, until the next one begins.
    ended: Option<(u64, Ending)>,
    /// Between when the next listen may begin, in nanoseconds, unless the server is used first.
    window: Option<(u64, u64)>,
    used_after_graceful_end: bool,
    closed: bool,
    /// What must be marked stale, or fetched, next.
    stale_due: u8,
    fetch_due: u8,
}

const MS: u64 = 1_000_000;

impl Return {
    pub(super) fn see(&mut self, now: Now, event: &Subscription) -> Verdict {
        if self.stale_due != 0 && *event != (Subscription::Stale { of: self.stale_due }) {
            return Err("a listen ended, and what it covered was not marked stale");
        }
        if self.fetch_due != 0 && *event != (Subscription::Fetched { of: self.fetch_due }) {
            return Err("after a return, what was missed was not fetched");
        }
        (self.stale_due, self.fetch_due) = (0, 0);
        let now = now.mono.as_nanos();
        match *event {
            Subscription::Listened { listen, filter, last_event_id } => {
                return self.listened(now, listen, filter, last_event_id);
            }
            Subscription::Acknowledged { listen, granted }
                if self.is_open(listen) && self.granted.is_none() =>
            {
                self.granted = Some(granted & self.wanted);
                self.losses = 0;
                self.fetch_due = if self.was_active { self.wanted } else { 0 };
                self.was_active = true;
            }
            Subscription::Ended { listen, how } => self.ended(now, listen, how),
            Subscription::Used => {
                self.used_after_graceful_end = matches!(self.ended, Some((_, Ending::Graceful)));
            }
            Subscription::Cancelled { listen } if self.is_open(listen) => return self.given_up(now, listen),
            Subscription::Closed | Subscription::Refused => self.closed = true,
            Subscription::AtRest { waits: true } if self.closed => {
                return Err("a closed subscription still waits");
            }
            Subscription::AtRest { waits: false } if self.is_open(self.listen) && self.granted.is_none() => {
                return Err("a listen that is not acknowledged is waited for without a limit");
            }
            _ => {}
        }
        Ok(())
    }

    fn is_open(&self, listen: u64) -> bool {
        listen == self.listen && self.ended.is_none() && !self.closed
    }

    fn listened(&mut self, now: u64, listen: u64, filter: u8, last_event_id: bool) -> Verdict {
        if last_event_id {
            return Err("a listen asked to go on where another had ended");
        }
        if listen <= self.listen {
            return Err("a listen was not a new request");
        }
        if self.listen != 0 && filter != self.wanted {
            return Err("a return listens for something else than before");
        }
        if self.closed {
            return Err("a closed subscription listened again");
        }
        match self.window {
            Some((least, most)) if now < least && !self.used_after_graceful_end || now > most => {
                return Err("a return came sooner or later than the end before it asks for");
            }
            None if self.listen != 0 => return Err("a listen began while another one was open"),
            _ => {}
        }
        (self.listen, self.wanted, self.granted) = (listen, filter, None);
        (self.ended, self.window, self.used_after_graceful_end) = (None, None, false);
        self.listened_at = now;
        Ok(())
    }

    /// Without a close, only a listen that is not acknowledged in time is given up, and that is a loss
    /// (ruling 18).
    fn given_up(&mut self, now: u64, listen: u64) -> Verdict {
        if self.granted.is_some() || now != self.listened_at + 10_000 * MS {
            return Err("a listen was given up that was acknowledged, or still had time to be");
        }
        self.ended = Some((listen, Ending::Lost));
        self.window = Some(self.window_after(now, Ending::Lost));
        Ok(())
    }

    fn ended(&mut self, now: u64, listen: u64, how: Ending) {
        if self.is_open(listen) {
            self.stale_due = self.granted.unwrap_or(0);
            if how == Ending::Refused && self.granted.is_none() {
                return;
            }
            // An error after the acknowledgement is a loss like any other.
            let how = if how == Ending::Refused { Ending::Lost } else { how };
            self.ended = Some((listen, how));
            self.window = Some(self.window_after(now, how));
            return;
        }
        // On stdio a graceful end is a result next to a cancel, in either order (AMB-01).
        if let Some((ended, Ending::CancelledByServer | Ending::Lost)) = self.ended
            && (ended, how) == (listen, Ending::Graceful)
            && !self.closed
        {
            self.losses = self.losses.saturating_sub(1);
            self.ended = Some((listen, how));
            self.window = Some(self.window_after(now, how));
        }
    }

    fn window_after(&mut self, now: u64, how: Ending) -> (u64, u64) {
        match how {
            Ending::Graceful => (now + 8_000 * MS, now + 300_000 * MS),
            Ending::CancelledByServer | Ending::Lost | Ending::Refused => {
                let step = (250 << self.losses.min(5)) * MS;
                self.losses += 1;
                (now + step / 2, now + step)
            }
        }
    }
}
