//! Streams of a legacy session: each event has an id, and a client whose connection broke comes back for what follows
//! the last one it saw (LEG-41…43). A broken connection ends no stream and cancels nothing (LEG-26).
//!
//! A stream has one reader at a time, the newest: a connection, or the keeper that stands in while there is none. The
//! reader takes from the outlets, writes to the log and, if it is a connection, to the client; all under one lock, so
//! that a place in the log is a place in the stream. While a connection reads, its slowness is felt in the outlets,
//! where progress is coalesced; while none does, the log keeps the newest within its limits.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use steadfast_core::envelope::{self, Message};
use steadfast_core::hop::Revision;
use steadfast_core::sse::encode;

use super::body::{BrokenOff, PIECE_BYTES, Pieces};
use super::lock;
use super::replay::{EventId, Log};
use crate::message;
use crate::server::endpoint::Buffered;
use crate::server::outlet::{self, Last, Next, Outlets};

/// One stream of a session.
pub(super) struct Stream {
    number: u64,
    revision: Revision,
    outlets: Outlets,
    state: Mutex<State>,
}

struct State {
    log: Log,
    /// What `log` and bodies hold counts here.
    replay: Buffered,
    ends: Ends,
    is_over: bool,
    /// Whose turn it is to read: the readers are numbered, and the newest is the one.
    reader: u64,
    is_attached: bool,
    waker: Option<Waker>,
}

/// When a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// After so many answers.
    AfterAnswers(usize),
    /// With its session: the standalone stream.
    WithSession,
}

impl Stream {
    pub(super) fn new(
        number: u64,
        revision: Revision,
        outlets: Outlets,
        ends: Ends,
        replay: Buffered,
    ) -> Self {
        let state = State {
            log: Log::default(),
            replay,
            ends,
            is_over: false,
            reader: 0,
            is_attached: false,
            waker: None,
        };
        Self { number, revision, outlets, state: Mutex::new(state) }
    }

    /// Its session ended: what was not answered will not be.
    pub(super) fn break_off(&self) {
        self.outlets.abandon();
    }

    /// Whether all that will ever be said is in the log.
    pub(super) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Whether a connection reads it.
    pub(super) fn is_attached(&self) -> bool {
        self.state().is_attached
    }

    /// A connection that reads from the beginning, where `first` was already taken from the outlets.
    pub(super) fn begin(self: &Arc<Self>, first: Option<Next>) -> Reading {
        let mut reading = self.attach(0);
        reading.first = first;
        reading.is_to_prime = self.revision == Revision::V2025_11_25;
        reading
    }

    /// A connection that reads what is said from now on.
    pub(super) fn follow(self: &Arc<Self>) -> Reading {
        let last = self.state().log.last();
        let mut reading = self.attach(last);
        reading.is_to_prime = self.revision == Revision::V2025_11_25;
        reading
    }

    /// A connection that reads what follows `place`. `None` if that was never said, or nothing is left of what follows
    /// it and nothing will come. Whoever read until now reads no more: one message goes to one connection (LEG-39).
    pub(super) fn resume(self: &Arc<Self>, place: u64) -> Option<Reading> {
        let state = self.state();
        let last = state.log.last();
        let is_lost = state.is_over && place < last && state.log.after(place).is_none();
        drop(state);
        (place <= last && !is_lost).then(|| self.attach(place))
    }

    fn attach(self: &Arc<Self>, place: u64) -> Reading {
        let mut state = self.state();
        state.is_attached = true;
        let reader = state.next_reader();
        drop(state);
        Reading {
            stream: Arc::clone(self),
            reader,
            place,
            has_gap: false,
            is_to_prime: false,
            first: None,
            rest: None,
            is_over: false,
            is_broken: false,
        }
    }

