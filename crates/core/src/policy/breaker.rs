//! When to stop asking a server that does not answer (I-15, D-46, ruling 24).

use alloc::collections::VecDeque;
use core::time::Duration;

use super::classify::Effect;
use super::failure::Failure;
use crate::time::{Instant, Now};

/// Calls to one server that share a breaker within a tenant: where writes fail, reads may still be served (D-46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Asks for one thing, or calls a tool that changes nothing.
    Read,
    /// May change something.
    Write,
    /// Asks what there is.
    List,
}

impl Class {
    /// The class of a request; `effect` is its contract's.
    pub fn of(method: &str, effect: Effect) -> Self {
        match (method, effect) {
            (
                "server/discover"
                | "tools/list"
                | "prompts/list"
                | "resources/list"
                | "resources/templates/list",
                _,
            ) => Self::List,
            (_, Effect::Read) => Self::Read,
            (_, Effect::Write | Effect::Unknown) => Self::Write,
        }
    }

    /// The word for reports: `read`, `write` or `list`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
        }
    }
}

/// How many failures in which time open the breaker, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// Failures within the window, with no success between them, that open it; 0 counts as 1.
    pub failures: u32,
    /// For how long a failure counts.
    pub window: Duration,
    /// How long it stays open before one call may try.
    pub cooldown: Duration,
}

impl Thresholds {
    /// Five failures in 30 s open it for 10 s (product.md "The configuration").
    pub const DEFAULT: Self =
        Self { failures: 5, window: Duration::from_secs(30), cooldown: Duration::from_secs(10) };
}

/// How a call that was let through ended, as far as it tells of the server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Observed {
    /// The server answered, be it with an error of its own.
    Success,
    /// A transport error, a 5xx or a timeout.
    Failure,
    /// Says nothing of the server's health: a caller's cancel, what was refused here, and what something before the
    /// server may have said.
    Neutral,
}

impl Observed {
    /// What a failed attempt tells (ruling 24). A call that the server completed with an error, or answered with a
    /// JSON-RPC error, did not fail (ERR-22): it shows that the server lives, else a probe with a wrong argument would
    /// keep a healthy server closed off. A bare HTTP refusal may come from a proxy before a dead one and tells nothing.
    pub const fn of(failure: Failure) -> Self {
        match failure {
            Failure::NotDispatched
            | Failure::VersionRefused
            | Failure::HeadersRefused
            | Failure::RejectedByContract
            | Failure::CapabilityMissing
            | Failure::ProtocolError
            | Failure::ToolError => Self::Success,
            Failure::NothingLeft
            | Failure::Unavailable
            | Failure::ServerError
            | Failure::ConnectionLost
            | Failure::StreamEnded
            | Failure::Unreadable
            | Failure::TimedOutIdle
            | Failure::TimedOutMaximum => Self::Failure,
            Failure::RefusedHere
            | Failure::SessionGone
            | Failure::Unauthenticated
            | Failure::RefusedByHttp
            | Failure::RateLimited
            | Failure::Forbidden
            | Failure::OtherStatus
            | Failure::Cancelled
            // The next hop guards its own server by its own breaker.
            | Failure::Declared { .. } => Self::Neutral,
        }
    }
}

/// Whether a call may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permit {
    /// Send it.
    Pass,
    /// Send it; it is the one that decides whether the breaker closes.
    Probe,
    /// Send nothing.
    Refused {
        /// When it is worth asking again; `None` while a probe is under way.
        until: Option<Instant>,
    },
}

/// The breaker of one server, tenant and [`Class`].
///
/// | state | asked | success | failure | neutral |
/// |---|---|---|---|---|
/// | Closed | pass | failures forgotten | counted; enough within the window → Open | nothing |
/// | Open, cooling | refused | late, nothing | late, nothing | nothing |
/// | Open, cooled | probe → HalfOpen | late, nothing | late, nothing | nothing |
/// | HalfOpen | refused | → Closed | → Open | → Open, already cooled: the next call probes |
///
/// What was sent before the breaker opened may answer later and changes nothing: only the probe decides, so whoever
/// holds [`Permit::Probe`] reports with `probe = true`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Breaker {
    thresholds: Thresholds,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Closed { failures: VecDeque<Instant> },
    Open { until: Instant },
    HalfOpen,
}

