//! I-05: progress that is handed on strictly rises, keeps the rate, and its latest value is not lost to
//! coalescing: the caller knows it before it knows the answer.

use steadfast_core::exchange::requester::End;
use steadfast_core::time::Now;

use super::Verdict;
use crate::event::{Exchange, Id, Message, Side, Started};

#[derive(Clone, Debug, Default)]
pub(super) struct Progresses {
    client: Account,
    server: Account,
    sent: bool,
}

#[derive(Clone, Debug, Default)]
struct Account {
    token: Option<Id>,
    interval_ms: u64,
    /// The highest value that came in while the exchange was open.
    highest: Option<u32>,
    handed_on: Option<(u32, u64)>,
    /// The last one came before its time, which only the answer that follows at once excuses.
    hurried: bool,
    ended: bool,
}

impl Progresses {
    #[inline]
    pub(super) fn see(&mut self, now: Now, event: &Exchange) -> Verdict {
        match *event {
            Exchange::Started(started) => match started.by {
                Side::Client => self.client = Account::open(&started),
                Side::Server => self.server = Account::open(&started),
            },
            Exchange::Put { by: Side::Client, message: Message::Request { .. } } => self.sent = true,
            Exchange::Got { by: Side::Client, message: Message::Progress { token, value } }
                if self.sent && self.client.token == Some(token) =>
            {
                self.client.came(value);
            }
            Exchange::HandlerProgress { value } => self.server.came(value),
            Exchange::CallerProgress { value } => return self.client.handed_on(now, value),
            Exchange::Put { by: Side::Server, message: Message::Progress { token, value } } => {
                if self.server.token != Some(token) {
                    return Err("progress was sent under another token");
                }
                return self.server.handed_on(now, value);
            }
            Exchange::CallerEnd { end } => {
                let answered = matches!(end, End::Answered(_));
                return self.client.ended(answered);
            }
            Exchange::Put { by: Side::Server, message: Message::Response { .. } } => {
                self.server.hurried = false
            }
            Exchange::ServerEnd { .. } => return self.server.ended(false),
            _ => {}
        }
        Ok(())
    }
}

impl Account {
    fn open(started: &Started) -> Self {
        Self { token: started.token, interval_ms: started.interval_ms, ..Self::default() }
    }

    fn came(&mut self, value: u32) {
        if !self.ended && self.highest.is_none_or(|highest| value > highest) {
            self.highest = Some(value);
        }
    }

    fn handed_on(&mut self, now: Now, value: u32) -> Verdict {
        let now = now.mono.as_millis();
        if self.hurried {
            return Err("progress was handed on faster than the rate allows");
        }
        if self.token.is_none() || self.highest.is_none_or(|highest| value > highest) {
            return Err("progress was handed on that never came in");
        }
        if let Some((last, at)) = self.handed_on {
            if value <= last {
                return Err("progress was handed on that does not rise");
            }
            self.hurried = now < at + self.interval_ms;
        }
        self.handed_on = Some((value, now));
        Ok(())
    }

    fn ended(&mut self, answered: bool) -> Verdict {
        self.ended = true;
        if self.hurried && !answered {
            return Err("progress was handed on faster than the rate allows");
        }
        self.hurried = false;
        if answered && self.handed_on.map(|(value, _)| value) != self.highest {
            return Err("the latest progress was lost before the answer");
        }
        Ok(())
    }
}
