//! I-14: attempts and delays stay within bounds and are no shorter than `Retry-After`; no attempt follows a
//! cancel or can end only after the absolute limit.

use steadfast_core::time::Now;

use super::Verdict;
use crate::event::Call;

#[derive(Clone, Debug, Default)]
pub(super) struct BoundedAttempts {
    max_attempts: u32,
    deadline_ms: u64,
    estimate_ms: u64,
    attempts: u32,
    gave_up: bool,
    over: bool,
    /// When the last attempt failed, and from when on the next one may begin.
    failed_at: u64,
    not_before: u64,
}

/// The longest step of the backoff.
const LONGEST_DELAY_MS: u64 = 5_000;

impl BoundedAttempts {
    pub(super) fn see(&mut self, now: Now, event: &Call) -> Verdict {
        let now = now.mono.as_millis();
        match *event {
            Call::Opened { max_attempts, deadline_ms, estimate_ms, .. } => {
                (self.max_attempts, self.deadline_ms, self.estimate_ms) =
                    (max_attempts, deadline_ms, estimate_ms);
            }
            Call::Attempt { .. } => {
                self.attempts += 1;
                if self.over || self.gave_up {
                    return Err("an attempt began after the call was given up or over");
                }
                if self.attempts > self.max_attempts {
                    return Err("there were more attempts than the call may have");
                }
                if now < self.not_before {
                    return Err("an attempt began before the server allowed one");
                }
                if self.attempts > 1 && now + self.estimate_ms >= self.deadline_ms {
                    return Err("an attempt began that cannot end before the limit");
                }
                if now > self.failed_at.max(self.not_before) + LONGEST_DELAY_MS && self.attempts > 1 {
                    return Err("an attempt was delayed beyond the longest step");
                }
            }
            Call::Failed { retry_after_ms, .. } => {
                self.failed_at = now;
                self.not_before = now + retry_after_ms.unwrap_or(0);
            }
            Call::GaveUp => self.gave_up = true,
            Call::Over { .. } if self.over => return Err("a call was over twice"),
            Call::Over { .. } => self.over = true,
            Call::Left | Call::Answered => {}
        }
        Ok(())
    }
}
