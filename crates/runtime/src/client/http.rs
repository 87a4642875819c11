//! A server behind a Streamable HTTP endpoint: one POST a request, and closing its stream is the cancel.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use steadfast_core::envelope::{self, Message};
use steadfast_core::exchange::requester::Input;
use steadfast_core::exchange::{CancelSignal, Reply};
use steadfast_core::ids::RequestId;
use steadfast_core::policy::Failure;
use steadfast_core::sse::{Decoder, Item};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::ClientError;
use super::leg::{Detail, Gone, Heard, Launch, Leg, Outgoing};
use crate::message::{self, MAX_MESSAGE_BYTES};

/// Events of one request that may wait for its task; the reader of the stream waits beyond that.
const EVENT_QUEUE: usize = 64;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    authority: String,
    path: String,
}

impl Endpoint {
    /// Reads `http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// Another scheme, no host, or user information.
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let refuse = |why| ClientError::Address { url: url.to_owned(), why };
        let uri: hyper::Uri = url.parse().map_err(|_| refuse("it is no URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(refuse("its scheme is not http"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("it carries user information"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { authority: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)), path })
    }
}

/// How one endpoint is spoken to.
#[derive(Debug)]
pub(super) struct Connection {
    endpoint: Endpoint,
}

impl Connection {
    /// Every request stands for itself.
    pub(super) const fn modern(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// A legacy server's session; its id is not kept yet, so only servers without sessions are spoken to.
    pub(super) fn session(endpoint: Endpoint, _inbox: super::leg::Inbox) -> Self {
        Self { endpoint }
    }

    #[allow(clippy::unused_self, reason = "a session has a version to remember")]
    pub(super) const fn start_session(&self, _revision: steadfast_core::hop::Revision) {}

    pub(super) async fn two_endpoints(endpoint: Endpoint, _inbox: super::leg::Inbox) -> Result<Self, Detail> {
        let sentence =
            format!("{} speaks HTTP+SSE of 2024-11-05, if MCP at all; update it", endpoint.authority);
        Err(Detail::failed(Failure::NothingLeft, sentence))
    }

    #[allow(clippy::unused_self, reason = "sessions have notifications to send")]
    pub(super) const fn notify(&self, _method: &str, _params: &str) {}

    #[allow(clippy::unused_self, reason = "sessions have requests to answer")]
    pub(super) const fn respond(&self, _id: &RequestId, _response: &Reply<Bytes>) {}

    pub(super) async fn gone(&self) -> Gone {
        std::future::pending().await
    }

    pub(super) async fn close(&self, _grace: std::time::Duration) {}

    pub(super) fn leg(&self, outgoing: Outgoing<'_>) -> Leg {
        let Outgoing { spec, method, params, headers: _ } = outgoing;
        let (to_task, heard) = mpsc::channel(EVENT_QUEUE);
        let post = Post {
            endpoint: self.endpoint.clone(),
            id: spec.id.clone(),
            headers: message::mirror_headers(method, params),
            body: Bytes::from(envelope::request(&spec.id, method, params)),
        };
        // The request lives in a task of its own; whoever drops this handle closes its stream.
        let stream = Arc::new(std::sync::Mutex::new(None::<AbortOnDropHandle<()>>));
        let running = Arc::clone(&stream);
        let prepare = async move {
            let connection = connect(&post.endpoint).await.map_err(|error| {
                Detail::failed(
                    Failure::NothingLeft,
                    format!(
                        "no connection to {}: {error}; check that the server runs",
                        post.endpoint.authority
                    ),
                )
            })?;
            let launch: Launch = Box::new(move || {
                let task = AbortOnDropHandle::new(tokio::spawn(post.run(connection, to_task)));
                if let Ok(mut running) = running.lock() {
                    *running = Some(task);
                }
            });
            Ok(launch)
        };
        let signal = move |_: &CancelSignal| {
            if let Ok(mut stream) = stream.lock() {
                stream.take();
            }
        };
        Leg { prepare: Box::pin(prepare), heard, signal: Box::new(signal) }
    }
}

/// One connection a request: closing it can concern no other (CAN-05), and a modern server keeps no state on it.
struct Wire {
    sender: SendRequest<Full<Bytes>>,
    io: AbortOnDropHandle<()>,
}

async fn connect(endpoint: &Endpoint) -> Result<Wire, Box<dyn std::error::Error + Send + Sync>> {
    let tcp = TcpStream::connect(&endpoint.authority).await?;
    tcp.set_nodelay(true)?;
    let (sender, io) = hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
    let io = AbortOnDropHandle::new(tokio::spawn(async move {
        // How the connection ends shows at the request.
        let _ = io.await;
    }));
    Ok(Wire { sender, io })
}

struct Post {
    endpoint: Endpoint,
    id: RequestId,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Post {
    async fn run(self, mut connection: Wire, to_task: mpsc::Sender<Heard>) {
        let heard = match self.exchange(&mut connection, &to_task).await {
            Ok(input) => input.into(),
            Err(remark) => Detail::failed(Failure::ConnectionLost, remark).lost(),
        };
        let _ = to_task.send(heard).await;
        drop(connection.io);
    }

    /// Sends the request and reads until its answer; an error says why there is none.
    async fn exchange(
        &self,
        connection: &mut Wire,
        to_task: &mpsc::Sender<Heard>,
    ) -> Result<Input<Bytes>, String> {
        let mut request = hyper::Request::post(&self.endpoint.path)
            .header(header::HOST, &self.endpoint.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request
            .body(Full::new(self.body.clone()))
            .map_err(|_| "a header value cannot be sent as it is".to_owned())?;
        let response = connection
            .sender
            .send_request(request)
            .await
            .map_err(|error| format!("the connection broke before an answer: {error}"))?;
        let streamed = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.trim_start().starts_with("text/event-stream"));
        if streamed && response.status() == StatusCode::OK {
            self.events(response, to_task).await
        } else {
            self.single(response).await
        }
    }

    /// A single JSON answer. An error object in the body decides over the status (HTTP-21).
    async fn single(&self, response: Response<Incoming>) -> Result<Input<Bytes>, String> {
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), MAX_MESSAGE_BYTES)
            .collect()
            .await
            .map_err(|error| format!("the answer with status {status} could not be read: {error}"))?
            .to_bytes();
        message::reply_to(&self.id, &body)
            .map(Input::Response)
            .ok_or_else(|| format!("the server answered with status {status} and no JSON-RPC response"))
    }

    async fn events(
        &self,
        response: Response<Incoming>,
        to_task: &mpsc::Sender<Heard>,
    ) -> Result<Input<Bytes>, String> {
        let mut body = response.into_body();
        let mut decoder = Decoder::new(MAX_MESSAGE_BYTES);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("the event stream broke: {error}"))?;
            let Ok(data) = frame.into_data() else { continue };
            let mut rest = &data[..];
            while !rest.is_empty() {
                let (taken, item) = decoder.push(rest).map_err(|error| error.to_string())?;
                rest = &rest[taken..];
                let Some(Item::Event(event)) = item else { continue };
                if let Some(reply) = message::reply_to(&self.id, &event.data) {
                    return Ok(Input::Response(reply));
                }
                if let Ok(Message::Notification { method, params: Some(params) }) =
                    envelope::parse(&event.data)
                    && method == "notifications/progress"
                    && let Some((token, progress)) = envelope::progress_of(params.get())
                {
                    let _ = to_task.send(Input::Progress(token, progress).into()).await;
                }
            }
        }
        Err("the event stream ended without a response".to_owned())
    }
}
