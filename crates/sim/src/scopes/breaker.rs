//! A breaker under every string of up to eight outcomes and pauses, and with two calls under way at once.

use std::time::Duration;

use steadfast_core::policy::Breaker as Machine;
use steadfast_core::policy::breaker::{Observed, Permit as Granted, Thresholds};
use steadfast_core::time::Now;

use super::Scope;
use crate::event::{Breaker, Event, Outcome, Permit};
use crate::planted::breaker as planted;
use crate::run::Run;

pub(super) fn scopes() -> Vec<Scope> {
    vec![
        Scope::new("breaker-outcomes", |run| World::new(1, 16, run).play(run)),
        Scope::new("breaker-overlapping", |run| World::new(2, 10, run).play(run)),
    ]
}

const THRESHOLDS: Thresholds =
    Thresholds { failures: 2, window: Duration::from_millis(30), cooldown: Duration::from_millis(10) };
const PAUSE_MS: u64 = 10;
const OUTCOMES: [Outcome; 3] = [Outcome::Success, Outcome::Failure, Outcome::Cancelled];
const MOST_CALLS: u8 = 8;

#[derive(Clone, Hash)]
struct World {
    machine: Machine,
    now_ms: u64,
    calls: u8,
    /// What is under way: its number, and whether it is the probe.
    under_way: Vec<(u8, bool)>,
    most_under_way: usize,
    steps_left: u8,
    pauses_left: u8,
}

impl World {
    fn new(most_under_way: usize, steps_left: u8, run: &mut Run<'_>) -> Self {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let world = Self {
            machine: Machine::new(THRESHOLDS),
            now_ms: 0,
            calls: 0,
            under_way: Vec::new(),
            most_under_way,
            steps_left,
            pauses_left: 3,
        };
        world.see(
            run,
            Breaker::Installed {
                failures: THRESHOLDS.failures,
                window_ms: ms(THRESHOLDS.window),
                cooldown_ms: ms(THRESHOLDS.cooldown),
            },
        );
        world
    }

    /// A step is a call, the end of a call, or a pause.
    fn play(mut self, run: &mut Run<'_>) {
        while !run.is_over() {
            run.visit(&self);
            let ask = usize::from(
                self.steps_left > 0 && self.calls < MOST_CALLS && self.under_way.len() < self.most_under_way,
            );
            let end = self.under_way.len() * OUTCOMES.len();
            let pause = usize::from(self.steps_left > 0 && self.pauses_left > 0);
            if ask + end + pause == 0 {
                break;
            }
            self.steps_left = self.steps_left.saturating_sub(1);
            let choice = run.choose(ask + end + pause);
            if choice < end {
                self.end(choice / OUTCOMES.len(), OUTCOMES[choice % OUTCOMES.len()], run);
            } else if choice < end + ask {
                self.ask(run);
            } else {
                self.pauses_left -= 1;
                self.now_ms += PAUSE_MS;
            }
        }
    }

    fn ask(&mut self, run: &mut Run<'_>) {
        let call = self.calls;
        self.calls += 1;
        let permit = match self.machine.permit(Now::at_millis(self.now_ms)) {
            Granted::Pass => Permit::Pass,
            Granted::Probe => Permit::Probe,
            Granted::Refused { .. } => Permit::Refused,
        };
        self.see(run, Breaker::Asked { call, permit });
        if permit != Permit::Refused || planted::sends_all_the_same(run.bug()) {
            self.see(run, Breaker::Sent { call });
            self.under_way.push((call, permit == Permit::Probe));
        }
    }

    fn end(&mut self, index: usize, outcome: Outcome, run: &mut Run<'_>) {
        let (call, probe) = self.under_way.remove(index);
        let observed = match outcome {
            Outcome::Success => Observed::Success,
            Outcome::Failure => Observed::Failure,
            Outcome::Cancelled => planted::of_a_cancel(run.bug()),
        };
        self.machine.record(Now::at_millis(self.now_ms), observed, probe);
        self.see(run, Breaker::Ended { call, outcome });
    }

    fn see(&self, run: &mut Run<'_>, event: Breaker) {
        run.see(Now::at_millis(self.now_ms), Event::Breaker(event));
    }
}
