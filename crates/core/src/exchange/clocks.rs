//! The two clocks of a request (G3): silence, and everything.

use core::time::Duration;

use crate::time::Instant;

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// Nothing useful was heard for too long.
    Idle,
    /// The whole took too long; no progress moves this one (TMO-05).
    Maximum,
}

impl Clock {
    /// The word in `steadfast/error`: `idle` or `maximum`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Maximum => "maximum",
        }
    }
}

/// Both limits of one request: positive, and the maximum at least as long as the idle limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limits {
    idle: Duration,
    maximum: Duration,
}

/// Why two durations cannot serve as limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LimitsError {
    /// A limit of zero would end every request at its start.
    #[error("the {} limit is zero, so every request would end at its start; set a positive one", .0.as_str())]
    Zero(Clock),
    /// An idle limit beyond the maximum could never be reached.
    #[error(
        "the idle limit of {idle:?} is longer than the maximum of {maximum:?} and could never be reached; shorten it or raise the maximum"
    )]
    IdleBeyondMaximum {
        /// The idle limit asked for.
        idle: Duration,
        /// The maximum asked for.
        maximum: Duration,
    },
}

impl Limits {
    /// The defaults everywhere (ruling 18): five minutes of silence, thirty minutes in all.
    pub const DEFAULT: Self =
        Self { idle: Duration::from_secs(5 * 60), maximum: Duration::from_secs(30 * 60) };

    /// No limits, for a request that waits for a task to end: its liveness is the connection's (ruling 18).
    pub const NONE: Self = Self { idle: Duration::MAX, maximum: Duration::MAX };

    /// Limits that make sense together.
    ///
    /// # Errors
    /// Zero, or an idle limit longer than the maximum.
    pub const fn new(idle: Duration, maximum: Duration) -> Result<Self, LimitsError> {
        if idle.is_zero() {
            return Err(LimitsError::Zero(Clock::Idle));
        }
        if maximum.is_zero() {
            return Err(LimitsError::Zero(Clock::Maximum));
        }
        if idle.as_nanos() > maximum.as_nanos() {
            return Err(LimitsError::IdleBeyondMaximum { idle, maximum });
        }
        Ok(Self { idle, maximum })
    }

    /// The longest silence.
    pub const fn idle(&self) -> Duration {
        self.idle
    }

    /// The longest life.
    pub const fn maximum(&self) -> Duration {
        self.maximum
    }
}

/// The running clocks of one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Clocks {
    idle: Duration,
    idle_at: Instant,
    maximum_at: Instant,
    /// Since when neither runs, because a person is being asked.
    held_since: Option<Instant>,
}

impl Clocks {
    /// Both run from the start of the request (ruling 18).
    pub(super) fn start(now: Instant, limits: Limits) -> Self {
        Self {
            idle: limits.idle,
            idle_at: now.saturating_add(limits.idle),
            maximum_at: now.saturating_add(limits.maximum),
            held_since: None,
        }
    }

    /// Stops both: the time of a person is in neither (ruling 18, TMO-09).
    pub(super) fn hold(&mut self, now: Instant) {
        self.held_since.get_or_insert(now);
    }

    /// Lets both run on from where they stopped.
    pub(super) fn release(&mut self, now: Instant) {
        if let Some(since) = self.held_since.take() {
            let held = now.saturating_since(since);
            self.idle_at = self.idle_at.saturating_add(held);
            self.maximum_at = self.maximum_at.saturating_add(held);
        }
    }

    /// A sign of life: the idle clock runs anew, the other one does not.
    pub(super) fn alive(&mut self, now: Instant) {
        self.idle_at = now.saturating_add(self.idle);
        // What is said while a person is asked is a sign of life all the same; the pause goes on from here.
        if let Some(since) = &mut self.held_since {
            let held = now.saturating_since(*since);
            self.maximum_at = self.maximum_at.saturating_add(held);
            *since = now;
        }
    }

    /// The limit that will be reached first, at equal times the maximum; none while both are stopped.
    pub(super) fn next(&self) -> Option<(Instant, Clock)> {
        if self.held_since.is_some() {
            None
        } else if self.idle_at < self.maximum_at {
            Some((self.idle_at, Clock::Idle))
        } else {
            Some((self.maximum_at, Clock::Maximum))
        }
    }

    /// The limit that has been reached by `now`, if any; a late look still names the one that came first.
    pub(super) fn reached(&self, now: Instant) -> Option<Clock> {
        self.next().filter(|(at, _)| now >= *at).map(|(_, clock)| clock)
    }
}
