//! A server behind an HTTP endpoint, in the three ways that the revisions speak to one.
//!
//! [`pool`] has the connections, [`post`] one request on one of them, [`events`] the reading of a stream.

mod answer;
mod endpoint;
mod events;
mod pool;
mod post;
mod tls;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::http::HeaderValue;
use steadfast_core::envelope;
use steadfast_core::exchange::{CancelSignal, Reply};
use steadfast_core::hop::Revision;
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::leg::{Detail, Gone, Heard, Inbox, Launch, Leg, Outgoing};
use crate::message;
use pool::{Ask, Wire};
use post::{EVENT_QUEUE, Post};

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
    /// The version of a legacy session, once the handshake said it; none for the modern era.
    legacy: Option<OnceLock<Revision>>,
}

impl Connection {
    /// 2026-07-28: every request stands for itself.
    pub(super) const fn modern(pool: Arc<Pool>) -> Self {
        Self { pool, legacy: None }
    }

    /// A legacy server's session; its id is not kept yet, so only servers without sessions are spoken to.
    pub(super) fn session(pool: Arc<Pool>, _inbox: Inbox) -> Self {
        Self { pool, legacy: Some(OnceLock::new()) }
    }

    pub(super) fn start_session(&self, revision: Revision) {
        if let Some(version) = &self.legacy {
            let _ = version.set(revision);
        }
    }

    pub(super) async fn two_endpoints(pool: Arc<Pool>, _inbox: Inbox) -> Result<Self, Detail> {
        let place = pool.endpoint().place();
        let sentence = format!("{place} speaks HTTP+SSE of 2024-11-05, if MCP at all; update it");
        Err(Detail::failed(Failure::NothingLeft, sentence))
    }

    pub(super) fn leg(&self, outgoing: Outgoing<'_>) -> Leg {
        let Outgoing { spec, method, params, headers } = outgoing;
        let (to_task, heard) = mpsc::channel(EVENT_QUEUE);
        let (pool, id) = (Arc::clone(&self.pool), spec.id.clone());
        let ask = self.ask(method, params, &headers);
        let ask = ask.map(|ask| ask.with_json(envelope::request(&id, method, params)));
        let ready = async move {
            let ask = ask?;
            let wire = pool.wire().await?;
            Ok((wire, Post { pool, ask, id, to_task }))
        };
        // Closing the stream is the whole signal (CAN-02).
        leg(heard, ready, |(wire, post): (Wire, Post)| post.run(wire), |_| {})
    }

    /// A POST with the headers that mirror its body (HDR-01..04).
    fn ask(&self, method: &str, params: &str, extra: &[(String, String)]) -> Result<Ask, Detail> {
        let mut ask = Ask::new(&self.pool, Method::POST, Arc::clone(self.pool.endpoint()), extra)?;
        let mirrored = match &self.legacy {
            None => message::mirror_headers(method, params),
            Some(version) => {
                let version = version.get().filter(|version| **version >= Revision::V2025_06_18);
                version
                    .map(|version| ("mcp-protocol-version", version.as_str().to_owned()))
                    .into_iter()
                    .collect()
            }
        };
        for (name, value) in mirrored {
            let value = HeaderValue::from_str(&value).map_err(|_| {
                Detail::failed(Failure::RefusedHere, format!("the header {name} cannot be sent"))
            })?;
            ask.set(name, value);
        }
        Ok(ask)
    }

    /// A POST of its own, whose answer nobody reads. The modern era has no notification of a client's that is sent by
    /// itself (AMB-11).
    pub(super) fn notify(&self, method: &str, params: &str) {
        if self.legacy.is_none() {
            return;
        }
        let Ok(ask) = self.ask(method, params, &[]) else { return };
        let (pool, ask) = (Arc::clone(&self.pool), ask.with_json(envelope::notification(method, params)));
        tokio::spawn(async move {
            let Ok(wire) = pool.wire().await else { return };
            if let Ok(answer) = pool.send(wire, &ask).await {
                answer.let_end();
            }
        });
    }

    #[allow(clippy::unused_self, reason = "sessions have requests to answer")]
    pub(super) const fn respond(&self, _id: &RequestId, _response: &Reply<Bytes>) {}

    pub(super) async fn gone(&self) -> Gone {
        std::future::pending().await
    }

    pub(super) async fn close(&self, _grace: Duration) {}
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
