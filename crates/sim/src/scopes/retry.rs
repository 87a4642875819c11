//! One call of each retry class through every string of failures, given up at any time.

use std::time::Duration;

use steadfast_core::call::{Attempts, Failed, Policy};
use steadfast_core::policy::Backoff;
use steadfast_core::policy::classify::{Failure, RetryClass, Stop, Verdict, verdict};
use steadfast_core::time::{Instant, Now};

use super::Scope;
use crate::event::{Call, Event, Id};
use crate::planted::call as planted;
use crate::run::Run;

pub(super) fn scopes() -> Vec<Scope> {
    vec![Scope::new("retry", |run| {
        let class = RetryClass::ALL[run.choose(RetryClass::ALL.len())];
        World::new(class).play(run);
    })]
}

/// What an attempt may come to, whether its bytes left, and what the server asks to wait.
const FATES: [(Fate, bool, Option<Duration>); 10] = [
    (Fate::Answered, true, None),
    (Fate::Fails(Failure::NothingLeft), false, None),
    (Fate::Fails(Failure::VersionRefused), true, None),
    (Fate::Fails(Failure::RateLimited), true, Some(Duration::from_secs(1))),
    (Fate::Fails(Failure::RateLimited), true, Some(Duration::from_secs(60))),
    (Fate::Fails(Failure::Unavailable), true, Some(Duration::from_secs(2))),
    (Fate::Fails(Failure::ConnectionLost), true, None),
    (Fate::Fails(Failure::ConnectionLost), false, None),
    (Fate::Fails(Failure::TimedOutIdle), true, None),
    (Fate::Fails(Failure::ProtocolError), true, None),
];

#[derive(Clone, Copy)]
enum Fate {
    Answered,
    Fails(Failure),
}

const MAX_ATTEMPTS: u32 = 3;
const DEADLINE: Instant = Instant::from_millis(4_000);
const ESTIMATE: Duration = Duration::from_millis(100);

struct World {
    class: RetryClass,
    now: Instant,
    attempts: Attempts,
    gave_up: bool,
}

impl World {
    fn new(class: RetryClass) -> Self {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let policy = Policy { max_attempts: MAX_ATTEMPTS, backoff: backoff.unwrap_or(Backoff::RECONNECT) };
        let attempts = Attempts::new(class, policy, 7, DEADLINE);
        Self { class, now: Instant::ZERO, attempts, gave_up: false }
    }

    fn play(mut self, run: &mut Run<'_>) {
        let deadline_ms = DEADLINE.as_millis();
        let (class, max_attempts, estimate_ms) = (self.class, MAX_ATTEMPTS, 100);
        self.see(run, Call::Opened { class, max_attempts, deadline_ms, estimate_ms });
        let stop = loop {
            if let Some(stop) = self.attempt(run) {
                break stop;
            }
            if run.is_over() {
                return;
            }
        };
        self.see(run, Call::Over { stop });
    }

    /// One attempt and what follows from it: `None` to go on.
    fn attempt(&mut self, run: &mut Run<'_>) -> Option<Option<Stop>> {
        let number = self.attempts.begin();
        let id = planted::id_of_attempt(run.bug(), number);
        self.see(run, Call::Attempt { number, id: Id::Integer(id), token: Id::Integer(id) });
        run.visit(&(self.now, &self.attempts, self.gave_up));
        let (fate, sent, retry_after) = FATES[run.choose(FATES.len())];
        if sent {
            self.see(run, Call::Left);
        }
        self.maybe_gives_up(run);
        self.now = self.now.saturating_add(ESTIMATE);
        let failure = match fate {
            Fate::Answered => {
                self.see(run, Call::Answered);
                return Some(None);
            }
            Fate::Fails(failure) => failure,
        };
        let retry_after_ms = retry_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        self.see(run, Call::Failed { failure, retry_after_ms });
        let failed = Failed { failure, sent, retry_after, cancelled: self.gave_up, estimate: ESTIMATE };
        let now = Now { mono: self.now, wall: Default::default() };
        let decided = verdict(&planted::situation(run.bug(), self.attempts.situation(now, &failed)));
        self.attempts.note(&failed, decided);
        match decided {
            Verdict::Stop(stop) => Some(Some(stop)),
            Verdict::Mend => None,
            Verdict::Retry { after } => self.wait(after, run),
        }
    }

    /// The pause before the next attempt; whoever gives up in it ends the call.
    fn wait(&mut self, after: Duration, run: &mut Run<'_>) -> Option<Option<Stop>> {
        self.maybe_gives_up(run);
        if self.gave_up && planted::minds_a_cancel(run.bug()) {
            return Some(Some(Stop::Cancelled));
        }
        self.now = self.now.saturating_add(after);
        None
    }

    fn maybe_gives_up(&mut self, run: &mut Run<'_>) {
        if !self.gave_up && run.choose(2) == 1 {
            self.gave_up = true;
            self.see(run, Call::GaveUp);
        }
    }

    fn see(&self, run: &mut Run<'_>, event: Call) {
        run.see(Now { mono: self.now, wall: Default::default() }, Event::Call(event));
    }
}
