//! I-06: every attempt has a fresh id and token, and the answer carries the caller's id with its type.

use super::Verdict;
use crate::event::{Exchange, Id, Message, Side};

#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    asked: Option<Id>,
}

impl Ids {
    #[inline]
    pub(super) fn see(&mut self, event: &Exchange) -> Verdict {
        match *event {
            Exchange::Started(started) if started.by == Side::Client => self.asked = Some(started.id),
            Exchange::Put { message: Message::Request { id, .. } | Message::Response { id, .. }, .. }
                if self.asked != Some(id) =>
            {
                Err("a request or an answer carries another id than the one that was asked under")?;
            }
            _ => {}
        }
        Ok(())
    }
}
