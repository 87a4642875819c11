//! The words in which failures are told: what ended, and what is known of the effect.

/// What is known of a call's effect; apart from how its exchange ended (ruling 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Certainly not executed (ruling 2).
    NotExecuted,
    /// Certainly executed: the peer answered with a result.
    Executed,
    /// May or may not have been executed; never told as failed and never as cancelled (G8).
    Unknown,
}

impl Outcome {
    /// The word on the wire, in `steadfast/error`: `not_executed`, `executed` or `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotExecuted => "not_executed",
            Self::Executed => "executed",
            Self::Unknown => "unknown",
        }
    }
}

/// Where an error was made, see product.md "Errors" and D-45.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A JSON-RPC error of the peer.
    Protocol,
    /// The way to the peer broke: reset, process exit, truncated answer.
    Transport,
    /// Made on this side: cancelled, deadline, queue full, breaker open, validation, mismatch, store.
    Local,
}

impl Kind {
    /// The word on the wire, in `steadfast/error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Transport => "transport",
            Self::Local => "local",
        }
    }
}
