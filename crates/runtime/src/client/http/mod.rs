//! A server behind an HTTP endpoint, in the three ways that the revisions speak to one.
//!
//! [`pool`] has the connections, [`post`] one request on one of them, [`events`] the reading of a stream. [`session`] adds
//! what the legacy revisions keep between requests, and [`two`] is the oldest way.

mod answer;
mod endpoint;
mod events;
mod pool;
mod post;
mod session;
mod tls;
mod two;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::http::HeaderValue;
use steadfast_core::envelope;
use steadfast_core::exchange::{CancelSignal, Operation, Reply};
use steadfast_core::hop::Revision;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use tokio::sync::mpsc;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::leg::{Detail, Gone, Heard, Inbox, Launch, Leg, Outgoing};
use crate::message;
use pool::{Ask, Wire};
use post::{EVENT_QUEUE, Post};
use session::Session;
use two::TwoEndpoints;

pub use endpoint::Endpoint;
pub(super) use pool::Pool;

/// How an endpoint is spoken to, whatever it speaks.
#[derive(Clone)]
pub struct Settings {
    /// The largest message taken, in bytes.
    pub max_message: usize,
    /// How long a connection may take to come about, TLS included.
    pub connect_timeout: Duration,
    /// How long a connection is kept that nothing uses; zero for not at all. Servers close idle ones after 5 s and more:
    /// with less than that no request meets a closing connection, on which nobody knows whether it arrived.
    pub idle_connection: Duration,
    /// Headers of every request, credentials for example. Never logged. What a request brings itself stands above them.
    pub headers: Vec<(String, String)>,
    /// Root certificates beside the machine's own, in PEM; empty for none.
    pub root_certificates: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_message: message::MAX_MESSAGE_BYTES,
            connect_timeout: Duration::from_secs(10),
            idle_connection: Duration::from_secs(4),
            headers: Vec::new(),
            root_certificates: Vec::new(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Settings")
            .field("max_message", &self.max_message)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_connection", &self.idle_connection)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// An endpoint as one revision speaks to it.
#[derive(Debug)]
pub(super) struct Connection {
    pool: Arc<Pool>,
    way: Way,
    /// Reads what the server says by itself. With the connection it ends.
    listening: Mutex<Option<AbortOnDropHandle<()>>>,
    /// What is under way: requests, and messages that are none. A session ends after them.
    under_way: TaskTracker,
}

/// The three ways.
#[derive(Clone, Debug)]
enum Way {
    /// 2026-07-28: every request stands for itself.
    Modern,
    /// 2025-03-26 to 2025-11-25.
    Session(Arc<Session>),
    /// 2024-11-05.
    Two(Arc<TwoEndpoints>),
}

impl Connection {
    /// Every request stands for itself.
    pub(super) fn modern(pool: Arc<Pool>) -> Self {
        Self::of(pool, Way::Modern)
    }

    /// A session that begins with its `initialize`.
    pub(super) fn session(pool: Arc<Pool>, inbox: Inbox) -> Self {
        let session = Session::new(Arc::clone(&pool), inbox);
        Self::of(pool, Way::Session(Arc::new(session)))
    }

    /// The server answered `initialize`, with this version.
    pub(super) fn start_session(&self, revision: Revision) {
        match &self.way {
            Way::Session(session) => session.start(revision),
            Way::Modern | Way::Two(_) => {}
        }
    }

    /// Looks for the stream of 2024-11-05.
    ///
    /// # Errors
    /// There is none; the status, if there was an answer, says whether there may be one another time.
    pub(super) async fn two_endpoints(
        pool: Arc<Pool>,
        inbox: Inbox,
        credentials: Vec<(String, String)>,
    ) -> Result<Self, Detail> {
        let (two, events) = TwoEndpoints::open(Arc::clone(&pool), inbox, credentials).await?;
        let two = Arc::new(two);
        let reading = Arc::clone(&two);
        let reading = AbortOnDropHandle::new(tokio::spawn(async move { reading.read(events).await }));
        let connection = Self::of(pool, Way::Two(two));
        *connection.listening() = Some(reading);
        Ok(connection)
    }

    fn of(pool: Arc<Pool>, way: Way) -> Self {
        Self { pool, way, listening: Mutex::default(), under_way: TaskTracker::new() }
    }

    pub(super) fn leg(&self, outgoing: Outgoing<'_>) -> Leg {
        let Outgoing { spec, method, params, headers } = outgoing;
        // One place is kept for the answer where one task reads for all.
        let (to_task, heard) = mpsc::channel(EVENT_QUEUE + 1);
        let (pool, id) = (Arc::clone(&self.pool), spec.id.clone());
        let ask = match &self.way {
            Way::Modern => self.mirroring(method, params, &headers),
            Way::Session(session) => session.ask(Method::POST, &headers),
            Way::Two(two) => two.ask(&headers),
        };
        let ask = ask.map(|ask| ask.with_json(envelope::request(&id, method, params)));
        let begins = spec.operation == Operation::Initialize;
        match &self.way {
            Way::Modern => {
                let ready = async move {
                    let wire = pool.wire().await?;
                    Ok((wire, Post { ask: ask?, pool, id, to_task, session: None, begins }))
                };
                // Closing the stream is the whole signal (CAN-02).
                leg(heard, ready, |(wire, post): (Wire, Post)| post.run(wire), |_| {})
            }
            Way::Session(session) => {
                session.keep_credentials(headers);
                let (of, tell) = (Arc::clone(session), self.teller());
                let ready = async move {
                    if !begins {
                        of.is_open().await;
                    }
                    let wire = pool.wire().await?;
                    Ok((wire, Post { ask: ask?, pool, id, to_task, session: Some(of), begins }))
                };
                leg(heard, ready, |(wire, post): (Wire, Post)| post.run(wire), tell)
            }
            Way::Two(two) => {
                two.keep_credentials(headers);
                two.enter(&id, spec.operation, to_task.clone());
                let (of, tell) = (Arc::clone(two), self.teller());
                let ready = async move {
                    if of.is_over() {
                        return Err(Detail::failed(Failure::NothingLeft, "the server ended its stream"));
                    }
                    let wire = pool.wire().await?;
                    Ok((of, wire, Post { ask: ask?, pool, id, to_task, session: None, begins }))
                };
                let run = |(of, wire, post): (Arc<TwoEndpoints>, Wire, Post)| async move {
                    of.request(wire, post).await;
                };
                leg(heard, ready, run, tell)
            }
        }
    }

    /// A POST with the headers that mirror its body (HDR-01..04).
    fn mirroring(&self, method: &str, params: &str, extra: &[(String, String)]) -> Result<Ask, Detail> {
        let mut ask = Ask::new(&self.pool, Method::POST, Arc::clone(self.pool.endpoint()), extra)?;
        for (name, value) in message::mirror_headers(method, params) {
            let value = HeaderValue::from_str(&value).map_err(|_| {
                Detail::failed(Failure::RefusedHere, format!("the header {name} cannot be sent"))
            })?;
            ask.set(name, value);
        }
        Ok(ask)
    }

    /// The request ended, however.
    pub(super) fn forget(&self, id: &RequestId) {
        match &self.way {
            Way::Two(two) => drop(two.forget(id)),
            Way::Modern | Way::Session(_) => {}
        }
    }

    pub(super) fn notify(&self, method: &str, params: &str) {
        let message = envelope::notification(method, params);
        match &self.way {
            Way::Session(session) if method == "notifications/initialized" => {
                let session = Arc::clone(session);
                let opened = AbortOnDropHandle::new(tokio::spawn(async move { session.open(message).await }));
                *self.listening() = Some(opened);
            }
            // The modern era has no notification of a client's that is sent by itself (AMB-11).
            Way::Modern => {}
            Way::Session(_) | Way::Two(_) => self.way.post(message, &self.under_way),
        }
    }

    pub(super) fn respond(&self, id: &RequestId, response: &Reply<Bytes>) {
        let response = message::response(Some(id), response);
        self.way.post(String::from_utf8_lossy(&response).into_owned(), &self.under_way);
    }

    pub(super) async fn gone(&self) -> Gone {
        let why = match &self.way {
            Way::Modern => std::future::pending().await,
            Way::Session(session) => {
                session.gone().await;
                "the server ended the session"
            }
            Way::Two(two) => {
                two.gone().await;
                "the server ended its stream"
            }
        };
        Gone { why: why.to_owned(), by_us: false }
    }

    /// Ends a session, once the server was told of all that is given up with it, or after `grace`.
    pub(super) async fn close(&self, grace: Duration) {
        drop(self.listening().take());
        let Way::Session(session) = &self.way else { return };
        self.under_way.close();
        let ended = async {
            self.under_way.wait().await;
            session.delete().await;
        };
        let _ = tokio::time::timeout(grace, ended).await;
    }

    /// What tells a legacy server that a request was given up. The request is under way as long as this is there.
    fn teller(&self) -> impl FnMut(&CancelSignal) + Send + 'static {
        let (way, under_way, token) = (self.way.clone(), self.under_way.clone(), self.under_way.token());
        move |signal| {
            let _running = &token;
            match signal {
                CancelSignal::PostNotification { id, reason } | CancelSignal::Notification { id, reason } => {
                    way.post(envelope::cancelled(id, reason.as_deref()), &under_way);
                }
                CancelSignal::CloseStream => {}
            }
        }
    }

    fn listening(&self) -> MutexGuard<'_, Option<AbortOnDropHandle<()>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Way {
    /// Sends a message that is no request, in a task of its own: whoever gave up on a server does not wait for it.
    fn post(&self, message: String, under_way: &TaskTracker) {
        match self.clone() {
            Self::Modern => {}
            Self::Session(session) => drop(under_way.spawn(async move { session.post(message).await })),
            Self::Two(two) => drop(under_way.spawn(async move { two.post(message).await })),
        }
    }
}

/// The way of a request that runs in a task of its own. Whoever drops the leg, or is done with its signal, ends that
/// task and closes its connection with it.
fn leg<T: Send + 'static, R: Future<Output = ()> + Send + 'static>(
    heard: mpsc::Receiver<Heard>,
    ready: impl Future<Output = Result<T, Detail>> + Send + 'static,
    run: impl FnOnce(T) -> R + Send + 'static,
    mut tell: impl FnMut(&CancelSignal) + Send + 'static,
) -> Leg {
    let running = Arc::new(Mutex::new(None::<AbortOnDropHandle<()>>));
    let to_run = Arc::clone(&running);
    let prepare = async move {
        let ready = ready.await?;
        let launch: Launch = Box::new(move || {
            let task = AbortOnDropHandle::new(tokio::spawn(run(ready)));
            *to_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        });
        Ok(launch)
    };
    let signal = move |signal: &CancelSignal| {
        tell(signal);
        running.lock().unwrap_or_else(PoisonError::into_inner).take();
    };
    Leg { prepare: Box::pin(prepare), heard, signal: Box::new(signal) }
}
