//! A server at a Streamable HTTP endpoint: one POST a request, answered as JSON or as an event stream.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Frame;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::Reply;
use steadfast_core::hop::Transport;
use steadfast_core::sse::encode;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::admit::{self, Headers, Incoming, Refusal, read};
use super::drive::{self, PeerEvent, Way};
use super::endpoint::Endpoint as Shared;
use super::outlet::{Next, Outlets};
use super::{Caller, Mirrored, MirroredParams, Options, Service};
use crate::message;

/// How long an answer may take and still be a single JSON object; after that a stream begins, so that proxies see
/// bytes (F053).
const GRACE: Duration = Duration::from_millis(500);
/// The longest silence on a stream before a comment is sent (D-18, F055).
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A bound address.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
}

struct Endpoint {
    shared: Shared,
}

impl Listener {
    /// Binds `HOST:PORT`; port 0 lets the system choose.
    ///
    /// # Errors
    /// The address cannot be bound, or is not a loopback one: until callers are authenticated, only this machine
    /// may reach the endpoint (HTTP-03, ruling 21).
    pub async fn bind(address: &str) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen on {address:?}: {error}; choose a free HOST:PORT"),
            )
        })?;
        let address = tcp.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(io::Error::other(format!(
                "{address} can be reached from other machines and nobody is authenticated; listen on 127.0.0.1"
            )));
        }
        Ok(Self { tcp, address })
    }

    /// The address in fact bound.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `service` at `path` until `ended` is ready; streams still open then are cut.
    ///
    /// # Errors
    /// Accepting connections fails.
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
        let endpoint = Arc::new(Endpoint { shared: Shared::new(service, options) });
        let router = Router::new().route(path, axum::routing::any(answer)).with_state(endpoint);
        tokio::select! {
            outcome = async { axum::serve(self.tcp, router).await } => outcome,
            () = ended => Ok(()),
        }
    }
}

async fn answer(State(endpoint): State<Arc<Endpoint>>, http: HttpRequest) -> Response {
    endpoint.answer(http).await.unwrap_or_else(|refused| *refused)
}

impl Endpoint {
    /// The checks in the order of table ORDER; what fails is answered at once.
    async fn answer(&self, http: HttpRequest) -> Result<Response, Box<Response>> {
        let (head, body) = http.into_parts();
        if head.method != Method::POST {
            return Err(plain(StatusCode::METHOD_NOT_ALLOWED, &[(header::ALLOW, "POST")]));
        }
        if !from_here(&head.headers) {
            return Err(plain(StatusCode::FORBIDDEN, &[]));
        }
        let json = value(&head.headers, "content-type").is_some_and(|value| {
            value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        });
        if !json {
            return Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, &[]));
        }
        let body = Limited::new(body, self.shared.options.max_message_bytes)
            .collect()
            .await
            .map_err(|_| plain(StatusCode::PAYLOAD_TOO_LARGE, &[]))?
            .to_bytes();
        let (id, request) = match read(&body, self.shared.options.max_message_bytes) {
            Ok(Incoming::Request { id, request }) => (id, request),
            // A cancel posted in the modern era is accepted and ignored (CAN-18), like all notifications (AMB-11).
            Ok(Incoming::Cancelled(_) | Incoming::Notification { .. }) => {
                return Err(plain(StatusCode::ACCEPTED, &[]));
            }
            Ok(Incoming::Response { .. }) => {
                return Err(refuse(&Refusal::new(
                    None,
                    -32600,
                    "a response is not taken here; send a request",
                )));
            }
            Err(None) => return Err(plain(StatusCode::BAD_REQUEST, &[])),
            Err(Some(refusal)) => return Err(refuse(&refusal)),
        };
        let headers = Of(&head.headers);
        let admitted = admit::modern(
            id,
            request,
            Caller::local(Transport::Http).principal,
            Transport::Http,
            &headers,
            &*self.shared.service,
            &self.shared.options,
        )
        .map_err(|refusal| refuse(&refusal))?;
        let Some(permit) = self.shared.admit() else {
            return Err(plain(StatusCode::SERVICE_UNAVAILABLE, &[(header::RETRY_AFTER, "1")]));
        };
        let (to_exchange, peer) = mpsc::channel(1);
        let outlets = Outlets::new(self.shared.options.buffer, self.shared.buffered().clone());
        let outlet = outlets.open(Some(permit));
        outlets.close();
        let way = Way {
            outlet,
            keep_alive: Some(self.shared.options.keep_alive),
            stall: Some(self.shared.options.write_stall),
        };
        tokio::spawn(drive::respond(self.shared.clone(), admitted, None, peer, way, || {}));
        // From here on the loss of this connection is a cancel, whatever form the answer will take (CAN-19).
        let presence = Presence { to_exchange };
        match tokio::time::timeout(GRACE, outlets.next()).await {
            Ok(Some(Next::Final(message))) => Ok((status_of(&message), single(&message)).into_response()),
            Ok(first) => Ok(stream(first, outlets, presence)),
            Err(_) => Ok(stream(Some(Next::KeepAlive), outlets, presence)),
        }
    }
}

