//! Progress that may be handed on: strictly rising, finite, within a rate, the latest never lost (I-05).

use alloc::sync::Arc;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use crate::time::Instant;

/// A finite number. Equal by bits after `-0` became `0`, so that it can be hashed and explored.
#[derive(Clone, Copy, Debug)]
pub struct Finite(f64);

impl Finite {
    /// The number, unless it is infinite or not a number.
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(if number == 0.0 { 0.0 } else { number }))
    }

    /// The plain number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Finite {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Finite {}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Finite {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// One progress event, without its token: the token belongs to a hop and is minted anew on each (G2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Progress {
    /// How far; must rise from event to event.
    pub value: Finite,
    /// Of how much, where known.
    pub total: Option<Finite>,
    /// What is going on, for a person.
    pub message: Option<Arc<str>>,
}

impl Progress {
    /// Progress with nothing but its value; `None` if that is not finite.
    pub fn of(value: f64) -> Option<Self> {
        Some(Self { value: Finite::new(value)?, total: None, message: None })
    }
}

/// Lets rising progress through at most once an interval and holds the latest back until then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    interval: Duration,
    highest: Option<Finite>,
    open_at: Instant,
    held: Option<Progress>,
}

/// What became of an offered event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Hand it on now.
    Pass(Progress),
    /// Kept; an older one that was kept is superseded.
    Held,
    /// It does not rise and counts as nothing.
    Stale,
}

impl Gate {
    /// A gate that was not passed yet; zero lets all that rises through.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, highest: None, open_at: Instant::ZERO, held: None }
    }

    /// Offers one event.
    pub fn offer(&mut self, now: Instant, progress: Progress) -> Offered {
        if self.highest.is_some_and(|highest| progress.value <= highest) {
            return Offered::Stale;
        }
        self.highest = Some(progress.value);
        if now < self.open_at {
            self.held = Some(progress);
            return Offered::Held;
        }
        self.held = None;
        self.open_at = now.saturating_add(self.interval);
        Offered::Pass(progress)
    }

    /// When held-back progress will be due.
    pub fn due_at(&self) -> Option<Instant> {
        self.held.as_ref().map(|_| self.open_at)
    }

    /// Held-back progress that is due by `now`.
    pub fn due(&mut self, now: Instant) -> Option<Progress> {
        if now < self.open_at {
            return None;
        }
        let held = self.held.take()?;
        self.open_at = now.saturating_add(self.interval);
        Some(held)
    }

    /// Held-back progress, due or not: just before an answer, so that the latest value is not lost.
    pub fn flush(&mut self) -> Option<Progress> {
        self.held.take()
    }
}
