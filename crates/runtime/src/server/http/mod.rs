//! A server at a Streamable HTTP endpoint: one POST a request, answered as JSON or as an event stream; for the legacy
//! eras also sessions, a standalone stream and streams that can be resumed.
//!
//! A request passes `guard` (who may reach us), `negotiate` and `body` (what is read and taken), then `post` chooses
//! the era by the message. `legacy`, `session`, `streams` and `replay` are the handshake revisions' alone.

mod answer;
mod body;
mod connection;
mod guard;
mod legacy;
mod negotiate;
mod post;
mod replay;
mod session;
mod sessions;
mod socket;
mod streams;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Method;
use hyper::body::Incoming;
use tokio::net::TcpListener;

use self::answer::{Refused, Response};
use self::guard::{Denied, Guard};
use self::session::Live;
use self::sessions::Sessions;
use self::socket::Line;
use super::endpoint::{Buffered, Endpoint};
use super::{Options, Service};

pub use self::connection::{MAX_HEADER_BYTES, MAX_HEADERS};
pub use self::guard::{Key, KeyError, Keys};

/// The longest silence on a stream before a comment is sent, unless configured otherwise (D-18, F055).
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What all bodies that are being read hold together: this part of `max_buffered_bytes`.
const UPLOADS_PART: usize = 4;
/// What all streams keep together for clients that come back: this part of `max_buffered_bytes`.
const REPLAY_PART: usize = 4;

/// Who may reach an endpoint, and how its connections and sessions are bounded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pages of these origins may call beside those of this machine: `https://app.example.org` (HTTP-02).
    pub allowed_origins: Vec<String>,
    /// Names in `Host` under which the endpoint is reached beside the loopback ones and, where it is bound to an
    /// address that others can reach, any address.
    pub allowed_hosts: Vec<String>,
    /// The keys of which each request must bear one. `None`: everybody who reaches the endpoint is one local principal.
    pub keys: Option<Keys>,
    /// Whether an address that others can reach may be served without keys (ruling 21).
    pub insecure: bool,
    /// The most connections at once; what comes beyond waits to be accepted.
    pub max_connections: usize,
    /// How long a connection stays open without a request: an idle one, one whose next request's head drips in, and
    /// one that says something else than HTTP.
    pub idle: Duration,
    /// How long the body of a request may take, however steadily it drips; then 408.
    pub body_within: Duration,
    /// How long an answer may take and still be a single JSON object; after that a stream begins, so that proxies see
    /// bytes (F053). A request that can only be answered as JSON waits for it.
    pub grace: Duration,
    /// The most legacy sessions; past it the one that was idle for longest ends.
    pub max_sessions: usize,
    /// How long a legacy session lives without a request, a running one or an open stream.
    pub session_idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            keys: None,
            insecure: false,
            max_connections: 10_000,
            // Longer than proxies and clients keep theirs, so that it is not we who close under a request.
            idle: Duration::from_secs(75),
            body_within: Duration::from_secs(30),
            grace: Duration::from_millis(500),
            max_sessions: 4_096,
            session_idle: Duration::from_secs(3_600),
        }
    }
}

/// A bound address.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    settings: Settings,
}

impl Listener {
    /// Binds `HOST:PORT` with the default settings; port 0 lets the system choose.
    ///
    /// # Errors
    /// As [`Self::bind_with`].
    pub async fn bind(address: &str) -> io::Result<Self> {
        Self::bind_with(address, Settings::default()).await
    }

    /// Binds `HOST:PORT`; port 0 lets the system choose.
    ///
    /// # Errors
    /// The address cannot be bound, or others can reach it and nobody is authenticated (HTTP-03, ruling 21).
    pub async fn bind_with(address: &str, settings: Settings) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen on {address:?}: {error}; choose a free HOST:PORT"),
            )
        })?;
        let address = tcp.local_addr()?;
        if !address.ip().is_loopback() && settings.keys.is_none() && !settings.insecure {
            return Err(io::Error::other(format!(
                "{address} can be reached from other machines and nobody is authenticated; listen on 127.0.0.1, \
                 demand keys, or say that it is meant to be insecure"
            )));
        }
        Ok(Self { tcp, address, settings })
    }

    /// The address in fact bound.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `service` at `path`, with or without a slash at its end, until `ended` is ready. Then no connection is
    /// taken, requests may finish within `options.drain`, listens end gracefully, and what is left is cut.
    ///
    /// # Errors
    /// None: what a connection or the system refuses ends a connection and not the server.
    pub async fn serve<E>(
        self,
        path: &str,
        service: Arc<dyn Service>,
        options: Options,
        ended: E,
    ) -> io::Result<()>
    where
        E: Future<Output = ()> + Send,
    {
        let site = Site::new(path, self.address, self.settings, Endpoint::new(service, options));
        connection::serve(self.tcp, Arc::new(site), ended).await;
        Ok(())
    }
}