/// Dropped with the response: tells the exchange that its caller is gone. After the end that means nothing.
struct Presence {
    to_exchange: mpsc::Sender<PeerEvent>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = self.to_exchange.try_send(PeerEvent::Disconnected);
    }
}

/// An event stream that ends with the final message.
struct Events {
    first: Option<Next>,
    outlets: Outlets,
    ended: bool,
    _presence: Presence,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => match self.outlets.poll_next(context) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(next.map(|message| {
            Ok(Frame::data(match message {
                Next::KeepAlive | Next::HangUp(_) | Next::Broken => Bytes::from_static(encode::KEEP_ALIVE),
                Next::Message(message) => Bytes::from(encode::event(&message)),
                Next::Final(message) => {
                    self.ended = true;
                    Bytes::from(encode::event(&message))
                }
            }))
        }))
    }
}

fn stream(first: Option<Next>, outlets: Outlets, presence: Presence) -> Response {
    let body = Body::new(Events { first, outlets, ended: false, _presence: presence });
    let mut response = Response::new(body);
    for (name, value) in encode::HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The status of an answer follows from what it says, whoever said it (table STATUS).
fn status_of(message: &[u8]) -> StatusCode {
    match envelope::parse(message) {
        Ok(Message::Response { reply: Reply::Error(error), .. }) => envelope::error_object_of(error.get())
            .map_or(StatusCode::OK, |error| {
                StatusCode::from_u16(admit::status_of_code(error.code)).unwrap_or_default()
            }),
        _ => StatusCode::OK,
    }
}

/// A single JSON answer.
fn single(message: &Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], message.clone()).into_response()
}

fn refuse(refusal: &Refusal) -> Box<Response> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    Box::new((status, single(&refusal.to_message())).into_response())
}

fn plain(status: StatusCode, headers: &[(header::HeaderName, &'static str)]) -> Box<Response> {
    let mut response = status.into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Box::new(response)
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether `Host` and, where a browser sends one, `Origin` name this machine: a page elsewhere must not reach a
/// loopback server through a rebound name (HTTP-02).
fn from_here(headers: &HeaderMap) -> bool {
    let local = |authority: &str| {
        let host = authority.rsplit_once(':').map_or(authority, |(host, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { authority }
        });
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    };
    let host = headers.get(header::HOST).map(|host| host.to_str().is_ok_and(local));
    let origin = headers.get(header::ORIGIN).map(|origin| {
        origin
            .to_str()
            .is_ok_and(|origin| origin.split_once("://").is_some_and(|(_, authority)| local(authority)))
    });
    host.unwrap_or(true) && origin.unwrap_or(true)
}

struct Of<'a>(&'a HeaderMap);

impl MirroredParams for Of<'_> {
    fn get(&self, name: &str) -> Mirrored {
        self.standard(&format!("mcp-param-{name}"))
    }
}

impl Headers for Of<'_> {
    fn standard(&self, name: &str) -> Mirrored {
        let mut values = self.0.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Mirrored::Absent,
            (Some(_), Some(_)) => Mirrored::Invalid,
            (Some(given), None) => given
                .to_str()
                .ok()
                .and_then(message::decode_header)
                .map_or(Mirrored::Invalid, Mirrored::Value),
        }
    }

    fn params(&self) -> &dyn MirroredParams {
        self
    }
}
