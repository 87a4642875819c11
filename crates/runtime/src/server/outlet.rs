//! What waits for a peer: one bounded queue a request, and the requests of a connection take turns (G9, G11).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::envelope;
use steadfast_core::error::Outcome;
use steadfast_core::exchange::{Progress, Reply};
use steadfast_core::ids::{ProgressToken, RequestId};
use steadfast_core::object::Members;
use steadfast_core::sse::queue::{BoundedQueue, Item, Limits, Pushed, Refused};

use super::endpoint::{Buffered, Permit};
use crate::message::{self, OwnError};

/// The reading end: a connection's writer, or the body of one response.
pub(super) struct Outlets {
    shared: Arc<Mutex<State>>,
}

/// The writing end of one request. Nothing of it ever waits. Once it is dropped, what it holds still leaves.
pub(super) struct Outlet {
    shared: Arc<Mutex<State>>,
    stream: u64,
}

/// The last message of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) message: Bytes,
    /// It is a response, and says that the request failed.
    pub(super) is_error: bool,
}

/// Something for the peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Message(Bytes),
    Final(Last),
    /// A sign that the stream lives.
    KeepAlive,
    /// The connection that carries this stream ends now, and the client comes back for the rest after this time
    /// (LEG-32).
    HangUp(Duration),
    /// Nothing more comes, and that must not look like a regular end: a listener fell behind (SUB-20), or nobody took
    /// anything for too long (ruling 17).
    Broken,
}

struct State {
    limits: Limits,
    buffered: Buffered,
    /// Boxed, since a map keeps room for eleven and most have one.
    streams: BTreeMap<u64, Box<Stream>>,
    /// The streams that hold something, in the order of their turns: each gives one message and goes to the end.
    turns: VecDeque<u64>,
    next_stream: u64,
    /// How many messages were taken: what shows that the peer reads.
    taken: u64,
    keep_alive: bool,
    hang_up: Option<Duration>,
    closed: bool,
    broken: bool,
    broken_unsaid: bool,
    waker: Option<Waker>,
}

struct Stream {
    queue: BoundedQueue<Bytes>,
    has_writer: bool,
    /// See [`Last`].
    is_error: bool,
    /// Who waits until this is taken.
    waits: Option<Waker>,
    /// Held until the last message is taken: so long is the request under way.
    _permit: Option<Permit>,
}

