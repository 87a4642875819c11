//! Connections to one origin. To get one ready and to let the first byte leave are two steps, since only between them
//! is it certain that nothing was executed.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper::http::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::Service as _;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use steadfast_core::policy::Failure;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_util::task::AbortOnDropHandle;

use super::answer::Answer;
use super::endpoint::Endpoint;
use super::{Settings, tls};
use crate::client::ClientError;
use crate::client::leg::Detail;

/// Idle connections that are kept.
const MAX_IDLE: usize = 32;
/// Redirects that are followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Silence after which the system asks whether the peer's machine is still there, between its questions, and how many
/// of them may stay unanswered: a stream that carries nothing for hours is told from one that is dead.
const TCP_PROBE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(15), 4);

/// The connections of one origin, and what all requests to it share.
pub(in crate::client) struct Pool {
    endpoint: Arc<Endpoint>,
    settings: Settings,
    /// The headers of the settings, ready to be sent.
    headers: HeaderMap,
    roots: Vec<CertificateDer<'static>>,
    connector: TowerToHyperService<HttpConnector>,
    tls: OnceCell<TlsConnector>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The newest last.
    wires: Vec<IdleWire>,
    /// Somebody closes those that get too old.
    watched: bool,
}

struct IdleWire {
    wire: Wire,
    /// Two clocks, since the monotonic one may stand still while the machine sleeps (F049, F050): a step of the wall
    /// clock costs a connection, and no more.
    since: (Instant, SystemTime),
    keep: Duration,
}

/// A connection that takes a request. Dropped, it is closed.
pub(super) struct Wire {
    sender: SendRequest<Full<Bytes>>,
    _io: AbortOnDropHandle<()>,
}

/// A request of HTTP, complete but for the connection that it leaves on.
#[derive(Clone)]
pub(super) struct Ask {
    method: Method,
    at: Arc<Endpoint>,
    headers: HeaderMap,
    body: Bytes,
}

impl Ask {
    /// With the headers of the settings, and `extra` in their place where both name one.
    ///
    /// # Errors
    /// A name or value that HTTP cannot carry: nothing is sent.
    pub(super) fn new(
        pool: &Pool,
        method: Method,
        at: Arc<Endpoint>,
        extra: &[(String, String)],
    ) -> Result<Self, Detail> {
        let more = header_map(extra).map_err(|name| {
            let sentence = format!("the header {name:?} cannot be sent; use visible ASCII without line ends");
            Detail::failed(Failure::RefusedHere, sentence)
        })?;
        let mut headers = pool.headers.clone();
        headers.extend(more);
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        Ok(Self { method, at, headers, body: Bytes::new() })
    }

    /// A header of the protocol's: it stands above whatever was configured.
    pub(super) fn set(&mut self, name: &'static str, value: HeaderValue) {
        self.headers.insert(HeaderName::from_static(name), value);
    }

    pub(super) fn with_json(mut self, body: impl Into<Bytes>) -> Self {
        self.set("content-type", HeaderValue::from_static("application/json"));
        self.set("accept", HeaderValue::from_static("application/json, text/event-stream"));
        self.body = body.into();
        self
    }

    pub(super) fn for_events(mut self) -> Self {
        self.set("accept", HeaderValue::from_static("text/event-stream"));
        self
    }

    fn request(&self, at: &Endpoint) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = at.target().clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(header::HOST, at.authority().clone());
        request
    }
}

const AGENT: &str = concat!("steadfast/", env!("CARGO_PKG_VERSION"));

/// Headers as HTTP carries them; the name of one that it cannot is the error.
fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, &str> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (parsed, mut value) = parsed.ok_or(&**name)?;
        value.set_sensitive(true);
        map.append(parsed, value);
    }
    Ok(map)
}

impl Pool {
    /// No connection yet.
    ///
    /// # Errors
    /// A header that cannot be sent, or a root certificate that cannot be read.
    pub(in crate::client) fn new(endpoint: Endpoint, settings: Settings) -> Result<Arc<Self>, ClientError> {
        let headers =
            header_map(&settings.headers).map_err(|name| ClientError::Header { name: name.to_owned() })?;
        let roots = match settings.root_certificates.as_slice() {
            [] => Vec::new(),
            pem => tls::certificates(pem).ok_or(ClientError::Roots)?,
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(settings.connect_timeout));
        connector.set_keepalive(Some(TCP_PROBE.0));
        connector.set_keepalive_interval(Some(TCP_PROBE.1));
        connector.set_keepalive_retries(Some(TCP_PROBE.2));
        Ok(Arc::new(Self {
            endpoint: Arc::new(endpoint),
            settings,
            headers,
            roots,
            connector: TowerToHyperService::new(connector),
            tls: OnceCell::new(),
            idle: Mutex::default(),
        }))
    }

    pub(in crate::client) const fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    pub(super) const fn max_message(&self) -> usize {
        self.settings.max_message
    }

    /// A connection that is ready to send: an idle one, or a new one.
    pub(super) async fn wire(&self) -> Result<Wire, Detail> {
        while let Some(mut wire) = self.take_idle() {
            if wire.sender.ready().await.is_ok() {
                return Ok(wire);
            }
        }
        self.fresh().await
    }

    async fn fresh(&self) -> Result<Wire, Detail> {
        let limit = self.settings.connect_timeout;
        let connected = tokio::time::timeout(limit, self.connect()).await;
        let why = match connected {
            Ok(Ok(wire)) => return Ok(wire),
            Ok(Err(why)) => why,
            Err(_) => format!("none came about within {limit:?}"),
        };
        let place = self.endpoint.place();
        Err(Detail::failed(
            Failure::NothingLeft,
            format!("no connection to {place}: {why}; check that the server runs"),
        ))
    }

