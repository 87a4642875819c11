//! Whether a failed call may be sent again: one function, whose table is what `review` and `evidence` print.
//!
//! Deciding to repeat a call is apart from reconnecting, refreshing a token and subscribing again (D-37): those repeat
//! no operation.

use core::time::Duration;

use crate::error::Outcome;
use crate::time::Instant;

/// What an operation does, by the operator's word. Annotations of a server are hints of an untrusted party and are not
/// even a parameter here (G6, D-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Nobody said; treated as a write without a key.
    Unknown,
}

/// Who enforces an operation's key, by the operator's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// How an attempt failed, as far as it matters (ruling 2, RTY-04, D-37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Refused on this side: validation, authorization, a full queue, an open breaker, a key mismatch.
    RefusedHere,
    /// No connection, or none of its bytes left.
    NothingLeft,
    /// -32700, -32600, -32601, or -32602 for missing `_meta`: it was never dispatched.
    NotDispatched,
    /// -32022: another version has to be spoken.
    VersionRefused,
    /// -32020: headers and body differ; the tool's schema has changed.
    HeadersRefused,
    /// A code that the contract names as proof of non-execution (`rejects`).
    RejectedByContract,
    /// A legacy session is gone: 404 with a session id.
    SessionGone,
    /// 401: no or no valid credentials.
    Unauthenticated,
    /// 405, 406, 413, 415 or 431.
    RefusedByHttp,
    /// 429 before a stream began.
    RateLimited,
    /// 403.
    Forbidden,
    /// 400, or 404 without a session.
    BadRequest,
    /// -32021: a capability is missing; it may come late.
    CapabilityMissing,
    /// Any other JSON-RPC error.
    ProtocolError,
    /// 502, 503 or 504.
    Unavailable,
    /// Any other 5xx.
    ServerError,
    /// The connection broke or the process ended after bytes had left.
    ConnectionLost,
    /// The response stream ended without a response.
    StreamEnded,
    /// The idle limit was reached.
    TimedOutIdle,
    /// The maximum was reached.
    TimedOutMaximum,
    /// A result that says `isError`: a completed call (ERR-22).
    ToolError,
    /// The next hop's own error, which forbids repeating it and tells the outcome (ruling 9).
    Declared(Outcome),
}

/// What a failure says about itself.
struct Nature {
    word: &'static str,
    outcome: Outcome,
    /// It may pass by itself.
    transient: bool,
    /// It can be corrected and sent once more.
    mendable: bool,
}

impl Failure {
    /// All failures, in the order in which reports print them.
    pub const ALL: [Self; 24] = [
        Self::RefusedHere,
        Self::NothingLeft,
        Self::NotDispatched,
        Self::VersionRefused,
        Self::HeadersRefused,
        Self::RejectedByContract,
        Self::SessionGone,
        Self::Unauthenticated,
        Self::RefusedByHttp,
        Self::RateLimited,
        Self::Forbidden,
        Self::BadRequest,
        Self::CapabilityMissing,
        Self::ProtocolError,
        Self::Unavailable,
        Self::ServerError,
        Self::ConnectionLost,
        Self::StreamEnded,
        Self::TimedOutIdle,
        Self::TimedOutMaximum,
        Self::ToolError,
        Self::Declared(Outcome::NotExecuted),
        Self::Declared(Outcome::Executed),
        Self::Declared(Outcome::Unknown),
    ];

