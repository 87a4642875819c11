//! Whether a failed call may be sent again: one function, whose table is what `review` and `evidence` print.
//!
//! Deciding to repeat a call is apart from reconnecting, refreshing a token and subscribing again (D-37): those repeat
//! no operation.

use core::time::Duration;

pub use super::failure::Failure;
use super::failure::Remedy;
use crate::error::Outcome;
use crate::time::Instant;

/// What an operation does, by the operator's word. Annotations of a server are hints of an untrusted party and are not
/// even a parameter here (G6, D-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Changes nothing, or nothing more when it is repeated.
    Read,
    /// Changes something.
    Write,
    /// Nobody said; treated as a write without a key.
    Unknown,
}

/// Who enforces an operation's key, by the operator's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idempotency {
    /// Nobody.
    None,
    /// Steadfast's ledger only: it joins and replays, and never sends a doubtful write again (ruling 1).
    Gateway,
    /// The upstream too.
    Upstream,
}

/// The operator's contract about one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contract {
    /// What it does.
    pub effect: Effect,
    /// Who enforces its key.
    pub idempotency: Idempotency,
}

/// How a call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryClass {
    /// A read: repeating it repeats nothing.
    Safe,
    /// A write under a key that somebody enforces durably.
    Conditional(Enforced),
    /// Anything else: at most one attempt that is not proven unexecuted (I-07).
    Unsafe,
}

/// By whom a conditional call's key is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Enforced {
    /// By our ledger alone.
    ByGateway,
    /// By the upstream too.
    ByUpstream,
}

impl Contract {
    /// What the protocol itself says of a method (RTY-03). Anything else is unknown until the operator says more, a
    /// `tools/call` above all.
    pub fn of_method(method: &str) -> Self {
        let effect = match method {
            "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "prompts/get"
            | "completion/complete"
            | "tasks/get"
            | "tasks/result"
            | "tasks/cancel"
            | "tasks/update"
            | "subscriptions/listen" => Effect::Read,
            _ => Effect::Unknown,
        };
        Self { effect, idempotency: Idempotency::None }
    }

    /// The class of one call: of the contract, and of whether the call carries a key.
    pub const fn class(self, has_key: bool) -> RetryClass {
        match (self.effect, self.idempotency, has_key) {
            (Effect::Read, _, _) => RetryClass::Safe,
            (Effect::Write | Effect::Unknown, Idempotency::Upstream, true) => {
                RetryClass::Conditional(Enforced::ByUpstream)
            }
            // A caller's key on a tool without a contract is honoured by our ledger (ruling 15).
            (Effect::Write | Effect::Unknown, Idempotency::Gateway, true)
            | (Effect::Unknown, Idempotency::None, true) => RetryClass::Conditional(Enforced::ByGateway),
            (Effect::Write, Idempotency::None, true) => RetryClass::Unsafe,
            (Effect::Write | Effect::Unknown, _, false) => RetryClass::Unsafe,
        }
    }
}

impl RetryClass {
    /// All classes, in the order in which reports print them.
    pub const ALL: [Self; 4] = [
        Self::Safe,
        Self::Conditional(Enforced::ByUpstream),
        Self::Conditional(Enforced::ByGateway),
        Self::Unsafe,
    ];

    /// The word for reports; a conditional class says by whom its key is enforced.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Conditional(Enforced::ByUpstream) => "conditional (upstream key)",
            Self::Conditional(Enforced::ByGateway) => "conditional (gateway key)",
            Self::Unsafe => "unsafe",
        }
    }
}

/// What there is to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Situation {
    /// How the call may be repeated.
    pub class: RetryClass,
    /// How the attempt failed.
    pub failure: Failure,
    /// Whether bytes of it may have left.
    pub sent: bool,
    /// Whether an earlier attempt under this call is not proven unexecuted.
    pub doubtful: bool,
    /// Whether the user cancelled the call.
    pub cancelled: bool,
    /// Whether the call was mended before: once and no more.
    pub mended: bool,
    /// Attempts so far, this one included.
    pub attempts: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// What the backoff asks to wait.
    pub backoff: Duration,
    /// What the server asks to wait (`Retry-After`): a floor.
    pub retry_after: Option<Duration>,
    /// How long an attempt is expected to take.
    pub estimate: Duration,
    /// Now.
    pub now: Instant,
    /// When the call must be over.
    pub deadline: Instant,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Send it again: same arguments, same key, a new id.
    Retry {
        /// Wait so long first.
        after: Duration,
    },
    /// Correct what was refused and send it once more.
    Mend,
    /// It is over; [`Situation::outcome`] says what is known of the effect.
    Stop(Stop),
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stop {
    /// A user's cancel is never followed by a retry (G6).
    Cancelled,
    /// Another attempt would end the same.
    Final,
    /// It may have been executed, and nobody would recognise a second execution (G6, G8).
    Doubtful,
    /// All attempts are used.
    AttemptsUsed,
    /// `now + delay + estimate` is not before the deadline.
    DeadlineTooNear,
}

