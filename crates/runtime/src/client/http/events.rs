//! Reading an event stream, over several connections where a legacy server lets it be resumed.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use steadfast_core::sse::{Decoder, Event, Item};

use super::answer::Answer;

/// How many ids of events are remembered, to know again what comes twice.
const REMEMBERED: usize = 256;

/// The events of one stream.
pub(super) struct Events {
    answer: Answer,
    decoder: Decoder,
    /// Bytes that came and are not decoded yet.
    rest: Bytes,
    limit: usize,
    place: Place,
}

/// Where in a stream we are, which outlives its connection (LEG-34, LEG-42).
#[derive(Default)]
struct Place {
    last_id: String,
    /// Whether that is of this connection.
    here: bool,
    retry: Option<Duration>,
    /// Hashes of the ids of earlier connections and of this one; the newest last.
    seen: VecDeque<u64>,
    hasher: RandomState,
    /// An event with a new id came since the last [`Events::resume`].
    moved: bool,
}

/// What ended a stream before anybody was done with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It came to a regular end.
    Ended,
    /// Its connection broke, and how.
    Broke(String),
    /// An event is beyond the limit; one sentence.
    TooLarge(String),
}

impl Events {
    /// The stream that an answer is, with events of up to `limit` bytes (SSE-11).
    pub(super) fn of(answer: Answer, limit: usize) -> Self {
        Self { answer, decoder: Decoder::new(limit), rest: Bytes::new(), limit, place: Place::default() }
    }

    /// Goes on with the stream on another connection.
    pub(super) fn resume(&mut self, answer: Answer) {
        self.answer = answer;
        self.decoder = Decoder::new(self.limit);
        self.rest = Bytes::new();
        self.place.here = false;
        self.place.moved = false;
    }

    /// The next event with data, and whether one with its id came before (LEG-48). Comments and events without data are
    /// passed over: they say nothing, not even that the request lives (D-18, SSE-02, SSE-05).
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<(Event, bool), Cut> {
        loop {
            while !self.rest.is_empty() {
                let pushed = self.decoder.push(&self.rest);
                let (taken, item) = pushed.map_err(|error| Cut::TooLarge(error.to_string()))?;
                self.rest.advance(taken);
                let repeated = item.is_some() && self.place.follow(&self.decoder);
                match item {
                    Some(Item::Event(event)) => return Ok((event, repeated)),
                    Some(Item::Primed | Item::Comment) | None => {}
                }
            }
            self.rest = self.answer.chunk().await.map_err(Cut::Broke)?.ok_or(Cut::Ended)?;
        }
    }

    /// The id to resume from, if the server offered one.
    pub(super) fn last_id(&self) -> Option<&str> {
        Some(&*self.place.last_id).filter(|id| !id.is_empty())
    }

    /// How long the server asks to wait before that (LEG-35).
    pub(super) const fn retry(&self) -> Option<Duration> {
        self.place.retry
    }

    /// Whether a new id came on this connection: resuming leads on.
    pub(super) const fn moved(&self) -> bool {
        self.place.moved
    }

    /// Nothing more is wanted (SSE-10).
    pub(super) fn let_end(self) {
        self.answer.let_end();
    }
}

impl Place {
    /// Notes what the decoder read last, and says whether its event has an id that was there before.
    fn follow(&mut self, decoder: &Decoder) -> bool {
        if let Some(ms) = decoder.retry_ms() {
            self.retry = Some(Duration::from_millis(ms));
        }
        let id = decoder.last_event_id();
        // An event without an id leaves the last one standing.
        if id.is_empty() || (self.here && id == self.last_id) {
            return false;
        }
        self.here = true;
        id.clone_into(&mut self.last_id);
        let hash = self.hasher.hash_one(id);
        if self.seen.contains(&hash) {
            return true;
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(hash);
        self.moved = true;
        false
    }
}