impl Breaker {
    /// A closed breaker.
    pub const fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, state: State::Closed { failures: VecDeque::new() } }
    }

    /// Asks to send one call. Every permit is reported on once, by [`Self::record`]: a probe that was given up too, as
    /// neutral, for until then nothing else is let through.
    pub fn permit(&mut self, now: Now) -> Permit {
        match self.state {
            State::Closed { .. } => Permit::Pass,
            State::Open { until } if now.mono >= until => {
                self.state = State::HalfOpen;
                Permit::Probe
            }
            State::Open { until } => Permit::Refused { until: Some(until) },
            State::HalfOpen => Permit::Refused { until: None },
        }
    }

    /// Reports how a call ended that was let through; `probe` if by [`Permit::Probe`].
    pub fn record(&mut self, now: Now, observed: Observed, probe: bool) {
        match (&mut self.state, observed, probe) {
            (State::Closed { failures }, Observed::Success, _) => failures.clear(),
            (State::Closed { failures }, Observed::Failure, _) => {
                let window = self.thresholds.window;
                while failures.front().is_some_and(|first| first.saturating_add(window) <= now.mono) {
                    failures.pop_front();
                }
                failures.push_back(now.mono);
                if failures.len() >= self.thresholds.failures as usize {
                    self.open(now);
                }
            }
            (State::HalfOpen, Observed::Success, true) => {
                self.state = State::Closed { failures: VecDeque::new() };
            }
            (State::HalfOpen, Observed::Failure, true) => self.open(now),
            // The probe tells nothing; another may try at once.
            (State::HalfOpen, Observed::Neutral, true) => self.state = State::Open { until: now.mono },
            (State::Closed { .. }, Observed::Neutral, _)
            | (State::HalfOpen, Observed::Success | Observed::Failure | Observed::Neutral, false)
            | (State::Open { .. }, Observed::Success | Observed::Failure | Observed::Neutral, _) => {}
        }
    }

    /// The word for reports: `closed`, `open` or `half_open`.
    pub const fn as_str(&self) -> &'static str {
        match self.state {
            State::Closed { .. } => "closed",
            State::Open { .. } => "open",
            State::HalfOpen => "half_open",
        }
    }

    fn open(&mut self, now: Now) {
        self.state = State::Open { until: now.mono.saturating_add(self.thresholds.cooldown) };
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const SMALL: Thresholds =
        Thresholds { failures: 2, window: Duration::from_millis(30), cooldown: Duration::from_millis(10) };

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Call(Observed),
        Wait,
    }

    const STEPS: [Step; 4] = [
        Step::Call(Observed::Success),
        Step::Call(Observed::Failure),
        Step::Call(Observed::Neutral),
        Step::Wait,
    ];

    /// All strings of calls, their outcomes and pauses, against a model that keeps the whole history.
    #[test]
    fn i_15_all_outcome_strings_up_to_eight_take_legal_edges_only() {
        let mut strings = 0;
        for length in 0..=8_u32 {
            for code in 0..4_usize.pow(length) {
                let string: Vec<Step> =
                    (0..length).map(|place| STEPS[code / 4_usize.pow(place) % 4]).collect();
                play(&string);
                strings += 1;
            }
        }
        assert_eq!(strings, 87_381);
    }

    fn play(string: &[Step]) {
        let mut breaker = Breaker::new(SMALL);
        let mut millis = 0;
        // The model: failures since the last success, and since when the breaker has been open, if it is.
        let mut failures: Vec<u64> = Vec::new();
        let mut open_until: Option<u64> = None;
        for step in string {
            let observed = match step {
                Step::Wait => {
                    millis += 10;
                    continue;
                }
                Step::Call(observed) => *observed,
            };
            let now = Now::at_millis(millis);
            let permit = breaker.permit(now);
            let expected = match open_until {
                None => Permit::Pass,
                Some(until) if millis >= until => Permit::Probe,
                Some(until) => Permit::Refused { until: Some(Instant::from_millis(until)) },
            };
            assert_eq!(permit, expected, "{string:?}");
            match permit {
                Permit::Refused { .. } => continue,
                Permit::Probe => {
                    assert_eq!(breaker.permit(now), Permit::Refused { until: None }, "one probe at a time");
                    breaker.record(now, observed, true);
                    match observed {
                        Observed::Success => (failures, open_until) = (Vec::new(), None),
                        Observed::Failure => open_until = Some(millis + 10),
                        Observed::Neutral => open_until = Some(millis),
                    }
                }
                Permit::Pass => {
                    breaker.record(now, observed, false);
                    match observed {
                        Observed::Success => failures.clear(),
                        Observed::Failure => failures.push(millis),
                        Observed::Neutral => {}
                    }
                    if failures.iter().filter(|at| **at + 30 > millis).count() >= 2 {
                        (failures, open_until) = (Vec::new(), Some(millis + 10));
                    }
                }
            }
        }
    }

    #[test]
    fn d_46_five_failures_in_thirty_seconds_open_it_for_ten() {
        let mut breaker = Breaker::new(Thresholds::DEFAULT);
        for millis in [0, 7_500, 15_000, 22_500, 30_000] {
            // The first has left the window when the fifth comes.
            breaker.record(Now::at_millis(millis), Observed::Failure, false);
        }
        assert_eq!(breaker.permit(Now::at_millis(30_000)), Permit::Pass);
        breaker.record(Now::at_millis(30_001), Observed::Failure, false);
        let until = Some(Instant::from_millis(40_001));
        assert_eq!(breaker.permit(Now::at_millis(40_000)), Permit::Refused { until });
        assert_eq!(breaker.permit(Now::at_millis(40_001)), Permit::Probe);
    }

    #[test]
    fn ruling_24_what_tells_nothing_neither_opens_nor_closes_and_frees_the_probe() {
        let mut breaker = Breaker::new(SMALL);
        for _ in 0..100 {
            breaker.record(Now::at_millis(0), Observed::Neutral, false);
        }
        assert_eq!(breaker.as_str(), "closed");
        breaker.record(Now::at_millis(0), Observed::Failure, false);
        breaker.record(Now::at_millis(0), Observed::Failure, false);
        assert_eq!(breaker.permit(Now::at_millis(10)), Permit::Probe);
        breaker.record(Now::at_millis(11), Observed::Neutral, true);
        assert_eq!(breaker.permit(Now::at_millis(11)), Permit::Probe);
        breaker.record(Now::at_millis(12), Observed::Success, true);
        assert_eq!(breaker.as_str(), "closed");
    }

    #[test]
    fn ruling_24_transport_errors_5xx_and_timeouts_count_and_nothing_else() {
        use Failure::*;
        let counted = [
            NothingLeft,
            Unavailable,
            ServerError,
            ConnectionLost,
            StreamEnded,
            Unreadable,
            TimedOutIdle,
            TimedOutMaximum,
        ];
        for failure in Failure::ALL {
            let counts = Observed::of(failure) == Observed::Failure;
            assert_eq!(counts, counted.contains(&failure), "{failure:?}");
        }
        for neutral in [Cancelled, Unauthenticated, Forbidden, RateLimited] {
            assert_eq!(Observed::of(neutral), Observed::Neutral, "{neutral:?}");
        }
    }

    #[test]
    fn err_22_a_probe_that_a_tool_answers_with_an_error_closes_the_breaker() {
        for failure in [Failure::ToolError, Failure::ProtocolError] {
            let mut breaker = Breaker::new(SMALL);
            breaker.record(Now::at_millis(0), Observed::Failure, false);
            breaker.record(Now::at_millis(0), Observed::Failure, false);
            assert_eq!(breaker.permit(Now::at_millis(10)), Permit::Probe);
            breaker.record(Now::at_millis(11), Observed::of(failure), true);
            assert_eq!(breaker.as_str(), "closed", "{failure:?}");
        }
    }

    #[test]
    fn ruling_24_reads_writes_and_lists_have_a_breaker_each() {
        for (method, effect, class) in [
            ("tools/call", Effect::Read, Class::Read),
            ("tools/call", Effect::Write, Class::Write),
            ("tools/call", Effect::Unknown, Class::Write),
            ("tools/list", Effect::Read, Class::List),
            ("resources/read", Effect::Read, Class::Read),
            ("x/unknown", Effect::Unknown, Class::Write),
        ] {
            assert_eq!(Class::of(method, effect), class, "{method} {effect:?}");
        }
    }

    #[test]
    fn i_15_what_was_sent_before_it_opened_changes_nothing_later() {
        let mut breaker = Breaker::new(SMALL);
        breaker.record(Now::at_millis(0), Observed::Failure, false);
        breaker.record(Now::at_millis(0), Observed::Failure, false);
        assert_eq!(breaker.as_str(), "open");
        breaker.record(Now::at_millis(1), Observed::Success, false);
        assert_eq!(breaker.as_str(), "open");
        assert_eq!(breaker.permit(Now::at_millis(10)), Permit::Probe);
        breaker.record(Now::at_millis(11), Observed::Success, false);
        assert_eq!(breaker.as_str(), "half_open");
    }
}
