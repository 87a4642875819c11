//! What one world is made of.

use std::time::Duration;

use steadfast_core::exchange::{Limits, Operation};
use steadfast_core::hop::Hop;

use crate::event::{Id, Message, Side};

/// The request, its limits, and what may happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    /// The hop.
    pub hop: Hop,
    /// What is asked for.
    pub operation: Operation,
    /// The request's id.
    pub id: Id,
    /// Its progress token.
    pub token: Option<Id>,
    /// The client's limits.
    pub limits: Limits,
    /// The server's limits; without them the server waits for ever.
    pub server_limits: Option<Limits>,
    /// The least time between two progress events handed on, by either side.
    pub interval: Duration,
    /// How long one [`Action::Wait`](super::Action::Wait) is.
    pub step: Duration,
    /// What may happen of itself.
    pub script: Script,
    /// Messages that arrive at a side although its peer's machine did not send them, each at any time: what a
    /// broken or careless peer does. At most 8.
    pub strays: &'static [(Side, Message)],
}

/// How often each of these may happen of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Script {
    /// The handler reports progress.
    pub progress: u8,
    /// The handler answers: at most 1.
    pub answers: u8,
    /// The handler goes away without an answer and unasked.
    pub panics: u8,
    /// The caller gives up.
    pub cancels: u8,
    /// The server's application ends a listen.
    pub revokes: u8,
    /// The connection breaks.
    pub breaks: u8,
    /// A little time passes.
    pub waits: u8,
}

impl Setup {
    /// A small world: silence ends it after 10 ms and everything after 15 ms, one wait is 6 ms. So progress
    /// after one wait saves it from the idle limit, but not from the absolute one.
    pub fn small(hop: Hop, script: Script) -> Self {
        Self {
            hop,
            operation: Operation::Ordinary,
            id: Id::Integer(1),
            token: Some(Id::text("t")),
            limits: limits_ms(10, 15),
            server_limits: None,
            interval: Duration::ZERO,
            step: Duration::from_millis(6),
            script,
            strays: &[],
        }
    }
}

/// Limits of so many milliseconds, which must make sense together; otherwise the defaults.
pub(crate) fn limits_ms(idle: u64, maximum: u64) -> Limits {
    Limits::new(Duration::from_millis(idle), Duration::from_millis(maximum)).unwrap_or(Limits::DEFAULT)
}
