//! What can be seen of one call and its attempts.

use serde::{Serialize, Serializer};
use steadfast_core::policy::classify::{Failure, RetryClass, Stop};

use super::Id;

/// What can be seen of one call and its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Call {
    /// A call begins.
    Opened {
        /// How it may be repeated.
        #[serde(serialize_with = "as_class")]
        class: RetryClass,
        /// How many attempts it may have.
        max_attempts: u32,
        /// When it must be over, in milliseconds.
        deadline_ms: u64,
        /// How long an attempt is expected to take, in milliseconds.
        estimate_ms: u64,
    },
    /// An attempt begins.
    Attempt {
        /// Its number; the first is 1.
        number: u32,
        /// The request's id.
        id: Id,
        /// Its progress token.
        token: Id,
    },
    /// The first byte of the attempt left.
    Left,
    /// The attempt failed.
    Failed {
        /// How.
        #[serde(serialize_with = "as_failure")]
        failure: Failure,
        /// What the server asked to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The attempt was answered.
    Answered,
    /// The caller gave up.
    GaveUp,
    /// The call is over.
    Over {
        /// Why nothing more was tried, unless it was answered.
        #[serde(serialize_with = "as_stop")]
        stop: Option<Stop>,
    },
}

fn as_class<S: Serializer>(class: &RetryClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.as_str())
}

fn as_failure<S: Serializer>(failure: &Failure, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(failure.as_str())
}

fn as_stop<S: Serializer>(stop: &Option<Stop>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stop.map_or("answered", Stop::as_str))
}
