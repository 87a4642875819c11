//! What can be seen of a run, at the ends and on the wire: the only thing that checkers judge and transcripts
//! keep.
//!
//! Events are small and `Copy`, so that watching a run costs next to nothing. Their derived `Hash` is what
//! the [transcript](crate::transcript) digests and their derived `Serialize` is what it prints.

mod breaker;
mod call;
mod catalog;
mod exchange;
mod ledger;
mod queue;
mod stdio;
mod subscription;
mod task;

pub use breaker::{Breaker, Outcome, Permit};
pub use call::Call;
pub use catalog::Catalog;
pub use exchange::{Exchange, Message, Side, Started, ignored_words, terminal_word};
pub use ledger::{Answer, Ledger, Settled, Told, Verdict};
pub use queue::{Became, Held, Queue, What};
pub use stdio::{Line, Stdio};
pub use subscription::{Ending, Subscription};
pub use task::Task;

use std::fmt;

use serde::{Serialize, Serializer};
use steadfast_core::ids::{ProgressToken, RequestId, Tag};

/// The payload of every simulated answer: a number that tells one answer from another.
pub type Body = u32;

/// Everything that can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// Of one request on one hop.
    Exchange(Exchange),
    /// Of attempts under idempotency keys.
    Ledger(Ledger),
    /// Of a stream's queue.
    Queue(Queue),
    /// Of one call and its attempts.
    Call(Call),
    /// Of calls behind a circuit breaker.
    Breaker(Breaker),
    /// Of lists that are kept.
    Catalog(Catalog),
    /// Of a subscription.
    Subscription(Subscription),
    /// Of a durable Task.
    Task(Task),
    /// Of a child process behind its pipes.
    Stdio(Stdio),
}

/// A request id or progress token, with its JSON type; ASCII strings of at most 14 bytes are enough for a
/// simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// A JSON integer.
    Integer(i64),
    /// A JSON string.
    String {
        /// How many of the bytes count.
        len: u8,
        /// UTF-8, the rest zero.
        bytes: [u8; 14],
    },
}

impl Id {
    /// An ASCII string id of at most 14 bytes; anything else is the empty string.
    pub const fn text(text: &str) -> Self {
        let mut bytes = [0; 14];
        if text.len() > 14 || !text.is_ascii() {
            return Self::String { len: 0, bytes };
        }
        let mut i = 0;
        while i < text.len() {
            bytes[i] = text.as_bytes()[i];
            i += 1;
        }
        Self::String { len: text.len() as u8, bytes }
    }

    /// The other JSON type with the same digits: what a careless peer makes of an id (F016).
    pub fn retyped(self) -> Self {
        match self {
            Self::Integer(n) => Self::text(&n.to_string()),
            Self::String { .. } => Self::Integer(0),
        }
    }

    fn of(tag: &Tag) -> Self {
        match tag {
            Tag::Integer(n) => Self::Integer(i64::try_from(*n).unwrap_or(i64::MAX)),
            Tag::String(text) => Self::text(text),
        }
    }

    fn tag(self) -> Tag {
        match self {
            Self::Integer(n) => Tag::from(n),
            Self::String { len, bytes } => {
                Tag::from(std::str::from_utf8(&bytes[..usize::from(len)]).unwrap_or_default())
            }
        }
    }
}

impl From<&RequestId> for Id {
    fn from(id: &RequestId) -> Self {
        Self::of(&id.0)
    }
}

impl From<&ProgressToken> for Id {
    fn from(token: &ProgressToken) -> Self {
        Self::of(&token.0)
    }
}

impl From<Id> for RequestId {
    fn from(id: Id) -> Self {
        Self(id.tag())
    }
}

impl From<Id> for ProgressToken {
    fn from(id: Id) -> Self {
        Self(id.tag())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tag().fmt(f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(n) => serializer.serialize_i64(*n),
            Self::String { len, bytes } => {
                serializer.serialize_str(std::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default())
            }
        }
    }
}