    async fn connect(&self) -> Result<Wire, String> {
        let uri = hyper::Uri::builder()
            .scheme(if self.endpoint.is_secure() { "https" } else { "http" })
            .authority(self.endpoint.place())
            .path_and_query("/")
            .build()
            .map_err(|error| error.to_string())?;
        let tcp = self.connector.call(uri).await.map_err(|error| reason(&error))?;
        if !self.endpoint.is_secure() {
            return handshake(tcp).await;
        }
        let tls = self.tls.get_or_try_init(|| tls::connector(self.roots.clone())).await?;
        let name =
            ServerName::try_from(self.endpoint.host().to_owned()).map_err(|error| error.to_string())?;
        let stream =
            tls.connect(name, tcp.into_inner()).await.map_err(|error| format!("TLS: {}", reason(&error)))?;
        handshake(TokioIo::new(stream)).await
    }

    /// Sends a request and waits for the head of its answer. A redirect within the origin that keeps method and body is
    /// followed; every other one is an error (F056).
    pub(super) async fn send(self: &Arc<Self>, mut wire: Wire, ask: &Ask) -> Result<Answer, Detail> {
        let mut at = Arc::clone(&ask.at);
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send_to(&at, wire, ask).await?;
            let follow = match answer.status() {
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                    let place = answer.header(header::LOCATION).ok_or_else(|| "no address".to_owned());
                    place.and_then(|place| at.resolve(place))
                }
                StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
                    Err("another address without keeping the request as it is".to_owned())
                }
                _ => return Ok(answer),
            };
            at = match follow {
                Ok(to) => Arc::new(to),
                Err(whither) => return Err(self.astray(&answer, &whither)),
            };
            answer.let_end();
            wire = self.wire().await?;
        }
        let sentence =
            format!("{} redirects in a circle; configure the final address", self.endpoint.place());
        Err(Detail::failed(Failure::OtherStatus, sentence))
    }

    fn astray(&self, answer: &Answer, whither: &str) -> Detail {
        let (place, status) = (self.endpoint.place(), answer.status().as_u16());
        let sentence = format!(
            "{place} redirects with status {status} to {whither}, which is not followed; configure the final address"
        );
        Detail { status: Some(status), ..Detail::failed(Failure::OtherStatus, sentence) }
    }

    /// On a connection that its server had closed just then, nothing left: then once more on a new one, which is no
    /// second attempt.
    async fn send_to(self: &Arc<Self>, at: &Endpoint, wire: Wire, ask: &Ask) -> Result<Answer, Detail> {
        let unsent = match self.try_on(wire, ask.request(at)).await {
            Ok(answer) => return Ok(answer),
            Err((Some(unsent), _)) => unsent,
            Err((None, why)) => return Err(self.broken(&why)),
        };
        match self.try_on(self.fresh().await?, unsent).await {
            Ok(answer) => Ok(answer),
            Err((None, why)) => Err(self.broken(&why)),
            Err((Some(_), why)) => {
                let place = self.endpoint.place();
                let sentence = format!("{place} closes each connection before a request: {why}");
                Err(Detail::failed(Failure::NothingLeft, sentence))
            }
        }
    }

    /// The error has the request, where certainly none of its bytes left.
    async fn try_on(
        self: &Arc<Self>,
        mut wire: Wire,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, (Option<Request<Full<Bytes>>>, String)> {
        match wire.sender.try_send_request(request).await {
            Ok(response) => Ok(Answer::new(response, wire, Arc::clone(self))),
            Err(mut error) => Err((error.take_message(), reason(error.error()))),
        }
    }

    fn broken(&self, why: &str) -> Detail {
        let sentence = format!("the connection to {} broke before an answer: {why}", self.endpoint.place());
        Detail::failed(Failure::ConnectionLost, sentence)
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put(self: &Arc<Self>, wire: Wire, server_keeps: Option<Duration>) {
        let keep = self.settings.idle_connection.min(server_keeps.unwrap_or(Duration::MAX));
        if keep.is_zero() || wire.sender.is_closed() {
            return;
        }
        let mut idle = self.idle();
        if idle.wires.len() >= MAX_IDLE {
            return;
        }
        idle.wires.push(IdleWire { wire, since: (Instant::now(), SystemTime::now()), keep });
        if !idle.watched {
            idle.watched = true;
            tokio::spawn(close_old(Arc::downgrade(self)));
        }
    }

    fn take_idle(&self) -> Option<Wire> {
        let mut idle = self.idle();
        idle.wires.retain(|it| !it.left().is_zero());
        idle.wires.pop().map(|it| it.wire)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleWire {
    /// How long it may still be used.
    fn left(&self) -> Duration {
        let (since, wall) = self.since;
        let age = since.elapsed().max(wall.elapsed().unwrap_or_default());
        self.keep.saturating_sub(age)
    }
}

/// Closes idle connections as they get too old, and ends with the last of them.
async fn close_old(pool: Weak<Pool>) {
    loop {
        let next = {
            let Some(pool) = pool.upgrade() else { return };
            let mut idle = pool.idle();
            idle.wires.retain(|it| !it.left().is_zero());
            let Some(next) = idle.wires.iter().map(IdleWire::left).min() else {
                idle.watched = false;
                return;
            };
            next
        };
        tokio::time::sleep(next).await;
    }
}

async fn handshake<S>(stream: S) -> Result<Wire, String>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, io) = hyper::client::conn::http1::handshake(stream).await.map_err(|error| reason(&error))?;
    // How the connection ends shows at the request.
    let io = tokio::spawn(async move { drop(io.await) });
    Ok(Wire { sender, _io: AbortOnDropHandle::new(io) })
}

/// The innermost cause: the outer ones only say where it was noticed.
pub(super) fn reason(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
