//! What both ends of an exchange go by: its two clocks, and the gate that its progress passes.

use super::clocks::Clocks;
use super::progress::{Gate, Offered};
use super::{Clock, Operation, Progress, Spec, TimerKind};
use crate::time::Instant;

/// The clocks and the gate of one exchange.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    /// None of a listen, which is exempt (TMO-08).
    clocks: Option<Clocks>,
    gate: Gate,
}

impl Pace {
    pub(super) fn start(now: Instant, spec: &Spec) -> Self {
        let clocks = match spec.operation {
            Operation::Listen => None,
            Operation::Ordinary | Operation::Initialize | Operation::Probe | Operation::Augmented => {
                Some(Clocks::start(now, spec.limits))
            }
        };
        Self { clocks, gate: Gate::new(spec.progress_interval) }
    }

    /// Offers progress to the gate; what rises is a sign of life, handed on now or not.
    pub(super) fn progress(&mut self, now: Instant, progress: Progress) -> Offered {
        let offered = self.gate.offer(now, progress);
        match (&offered, &mut self.clocks) {
            (Offered::Pass(_) | Offered::Held, Some(clocks)) => clocks.alive(now),
            (Offered::Pass(_) | Offered::Held, None) | (Offered::Stale, _) => {}
        }
        offered
    }

    /// Stops both clocks while a person is asked.
    pub(super) fn hold(&mut self, now: Instant) {
        if let Some(clocks) = &mut self.clocks {
            clocks.hold(now);
        }
    }

    /// Lets both run on.
    pub(super) fn release(&mut self, now: Instant) {
        if let Some(clocks) = &mut self.clocks {
            clocks.release(now);
        }
    }

    /// The limit that has been reached by `now`.
    pub(super) fn reached(&self, now: Instant) -> Option<Clock> {
        self.clocks.as_ref().and_then(|clocks| clocks.reached(now))
    }

    /// Held-back progress that is due by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<Progress> {
        self.gate.due(now)
    }

    /// Held-back progress, due or not: handed on just before an answer, dropped at any other end.
    pub(super) fn flush(&mut self) -> Option<Progress> {
        self.gate.flush()
    }

    /// What comes first; at equal times a limit, since nothing may follow the end.
    pub(super) fn next(&self) -> Option<(Instant, TimerKind)> {
        let limit =
            self.clocks.as_ref().and_then(Clocks::next).map(|(at, clock)| (at, TimerKind::Limit(clock)));
        let progress = self.gate.due_at().map(|at| (at, TimerKind::Progress));
        match (limit, progress) {
            (Some(limit), Some(progress)) => Some(if progress.0 < limit.0 { progress } else { limit }),
            (limit, progress) => limit.or(progress),
        }
    }
}
