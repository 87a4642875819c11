//! How often a child may be started (STD-15, STD-18, I-26).

use alloc::collections::VecDeque;
use core::time::Duration;

use super::Backoff;
use crate::time::Instant;

/// How many starts in which time, and how far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Starts within the window; 0 counts as 1.
    pub starts: u32,
    /// For how long a start counts.
    pub window: Duration,
    /// A run of this length shows that the child works: it gives the whole budget back.
    pub healthy: Duration,
    /// The pauses after the second short run in a row and those that follow it. After the first there is none: a child
    /// may have to be started again to be spoken to in another era, and many end for a reason that passes.
    pub backoff: Backoff,
}

impl Budget {
    /// Eight starts a minute, 250 ms to 8 s apart; 30 s are a healthy run.
    pub const DEFAULT: Self = Self {
        starts: 8,
        window: Duration::from_secs(60),
        healthy: Duration::from_secs(30),
        backoff: Backoff::RECONNECT,
    };
}

/// Whether a child may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permit {
    /// Now; it counts as started.
    Now,
    /// A little later: ask again then.
    Wait {
        /// The end of the pause.
        until: Instant,
    },
    /// It was started too often.
    Refused {
        /// When it may be tried again.
        until: Instant,
    },
}

/// Counts the starts and the short runs of one child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Restarts {
    budget: Budget,
    /// Spreads the pauses of different clients.
    client: u64,
    /// Those that count, the oldest first: at most as many as the budget has.
    starts: VecDeque<Instant>,
    /// When the one that is running was started.
    running: Option<Instant>,
    short_runs: u32,
    not_before: Instant,
}

impl Restarts {
    /// Nothing was started yet. Clients with different numbers pause differently.
    pub const fn new(budget: Budget, client: u64) -> Self {
        let starts = VecDeque::new();
        Self { budget, client, starts, running: None, short_runs: 0, not_before: Instant::ZERO }
    }

    /// Asks to start it, and counts the start if it may be.
    pub fn start(&mut self, now: Instant) -> Permit {
        let window = self.budget.window;
        self.starts.retain(|start| now.saturating_since(*start) < window);
        if self.starts.len() >= self.budget.starts.max(1) as usize
            && let Some(oldest) = self.starts.front()
        {
            return Permit::Refused { until: oldest.saturating_add(window).max(self.not_before) };
        }
        if now < self.not_before {
            return Permit::Wait { until: self.not_before };
        }
        self.starts.push_back(now);
        self.running = Some(now);
        Permit::Now
    }

    /// The one that was started last ended by itself after a run of `lived`. Said twice, it counts once.
    pub fn ended(&mut self, lived: Duration) {
        let Some(started) = self.running.take() else { return };
        if lived >= self.budget.healthy {
            self.starts.clear();
            self.short_runs = 0;
            return;
        }
        let pause = match self.short_runs {
            0 => Duration::ZERO,
            earlier => self.budget.backoff.delay(self.client, earlier - 1),
        };
        self.short_runs = self.short_runs.saturating_add(1);
        self.not_before = started.saturating_add(lived).saturating_add(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }
    const BUDGET: Budget = Budget { starts: 3, window: ms(10_000), healthy: ms(1_000), ..Budget::DEFAULT };

    /// Starts it at `now` and lets it run for so long.
    fn run(restarts: &mut Restarts, now: u64, lived: u64) {
        assert_eq!(restarts.start(Instant::from_millis(now)), Permit::Now, "at {now}");
        restarts.ended(ms(lived));
    }

    // shows: I-26
    #[test]
    fn std_18_starts_are_bounded_within_the_window_and_come_back_with_it() {
        let mut restarts = Restarts::new(BUDGET, 1);
        run(&mut restarts, 0, 10);
        run(&mut restarts, 10, 10);
        run(&mut restarts, 5_000, 10);
        for now in [5_500, 9_999] {
            let until = Instant::from_millis(10_000);
            assert_eq!(restarts.start(Instant::from_millis(now)), Permit::Refused { until });
        }
        run(&mut restarts, 10_000, 10);
        assert!(restarts.starts.len() <= 3);
        assert_eq!(Restarts::new(Budget { starts: 0, ..BUDGET }, 1).start(Instant::ZERO), Permit::Now);
    }

    #[test]
    fn std_18_after_the_first_short_run_each_start_waits_longer() {
        let mut restarts = Restarts::new(Budget { starts: 100, ..BUDGET }, 7);
        let mut now = Instant::ZERO;
        for step in [0, 250, 500, 1_000, 2_000, 4_000, 8_000, 8_000].map(ms) {
            assert_eq!(restarts.start(now), Permit::Now);
            now = now.saturating_add(ms(10));
            restarts.ended(ms(10));
            restarts.ended(ms(10));
            let pause = restarts.not_before.saturating_since(now);
            assert!(pause >= step / 2 && pause <= step, "{pause:?} of {step:?}");
            if !step.is_zero() {
                let until = restarts.not_before;
                assert_eq!(restarts.start(now), Permit::Wait { until });
                assert_eq!(restarts.start(now), Permit::Wait { until }, "asking changes nothing");
            }
            now = restarts.not_before;
        }
    }

    #[test]
    fn std_15_a_healthy_run_gives_the_budget_back() {
        let mut restarts = Restarts::new(BUDGET, 1);
        run(&mut restarts, 0, 10);
        run(&mut restarts, 20, 10);
        run(&mut restarts, 1_000, 1_000);
        assert_eq!(restarts, Restarts { not_before: restarts.not_before, ..Restarts::new(BUDGET, 1) });
        for now in [2_000, 2_001] {
            run(&mut restarts, now, 0);
        }
        // One that still runs pays for its start and for nothing else.
        let mut restarts = Restarts::new(BUDGET, 1);
        for now in [0, 1, 2] {
            assert_eq!(restarts.start(Instant::from_millis(now)), Permit::Now);
        }
    }
}
