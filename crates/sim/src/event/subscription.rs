//! What can be seen of a subscription at its holder. What is listened for is written in bits: 1 the tools, 2
//! the prompts, 4 one resource.

use serde::Serialize;

/// What can be seen of a subscription at its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Subscription {
    /// `subscriptions/listen` is sent.
    Listened {
        /// Under this number.
        listen: u64,
        /// For this.
        filter: u8,
        /// Whether it asks to go on after an event that was seen.
        last_event_id: bool,
    },
    /// The acknowledgement arrives.
    Acknowledged {
        /// Of this listen.
        listen: u64,
        /// What the server will honour.
        granted: u8,
    },
    /// A notification arrives.
    Arrived {
        /// On this listen.
        listen: u64,
        /// What changed.
        change: u8,
    },
    /// A listen ended.
    Ended {
        /// Which one.
        listen: u64,
        /// How.
        how: Ending,
    },
    /// The holder is about to use the server.
    Used,
    /// Nobody wants the subscription any more.
    Closed,
    /// A notification is handed on.
    Delivered {
        /// What changed.
        change: u8,
    },
    /// What was known of these is marked stale.
    Stale {
        /// Of these.
        of: u8,
    },
    /// These are fetched by their authoritative methods.
    Fetched {
        /// These.
        of: u8,
    },
    /// The listen is cancelled.
    Cancelled {
        /// Which one.
        listen: u64,
    },
    /// The subscription is over: the server refuses it.
    Refused,
    /// Nothing can happen any more.
    AtRest {
        /// Whether the machine still waits for something that will not come.
        waits: bool,
    },
}

/// How a listen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By its result.
    Graceful,
    /// By the server's `notifications/cancelled`.
    CancelledByServer,
    /// The stream broke.
    Lost,
    /// An error instead of the acknowledgement.
    Refused,
}
