//! One call of each retry class through every string of failures, given up at any time.

use std::time::Duration;

use steadfast_core::policy::Backoff;
use steadfast_core::policy::classify::{Failure, RetryClass, Situation, Stop, Verdict, verdict};
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
    attempts: u32,
    doubtful: bool,
    mended: bool,
    gave_up: bool,
}

impl World {
    const fn new(class: RetryClass) -> Self {
        Self { class, now: Instant::ZERO, attempts: 0, doubtful: false, mended: false, gave_up: false }
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
        self.attempts += 1;
        let number = self.attempts;
        let id = planted::id_of_attempt(run.bug(), number);
        self.see(run, Call::Attempt { number, id: Id::Integer(id), token: Id::Integer(id) });
        run.visit(&(self.now, self.attempts, self.doubtful, self.mended, self.gave_up));
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
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let situation = Situation {
            class: self.class,
            failure,
            sent,
            doubtful: self.doubtful,
            cancelled: self.gave_up,
            mended: self.mended,
            attempts: self.attempts,
            max_attempts: MAX_ATTEMPTS,
            backoff: backoff.map_or(Duration::ZERO, |backoff| backoff.delay(7, self.attempts - 1)),
            retry_after,
            estimate: ESTIMATE,
            now: self.now,
            deadline: DEADLINE,
        };
        self.doubtful |= failure.outcome(sent) == steadfast_core::error::Outcome::Unknown;
        match verdict(&planted::situation(run.bug(), situation)) {
            Verdict::Stop(stop) => Some(Some(stop)),
            Verdict::Mend => {
                self.mended = true;
                None
            }
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
