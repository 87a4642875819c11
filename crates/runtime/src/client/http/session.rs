//! A session with a legacy server of Streamable HTTP, whether that one gives it an id or not.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hyper::Method;
use hyper::http::{HeaderValue, StatusCode};
use serde_json::value::RawValue;
use steadfast_core::envelope;
use steadfast_core::hop::Revision;
use steadfast_core::policy::{Backoff, Failure};
use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::events::{Cut, Events};
use super::pool::{Ask, Pool};
use crate::client::leg::{Detail, Inbound, Inbox};

/// How often in a row a stream is taken up again without a new event (LEG-48).
const MAX_FRUITLESS: u32 = 5;
/// How long the answer to a message may take that nobody waits for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the first request waits for the head of the stream that belongs to none.
const STREAM_FIRST: Duration = Duration::from_millis(250);
const SESSION_ID: &str = "mcp-session-id";

/// What all messages of one session share.
pub(super) struct Session {
    pool: Arc<Pool>,
    inbox: Inbox,
    /// Set by the answer to `initialize`.
    terms: OnceLock<Terms>,
    /// The id that came with that answer, before it is known what the answer is.
    offered: Mutex<Option<HeaderValue>>,
    /// The headers of the latest request, credentials that is: they serve what belongs to no request.
    credentials: Mutex<Vec<(String, String)>>,
    /// The server has had the word that the session is open, or never will.
    open: CancellationToken,
    ended: CancellationToken,
    /// Spreads pauses.
    seed: u64,
}

struct Terms {
    revision: Revision,
    /// Confidential (LEG-59).
    id: Option<HeaderValue>,
}

/// Why a stream is not taken up again: one sentence.
pub(super) struct Stuck(pub(super) String);

impl Session {
    pub(super) fn new(pool: Arc<Pool>, inbox: Inbox) -> Self {
        Self {
            pool,
            inbox,
            terms: OnceLock::new(),
            offered: Mutex::default(),
            credentials: Mutex::default(),
            open: CancellationToken::new(),
            ended: CancellationToken::new(),
            seed: RandomState::new().hash_one(0),
        }
    }

    pub(super) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The answer to `initialize` may begin a session.
    pub(super) fn offered(&self, answer: &Answer) {
        let mut id = answer.raw_header(SESSION_ID).cloned();
        if let Some(id) = &mut id {
            id.set_sensitive(true);
        }
        *lock(&self.offered) = id;
    }

    /// From now on the session is what the answer to `initialize` said.
    pub(super) fn start(&self, revision: Revision) {
        let id = lock(&self.offered).take();
        let _ = self.terms.set(Terms { revision, id });
    }

    /// Whether its requests carry an id of the server's.
    pub(super) fn has_id(&self) -> bool {
        self.terms.get().is_some_and(|terms| terms.id.is_some())
    }