/// What all connections share.
struct Site {
    path: String,
    guard: Guard,
    settings: Settings,
    shared: Endpoint,
    /// What bodies hold that are being read.
    uploads: Buffered,
    /// What streams keep for clients that come back.
    replay: Buffered,
    sessions: Mutex<Sessions<Arc<Live>>>,
}

impl Site {
    fn new(path: &str, address: SocketAddr, mut settings: Settings, shared: Endpoint) -> Self {
        let part = |part| Buffered::new(shared.options.max_buffered_bytes / part);
        Self {
            path: path.trim_end_matches('/').to_owned(),
            guard: Guard {
                is_loopback: address.ip().is_loopback(),
                hosts: std::mem::take(&mut settings.allowed_hosts),
                origins: std::mem::take(&mut settings.allowed_origins),
                keys: settings.keys.take(),
            },
            uploads: part(UPLOADS_PART),
            replay: part(REPLAY_PART),
            sessions: Mutex::new(Sessions::new(settings.max_sessions, settings.session_idle)),
            settings,
            shared,
        }
    }

    async fn answer(self: Arc<Self>, http: hyper::Request<Incoming>, line: Arc<Line>) -> Response {
        let work = line.begin();
        let is_http2 = http.version() == hyper::Version::HTTP_2;
        let watched = is_http2.then(|| Arc::clone(&line));
        let mut response = self.route(http, line).await.unwrap_or_else(|refused| self.refuse(&refused));
        response.body_mut().keep(work, watched.map(|line| line.watch()));
        response
    }

    /// The first steps of table ORDER; what fails is answered at once.
    async fn route(
        self: &Arc<Self>,
        http: hyper::Request<Incoming>,
        line: Arc<Line>,
    ) -> Result<Response, Refused> {
        let (head, body) = http.into_parts();
        // The HTTP/1.1 server stops reading at about as much; this is exact.
        let lines =
            head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
        if lines.sum::<usize>() > MAX_HEADER_BYTES {
            return Err(Refused::HeadTooLarge);
        }
        let path = head.uri.path();
        if path.strip_suffix('/').unwrap_or(path) != self.path {
            return Err(Refused::NoSuchPath);
        }
        let is_legacy = self.shared.options.legacy && legacy::is_legacy(&head.headers);
        match head.method {
            Method::POST => {}
            // There is nothing else to listen to or to end (AMB-39, HTTP-19).
            Method::GET | Method::DELETE if is_legacy => {}
            _ => return Err(Refused::Method),
        }
        let authority = head.uri.authority().map(hyper::http::uri::Authority::as_str);
        let owner = self.guard.admit(&head.headers, authority).map_err(|denied| match denied {
            Denied::Host | Denied::Origin => Refused::Forbidden(denied),
            Denied::Key { borne } => Refused::Unauthenticated { borne },
        })?;
        match head.method {
            Method::GET => self.listen(&head.headers, &owner),
            Method::DELETE => self.end_session(&head.headers, &owner),
            _ => self.post(&head.headers, body, owner, line).await,
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions<Arc<Live>>> {
        lock(&self.sessions)
    }

    /// Ends sessions that nobody uses.
    fn sweep(&self) {
        let over = self.sessions().sweep(self.shared.clock.now().mono);
        over.iter().for_each(|live| live.end());
    }

    /// The server ends: whoever waits for changes need not wait any longer.
    fn end_listening(&self) {
        self.sessions().for_each(|live| live.end_listening());
    }

    fn end_sessions(&self) {
        let all = self.sessions().drain();
        all.iter().for_each(|live| live.end());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