    const fn nature(self) -> Nature {
        use Outcome::{Executed, NotExecuted, Unknown};
        let (word, outcome, transient, mendable) = match self {
            Self::RefusedHere => ("refused here", NotExecuted, false, false),
            Self::NothingLeft => ("nothing left", NotExecuted, true, false),
            Self::NotDispatched => ("not dispatched", NotExecuted, false, false),
            Self::VersionRefused => ("version refused (-32022)", NotExecuted, false, true),
            Self::HeadersRefused => ("headers refused (-32020)", NotExecuted, false, true),
            Self::RejectedByContract => ("rejected by contract", NotExecuted, false, false),
            Self::SessionGone => ("session gone (404)", NotExecuted, true, false),
            Self::Unauthenticated => ("unauthenticated (401)", NotExecuted, false, false),
            Self::RefusedByHttp => ("refused (405, 406, 413, 415, 431)", NotExecuted, false, false),
            Self::RateLimited => ("rate limited (429)", NotExecuted, true, false),
            Self::Forbidden => ("forbidden (403)", Unknown, false, false),
            Self::BadRequest => ("bad request (400, 404)", Unknown, false, false),
            Self::CapabilityMissing => ("capability missing (-32021)", Unknown, false, false),
            Self::ProtocolError => ("other JSON-RPC error", Unknown, false, false),
            Self::Unavailable => ("unavailable (502, 503, 504)", Unknown, true, false),
            Self::ServerError => ("server error (other 5xx)", Unknown, true, false),
            Self::ConnectionLost => ("connection lost", Unknown, true, false),
            Self::StreamEnded => ("stream ended", Unknown, true, false),
            Self::TimedOutIdle => ("idle limit", Unknown, true, false),
            Self::TimedOutMaximum => ("maximum limit", Unknown, false, false),
            Self::ToolError => ("tool error (isError)", Executed, false, false),
            Self::Declared(NotExecuted) => ("declared not executed", NotExecuted, false, false),
            Self::Declared(Executed) => ("declared executed", Executed, false, false),
            Self::Declared(Unknown) => ("declared unknown", Unknown, false, false),
        };
        Nature { word, outcome, transient, mendable }
    }

    /// The words for reports.
    pub const fn as_str(self) -> &'static str {
        self.nature().word
    }

    /// What is known of the effect after this failure alone. An attempt of which nothing left was not executed,
    /// whatever else happened to it.
    pub const fn outcome(self, sent: bool) -> Outcome {
        match (self.nature().outcome, sent) {
            (Outcome::Executed, _) => Outcome::Executed,
            (Outcome::Unknown, true) => Outcome::Unknown,
            (Outcome::NotExecuted, _) | (Outcome::Unknown, false) => Outcome::NotExecuted,
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
    /// It is over.
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

/// The one decision about repeating a call.
pub fn verdict(situation: &Situation) -> Verdict {
    let Situation { class, failure, sent, doubtful, .. } = *situation;
    if situation.cancelled {
        return Verdict::Stop(Stop::Cancelled);
    }
    let nature = failure.nature();
    if nature.mendable {
        let over = situation.mended || situation.attempts >= situation.max_attempts;
        return if over { Verdict::Stop(Stop::Final) } else { Verdict::Mend };
    }
    if !nature.transient {
        return Verdict::Stop(Stop::Final);
    }
    let unexecuted = failure.outcome(sent) == Outcome::NotExecuted && !doubtful;
    let may_be_repeated = match class {
        RetryClass::Safe | RetryClass::Conditional(Enforced::ByUpstream) => true,
        RetryClass::Conditional(Enforced::ByGateway) | RetryClass::Unsafe => unexecuted,
    };
    if !may_be_repeated {
        return Verdict::Stop(Stop::Doubtful);
    }
    if situation.attempts >= situation.max_attempts {
        return Verdict::Stop(Stop::AttemptsUsed);
    }
    let after = situation.backoff.max(situation.retry_after.unwrap_or_default());
    let over_at = situation.now.saturating_add(after).saturating_add(situation.estimate);
    if over_at < situation.deadline { Verdict::Retry { after } } else { Verdict::Stop(Stop::DeadlineTooNear) }
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
    fn ruling_02_what_proves_that_a_call_was_not_executed_and_nothing_else() {
        use Failure::*;
        let proof = [
            RefusedHere,
            NothingLeft,
            NotDispatched,
            VersionRefused,
            HeadersRefused,
            RejectedByContract,
            SessionGone,
            Unauthenticated,
            RefusedByHttp,
            RateLimited,
            Declared(Outcome::NotExecuted),
        ];
        for failure in Failure::ALL {
            let proven = failure.outcome(true) == Outcome::NotExecuted;
            assert_eq!(proven, proof.contains(&failure), "{failure:?}");
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
}
