//! What may be repeated, when, and when to stop asking: data and pure functions.

pub mod backoff;
pub mod breaker;
pub mod classify;
pub mod failure;
pub mod restart;
pub mod table;

pub use backoff::Backoff;
pub use breaker::Breaker;
pub use classify::{Contract, Effect, Idempotency, RetryClass, Situation, Stop, Verdict, verdict};
pub use failure::{ErrorAnswer, Failure};
pub use restart::{Budget, Permit, Restarts};