impl Outlets {
    /// No outlet yet; `limits` are each request's own, `buffered` counts for all.
    pub(super) fn new(limits: Limits, buffered: Buffered) -> Self {
        let state = State {
            limits,
            buffered,
            streams: BTreeMap::new(),
            turns: VecDeque::new(),
            next_stream: 0,
            taken: 0,
            keep_alive: false,
            hang_up: None,
            closed: false,
            broken: false,
            broken_unsaid: false,
            waker: None,
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// An outlet for one more request, under way until its last message was taken.
    pub(super) fn open(&self, permit: Option<Permit>) -> Outlet {
        let mut state = lock(&self.shared);
        let stream = state.next_stream;
        state.next_stream += 1;
        if !state.broken {
            let queue = BoundedQueue::new(state.limits);
            let open = Stream { queue, has_writer: true, is_error: false, waits: None, _permit: permit };
            state.streams.insert(stream, Box::new(open));
        }
        Outlet { shared: Arc::clone(&self.shared), stream }
    }

    /// No further outlet will be opened: once all are dropped and empty, there is nothing more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.shared);
        state.closed = true;
        state.wake();
    }

    /// Nobody will read any more: what waits is dropped and nothing is taken in.
    pub(super) fn abandon(&self) {
        lock(&self.shared).break_off();
    }

    /// The next message, or `None` when there will be none.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Next>> {
        let mut state = lock(&self.shared);
        match state.pop() {
            Some(next) => Poll::Ready(Some(next)),
            None if state.closed && state.streams.is_empty() => Poll::Ready(None),
            None => {
                if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    state.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// The next message if one waits: for writing what is ready at once.
    pub(super) fn try_next(&self) -> Option<Next> {
        lock(&self.shared).pop()
    }

    /// As [`Self::poll_next`], to be awaited. Dropping the future loses nothing.
    pub(super) async fn next(&self) -> Option<Next> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

impl Clone for Outlets {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl Outlet {
    /// Progress: the next of the same token supersedes it, and under pressure it gives way.
    pub(super) fn progress(&self, token: &ProgressToken, progress: &Progress) {
        let payload = Bytes::from(envelope::progress(token, progress));
        let item = Item::Progress { token: token.clone(), bytes: payload.len(), payload };
        // Before the final response nothing is refused, and after it nothing comes.
        let _ = self.push(item);
    }

    /// The answer, with the mark that something is missing if something is (ruling 17). One that is too large for a
    /// message, or for what may wait altogether, becomes an error that names its size (F065).
    pub(super) fn finish(&self, id: &RequestId, reply: &Reply<Bytes>) {
        let incomplete = self.with(|stream| stream.queue.needs_refetch());
        let marked = incomplete.then(|| with_refetch_mark(reply)).flatten();
        let payload = message::response(Some(id), marked.as_ref().unwrap_or(reply));
        if matches!(reply, Reply::Error(_)) {
            self.fail();
        }
        let bytes = payload.len();
        let room = lock(&self.shared).buffered.has_room_for(bytes);
        let pushed = if room {
            self.push(Item::Final { bytes, payload })
        } else {
            Err(Refused::TooLarge { bytes, limit: 0 })
        };
        if let Err(Refused::TooLarge { bytes, limit }) = pushed {
            let text = if room {
                format!("the answer has {bytes} bytes and {limit} are allowed; ask for less")
            } else {
                format!(
                    "the answer has {bytes} bytes and too much waits for clients that do not read; read, or ask for less"
                )
            };
            let category = if room { "result_too_large" } else { "buffers_full" };
            let error = OwnError::local(category, Outcome::Executed, &text);
            self.fail();
            self.end_with(message::response(Some(id), &Reply::Error(Bytes::from(error.as_json_rpc_error()))));
        }
    }

    fn fail(&self) {
        if let Some(stream) = lock(&self.shared).streams.get_mut(&self.stream) {
            stream.is_error = true;
        }
    }

    /// The last message of this request, whatever it is.
    pub(super) fn end_with(&self, payload: Bytes) {
        let _ = self.push(Item::Final { bytes: payload.len(), payload });
    }

    /// A message that its receiver is owed even where nothing else may wait any more; says how many wait now.
    pub(super) fn tell(&self, payload: Bytes) -> usize {
        let _ = self.push_owed(Item::Other { merge: None, bytes: payload.len(), payload });
        self.with(|stream| stream.queue.len())
    }

    /// A message before the final one. Says whether it waits now; beyond the limits it is dropped.
    pub(super) fn say(&self, payload: Bytes) -> bool {
        matches!(
            self.push(Item::Other { merge: None, bytes: payload.len(), payload }),
            Ok(Pushed::Queued { .. } | Pushed::Coalesced { .. })
        )
    }

    /// A sign that the stream lives, if nothing else waits.
    pub(super) fn keep_alive(&self) {
        let mut state = lock(&self.shared);
        state.keep_alive = true;
        state.wake();
    }

    /// Lets the connection end after what waits; the client comes back after `retry`.
    pub(super) fn hang_up(&self, retry: Duration) {
        let mut state = lock(&self.shared);
        state.hang_up = Some(retry);
        state.wake();
    }

    /// Ends what carries this stream so that it does not look like a regular end. For a stream of its own (HTTP).
    pub(super) fn break_off(&self) {
        lock(&self.shared).break_off();
    }

    /// Waits until nothing of what was said waits any more.
    pub(super) async fn emptied(&self) {
        std::future::poll_fn(|context| self.poll_emptied(context)).await;
    }

    /// Whether all was taken, once nothing waits.
    fn poll_emptied(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.shared);
        match state.streams.get_mut(&self.stream) {
            Some(stream) if !stream.queue.is_empty() => {
                stream.waits = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(!state.broken),
        }
    }

    /// Waits until all that was said is taken. Gives up when the peer took nothing at all for `stall`: it is
    /// disconnected then (ruling 17). Says whether all was taken.
    pub(super) async fn taken(self, stall: Duration) -> bool {
        let mut seen = lock(&self.shared).taken;
        loop {
            let drained = std::future::poll_fn(|context| self.poll_emptied(context));
            match tokio::time::timeout(stall, drained).await {
                Ok(all) => return all,
                Err(_) => {
                    let mut state = lock(&self.shared);
                    if state.taken == seen {
                        state.break_off();
                        return false;
                    }
                    seen = state.taken;
                }
            }
        }
    }

    fn push(&self, item: Item<Bytes>) -> Result<Pushed, Refused> {
        let full = lock(&self.shared).buffered.is_full();
        if full && !matches!(item, Item::Final { .. }) {
            return Ok(Pushed::NotKept);
        }
        self.push_owed(item)
    }

    fn push_owed(&self, item: Item<Bytes>) -> Result<Pushed, Refused> {
        let mut state = lock(&self.shared);
        let Some(stream) = state.streams.get_mut(&self.stream) else { return Ok(Pushed::NotKept) };
        let (was_empty, before) = (stream.queue.is_empty(), stream.queue.held_bytes());
        let pushed = stream.queue.push(item)?;
        let (is_empty, after) = (stream.queue.is_empty(), stream.queue.held_bytes());
        state.buffered.moved(before, after);
        if was_empty && !is_empty {
            state.turns.push_back(self.stream);
        }
        state.wake();
        Ok(pushed)
    }

    fn with<T: Default>(&self, look: impl FnOnce(&Stream) -> T) -> T {
        lock(&self.shared).streams.get(&self.stream).map(|stream| look(stream)).unwrap_or_default()
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        if let Some(stream) = state.streams.get_mut(&self.stream) {
            stream.has_writer = false;
            if stream.queue.is_empty() {
                state.streams.remove(&self.stream);
            }
        }
        state.wake();
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlet").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl State {
    fn pop(&mut self) -> Option<Next> {
        if std::mem::take(&mut self.broken_unsaid) {
            return Some(Next::Broken);
        }
        while let Some(number) = self.turns.pop_front() {
            let Some(stream) = self.streams.get_mut(&number) else { continue };
            let (before, is_error) = (stream.queue.held_bytes(), stream.is_error);
            let item = stream.queue.pop();
            self.buffered.moved(before, stream.queue.held_bytes());
            if !stream.queue.is_empty() {
                self.turns.push_back(number);
            } else {
                if let Some(waits) = stream.waits.take() {
                    waits.wake();
                }
                if !stream.has_writer {
                    self.streams.remove(&number);
                }
            }
            match item {
                Some(Item::Progress { payload, .. } | Item::Other { payload, .. }) => {
                    self.taken += 1;
                    return Some(Next::Message(payload));
                }
                Some(Item::Final { payload, .. }) => {
                    self.taken += 1;
                    return Some(Next::Final(Last { message: payload, is_error }));
                }
                None => {}
            }
        }
        if let Some(retry) = self.hang_up.take() {
            return Some(Next::HangUp(retry));
        }
        std::mem::take(&mut self.keep_alive).then_some(Next::KeepAlive)
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.broken_unsaid = true;
        self.turns.clear();
        for stream in std::mem::take(&mut self.streams).into_values() {
            self.buffered.moved(stream.queue.held_bytes(), 0);
            if let Some(waits) = stream.waits {
                waits.wake();
            }
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for stream in self.streams.values() {
            self.buffered.moved(stream.queue.held_bytes(), 0);
        }
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A result with `_meta["steadfast/refetch"] = true`; `None` for an error, and for what is no object.
pub(super) fn with_refetch_mark(reply: &Reply<Bytes>) -> Option<Reply<Bytes>> {
    let Reply::Result(result) = reply else { return None };
    let mut result = Members::parse(std::str::from_utf8(result).ok()?).ok()?;
    result.edit("_meta", |meta| meta.set("steadfast/refetch", "true")).ok()?;
    Some(Reply::Result(Bytes::from(result.to_json())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: usize = 256;

    fn outlets(final_bytes: usize) -> Outlets {
        Outlets::new(Limits::new(ITEMS, 1 << 20, final_bytes).unwrap(), Buffered::new(usize::MAX))
    }

    fn drain(outlets: &Outlets) -> Vec<String> {
        let mut context = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match outlets.poll_next(&mut context) {
            Poll::Ready(Some(Next::Message(bytes) | Next::Final(Last { message: bytes, .. }))) => Some(bytes),
            Poll::Ready(Some(Next::KeepAlive)) => Some(Bytes::from_static(b":")),
            Poll::Ready(Some(Next::HangUp(_) | Next::Broken) | None) | Poll::Pending => None,
        })
        .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        .collect()
    }

    fn is_over(outlets: &Outlets) -> bool {
        matches!(outlets.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None))
    }

    fn progress(outlet: &Outlet, token: &str, value: u32) {
        outlet.progress(&token.into(), &Progress::of(value.into()).unwrap());
    }

    #[test]
    fn g9_a_reader_that_takes_nothing_finds_the_latest_progress_the_answer_and_the_mark() {
        let outlets = outlets(1_000);
        let outlet = outlets.open(None);
        for value in 0..10_000 {
            progress(&outlet, if value % 2 == 0 { "a" } else { "b" }, value);
        }
        outlet.finish(&7.into(), &Reply::Result(Bytes::from_static(br#"{"n":1.0,"_meta":{"k":1}}"#)));
        let seen = drain(&outlets);
        assert_eq!(seen.len(), ITEMS + 1);
        assert!(seen[ITEMS - 1].contains(r#""progress":9999"#), "the latest is kept");
        assert_eq!(
            seen[ITEMS],
            r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.0,"_meta":{"k":1,"steadfast/refetch":true}}}"#
        );
    }

    #[test]
    fn d_17_without_a_loss_there_is_no_mark_and_the_answer_keeps_its_bytes() {
        let outlets = outlets(1_000);
        let outlet = outlets.open(None);
        for value in 0..10_000 {
            progress(&outlet, "a", value);
        }
        outlet.finish(&7.into(), &Reply::Result(Bytes::from_static(b"{}")));
        let seen = drain(&outlets);
        assert_eq!(seen.len(), 2, "all of one token is coalesced");
        assert!(seen[0].contains(r#""progress":9999"#));
        assert_eq!(seen[1], r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    }

    #[test]
    fn g11_requests_take_turns() {
        let outlets = outlets(1_000);
        let (chatty, quiet) = (outlets.open(None), outlets.open(None));
        for value in 0..100 {
            progress(&chatty, if value % 2 == 0 { "a" } else { "b" }, value);
        }
        quiet.finish(&1.into(), &Reply::Result(Bytes::from_static(b"{}")));
        let place = drain(&outlets).iter().position(|message| message.contains("\"id\":1")).unwrap();
        assert_eq!(place, 1, "after one message of the chatty one");
    }

    #[test]
    fn f065_an_answer_that_is_too_large_becomes_an_error_that_names_its_size() {
        let outlets = outlets(400);
        let outlet = outlets.open(None);
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
        outlet.finish(&7.into(), &Reply::Result(Bytes::from(large)));
        let seen = drain(&outlets);
        assert!(seen[0].contains("result_too_large") && seen[0].contains("400 are allowed"), "{seen:?}");
        assert!(seen[0].contains(r#""outcome":"executed""#));
    }

    #[test]
    fn ruling_17_what_waits_for_all_peers_is_counted_until_it_is_taken_or_dropped() {
        const LIMIT: usize = 1_000;
        let buffered = Buffered::new(LIMIT);
        let of_a_peer = || Outlets::new(Limits::new(ITEMS, 1 << 20, 10_000).unwrap(), buffered.clone());
        let result = |bytes| Reply::Result(Bytes::from(format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes))));
        let peers = [of_a_peer(), of_a_peer(), of_a_peer()];
        let outlets = peers.each_ref().map(|peer| peer.open(None));
        outlets[0].finish(&1.into(), &result(600));
        let waits = buffered.bytes();
        assert!((600..LIMIT).contains(&waits), "{waits}");
        for _ in 0..1_000 {
            progress(&outlets[1], "a", 1);
            progress(&outlets[1], "b", 2);
        }
        assert!(
            buffered.bytes() < LIMIT + 200,
            "past the limit by one message at most: {}",
            buffered.bytes()
        );
        outlets[2].finish(&3.into(), &result(600));
        assert!(drain(&peers[2])[0].contains("buffers_full"), "and the peer is told so");

        drain(&peers[0]);
        assert!(buffered.bytes() < LIMIT + 200 - waits, "taken");
        peers[1].abandon();
        assert_eq!(buffered.bytes(), 0, "dropped");
    }

    #[test]
    fn i_24_at_rest_nothing_remains_and_what_was_said_still_leaves() {
        let outlets = outlets(1_000);
        let outlet = outlets.open(None);
        outlet.say(Bytes::from_static(b"last words"));
        drop(outlet);
        drop(outlets.open(None));
        outlets.close();
        assert_eq!(drain(&outlets), ["last words"]);
        assert!(is_over(&outlets));
        assert!(lock(&outlets.shared).streams.is_empty());
    }
}
