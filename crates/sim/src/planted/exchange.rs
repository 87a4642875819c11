//! Bugs between the exchange machines and their world.

use std::time::Duration;

use steadfast_core::exchange::requester::{End, Output};
use steadfast_core::exchange::{CancelSignal, Ignored, Reply, Spec};
use steadfast_core::ids::RequestId;
use steadfast_core::time::{Instant, Now};

use super::Bug;
use crate::event::{Body, Id};

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

/// Whether the server sends what its handler produces after a cancel.
#[inline]
pub(crate) fn answers_late(bug: Option<Bug>) -> bool {
    bug == Some(Bug::AnsweredAfterCancel)
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
            for output in &mut outputs {
                if *output == Output::Signal(CancelSignal::CloseStream) {
                    let id = spec.id.clone();
                    *output = Output::Signal(CancelSignal::PostNotification { id, reason: None });
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
            let ended = outputs.iter().any(|output| matches!(output, Output::Ended(_)));
            outputs.retain(|output| !(ended && matches!(output, Output::Progress(_))));
        }
        Bug::ProgressRepeated => {
            if let Some(progress) =
                outputs.iter().find(|output| matches!(output, Output::Progress(_))).cloned()
            {
                outputs.insert(0, progress);
            }
        }
        _ => {}
    }
    outputs
}
