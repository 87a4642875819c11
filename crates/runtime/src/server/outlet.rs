//! What waits for a peer: one bounded queue a request, and the requests of a connection take turns (G9, G11).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use steadfast_core::envelope;
use steadfast_core::error::{Kind, Outcome};
use steadfast_core::exchange::{Progress, Reply};
use steadfast_core::ids::{ProgressToken, RequestId};
use steadfast_core::object::Members;
use steadfast_core::sse::queue::{BoundedQueue, Item, Limits, Refused};

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

/// Something for the peer.
pub(super) enum Next {
    Message(Bytes),
    /// The last message of its request.
    Final(Bytes),
    /// A sign that the stream lives.
    KeepAlive,
}

struct State {
    limits: Limits,
    streams: BTreeMap<u64, Stream>,
    /// The streams that hold something, in the order of their turns: each gives one message and goes to the end.
    turns: VecDeque<u64>,
    next_stream: u64,
    keep_alive: bool,
    closed: bool,
    waker: Option<Waker>,
}

struct Stream {
    queue: BoundedQueue<Bytes>,
    has_writer: bool,
}

impl Outlets {
    /// No outlet yet; `limits` are each request's own.
    pub(super) fn new(limits: Limits) -> Self {
        let state = State {
            limits,
            streams: BTreeMap::new(),
            turns: VecDeque::new(),
            next_stream: 0,
            keep_alive: false,
            closed: false,
            waker: None,
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// An outlet for one more request.
    pub(super) fn open(&self) -> Outlet {
        let mut state = lock(&self.shared);
        let stream = state.next_stream;
        state.next_stream += 1;
        let queue = BoundedQueue::new(state.limits);
        state.streams.insert(stream, Stream { queue, has_writer: true });
        Outlet { shared: Arc::clone(&self.shared), stream }
    }

    /// No further outlet will be opened: once all are dropped and empty, there is nothing more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.shared);
        state.closed = true;
        state.wake();
    }

    /// The next message, or `None` when there will be none.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Next>> {
        let mut state = lock(&self.shared);
        while let Some(stream) = state.turns.pop_front() {
            let Some(Stream { queue, has_writer }) = state.streams.get_mut(&stream) else { continue };
            let item = queue.pop();
            let more = !queue.is_empty();
            let over = !*has_writer && !more;
            if more {
                state.turns.push_back(stream);
            } else if over {
                state.streams.remove(&stream);
            }
            match item {
                Some(Item::Progress { payload, .. } | Item::Other { payload, .. }) => {
                    return Poll::Ready(Some(Next::Message(payload)));
                }
                Some(Item::Final { payload, .. }) => return Poll::Ready(Some(Next::Final(payload))),
                None => {}
            }
        }
        if std::mem::take(&mut state.keep_alive) {
            return Poll::Ready(Some(Next::KeepAlive));
        }
        if state.closed && state.streams.is_empty() {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
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
    /// message becomes an error that names its size (F065).
    pub(super) fn finish(&self, id: &RequestId, reply: &Reply<Bytes>) {
        let incomplete = self.with(|stream| stream.queue.needs_refetch());
        let marked = incomplete.then(|| with_refetch_mark(reply)).flatten();
        let payload = message::response(Some(id), marked.as_ref().unwrap_or(reply));
        if let Err(Refused::TooLarge { bytes, limit }) =
            self.push(Item::Final { bytes: payload.len(), payload })
        {
            let text = format!("the answer has {bytes} bytes and {limit} are allowed; ask for less");
            let error = OwnError {
                kind: Kind::Local,
                category: "result_too_large",
                outcome: Outcome::Executed,
                clock: None,
                server: None,
                text: &text,
            };
            let payload = message::response(Some(id), &Reply::Error(Bytes::from(error.as_json_rpc_error())));
            let _ = self.push(Item::Final { bytes: payload.len(), payload });
        }
    }

    /// A message that belongs to no request in progress, such as a refusal. Beyond the limits it is dropped: whoever
    /// floods and does not read is not owed an answer each.
    pub(super) fn say(&self, payload: Bytes) {
        let _ = self.push(Item::Other { merge: None, bytes: payload.len(), payload });
    }

    /// A sign that the stream lives, if nothing else waits.
    pub(super) fn keep_alive(&self) {
        let mut state = lock(&self.shared);
        state.keep_alive = true;
        state.wake();
    }

    fn push(&self, item: Item<Bytes>) -> Result<(), Refused> {
        let mut state = lock(&self.shared);
        let Some(stream) = state.streams.get_mut(&self.stream) else { return Ok(()) };
        let was_empty = stream.queue.is_empty();
        stream.queue.push(item)?;
        if was_empty && !stream.queue.is_empty() {
            state.turns.push_back(self.stream);
        }
        state.wake();
        Ok(())
    }

    fn with<T: Default>(&self, look: impl FnOnce(&Stream) -> T) -> T {
        lock(&self.shared).streams.get(&self.stream).map(look).unwrap_or_default()
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

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A result with `_meta["steadfast/refetch"] = true`; `None` for an error, and for what is no object.
fn with_refetch_mark(reply: &Reply<Bytes>) -> Option<Reply<Bytes>> {
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
        Outlets::new(Limits::new(ITEMS, 1 << 20, final_bytes).unwrap())
    }

    fn drain(outlets: &Outlets) -> Vec<String> {
        let mut context = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match outlets.poll_next(&mut context) {
            Poll::Ready(Some(Next::Message(bytes) | Next::Final(bytes))) => Some(bytes),
            Poll::Ready(Some(Next::KeepAlive)) => Some(Bytes::from_static(b":")),
            Poll::Ready(None) | Poll::Pending => None,
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
        let outlet = outlets.open();
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
        let outlet = outlets.open();
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
        let (chatty, quiet) = (outlets.open(), outlets.open());
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
        let outlet = outlets.open();
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
        outlet.finish(&7.into(), &Reply::Result(Bytes::from(large)));
        let seen = drain(&outlets);
        assert!(seen[0].contains("result_too_large") && seen[0].contains("400 are allowed"), "{seen:?}");
        assert!(seen[0].contains(r#""outcome":"executed""#));
    }

    #[test]
    fn i_24_at_rest_nothing_remains_and_what_was_said_still_leaves() {
        let outlets = outlets(1_000);
        let outlet = outlets.open();
        outlet.say(Bytes::from_static(b"last words"));
        drop(outlet);
        drop(outlets.open());
        outlets.close();
        assert_eq!(drain(&outlets), ["last words"]);
        assert!(is_over(&outlets));
        assert!(lock(&outlets.shared).streams.is_empty());
    }
}
