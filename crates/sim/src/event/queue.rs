//! What can be seen of the bounded queue between a request and a slow peer.

use serde::Serialize;

/// What can be seen of a stream's queue. Messages are numbered in the order in which they are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Queue {
    /// A queue is made.
    Opened {
        /// How many messages may wait, the final response apart.
        items: usize,
        /// How many bytes may wait, the final response apart.
        bytes: usize,
    },
    /// A message is offered.
    Offered {
        /// Its number.
        number: u32,
        /// What it is.
        what: What,
        /// What becomes of it.
        became: Became,
        /// What waits now.
        held: Held,
    },
    /// The peer takes a message.
    Taken {
        /// Its number.
        number: u32,
        /// What it is.
        what: What,
        /// What waits now.
        held: Held,
    },
    /// Everything has been offered and the peer has taken what there was.
    AtRest {
        /// What waits all the same.
        held: Held,
    },
}

/// What a message is, as far as a queue treats it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Progress under the token of this number.
    Progress(u8),
    /// A message that says something of its own.
    Other,
    /// A message that is merged with an equal one that waits.
    Mergeable,
    /// The final response.
    Final,
}

/// What became of an offered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It waits.
    Queued,
    /// It superseded the progress before it, or an equal message waits.
    Coalesced,
    /// There was no room.
    NotKept,
    /// It was refused.
    Refused,
}

/// What waits in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Held {
    /// Messages, the final response included.
    pub items: usize,
    /// Bytes, the final response included.
    pub bytes: usize,
    /// Whether the peer is to be told that something is missing.
    pub refetch: bool,
}