    /// Reads until a connection comes, so that answers need not wait for one.
    async fn keep(self: Arc<Self>, reader: u64) {
        std::future::poll_fn(|context| {
            let mut state = self.state();
            while state.reader == reader && !state.is_over {
                match self.outlets.poll_next(context) {
                    Poll::Ready(next) => drop(state.take(next)),
                    Poll::Pending => {
                        state.waker = Some(context.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn next_reader(&mut self) -> u64 {
        self.reader += 1;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        self.reader
    }

    /// Takes the next thing from the outlets; gives a message its place.
    fn take(&mut self, next: Option<Next>) -> Taken {
        match next {
            Some(Next::Message(message)) => Taken::Message(self.log(&message), message),
            Some(Next::Final(Last { message, .. })) => {
                let place = self.log(&message);
                match &mut self.ends {
                    Ends::AfterAnswers(left) => {
                        *left = left.saturating_sub(1);
                        self.is_over = *left == 0;
                    }
                    Ends::WithSession => {}
                }
                Taken::Message(place, message)
            }
            Some(Next::KeepAlive) => Taken::KeepAlive,
            Some(Next::HangUp(wait)) => Taken::HangUp(wait),
            // Cancelled: its client knows.
            None => {
                self.is_over = true;
                Taken::End
            }
            // Its session ended before its answers came.
            Some(Next::Broken) => {
                self.is_over = true;
                match self.ends {
                    Ends::AfterAnswers(left) if left > 0 => Taken::Broken,
                    Ends::AfterAnswers(_) | Ends::WithSession => Taken::End,
                }
            }
        }
    }

    fn log(&mut self, message: &Bytes) -> u64 {
        let before = self.log.bytes();
        let has_room = self.replay.has_room_for(message.len());
        let place = if has_room { self.log.push(message.clone()) } else { self.log.pass() };
        self.replay.moved(before, self.log.bytes());
        place
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.replay.moved(self.log.bytes(), 0);
    }
}

enum Taken {
    Message(u64, Bytes),
    KeepAlive,
    HangUp(std::time::Duration),
    End,
    /// An end that must not look like one (HTTP-29).
    Broken,
}

/// A connection's reading of a stream: the body of a response.
pub(super) struct Reading {
    stream: Arc<Stream>,
    reader: u64,
    /// The place of the last message that was handed over.
    place: u64,
    /// Something between was not kept: the answer says so.
    has_gap: bool,
    is_to_prime: bool,
    first: Option<Next>,
    rest: Option<Pieces>,
    is_over: bool,
    is_broken: bool,
}

impl Reading {
    pub(super) fn is_over(&self) -> bool {
        self.is_over && !self.is_broken && self.rest.as_ref().is_none_or(Pieces::is_empty)
    }

    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        if let Some(piece) = self.rest.as_mut().and_then(Pieces::next) {
            return Poll::Ready(Some(Ok(piece)));
        }
        self.rest = None;
        let mut gathered = Vec::new();
        ready!(self.poll_gather(&mut gathered, context));
        if gathered.is_empty() {
            return Poll::Ready(std::mem::take(&mut self.is_broken).then_some(Err(BrokenOff)));
        }
        let mut pieces = Pieces::new(Bytes::from(gathered), &self.stream.state().replay);
        let piece = pieces.next();
        self.rest = (!pieces.is_empty()).then_some(pieces);
        Poll::Ready(piece.map(Ok))
    }

    /// Gathers what is ready; waits only if there is nothing.
    fn poll_gather(&mut self, gathered: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<()> {
        let stream = Arc::clone(&self.stream);
        let mut state = stream.state();
        let id = |place| EventId { stream: stream.number, place }.to_string();
        if std::mem::take(&mut self.is_to_prime) {
            encode::write_primer(gathered, &id(self.place));
        }
        while !self.is_over && gathered.len() < PIECE_BYTES {
            if state.reader != self.reader {
                // Another connection took over.
                self.is_over = true;
                break;
            }
            if let Some((place, message)) = state.log.after(self.place) {
                self.has_gap |= place != self.place + 1;
                let marked = self.has_gap.then(|| with_refetch_mark(message)).flatten();
                encode::write_event(gathered, Some(&id(place)), marked.as_ref().unwrap_or(message));
                self.place = place;
                continue;
            }
            self.has_gap |= state.log.last() > self.place;
            self.place = state.log.last();
            if state.is_over {
                self.is_over = true;
                break;
            }
            let next = match self.first.take() {
                Some(first) => Some(first),
                None => match stream.outlets.poll_next(context) {
                    Poll::Ready(next) => next,
                    Poll::Pending if gathered.is_empty() => {
                        state.waker = Some(context.waker().clone());
                        return Poll::Pending;
                    }
                    Poll::Pending => break,
                },
            };
            match state.take(next) {
                Taken::Message(place, message) => {
                    let marked = self.has_gap.then(|| with_refetch_mark(&message)).flatten();
                    encode::write_event(gathered, Some(&id(place)), marked.as_ref().unwrap_or(&message));
                    self.place = place;
                }
                Taken::KeepAlive => gathered.extend_from_slice(encode::KEEP_ALIVE),
                Taken::HangUp(wait) => {
                    encode::write_retry(gathered, wait);
                    self.is_over = true;
                }
                Taken::End => self.is_over = true,
                Taken::Broken => {
                    self.is_over = true;
                    self.is_broken = true;
                }
            }
        }
        if !self.is_over {
            state.waker = Some(context.waker().clone());
        }
        Poll::Ready(())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.stream.state();
        if state.reader != self.reader {
            return;
        }
        state.is_attached = false;
        let needs_keeper = !state.is_over && state.ends != Ends::WithSession;
        // Outside a runtime nothing goes on, and nobody comes back.
        if let (true, Ok(runtime)) = (needs_keeper, tokio::runtime::Handle::try_current()) {
            let reader = state.next_reader();
            drop(state);
            runtime.spawn(Arc::clone(&self.stream).keep(reader));
        }
    }
}

/// A result with `_meta["steadfast/refetch"] = true` (ruling 17); `None` for everything else.
fn with_refetch_mark(message: &Bytes) -> Option<Bytes> {
    let Ok(Message::Response { id, reply }) = envelope::parse_within(usize::MAX, message) else {
        return None;
    };
    let marked = outlet::with_refetch_mark(&message::owned(&reply))?;
    Some(message::response(id.as_ref(), &marked))
}