impl Stop {
    /// The words for reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "stop: cancelled",
            Self::Final => "stop: final",
            Self::Doubtful => "stop: may have been executed",
            Self::AttemptsUsed => "stop: attempts used",
            Self::DeadlineTooNear => "stop: deadline too near",
        }
    }
}

impl Situation {
    /// What is known of the call's effect if it stops here: not executed only if no attempt of it was (ruling 2).
    pub const fn outcome(&self) -> Outcome {
        match (self.failure.outcome(self.sent), self.doubtful) {
            (Outcome::NotExecuted, false) => Outcome::NotExecuted,
            (Outcome::Executed, _) => Outcome::Executed,
            (Outcome::NotExecuted, true) | (Outcome::Unknown, _) => Outcome::Unknown,
        }
    }
}

/// The one decision about repeating a call. Whatever is sent again, corrected or not, passes every guard.
pub fn verdict(situation: &Situation) -> Verdict {
    if situation.cancelled || situation.failure == Failure::Cancelled {
        return Verdict::Stop(Stop::Cancelled);
    }
    let (again, after) = match situation.failure.remedy() {
        Remedy::Nothing => return Verdict::Stop(Stop::Final),
        Remedy::Mend if situation.mended => return Verdict::Stop(Stop::Final),
        Remedy::Mend => (Verdict::Mend, Duration::ZERO),
        Remedy::Wait => {
            let after = situation.backoff.max(situation.retry_after.unwrap_or_default());
            (Verdict::Retry { after }, after)
        }
    };
    let recognised = match situation.class {
        RetryClass::Safe | RetryClass::Conditional(Enforced::ByUpstream) => true,
        RetryClass::Conditional(Enforced::ByGateway) | RetryClass::Unsafe => false,
    };
    if !recognised && situation.outcome() != Outcome::NotExecuted {
        return Verdict::Stop(Stop::Doubtful);
    }
    if situation.attempts >= situation.max_attempts {
        return Verdict::Stop(Stop::AttemptsUsed);
    }
    let over_at = situation.now.saturating_add(after).saturating_add(situation.estimate);
    if over_at < situation.deadline { again } else { Verdict::Stop(Stop::DeadlineTooNear) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(class: RetryClass, failure: Failure) -> Situation {
        Situation {
            class,
            failure,
            sent: true,
            doubtful: false,
            cancelled: false,
            mended: false,
            attempts: 1,
            max_attempts: 3,
            backoff: Duration::from_millis(200),
            retry_after: None,
            estimate: Duration::from_millis(50),
            now: Instant::ZERO,
            deadline: Instant::from_millis(10_000),
        }
    }

    const RETRY: Verdict = Verdict::Retry { after: Duration::from_millis(200) };

    #[test]
    fn d_16_the_class_is_the_contracts_and_the_keys() {
        use RetryClass::{Conditional, Safe, Unsafe};
        let class = |effect, idempotency, key| Contract { effect, idempotency }.class(key);
        assert_eq!(class(Effect::Read, Idempotency::None, false), Safe);
        assert_eq!(class(Effect::Read, Idempotency::Upstream, true), Safe);
        assert_eq!(class(Effect::Write, Idempotency::Upstream, true), Conditional(Enforced::ByUpstream));
        assert_eq!(class(Effect::Write, Idempotency::Gateway, true), Conditional(Enforced::ByGateway));
        assert_eq!(class(Effect::Unknown, Idempotency::None, true), Conditional(Enforced::ByGateway));
        for idempotency in [Idempotency::None, Idempotency::Gateway, Idempotency::Upstream] {
            assert_eq!(class(Effect::Write, idempotency, false), Unsafe);
            assert_eq!(class(Effect::Unknown, idempotency, false), Unsafe);
        }
        assert_eq!(class(Effect::Write, Idempotency::None, true), Unsafe);
    }

    #[test]
    fn rty_03_what_the_protocol_calls_repeatable_is_safe_and_a_tool_call_is_not() {
        for method in
            ["server/discover", "tools/list", "resources/read", "tasks/cancel", "subscriptions/listen"]
        {
            assert_eq!(Contract::of_method(method).class(false), RetryClass::Safe, "{method}");
        }
        for method in ["tools/call", "Tools/list", "tools/list ", "initialize", "notifications/cancelled", ""]
        {
            assert_eq!(Contract::of_method(method).class(false), RetryClass::Unsafe, "{method}");
        }
    }

    #[test]
    fn ruling_01_a_doubtful_write_is_sent_again_only_where_the_upstream_enforces_its_key() {
        for failure in
            [Failure::ConnectionLost, Failure::StreamEnded, Failure::TimedOutIdle, Failure::Unavailable]
        {
            for class in RetryClass::ALL {
                let expected = match class {
                    RetryClass::Safe | RetryClass::Conditional(Enforced::ByUpstream) => RETRY,
                    RetryClass::Conditional(Enforced::ByGateway) | RetryClass::Unsafe => {
                        Verdict::Stop(Stop::Doubtful)
                    }
                };
                assert_eq!(verdict(&situation(class, failure)), expected, "{class:?} {failure:?}");
                // Nothing left: anyone may try again, unless an earlier attempt is in doubt.
                let unsent = Situation { sent: false, ..situation(class, failure) };
                assert_eq!(verdict(&unsent), RETRY);
                assert_eq!(verdict(&Situation { doubtful: true, ..unsent }), expected);
            }
        }
    }

    #[test]
    fn i_07_while_anything_is_in_doubt_only_a_read_or_an_upstream_key_is_sent_again() {
        for class in [RetryClass::Conditional(Enforced::ByGateway), RetryClass::Unsafe] {
            for failure in Failure::ALL {
                for (sent, doubtful) in [(true, true), (true, false), (false, true), (false, false)] {
                    let situation = Situation { sent, doubtful, ..situation(class, failure) };
                    let stopped = matches!(verdict(&situation), Verdict::Stop(_));
                    let proven = situation.outcome() == Outcome::NotExecuted;
                    assert!(!(doubtful && proven), "one proof does not settle an earlier doubt");
                    assert!(stopped || proven, "{class:?} {failure:?} sent={sent} doubtful={doubtful}");
                }
            }
        }
    }

    #[test]
    fn d_37_argument_and_authentication_failures_are_not_repeated() {
        for failure in
            [Failure::NotDispatched, Failure::Unauthenticated, Failure::Forbidden, Failure::ProtocolError]
        {
            assert_eq!(verdict(&situation(RetryClass::Safe, failure)), Verdict::Stop(Stop::Final));
        }
        assert_eq!(verdict(&situation(RetryClass::Safe, Failure::ToolError)), Verdict::Stop(Stop::Final));
    }

    #[test]
    fn d_43_version_and_headers_are_mended_once() {
        for failure in [Failure::VersionRefused, Failure::HeadersRefused] {
            let first = situation(RetryClass::Unsafe, failure);
            assert_eq!(verdict(&first), Verdict::Mend);
            assert_eq!(verdict(&Situation { mended: true, ..first }), Verdict::Stop(Stop::Final));
            let last = Situation { max_attempts: 1, ..first };
            assert_eq!(verdict(&last), Verdict::Stop(Stop::AttemptsUsed));
            let late = Situation { deadline: first.now.saturating_add(first.estimate), ..first };
            assert_eq!(verdict(&late), Verdict::Stop(Stop::DeadlineTooNear));
        }
    }

    #[test]
    fn f059_retry_after_is_a_floor_that_must_fit() {
        let limited = situation(RetryClass::Unsafe, Failure::RateLimited);
        let after = |seconds| Situation { retry_after: Some(Duration::from_secs(seconds)), ..limited };
        assert_eq!(verdict(&after(0)), RETRY);
        assert_eq!(verdict(&after(1)), Verdict::Retry { after: Duration::from_secs(1) });
        assert_eq!(verdict(&after(3600)), Verdict::Stop(Stop::DeadlineTooNear));
        // now + delay + estimate < deadline, strictly.
        let edge = Situation { deadline: Instant::from_millis(250), ..limited };
        assert_eq!(verdict(&edge), Verdict::Stop(Stop::DeadlineTooNear));
        assert_eq!(verdict(&Situation { deadline: Instant::from_millis(251), ..limited }), RETRY);
    }

    #[test]
    fn ruling_09_an_error_of_the_next_hop_is_repeated_only_where_it_leaves_that_to_us() {
        for class in RetryClass::ALL {
            for outcome in [Outcome::NotExecuted, Outcome::Executed, Outcome::Unknown] {
                let spent = situation(class, Failure::Declared { outcome, retryable: false });
                assert_eq!(verdict(&spent), Verdict::Stop(Stop::Final));
            }
            let untried = Failure::Declared { outcome: Outcome::NotExecuted, retryable: true };
            assert_eq!(verdict(&situation(class, untried)), RETRY);
        }
        let unknown = Failure::Declared { outcome: Outcome::Unknown, retryable: true };
        assert_eq!(verdict(&situation(RetryClass::Safe, unknown)), RETRY);
        assert_eq!(verdict(&situation(RetryClass::Unsafe, unknown)), Verdict::Stop(Stop::Doubtful));
    }
}
