//! The bugs that the checkers must catch, one at least for each invariant.
//!
//! A bug sits between a machine and its world, where a careless driver would have it: it changes what the machine is told
//! or what is made of its outputs. Nothing of it is compiled into the core, and without a planted bug every function here
//! hands back what it was given.

use std::time::Duration;

use steadfast_core::exchange::requester::{End, Output};
use steadfast_core::exchange::{CancelSignal, Ignored, Reply, Spec};
use steadfast_core::hop::{Era, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::time::{Instant, Now};

use crate::check::Invariant;
use crate::event::{Body, Id};

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The caller is told the end twice.
    EndToldTwice,
    /// A response that comes after the cancel is delivered all the same.
    LateResponseDelivered,
    /// A request over modern HTTP is cancelled by posting a notification.
    CancelPostedOverModernHttp,
    /// The server is never told that the caller gave up.
    SignalForgotten,
    /// The cancel names the id in another JSON type.
    CancelUnderRetypedId,
    /// Limits are measured with the wall clock.
    WallClockForLimits,
    /// Progress starts the absolute limit anew.
    ProgressRestartsMaximum,
    /// Progress that the rate held back is forgotten when the answer comes.
    HeldProgressLost,
    /// Progress is handed on twice.
    ProgressRepeated,
    /// The answer carries the id in another JSON type.
    AnswerUnderRetypedId,
    /// An id is never released.
    IdNeverReleased,
    /// A machine wants to be woken at once for ever.
    TimerInThePast,
}

impl Bug {
    /// All of them, in the order of the invariants that they break, each with the scope in which it is looked for.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::EndToldTwice, "exchange-stdio-modern"),
        (Self::LateResponseDelivered, "exchange-stdio-modern"),
        (Self::CancelPostedOverModernHttp, "exchange-http-modern"),
        (Self::SignalForgotten, "exchange-stdio-legacy"),
        (Self::CancelUnderRetypedId, "exchange-stdio-modern"),
        (Self::WallClockForLimits, "exchange-http-legacy"),
        (Self::ProgressRestartsMaximum, "exchange-stdio-modern"),
        (Self::HeldProgressLost, "exchange-rate-limited"),
        (Self::ProgressRepeated, "exchange-http-modern"),
        (Self::AnswerUnderRetypedId, "exchange-stdio-modern"),
        (Self::IdNeverReleased, "exchange-stdio-modern"),
        (Self::TimerInThePast, "exchange-stdio-modern"),
    ];

    /// The invariant whose checker must catch it.
    pub const fn breaks(self) -> Invariant {
        Invariant(match self {
            Self::EndToldTwice => 1,
            Self::LateResponseDelivered | Self::CancelPostedOverModernHttp | Self::SignalForgotten => 2,
            Self::CancelUnderRetypedId => 3,
            Self::WallClockForLimits | Self::ProgressRestartsMaximum => 4,
            Self::HeldProgressLost | Self::ProgressRepeated => 5,
            Self::AnswerUnderRetypedId => 6,
            Self::IdNeverReleased => 24,
            Self::TimerInThePast => 25,
        })
    }

    /// What it does, for a person.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::EndToldTwice => "the caller is told the end twice",
            Self::LateResponseDelivered => "a response that comes after the cancel is delivered",
            Self::CancelPostedOverModernHttp => "modern HTTP is cancelled by posting a notification",
            Self::SignalForgotten => "the server is never told that the caller gave up",
            Self::CancelUnderRetypedId => "the cancel names the id in another JSON type",
            Self::WallClockForLimits => "limits are measured with the wall clock",
            Self::ProgressRestartsMaximum => "progress starts the absolute limit anew",
            Self::HeldProgressLost => "held-back progress is forgotten when the answer comes",
            Self::ProgressRepeated => "progress is handed on twice",
            Self::AnswerUnderRetypedId => "the answer carries the id in another JSON type",
            Self::IdNeverReleased => "an id is never released",
            Self::TimerInThePast => "a machine wants to be woken at once for ever",
        }
    }
}

