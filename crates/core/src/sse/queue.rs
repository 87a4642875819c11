//! The bounded queue between what a request emits and a peer that may be slow (G9, D-17, I-16, SSE-12).
//!
//! One queue serves one stream: the answer of one request, or one listen. On stdio, where requests share a pipe, each
//! has a queue of its own and the writer takes from them in turn; so a chatty request pushes nothing out but its own
//! progress (G11), and the mark that something is missing stands at the request that misses it.
//!
//! A stream has one final response and nothing after it (SSE-07). It waits in a slot of its own, outside the buffer's
//! limits and bounded by the largest message (ruling 17), so it cannot be refused for want of room, let alone dropped.
//! A second one is an error of its sender and is refused: to keep it, the first would have to go.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use crate::ids::ProgressToken;

/// One message on its way to the peer. Sizes are those of the encoded message, in bytes. Its `Debug` leaves out what
/// the message says.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Item<P> {
    /// Progress: the next of the same token supersedes it, and it may be dropped.
    Progress {
        /// Whose progress.
        token: ProgressToken,
        /// Size.
        bytes: usize,
        /// The message.
        payload: P,
    },
    /// Any other message before the final one. Once taken it is not dropped.
    Other {
        /// Messages of equal keys say the same: while one waits, another is merged into it, as SUB-20 allows for
        /// `list_changed`.
        merge: Option<Arc<str>>,
        /// Size.
        bytes: usize,
        /// The message.
        payload: P,
    },
    /// The final response, the last message of the stream.
    Final {
        /// Size.
        bytes: usize,
        /// The message.
        payload: P,
    },
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    items: usize,
    bytes: usize,
    final_bytes: usize,
}

/// Limits that no stream can work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LimitsError {
    /// With one place, every message would push out the one before it.
    #[error("a stream buffer of {0} items is too small; allow 2 or more")]
    Items(usize),
    /// Nothing has no bytes.
    #[error("a stream buffer needs room for bytes; set its limit and that of one message above 0")]
    Bytes,
}

impl Limits {
    /// Room for `items` messages of `bytes` together (`buffer`), and for a final response of `final_bytes`
    /// (`max_message`).
    ///
    /// # Errors
    /// Less than 2 items, or no bytes.
    pub const fn new(items: usize, bytes: usize, final_bytes: usize) -> Result<Self, LimitsError> {
        if items < 2 {
            Err(LimitsError::Items(items))
        } else if bytes == 0 || final_bytes == 0 {
            Err(LimitsError::Bytes)
        } else {
            Ok(Self { items, bytes, final_bytes })
        }
    }
}

/// What became of an offered message. `dropped` counts the older progress that gave way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pushed {
    /// It waits.
    Queued {
        /// How many.
        dropped: usize,
    },
    /// It waits in the place of the progress before it, or an equal message waits already.
    Coalesced {
        /// How many.
        dropped: usize,
    },
    /// There was no room for it. The stream needs a refetch; a listen is to be ended without a graceful result
    /// (ruling 17, SUB-20).
    NotKept,
}

/// Why a message was refused. The queue is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// Keeping it would mean to drop the final response that waits.
    #[error("the stream has its final response; send one for each request")]
    SecondFinal,
    /// Nothing follows the final response (SSE-07).
    #[error(
        "the stream has its final response and nothing follows it; send this before, or on another stream"
    )]
    AfterFinal,
    /// The final response is larger than a message may be.
    #[error("the final response has {bytes} bytes and {limit} are allowed; send less, or raise max_message")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Messages of one stream that wait for the peer to take them.
///
/// | state | offered | becomes | then |
/// |---|---|---|---|
/// | `Open` | progress, its token's progress at the end | in that one's place | `Open` |
/// | `Open` | progress or other, and there is room | waits | `Open` |
/// | `Open` | progress or other, room once progress is dropped | oldest progress dropped, waits | `Open` |
/// | `Open` | progress or other, no room even so | counted as dropped, nothing else changes | `Open` |
/// | `Open` | other, an equal one waits | merged into it | `Open` |
/// | `Open` | final within `max_message` | waits in its own slot | `Final` |
/// | `Open` | final beyond it | refused | `Open` |
/// | `Final`, `Over` | anything | refused | as it was |
///
/// Taking the last message out of `Final` leads to `Over`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BoundedQueue<P> {
    limits: Limits,
    /// Progress and others, the oldest in front.
    waiting: VecDeque<Item<P>>,
    /// Of everything in `waiting`.
    bytes: usize,
    /// What of `waiting` cannot give way.
    firm_items: usize,
    firm_bytes: usize,
    end: End<P>,
    dropped: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum End<P> {
    Open,
    Final { bytes: usize, payload: P },
    Over,
}

