//! One checker an invariant. A checker sees only what was seen at the ends and on the wire, keeps its own
//! small account of it, and says when the account does not add up; it never looks into a machine.

mod attempts;
mod catalogs;
mod i01_one_end;
mod i02_race;
mod i03_cancel_names;
mod i04_clocks;
mod i05_progress;
mod i06_ids;
mod i07_one_doubtful_attempt;
mod i08_one_fingerprint;
mod i09_same_answer;
mod i10_one_lease;
mod i11_durable_first;
mod i12_unknown_is_said;
mod i14_bounded_attempts;
mod i15_breaker;
mod i16_bounded;
mod i17_private;
mod i18_fence;
mod i19_pages;
mod i20_acknowledged_first;
mod i21_return;
mod i22_task;
mod i24_rest;
mod i25_drain;
mod i26_whole_lines;
mod i28_comes_to_rest;

pub(crate) use i16_bounded::FINAL_BYTES;

use std::fmt;

use serde::{Serialize, Serializer};
use steadfast_core::time::{Instant, Now};

use crate::event::Event;

/// The number of an invariant, printed `I-01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Invariant(pub u8);

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I-{:02}", self.0)
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An invariant that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[error("{invariant} is broken: {what}")]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What was seen, in a few words.
    pub what: &'static str,
}

/// The numbers of the invariants that have a checker here.
pub const CHECKED: &[u8] =
    &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 25, 26, 28];

/// What a checker says of an event.
type Verdict = Result<(), &'static str>;

/// All checkers, and the first violation that they found.
#[derive(Clone, Debug)]
pub struct Checks {
    found: Found,
    i01: i01_one_end::OneEnd,
    i02: i02_race::Race,
    i03: i03_cancel_names::CancelNames,
    i04: i04_clocks::Clocks,
    i05: i05_progress::Progresses,
    i06: i06_ids::Ids,
    i07: i07_one_doubtful_attempt::OneDoubtfulAttempt,
    i08: i08_one_fingerprint::OneFingerprint,
    i09: i09_same_answer::SameAnswer,
    i10: i10_one_lease::OneLease,
    i11: i11_durable_first::DurableFirst,
    i12: i12_unknown_is_said::UnknownIsSaid,
    i14: i14_bounded_attempts::BoundedAttempts,
    i15: i15_breaker::LegalEdges,
    i16: i16_bounded::Bounded,
    i17: i17_private::Private,
    i18: i18_fence::Fence,
    i19: i19_pages::Pages,
    i20: i20_acknowledged_first::AcknowledgedFirst,
    i21: i21_return::Return,
    i22: i22_task::TaskEdges,
    i26: i26_whole_lines::WholeLines,
    i28: i28_comes_to_rest::ComesToRest,
}

impl Checks {
    /// Checkers that have seen nothing yet.
    pub fn new() -> Self {
        Self {
            found: Found::default(),
            i01: Default::default(),
            i02: Default::default(),
            i03: Default::default(),
            i04: Default::default(),
            i05: Default::default(),
            i06: Default::default(),
            i07: Default::default(),
            i08: Default::default(),
            i09: Default::default(),
            i10: Default::default(),
            i11: Default::default(),
            i12: Default::default(),
            i14: Default::default(),
            i15: Default::default(),
            i16: Default::default(),
            i17: Default::default(),
            i18: Default::default(),
            i19: Default::default(),
            i20: Default::default(),
            i21: Default::default(),
            i22: Default::default(),
            i26: Default::default(),
            i28: Default::default(),
        }
    }

    /// The same, deaf to all but one invariant: a planted bug must be caught by the checker that is meant for
    /// it.
    pub fn only(invariant: Invariant) -> Self {
        Self { found: Found { only: Some(invariant), violation: None }, ..Self::new() }
    }

    /// The first violation.
    #[inline]
    pub const fn violation(&self) -> Option<Violation> {
        self.found.violation
    }

    /// Judges an event.
    #[inline]
    pub fn see(&mut self, now: Now, event: &Event) {
        self.found.judge(Invariant(28), self.i28.see());
        match event {
            Event::Exchange(event) => self.found.judge_all([
                (1, self.i01.see(event)),
                (2, self.i02.see(now, event)),
                (3, self.i03.see(now, event)),
                (4, self.i04.see(now, event)),
                (5, self.i05.see(now, event)),
                (6, self.i06.see(event)),
                (24, i24_rest::see(event)),
            ]),
            Event::Ledger(event) => self.found.judge_all([
                (1, self.i01.see_ledger(event)),
                (8, self.i08.see(event)),
                (9, self.i09.see(event)),
                (10, self.i10.see(now, event)),
                (11, self.i11.see(event)),
                (12, self.i12.see(event)),
                (24, i24_rest::see_ledger(event)),
            ]),
            Event::Queue(event) => self.found.judge_all([(16, self.i16.see(event))]),
            Event::Breaker(event) => self.found.judge_all([(15, self.i15.see(now, event))]),
            Event::Call(event) => self.found.judge_all([
                (6, self.i06.see_call(event)),
                (7, self.i07.see(event)),
                (14, self.i14.see(now, event)),
            ]),
            Event::Task(event) => self.found.judge_all([(22, self.i22.see(event))]),
            Event::Subscription(event) => {
                self.found.judge_all([(20, self.i20.see(event)), (21, self.i21.see(now, event))]);
            }
            Event::Catalog(event) => self.found.judge_all([
                (17, self.i17.see(now, event)),
                (18, self.i18.see(now, event)),
                (19, self.i19.see(now, event)),
            ]),
            Event::Stdio(event) => self.found.judge_all([(26, self.i26.see(event))]),
        }
    }

    /// Judges the draining of a machine.
    #[inline]
    pub fn drained(&mut self, now: Now, outputs: usize, next: Option<Instant>) {
        self.found.judge(Invariant(25), i25_drain::drained(now, outputs, next));
    }
}

/// The first violation, of any invariant or of the only one that counts.
#[derive(Clone, Debug, Default)]
struct Found {
    only: Option<Invariant>,
    violation: Option<Violation>,
}

impl Found {
    #[inline]
    fn judge_all<const N: usize>(&mut self, verdicts: [(u8, Verdict); N]) {
        for (number, verdict) in verdicts {
            self.judge(Invariant(number), verdict);
        }
    }

    #[inline]
    fn judge(&mut self, invariant: Invariant, verdict: Verdict) {
        if let Err(what) = verdict
            && self.violation.is_none()
            && self.only.is_none_or(|only| only == invariant)
        {
            self.violation = Some(Violation { invariant, what });
        }
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}