/// What a machine is told of the time.
#[inline]
pub(crate) fn told(bug: Option<Bug>, now: Now, held_back: Duration) -> Now {
    match bug {
        Some(Bug::WallClockForLimits) => {
            Now { mono: Instant::from_millis(now.wall.as_unix_millis()), wall: now.wall }
        }
        Some(Bug::ProgressRestartsMaximum) => Now {
            mono: Instant::ZERO
                .saturating_add(now.mono.saturating_since(Instant::ZERO.saturating_add(held_back))),
            wall: now.wall,
        },
        _ => now,
    }
}

/// How far the time that a machine is told stands behind, once progress came.
#[inline]
pub(crate) fn held_back(bug: Option<Bug>, now: Now, before: Duration) -> Duration {
    match bug {
        Some(Bug::ProgressRestartsMaximum) => now.mono.saturating_since(Instant::ZERO),
        _ => before,
    }
}

/// When a machine wants to be woken.
#[inline]
pub(crate) fn timeout(bug: Option<Bug>, now: Now, at: Option<Instant>) -> Option<Instant> {
    match bug {
        Some(Bug::TimerInThePast) => at.map(|_| now.mono),
        _ => at,
    }
}

/// The id under which the server answers.
#[inline]
pub(crate) fn answered_id(bug: Option<Bug>, id: Id) -> Id {
    match bug {
        Some(Bug::AnswerUnderRetypedId) => id.retyped(),
        _ => id,
    }
}

/// Whether ids of ended requests are released.
#[inline]
pub(crate) fn releases_ids(bug: Option<Bug>) -> bool {
    bug != Some(Bug::IdNeverReleased)
}

/// What the client's driver makes of the outputs of one input.
pub(crate) fn client_outputs(bug: Bug, spec: &Spec, mut outputs: Vec<Output<Body>>) -> Vec<Output<Body>> {
    match bug {
        Bug::EndToldTwice => {
            if let Some(end) = outputs.iter().find(|output| matches!(output, Output::Ended(_))).cloned() {
                outputs.push(end);
            }
        }
        Bug::LateResponseDelivered => {
            for output in &mut outputs {
                if *output == Output::Ignored(Ignored::LateResponse) {
                    *output = Output::Ended(End::Answered(Reply::Result(42)));
                }
            }
        }
        Bug::CancelPostedOverModernHttp => {
            if (spec.hop.transport, spec.hop.era) == (Transport::Http, Era::Modern) {
                for output in &mut outputs {
                    if *output == Output::Signal(CancelSignal::CloseStream) {
                        *output = Output::Signal(CancelSignal::PostNotification {
                            id: spec.id.clone(),
                            reason: None,
                        });
                    }
                }
            }
        }
        Bug::SignalForgotten => outputs.retain(|output| !matches!(output, Output::Signal(_))),
        Bug::CancelUnderRetypedId => {
            for output in &mut outputs {
                if let Output::Signal(
                    CancelSignal::Notification { id, .. } | CancelSignal::PostNotification { id, .. },
                ) = output
                {
                    *id = RequestId::from(Id::from(&*id).retyped());
                }
            }
        }
        Bug::HeldProgressLost => {
            if outputs.iter().any(|output| matches!(output, Output::Ended(_))) {
                outputs.retain(|output| !matches!(output, Output::Progress(_)));
            }
        }
        Bug::ProgressRepeated => {
            if let Some(progress) =
                outputs.iter().find(|output| matches!(output, Output::Progress(_))).cloned()
            {
                outputs.insert(0, progress);
            }
        }
        Bug::WallClockForLimits
        | Bug::ProgressRestartsMaximum
        | Bug::AnswerUnderRetypedId
        | Bug::IdNeverReleased
        | Bug::TimerInThePast => {}
    }
    outputs
}