impl<P> BoundedQueue<P> {
    /// An empty queue.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            bytes: 0,
            firm_items: 0,
            firm_bytes: 0,
            end: End::Open,
            dropped: 0,
        }
    }

    /// Offers a message.
    ///
    /// # Errors
    /// The stream has its final response, or this one is too large for it.
    pub fn push(&mut self, item: Item<P>) -> Result<Pushed, Refused> {
        match (&self.end, &item) {
            (End::Final { .. } | End::Over, Item::Final { .. }) => return Err(Refused::SecondFinal),
            (End::Final { .. } | End::Over, Item::Progress { .. } | Item::Other { .. }) => {
                return Err(Refused::AfterFinal);
            }
            (End::Open, Item::Progress { .. } | Item::Other { .. } | Item::Final { .. }) => {}
        }
        match item {
            Item::Final { bytes, .. } if bytes > self.limits.final_bytes => {
                Err(Refused::TooLarge { bytes, limit: self.limits.final_bytes })
            }
            Item::Final { bytes, payload } => {
                self.end = End::Final { bytes, payload };
                Ok(Pushed::Queued { dropped: 0 })
            }
            Item::Other { merge: Some(key), .. } if self.has_equal(&key) => {
                Ok(Pushed::Coalesced { dropped: 0 })
            }
            Item::Progress { .. } | Item::Other { .. } => Ok(self.push_bounded(item)),
        }
    }

    /// The next message for the peer: the oldest, the final response last.
    pub fn pop(&mut self) -> Option<Item<P>> {
        if !self.waiting.is_empty() {
            return self.take(0);
        }
        match core::mem::replace(&mut self.end, End::Over) {
            End::Final { bytes, payload } => Some(Item::Final { bytes, payload }),
            End::Open => {
                self.end = End::Open;
                None
            }
            End::Over => None,
        }
    }

    /// How many messages wait, the final response included.
    pub fn len(&self) -> usize {
        self.waiting.len() + usize::from(matches!(self.end, End::Final { .. }))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes wait, the final response included: what counts towards `max_buffered`.
    pub const fn held_bytes(&self) -> usize {
        match &self.end {
            End::Final { bytes, .. } => self.bytes.saturating_add(*bytes),
            End::Open | End::Over => self.bytes,
        }
    }

    /// How many messages the peer will never see; what was coalesced is not counted, since its successor says all of
    /// it.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether something is missing, so that the peer must fetch it by other means. Ask before the final response is
    /// written: it carries the mark `_meta["steadfast/refetch"]` (ruling 17), and nothing is dropped after it.
    pub const fn needs_refetch(&self) -> bool {
        self.dropped > 0
    }

    fn push_bounded(&mut self, item: Item<P>) -> Pushed {
        let bytes = size(&item);
        // What would not fit among what cannot give way pushes nothing out in vain.
        if self.firm_items >= self.limits.items || self.firm_bytes.saturating_add(bytes) > self.limits.bytes {
            self.dropped += 1;
            return Pushed::NotKept;
        }
        let coalesces = match (self.waiting.back(), &item) {
            (Some(Item::Progress { token: last, .. }), Item::Progress { token, .. }) => last == token,
            (_, Item::Progress { .. } | Item::Other { .. } | Item::Final { .. }) => false,
        };
        if coalesces {
            self.take(self.waiting.len() - 1);
        }
        let mut dropped = 0;
        while self.waiting.len() >= self.limits.items || self.bytes.saturating_add(bytes) > self.limits.bytes
        {
            let oldest = self.waiting.iter().position(|item| matches!(item, Item::Progress { .. }));
            let Some(oldest) = oldest else { break };
            self.take(oldest);
            dropped += 1;
        }
        self.dropped += dropped as u64;
        self.bytes += bytes;
        if !matches!(item, Item::Progress { .. }) {
            self.firm_items += 1;
            self.firm_bytes += bytes;
        }
        self.waiting.push_back(item);
        if coalesces { Pushed::Coalesced { dropped } } else { Pushed::Queued { dropped } }
    }

    /// Takes one message out and keeps the books.
    fn take(&mut self, index: usize) -> Option<Item<P>> {
        let item = self.waiting.remove(index)?;
        self.bytes -= size(&item);
        if !matches!(item, Item::Progress { .. }) {
            self.firm_items -= 1;
            self.firm_bytes -= size(&item);
        }
        Some(item)
    }

    fn has_equal(&self, key: &str) -> bool {
        self.waiting.iter().any(|item| match item {
            Item::Other { merge, .. } => merge.as_deref() == Some(key),
            Item::Progress { .. } | Item::Final { .. } => false,
        })
    }
}

const fn size<P>(item: &Item<P>) -> usize {
    match item {
        Item::Progress { bytes, .. } | Item::Other { bytes, .. } | Item::Final { bytes, .. } => *bytes,
    }
}

impl<P> fmt::Debug for Item<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Progress { token, bytes, payload: _ } => {
                f.debug_struct("Progress").field("token", token).field("bytes", bytes).finish_non_exhaustive()
            }
            Self::Other { merge, bytes, payload: _ } => {
                f.debug_struct("Other").field("merge", merge).field("bytes", bytes).finish_non_exhaustive()
            }
            Self::Final { bytes, payload: _ } => {
                f.debug_struct("Final").field("bytes", bytes).finish_non_exhaustive()
            }
        }
    }
}

impl<P> fmt::Debug for End<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("Open"),
            Self::Final { bytes, payload: _ } => {
                f.debug_struct("Final").field("bytes", bytes).finish_non_exhaustive()
            }
            Self::Over => f.write_str("Over"),
        }
    }
}