    /// The messages in a body or in an event: several only as a batch of 2025-03-26 (LEG-23).
    pub(super) fn messages<'a>(&self, data: &'a [u8]) -> Vec<&'a [u8]> {
        let batches = self.terms.get().is_some_and(|terms| terms.revision == Revision::V2025_03_26);
        if batches
            && data.trim_ascii_start().starts_with(b"[")
            && let Ok(batch) = serde_json::from_slice::<Vec<&RawValue>>(data)
        {
            return batch.into_iter().map(|message| message.get().as_bytes()).collect();
        }
        vec![data]
    }

    /// A request of HTTP with the credentials that it brings and what marks it as of this session (LEG-45, LEG-52).
    pub(super) fn ask(&self, method: Method, credentials: &[(String, String)]) -> Result<Ask, Detail> {
        let mut ask = Ask::new(&self.pool, method, Arc::clone(self.pool.endpoint()), credentials)?;
        if let Some(terms) = self.terms.get() {
            if terms.revision >= Revision::V2025_06_18 {
                ask.set("mcp-protocol-version", HeaderValue::from_static(terms.revision.as_str()));
            }
            if let Some(id) = &terms.id {
                ask.set(SESSION_ID, id.clone());
            }
        }
        Ok(ask)
    }

    /// As [`Self::ask`], for what belongs to no request.
    fn ask_by_itself(&self, method: Method) -> Result<Ask, Detail> {
        self.ask(method, &lock(&self.credentials).clone())
    }

    /// Keeps the credentials of a request for what belongs to none.
    pub(super) fn keep_credentials(&self, credentials: Vec<(String, String)>) {
        *lock(&self.credentials) = credentials;
    }

    /// Waits until a request may follow the handshake (LEG-03, LEG-04).
    pub(super) async fn is_open(&self) {
        self.open.cancelled().await;
    }

    /// POSTs a message that is no request: 202 is all that may come (LEG-24).
    pub(super) async fn post(&self, message: String) {
        let sent = tokio::time::timeout(PATIENCE, async {
            let ask = self.ask_by_itself(Method::POST)?.with_json(message);
            self.pool.send(self.pool.wire().await?, &ask).await
        });
        match sent.await {
            Ok(Ok(answer)) => {
                if answer.status() == StatusCode::NOT_FOUND && self.has_id() {
                    self.end();
                }
                answer.let_end();
            }
            Ok(Err(Detail { remark, .. })) => self.tell(remark.unwrap_or_default()),
            Err(_) => self.tell(format!("{} did not take a message in time", self.pool.endpoint().place())),
        }
    }

    /// Says that the session is open, and listens to what the server has to say by itself.
    pub(super) async fn open(&self, initialized: String) {
        self.post(initialized).await;
        // Before the first request, if the server answers at once: what comes of that request may then be told from what
        // belongs to none.
        let mut stream = pin!(self.get(None));
        let first = tokio::time::timeout(STREAM_FIRST, &mut stream).await;
        self.open.cancel();
        let first = match first {
            Ok(first) => first,
            Err(_) => stream.await,
        };
        self.listen(first).await;
    }

    /// The stream for what belongs to no request (LEG-36). Whatever stands in its way, requests do without it.
    async fn listen(&self, mut opened: Result<Answer, Detail>) {
        let mut fruitless = 0;
        let answer = loop {
            match opened {
                Ok(answer) if answer.is_stream() => break answer,
                // 405 says that there is none.
                Ok(answer) if !answer.status().is_server_error() => {
                    if answer.status() == StatusCode::NOT_FOUND && self.has_id() {
                        self.end();
                    }
                    return answer.let_end();
                }
                Ok(_) | Err(_) if fruitless < MAX_FRUITLESS => {}
                Ok(_) | Err(_) => {
                    return self.tell("the stream for the server's own messages cannot be had".to_owned());
                }
            }
            tokio::time::sleep(Backoff::RECONNECT.delay(self.seed, fruitless)).await;
            fruitless += 1;
            opened = self.get(None).await;
        };
        let mut events = Events::of(answer, self.pool.max_message());
        loop {
            match events.next().await {
                Ok((event, repeated)) => {
                    fruitless = 0;
                    if event.is_message() && !repeated {
                        for message in self.messages(&event.data) {
                            match envelope::parse_within(self.pool.max_message(), message) {
                                Ok(message) => self.inbox.hear(message, None),
                                Err(error) => self.tell(error.to_string()),
                            }
                        }
                    }
                }
                Err(Cut::TooLarge(what)) => return self.tell(what),
                Err(Cut::Ended | Cut::Broke(_)) => {
                    if let Err(Stuck(why)) = self.resume(&mut events, &mut fruitless).await {
                        return self.tell(why);
                    }
                }
            }
        }
    }

    /// Takes up a stream again where it was cut: after the time that the server asked for (LEG-35), from the last event
    /// (LEG-42), and not for ever. `fruitless` counts the attempts since the last new event.
    pub(super) async fn resume(&self, events: &mut Events, fruitless: &mut u32) -> Result<(), Stuck> {
        if events.moved() {
            *fruitless = 0;
        }
        let place = self.pool.endpoint().place();
        loop {
            if *fruitless == MAX_FRUITLESS {
                let sentence =
                    format!("the stream of {place} was taken up {MAX_FRUITLESS} times and brought nothing");
                return Err(Stuck(sentence));
            }
            let backoff = Backoff::RECONNECT.delay(self.seed, *fruitless);
            tokio::time::sleep(events.retry().unwrap_or(backoff)).await;
            *fruitless += 1;
            match self.get(events.last_id()).await {
                Ok(answer) if answer.is_stream() => {
                    events.resume(answer);
                    return Ok(());
                }
                Ok(answer) => {
                    let status = answer.status();
                    answer.let_end();
                    if status == StatusCode::NOT_FOUND && self.has_id() {
                        self.end();
                    }
                    if !status.is_server_error() {
                        let sentence =
                            format!("{place} refused with status {status} to take up its stream again");
                        return Err(Stuck(sentence));
                    }
                }
                Err(_) => {}
            }
        }
    }

    async fn get(&self, last_id: Option<&str>) -> Result<Answer, Detail> {
        let mut ask = self.ask_by_itself(Method::GET)?.for_events();
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            ask.set("last-event-id", id);
        }
        self.pool.send(self.pool.wire().await?, &ask).await
    }

    /// Tells the server that its session is no longer needed (LEG-56); it need not care (LEG-57).
    pub(super) async fn delete(&self) {
        if !self.has_id() || self.ended.is_cancelled() {
            return;
        }
        let Ok(ask) = self.ask_by_itself(Method::DELETE) else { return };
        let Ok(wire) = self.pool.wire().await else { return };
        if let Ok(answer) = self.pool.send(wire, &ask).await {
            answer.let_end();
        }
    }

    /// The server no longer knows it, or may not: nothing new is sent in it (LEG-55).
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    pub(super) async fn gone(&self) {
        self.ended.cancelled().await;
    }

    fn tell(&self, what: String) {
        self.inbox.put(Inbound::Noise { what });
    }

    /// How a request ends whose stream cannot be taken up again: it may have run, so nobody repeats it as if it had not.
    pub(super) fn lost(Stuck(why): Stuck) -> Detail {
        Detail::failed(Failure::StreamEnded, why)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("pool", &self.pool).finish_non_exhaustive()
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
