//! One logical call over one or many exchanges: how often, when again, and what is known when it stops.
//!
//! A request is an attempt; the call is what the caller asked for. Attempts differ in their id and in nothing else
//! (RTY-07), and every attempt's failure goes through [`verdict`].

use core::time::Duration;

use crate::error::Outcome;
use crate::policy::Backoff;
use crate::policy::classify::{Failure, RetryClass, Situation, Verdict, verdict};
use crate::time::{Instant, Now};

/// How often and how fast a call may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How many attempts there may be, the first included; 0 counts as 1.
    pub max_attempts: u32,
    /// The pauses between them.
    pub backoff: Backoff,
}

/// The attempts of one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempts {
    class: RetryClass,
    policy: Policy,
    /// Spreads the pauses of many clients.
    client: u64,
    deadline: Instant,
    count: u32,
    doubtful: bool,
    mended: bool,
}

/// What an attempt came to, if not to a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failed {
    /// How it failed.
    pub failure: Failure,
    /// Whether bytes of it may have left.
    pub sent: bool,
    /// What the server asks to wait: a floor.
    pub retry_after: Option<Duration>,
    /// Whether the caller gave up.
    pub cancelled: bool,
    /// How long another attempt is expected to take.
    pub estimate: Duration,
}

impl Attempts {
    /// None yet. The call must be over at `deadline`, pauses included.
    pub const fn new(class: RetryClass, policy: Policy, client: u64, deadline: Instant) -> Self {
        Self { class, policy, client, deadline, count: 0, doubtful: false, mended: false }
    }

    /// Begins the next attempt, and tells its number; the first is 1.
    pub const fn begin(&mut self) -> u32 {
        self.count = self.count.saturating_add(1);
        self.count
    }

    /// How many there were.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// When the call must be over.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What there is to decide after an attempt failed.
    pub fn situation(&self, now: Now, failed: &Failed) -> Situation {
        // What is gone is replaced at once: the wait is for servers that are busy or down.
        let backoff = match failed.failure {
            Failure::SessionGone => Duration::ZERO,
            _ => self.policy.backoff.delay(self.client, self.count.saturating_sub(1)),
        };
        Situation {
            class: self.class,
            failure: failed.failure,
            sent: failed.sent,
            doubtful: self.doubtful,
            cancelled: failed.cancelled,
            mended: self.mended,
            attempts: self.count,
            max_attempts: self.policy.max_attempts.max(1),
            backoff,
            retry_after: failed.retry_after,
            estimate: failed.estimate,
            now: now.mono,
            deadline: self.deadline,
        }
    }

    /// An attempt failed: whether another one follows, and what is known of the call's effect if none does.
    pub fn failed(&mut self, now: Now, failed: &Failed) -> (Verdict, Outcome) {
        let situation = self.situation(now, failed);
        let decided = verdict(&situation);
        self.note(failed, decided);
        (decided, situation.outcome())
    }

    /// Remembers what a failed attempt means for the next one.
    pub fn note(&mut self, failed: &Failed, decided: Verdict) {
        self.doubtful |= failed.failure.outcome(failed.sent) == Outcome::Unknown;
        self.mended |= decided == Verdict::Mend;
    }
}
