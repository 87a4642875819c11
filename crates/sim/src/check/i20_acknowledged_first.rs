//! I-20: a subscription's first message is its acknowledgement, and nothing outside the acknowledged filter
//! is handed on.

use super::Verdict;
use crate::event::Subscription;

#[derive(Clone, Debug, Default)]
pub(super) struct AcknowledgedFirst {
    listen: u64,
    wanted: u8,
    granted: Option<u8>,
    /// A notification that must be handed on next.
    due: Option<u8>,
}

impl AcknowledgedFirst {
    pub(super) fn see(&mut self, event: &Subscription) -> Verdict {
        let due = self.due.take();
        if let Subscription::Delivered { change } = *event {
            let covered = self.granted.is_some_and(|granted| granted & change == change);
            return match (covered, due == Some(change)) {
                (false, _) => Err("a notification was handed on that no acknowledged filter covers"),
                (true, false) => Err("a notification was handed on that did not arrive just now"),
                (true, true) => Ok(()),
            };
        }
        if due.is_some() {
            return Err("a notification within the acknowledged filter was not handed on");
        }
        match *event {
            Subscription::Listened { listen, filter, .. } => {
                (self.listen, self.wanted, self.granted) = (listen, filter, None);
            }
            Subscription::Acknowledged { listen, granted } if listen == self.listen => {
                self.granted.get_or_insert(granted & self.wanted);
            }
            Subscription::Arrived { listen, change } if listen == self.listen => {
                self.due = self.granted.is_some_and(|granted| granted & change == change).then_some(change);
            }
            // Closed and ended listens are over: a late word is nobody's business.
            Subscription::Ended { listen, .. } | Subscription::Cancelled { listen }
                if listen == self.listen =>
            {
                self.listen = 0;
            }
            Subscription::Closed => self.listen = 0,
            _ => {}
        }
        Ok(())
    }
}
