//! HTTP+SSE of 2024-11-05: one stream from the server, and the address that it names for what is said to it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::Method;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{InFlight, Operation};
use steadfast_core::hop::{Era, Hop, Transport};
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::events::{Cut, Events};
use super::pool::{Ask, Pool};
use super::post::Post;
use crate::client::leg::{Detail, Heard, Inbound, Inbox};
use crate::message;

const HOP: Hop = Hop { transport: Transport::Http, era: Era::Legacy };

/// A server's stream, and who waits for what on it.
pub(super) struct TwoEndpoints {
    pool: Arc<Pool>,
    /// Where messages are posted (LEG-132).
    to: Arc<Endpoint>,
    inbox: Inbox,
    table: Mutex<InFlight<mpsc::Sender<Heard>>>,
    credentials: Mutex<Vec<(String, String)>>,
    ended: CancellationToken,
}

impl TwoEndpoints {
    /// Opens the stream and waits for the address.
    ///
    /// # Errors
    /// There is no such stream, or it names an address of another origin (LEG-135).
    pub(super) async fn open(
        pool: Arc<Pool>,
        inbox: Inbox,
        credentials: Vec<(String, String)>,
    ) -> Result<(Self, Events), Detail> {
        let ask = Ask::new(&pool, Method::GET, Arc::clone(pool.endpoint()), &credentials)?.for_events();
        let answer = pool.send(pool.wire().await?, &ask).await?;
        let (place, status) = (pool.endpoint().place(), answer.status());
        if !answer.is_stream() {
            let sentence = format!("{place} answered GET with status {status} and no stream of HTTP+SSE");
            let failed = Detail::failed(Failure::NothingLeft, sentence);
            let detail = Detail { status: Some(status.as_u16()), challenge: answer.challenge(), ..failed };
            answer.let_end();
            return Err(detail);
        }
        let mut events = Events::of(answer, pool.max_message());
        let named = loop {
            match events.next().await {
                Ok((event, _)) if event.kind == "endpoint" => {
                    break String::from_utf8_lossy(&event.data).into_owned();
                }
                Ok(_) => {}
                Err(_) => {
                    let sentence =
                        format!("the stream of {place} ended before it named an address for messages");
                    return Err(Detail::failed(Failure::NothingLeft, sentence));
                }
            }
        };
        let to = pool.endpoint().resolve(named.trim()).map_err(|whither| {
            let sentence = format!("{place} wants messages to be sent to {whither}; that is not done");
            Detail::failed(Failure::NothingLeft, sentence)
        })?;
        let two = Self {
            pool,
            to: Arc::new(to),
            inbox,
            table: Mutex::new(InFlight::new(HOP)),
            credentials: Mutex::new(credentials),
            ended: CancellationToken::new(),
        };
        Ok((two, events))
    }

    /// Reads to the end of the stream. There is no resumption: all requests end with it (LEG-136).
    pub(super) async fn read(&self, mut events: Events) {
        loop {
            match events.next().await {
                Ok((event, _)) if event.is_message() => self.hear(&event.data),
                Ok(_) => {}
                Err(Cut::TooLarge(what)) => {
                    self.inbox.put(Inbound::Noise { what });
                    break;
                }
                Err(Cut::Ended | Cut::Broke(_)) => break,
            }
        }
        // Whoever enters the table now sees that it is too late.
        self.ended.cancel();
        drop(self.table().drain());
    }

    fn hear(&self, data: &[u8]) {
        match envelope::parse_within(self.pool.max_message(), data) {
            Ok(Message::Response { id, reply }) => match id.as_ref().and_then(|id| self.forget(id)) {
                // One place is kept for it.
                Some(to_task) => drop(to_task.try_send(Input::Response(message::owned(&reply)).into())),
                None => drop(self.inbox.put(Inbound::Stray { id })),
            },
            Ok(Message::Notification { method, params }) if method == "notifications/progress" => {
                let Some((token, progress)) = params.and_then(|params| envelope::progress_of(params.get()))
                else {
                    return;
                };
                let Some(id) = crate::client::request_of(&token) else { return };
                match self.table().get(&id) {
                    Some(to_task) if to_task.capacity() > 1 => {
                        let _ = to_task.try_send(Input::Progress(token, progress).into());
                    }
                    Some(_) => {}
                    None => drop(self.inbox.put(Inbound::Progress { token, progress })),
                }
            }
            Ok(message) => self.inbox.hear(message, None),
            Err(error) => drop(self.inbox.put(Inbound::Noise { what: error.to_string() })),
        }
    }

    /// A request is about to leave; its answer comes on the stream.
    pub(super) fn enter(&self, id: &RequestId, operation: Operation, to_task: mpsc::Sender<Heard>) {
        // Our ids come from a counter, so the id is free; were it not, the request would end as lost.
        let _ = self.table().open(id.clone(), operation, to_task);
        if self.ended.is_cancelled() {
            self.forget(id);
        }
    }

    /// Whoever waits under this id no longer does.
    pub(super) fn forget(&self, id: &RequestId) -> Option<mpsc::Sender<Heard>> {
        self.table().release(id)
    }

    pub(super) fn ask(&self, credentials: &[(String, String)]) -> Result<Ask, Detail> {
        Ask::new(&self.pool, Method::POST, Arc::clone(&self.to), credentials)
    }

    pub(super) fn keep_credentials(&self, credentials: Vec<(String, String)>) {
        *self.credentials.lock().unwrap_or_else(PoisonError::into_inner) = credentials;
    }

    /// POSTs a request. A success says nothing of it, and neither does a connection that broke: the answer comes on the
    /// stream (LEG-135). A refusal is an answer.
    pub(super) async fn request(&self, wire: super::pool::Wire, post: Post) {
        let heard = match self.pool.send(wire, &post.ask).await {
            Ok(answer) if answer.status().is_success() => return answer.let_end(),
            Ok(answer) => post.whole(answer, true).await,
            Err(detail) if detail.failure == Some(Failure::ConnectionLost) => return,
            Err(detail) => detail.lost(),
        };
        let _ = post.to_task.send(heard).await;
    }

    /// POSTs a message that is no request.
    pub(super) async fn post(&self, message: String) {
        let credentials = self.credentials.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Ok(ask) = self.ask(&credentials) else { return };
        let Ok(wire) = self.pool.wire().await else { return };
        if let Ok(answer) = self.pool.send(wire, &ask.with_json(message)).await {
            answer.let_end();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended.is_cancelled()
    }

    pub(super) async fn gone(&self) {
        self.ended.cancelled().await;
    }

    fn table(&self) -> MutexGuard<'_, InFlight<mpsc::Sender<Heard>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TwoEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoEndpoints").field("pool", &self.pool).finish_non_exhaustive()
    }
}
