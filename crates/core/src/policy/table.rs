//! The retry table, row by row: what `review` and `evidence` print is what [`verdict`] decides.

use alloc::vec::Vec;
use core::time::Duration;

use super::classify::{Failure, RetryClass, Situation, Stop, Verdict, verdict};
use crate::error::Outcome;
use crate::ledger::State;
use crate::time::Instant;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Row {
    /// How the call may be repeated.
    pub class: &'static str,
    /// How the attempt failed.
    pub failure: &'static str,
    /// Whether the user cancelled.
    pub cancelled: bool,
    /// Whether bytes may have left.
    pub sent: bool,
    /// Whether another attempt would end before the deadline.
    pub deadline_fits: bool,
    /// Whether another attempt is allowed.
    pub attempts_left: bool,
    /// `retry`, `mend once`, or why it stops.
    pub verdict: &'static str,
    /// What is known of the effect if it stops here.
    pub outcome: &'static str,
    /// How the record is settled then, if the call has one: `committed`, `rejected` or `unknown` (ruling 2).
    pub record: &'static str,
}

/// The rows of one class: every failure, cancelled or not, sent or not, deadline and attempts left or not.
pub fn rows(class: RetryClass) -> Vec<Row> {
    let mut rows = Vec::new();
    for failure in Failure::ALL {
        for bits in 0..16 {
            let [cancelled, sent, deadline_fits, attempts_left] = [8, 4, 2, 1].map(|bit| bits & bit != 0);
            let situation = Situation {
                class,
                failure,
                sent,
                doubtful: false,
                cancelled,
                mended: false,
                attempts: 1,
                max_attempts: if attempts_left { 2 } else { 1 },
                backoff: Duration::from_millis(250),
                retry_after: None,
                estimate: Duration::from_millis(50),
                now: Instant::ZERO,
                // Not even a corrected request, which waits for nothing, ends before the shorter one.
                deadline: Instant::from_millis(if deadline_fits { 1_000 } else { 50 }),
            };
            rows.push(Row {
                class: class.as_str(),
                failure: failure.as_str(),
                cancelled,
                sent,
                deadline_fits,
                attempts_left,
                verdict: word(verdict(&situation)),
                outcome: situation.outcome().as_str(),
                record: settled(situation.outcome()),
            });
        }
    }
    rows
}

/// What an operator wants to know first: what happens after each failure of a call that was sent, was not cancelled,
/// and has time and attempts left.
pub fn summary(class: RetryClass) -> Vec<Row> {
    let mut rows = rows(class);
    rows.retain(|row| row.sent && !row.cancelled && row.deadline_fits && row.attempts_left);
    rows
}

const fn settled(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotExecuted => State::<()>::Rejected.as_str(),
        Outcome::Executed => State::Committed { answer: () }.as_str(),
        Outcome::Unknown => State::<()>::Unknown.as_str(),
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Retry { .. } => "retry",
        Verdict::Mend => "mend once",
        Verdict::Stop(
            stop @ (Stop::Cancelled
            | Stop::Final
            | Stop::Doubtful
            | Stop::AttemptsUsed
            | Stop::DeadlineTooNear),
        ) => stop.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_14_and_i_07_hold_in_every_row() {
        let mut count = 0;
        for class in RetryClass::ALL {
            for row in rows(class) {
                count += 1;
                let again = row.verdict == "retry" || row.verdict == "mend once";
                assert!(!again || !row.cancelled, "none after a cancel: {row:?}");
                assert!(!again || row.attempts_left, "none beyond the attempts: {row:?}");
                assert!(!again || row.deadline_fits, "none beyond the deadline: {row:?}");
                let settled =
                    [("not_executed", "rejected"), ("executed", "committed"), ("unknown", "unknown")];
                assert!(
                    settled.contains(&(row.outcome, row.record)),
                    "the record says what is known: {row:?}"
                );
                let alone = class == RetryClass::Unsafe || row.class == "conditional (gateway key)";
                assert!(!(again && alone && row.outcome != "not_executed"), "no second effect: {row:?}");
            }
        }
        assert_eq!(count, 4 * 29 * 16);
    }

    /// The failures of a class after which something is sent again.
    fn again(class: RetryClass, verdict: &str) -> Vec<&'static str> {
        let rows = summary(class);
        rows.iter().filter(|row| row.verdict == verdict).map(|row| row.failure).collect()
    }

    #[test]
    fn d_37_only_what_may_pass_by_itself_is_repeated() {
        let proven =
            ["nothing left", "session gone (404)", "rate limited (429)", "declared not executed, retryable"];
        let transient = [
            "nothing left",
            "session gone (404)",
            "rate limited (429)",
            "unavailable (502, 503, 504)",
            "server error (other 5xx)",
            "connection lost",
            "stream ended",
            "idle limit",
            "declared not executed, retryable",
            "declared executed, retryable",
            "declared unknown, retryable",
        ];
        let [safe, by_upstream, by_gateway, alone] = RetryClass::ALL;
        for (class, expected) in
            [(safe, &transient[..]), (by_upstream, &transient), (by_gateway, &proven), (alone, &proven)]
        {
            assert_eq!(again(class, "retry"), expected, "{class:?}");
            assert_eq!(again(class, "mend once"), ["version refused (-32022)", "headers refused (-32020)"]);
        }
    }

    #[test]
    fn a_summary_has_one_row_a_failure() {
        assert_eq!(summary(RetryClass::Safe).len(), Failure::ALL.len());
    }
}
