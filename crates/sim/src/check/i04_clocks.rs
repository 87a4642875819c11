//! I-04: the end is never later than the absolute limit, whatever the progress; only valid progress moves the
//! idle limit; the limit that fired is the one that was due; no jump of the wall clock changes any of it.

use steadfast_core::exchange::{Clock, Operation, Terminal};
use steadfast_core::time::Now;

use super::Verdict;
use crate::event::{Exchange, Id, Message, Side, Started};

#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    client: Option<Account>,
    server: Option<Account>,
    sent: bool,
}

/// The limits of one side, kept anew from what was seen.
#[derive(Clone, Debug)]
struct Account {
    token: Option<Id>,
    exempt: bool,
    idle_ms: u64,
    idle_at: u64,
    maximum_at: u64,
    highest: Option<u32>,
    ended: bool,
}

impl Clocks {
    #[inline]
    pub(super) fn see(&mut self, now: Now, event: &Exchange) -> Verdict {
        match *event {
            Exchange::Started(started) => {
                let account = Account::open(now, &started);
                match started.by {
                    Side::Client => self.client = Some(account),
                    Side::Server => self.server = Some(account),
                }
            }
            Exchange::Put { by: Side::Client, message: Message::Request { .. } } => self.sent = true,
            Exchange::Got { by: Side::Client, message: Message::Progress { token, value } } if self.sent => {
                if let Some(account) = &mut self.client
                    && account.token == Some(token)
                {
                    account.progress(now, value);
                }
            }
            Exchange::HandlerProgress { value } => {
                if let Some(account) = &mut self.server
                    && account.token.is_some()
                {
                    account.progress(now, value);
                }
            }
            Exchange::CallerEnd { end } => {
                if let Some(account) = &mut self.client {
                    return account.end(now, end.terminal());
                }
            }
            Exchange::ServerEnd { terminal } => {
                if let Some(account) = &mut self.server {
                    return account.end(now, terminal);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Account {
    fn open(now: Now, started: &Started) -> Self {
        let start = now.mono.as_millis();
        Self {
            token: started.token,
            exempt: started.operation == Operation::Listen,
            idle_ms: started.idle_ms,
            idle_at: start + started.idle_ms,
            maximum_at: start + started.maximum_ms,
            highest: None,
            ended: false,
        }
    }

    fn progress(&mut self, now: Now, value: u32) {
        let now = now.mono.as_millis();
        let alive = !self.ended && now < self.idle_at.min(self.maximum_at);
        if alive && self.highest.is_none_or(|highest| value > highest) {
            self.highest = Some(value);
            self.idle_at = now + self.idle_ms;
        }
    }

    fn end(&mut self, now: Now, terminal: Terminal) -> Verdict {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        let now = now.mono.as_millis();
        let (at, clock) = if self.idle_at < self.maximum_at {
            (self.idle_at, Clock::Idle)
        } else {
            (self.maximum_at, Clock::Maximum)
        };
        match terminal {
            Terminal::TimedOut(_) if self.exempt => Err("a listen was timed out"),
            _ if self.exempt => Ok(()),
            Terminal::TimedOut(fired) if fired == clock && now == at => Ok(()),
            Terminal::TimedOut(_) => Err("a limit fired that was not due"),
            _ if now < at => Ok(()),
            _ => Err("the end came at or after a limit, and not by it"),
        }
    }
}
