//! I-15: a breaker takes legal edges only, an open one sends nothing, and a caller's cancel counts neither
//! way.

use std::collections::VecDeque;

use steadfast_core::time::Now;

use super::Verdict;
use super::attempts::Attempts;
use crate::event::{Breaker, Outcome, Permit};

#[derive(Clone, Debug, Default)]
pub(super) struct LegalEdges {
    failures: usize,
    window_ms: u64,
    cooldown_ms: u64,
    /// When calls failed while it was closed, since the last success.
    failed_at: VecDeque<u64>,
    open_until: Option<u64>,
    probe: Option<u8>,
    permits: Attempts<Permit>,
}

impl LegalEdges {
    pub(super) fn see(&mut self, now: Now, event: &Breaker) -> Verdict {
        let now = now.mono.as_millis();
        match *event {
            Breaker::Installed { failures, window_ms, cooldown_ms } => {
                self.failures = failures as usize;
                (self.window_ms, self.cooldown_ms) = (window_ms, cooldown_ms);
            }
            Breaker::Asked { call, permit } => {
                let due = match (self.probe, self.open_until) {
                    (Some(_), _) => Permit::Refused,
                    (None, Some(until)) if now < until => Permit::Refused,
                    (None, Some(_)) => Permit::Probe,
                    (None, None) => Permit::Pass,
                };
                if permit != due {
                    return Err("the permit is not what the calls before it ask for");
                }
                if permit == Permit::Probe {
                    self.probe = Some(call);
                }
                self.permits.set(call, permit);
            }
            Breaker::Sent { call }
                if !matches!(self.permits.get(call), Some(Permit::Pass | Permit::Probe)) =>
            {
                return Err("a call was sent that the breaker refused");
            }
            Breaker::Sent { .. } => {}
            Breaker::Ended { call, outcome } if self.probe == Some(call) => {
                self.probe = None;
                match outcome {
                    Outcome::Success => self.open_until = None,
                    Outcome::Failure => self.open_until = Some(now + self.cooldown_ms),
                    Outcome::Cancelled => self.open_until = Some(now),
                }
                self.failed_at.clear();
            }
            // What was sent before it opened tells nothing any more.
            Breaker::Ended { .. } if self.open_until.is_some() => {}
            Breaker::Ended { outcome: Outcome::Success, .. } => self.failed_at.clear(),
            Breaker::Ended { outcome: Outcome::Cancelled, .. } => {}
            Breaker::Ended { outcome: Outcome::Failure, .. } => {
                self.failed_at.push_back(now);
                self.failed_at.retain(|at| now < at + self.window_ms);
                if self.failed_at.len() >= self.failures {
                    self.failed_at.clear();
                    self.open_until = Some(now + self.cooldown_ms);
                }
            }
        }
        Ok(())
    }
}
