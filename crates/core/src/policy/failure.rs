//! How an attempt failed, and what that proves of its effect (ruling 2, RTY-04, D-37).

use crate::error::Outcome;

/// How an attempt failed, as far as it matters for its effect and for repeating it.
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
    /// A status without a kind of its own: 400, or 404 without a session, or any other that is no success.
    OtherStatus,
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
    /// A success whose body is no answer to the request.
    Unreadable,
    /// The idle limit was reached.
    TimedOutIdle,
    /// The maximum was reached.
    TimedOutMaximum,
    /// The user cancelled it before it ended otherwise (ruling 13).
    Cancelled,
    /// A result that says `isError`: a completed call (ERR-22).
    ToolError,
    /// The next hop's own error, which says itself what it means (ruling 9).
    Declared {
        /// What the next hop knows of the effect.
        outcome: Outcome,
        /// Whether it leaves repeating the call to us; `false` once its own attempts are spent (RTY-11).
        retryable: bool,
    },
}

/// What may come of sending it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The same again.
    Nothing,
    /// It may pass by itself: the same request after a pause.
    Wait,
    /// The refusal says what to correct: the corrected request at once, and once only.
    Mend,
}

/// What a failure says about itself.
struct Nature {
    word: &'static str,
    outcome: Outcome,
    remedy: Remedy,
}

/// An answer that is no result, as much of it as classifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorAnswer {
    /// The HTTP status; `None` on stdio, and for an event of a stream, whose status was a success.
    pub status: Option<u16>,
    /// The code of the JSON-RPC error in it, if there is one.
    pub code: Option<i64>,
    /// Whether a -32602 names missing `_meta`.
    pub names_missing_meta: bool,
    /// Whether the request carried the id of a legacy session.
    pub in_session: bool,
}

impl ErrorAnswer {
    /// The failure that this answer is; `rejects` are the codes that the contract takes as proof of non-execution.
    ///
    /// An error object decides over the status, except where the status says of itself what happened
    /// (HTTP-21, ruling 2). A code that means something already is not made less exact by `rejects`.
    pub fn failure(&self, rejects: &[i64]) -> Failure {
        let of_code = self.code.map(|code| match code {
            -32_700 | -32_600 | -32_601 => Failure::NotDispatched,
            -32_602 if self.names_missing_meta => Failure::NotDispatched,
            -32_022 => Failure::VersionRefused,
            -32_020 => Failure::HeadersRefused,
            code if rejects.contains(&code) => Failure::RejectedByContract,
            -32_021 => Failure::CapabilityMissing,
            _ => Failure::ProtocolError,
        });
        match self.status {
            None | Some(200..=299) => of_code.unwrap_or(Failure::Unreadable),
            Some(401) => Failure::Unauthenticated,
            Some(403) => Failure::Forbidden,
            // Servers put codes of their own into this body; only an unknown method is something else.
            Some(404) if self.in_session && of_code != Some(Failure::NotDispatched) => Failure::SessionGone,
            Some(405 | 406 | 413 | 415 | 431) => Failure::RefusedByHttp,
            Some(429) => Failure::RateLimited,
            Some(502..=504) => Failure::Unavailable,
            Some(500..=599) => Failure::ServerError,
            Some(_) => of_code.unwrap_or(Failure::OtherStatus),
        }
    }
}

impl Failure {
    /// All failures, in the order in which reports print them.
    pub const ALL: [Self; 29] = {
        use Outcome::{Executed, NotExecuted, Unknown};
        [
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
            Self::OtherStatus,
            Self::CapabilityMissing,
            Self::ProtocolError,
            Self::Unavailable,
            Self::ServerError,
            Self::ConnectionLost,
            Self::StreamEnded,
            Self::Unreadable,
            Self::TimedOutIdle,
            Self::TimedOutMaximum,
            Self::Cancelled,
            Self::ToolError,
            Self::Declared { outcome: NotExecuted, retryable: true },
            Self::Declared { outcome: NotExecuted, retryable: false },
            Self::Declared { outcome: Executed, retryable: true },
            Self::Declared { outcome: Executed, retryable: false },
            Self::Declared { outcome: Unknown, retryable: true },
            Self::Declared { outcome: Unknown, retryable: false },
        ]
    };

