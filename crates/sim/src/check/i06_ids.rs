//! I-06: every attempt has a fresh id and token, and the answer carries the caller's id with its type.

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Call, Exchange, Id, Message, Side};

#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    asked: Option<Id>,
    attempts: u8,
    used: Attempts<(Id, Id)>,
}

impl Ids {
    #[inline]
    pub(super) fn see(&mut self, event: &Exchange) -> Verdict {
        match *event {
            Exchange::Started(started) if started.by == Side::Client => self.asked = Some(started.id),
            Exchange::Put { message: Message::Request { id, .. } | Message::Response { id, .. }, .. }
                if self.asked != Some(id) =>
            {
                return Err("a request or an answer carries another id than the one that was asked under");
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn see_call(&mut self, event: &Call) -> Verdict {
        if let Call::Attempt { id, token, .. } = *event {
            if self.used.all().any(|(used_id, used_token)| used_id == id || used_token == token) {
                return Err("an attempt reuses the id or token of an earlier one");
            }
            self.used.set(self.attempts, (id, token));
            self.attempts += 1;
        }
        Ok(())
    }
}
