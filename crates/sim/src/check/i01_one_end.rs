//! I-01: exactly one terminal outcome, and nothing after it.

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Exchange, Ledger, Side};

#[derive(Clone, Debug, Default)]
pub(super) struct OneEnd {
    caller_ended: bool,
    server_started: bool,
    server_ended: bool,
    /// Whether the caller of an attempt was told, or its process died.
    attempts: Attempts<bool>,
}

impl OneEnd {
    #[inline]
    pub(super) fn see(&mut self, event: &Exchange) -> Verdict {
        match event {
            Exchange::Started(started) if started.by == Side::Server => self.server_started = true,
            Exchange::CallerEnd { .. } if self.caller_ended => {
                return Err("the caller was told a second end");
            }
            Exchange::CallerEnd { .. } => self.caller_ended = true,
            Exchange::CallerProgress { .. } if self.caller_ended => {
                return Err("the caller was told of progress after the end");
            }
            Exchange::ServerEnd { .. } if self.server_ended => return Err("the server ended twice"),
            Exchange::ServerEnd { .. } => self.server_ended = true,
            Exchange::Put { by: Side::Server, .. } if self.server_ended => {
                return Err("the server sent something after its end");
            }
            Exchange::AtRest { .. } if !self.caller_ended => return Err("the caller was never told an end"),
            Exchange::AtRest { .. } if self.server_started && !self.server_ended => {
                return Err("the server never ended");
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn see_ledger(&mut self, event: &Ledger) -> Verdict {
        match *event {
            Ledger::Begun { attempt, .. } => self.attempts.set(attempt, false),
            Ledger::Crashed { attempt } => self.attempts.set(attempt, true),
            Ledger::Told { attempt, .. } => {
                if self.attempts.get(attempt) != Some(false) {
                    return Err("a caller was told a second end");
                }
                self.attempts.set(attempt, true);
            }
            Ledger::AtRest { .. } if self.attempts.all().any(|told| !told) => {
                return Err("a caller was never told an end");
            }
            _ => {}
        }
        Ok(())
    }
}