    const fn nature(self) -> Nature {
        use Outcome::{Executed, NotExecuted, Unknown};
        use Remedy::{Mend, Nothing, Wait};
        let (word, outcome, remedy) = match self {
            Self::RefusedHere => ("refused here", NotExecuted, Nothing),
            Self::NothingLeft => ("nothing left", NotExecuted, Wait),
            Self::NotDispatched => ("not dispatched", NotExecuted, Nothing),
            Self::VersionRefused => ("version refused (-32022)", NotExecuted, Mend),
            Self::HeadersRefused => ("headers refused (-32020)", NotExecuted, Mend),
            Self::RejectedByContract => ("rejected by contract", NotExecuted, Nothing),
            Self::SessionGone => ("session gone (404)", NotExecuted, Wait),
            Self::Unauthenticated => ("unauthenticated (401)", NotExecuted, Nothing),
            Self::RefusedByHttp => ("refused (405, 406, 413, 415, 431)", NotExecuted, Nothing),
            Self::RateLimited => ("rate limited (429)", NotExecuted, Wait),
            Self::Forbidden => ("forbidden (403)", Unknown, Nothing),
            Self::OtherStatus => ("other status (400, 404)", Unknown, Nothing),
            Self::CapabilityMissing => ("capability missing (-32021)", Unknown, Nothing),
            Self::ProtocolError => ("other JSON-RPC error", Unknown, Nothing),
            Self::Unavailable => ("unavailable (502, 503, 504)", Unknown, Wait),
            Self::ServerError => ("server error (other 5xx)", Unknown, Wait),
            Self::ConnectionLost => ("connection lost", Unknown, Wait),
            Self::StreamEnded => ("stream ended", Unknown, Wait),
            Self::Unreadable => ("unreadable answer", Unknown, Nothing),
            Self::TimedOutIdle => ("idle limit", Unknown, Wait),
            Self::TimedOutMaximum => ("maximum limit", Unknown, Nothing),
            Self::Cancelled => ("cancelled", Unknown, Nothing),
            Self::ToolError => ("tool error (isError)", Executed, Nothing),
            Self::Declared { outcome: NotExecuted, retryable: true } => {
                ("declared not executed, retryable", NotExecuted, Wait)
            }
            Self::Declared { outcome: NotExecuted, retryable: false } => {
                ("declared not executed", NotExecuted, Nothing)
            }
            Self::Declared { outcome: Executed, retryable: true } => {
                ("declared executed, retryable", Executed, Wait)
            }
            Self::Declared { outcome: Executed, retryable: false } => {
                ("declared executed", Executed, Nothing)
            }
            Self::Declared { outcome: Unknown, retryable: true } => {
                ("declared unknown, retryable", Unknown, Wait)
            }
            Self::Declared { outcome: Unknown, retryable: false } => ("declared unknown", Unknown, Nothing),
        };
        Nature { word, outcome, remedy }
    }

    pub(super) const fn remedy(self) -> Remedy {
        self.nature().remedy
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: ErrorAnswer =
        ErrorAnswer { status: None, code: None, names_missing_meta: false, in_session: false };

    fn status(status: u16) -> Failure {
        ErrorAnswer { status: Some(status), ..PLAIN }.failure(&[])
    }

    fn code(code: i64) -> ErrorAnswer {
        ErrorAnswer { code: Some(code), ..PLAIN }
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
            Declared { outcome: Outcome::NotExecuted, retryable: true },
            Declared { outcome: Outcome::NotExecuted, retryable: false },
        ];
        for failure in Failure::ALL {
            let proven = failure.outcome(true) == Outcome::NotExecuted;
            assert_eq!(proven, proof.contains(&failure), "{failure:?}");
        }
    }

    #[test]
    fn ruling_02_every_status_and_every_code_that_proves_it() {
        let proven = |failure: Failure| failure.outcome(true) == Outcome::NotExecuted;
        for number in 0..=999 {
            assert_eq!(proven(status(number)), matches!(number, 401 | 405 | 406 | 413 | 415 | 429 | 431));
        }
        for number in -33_000..=1_000 {
            let proof = [-32_700, -32_600, -32_601, -32_020, -32_022].contains(&number);
            assert_eq!(proven(code(number).failure(&[])), proof, "{number}");
        }
        assert_eq!(status(200), Failure::Unreadable);
        assert_eq!(status(302), Failure::OtherStatus);
        assert_eq!(status(500), Failure::ServerError);
        assert_eq!(status(503), Failure::Unavailable);
        assert_eq!(PLAIN.failure(&[]), Failure::Unreadable);
    }

    #[test]
    fn ruling_02_invalid_params_proves_it_for_missing_meta_or_by_contract() {
        assert_eq!(code(-32_602).failure(&[]), Failure::ProtocolError);
        assert_eq!(code(-32_602).failure(&[-32_602]), Failure::RejectedByContract);
        let missing = ErrorAnswer { names_missing_meta: true, ..code(-32_602) };
        assert_eq!(missing.failure(&[]), Failure::NotDispatched);
        assert_eq!(code(-32_021).failure(&[]), Failure::CapabilityMissing);
        assert_eq!(code(-32_022).failure(&[-32_022]), Failure::VersionRefused, "it stays mendable");
    }

    #[test]
    fn http_21_the_error_object_decides_over_200_400_and_404_only() {
        for number in [200, 400, 404] {
            let answer = ErrorAnswer { status: Some(number), ..code(-32_022) };
            assert_eq!(answer.failure(&[]), Failure::VersionRefused, "{number}");
        }
        for number in [401, 403, 429, 500, 503] {
            let answer = ErrorAnswer { status: Some(number), ..code(-32_601) };
            assert_eq!(answer.failure(&[-32_601]), status(number), "{number}");
        }
    }

    #[test]
    fn ruling_02_a_404_in_a_legacy_session_is_its_end() {
        let gone = ErrorAnswer { status: Some(404), in_session: true, ..PLAIN };
        assert_eq!(gone.failure(&[]), Failure::SessionGone);
        assert_eq!(ErrorAnswer { code: Some(-32_001), ..gone }.failure(&[]), Failure::SessionGone);
        assert_eq!(ErrorAnswer { code: Some(-32_601), ..gone }.failure(&[]), Failure::NotDispatched);
        assert_eq!(status(404), Failure::OtherStatus);
    }

    #[test]
    fn ruling_13_a_cancelled_write_is_unknown_once_bytes_may_have_left() {
        assert_eq!(Failure::Cancelled.outcome(true), Outcome::Unknown);
        assert_eq!(Failure::Cancelled.outcome(false), Outcome::NotExecuted);
    }
}
